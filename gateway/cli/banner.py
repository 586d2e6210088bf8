"""What a server says when it is ready: what is served where, where the data is, and what to type next."""

from __future__ import annotations

import shlex
from pathlib import Path

from gateway.release import RELEASE
from gateway.settings import Address, Addresses, Settings


def banner(settings: Settings, addresses: Addresses) -> str:
    lines = [f"Rewound {RELEASE} is ready.", ""]
    if addresses.secure is not None:
        lines.append(f"  secure   https://{_host(addresses.secure)}")
    if addresses.insecure is not None:
        lines.append(
            f"  plain    http://{_host(addresses.insecure)} (this machine only; callers still sign in)"
        )
    lines.append(f"  data     {settings.data_dir} (dialect {settings.dialect})")
    lines.append(
        f"  rights   {settings.authorization_mode}, anonymous {'on' if settings.anonymous_auth else 'off'}"
    )
    lines += ["", "Next, in another terminal:", ""]
    lines += [f"  {line}" for line in _next_steps(settings, addresses)]
    lines += ["", "Stop with Ctrl-C."]
    return "\n".join(lines) + "\n"


def _next_steps(settings: Settings, addresses: Addresses) -> list[str]:
    if addresses.secure is not None:
        return _with_certificates(settings, f"https://{_host(addresses.secure)}")
    assert addresses.insecure is not None
    token = "<token of " + _quoted(settings.token_auth_file) + ">" if settings.token_auth_file else "<token>"
    url = f"http://{_host(addresses.insecure)}/api/v1/namespaces"
    return [f'curl -H "Authorization: Bearer {token}" {url}']


def _with_certificates(settings: Settings, url: str) -> list[str]:
    authority = settings.tls_cert_file or settings.pki / "ca.crt"
    curl = [
        "curl",
        f"--cacert {_quoted(authority)}",
        f"--cert {_quoted(settings.pki / 'admin.crt')}",
        f"--key {_quoted(settings.pki / 'admin.key')}",
        f"{url}/api/v1/namespaces",
    ]
    steps = [" ".join(curl)]
    if settings.dialect == "kubernetes":
        steps.append(f"kubectl --kubeconfig {_quoted(settings.kubeconfig)} get namespaces")
    return steps


def _host(address: Address) -> str:
    """As a client on this machine would write it."""
    host, port = address
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{here}]:{port}" if ":" in here else f"{here}:{port}"


def _quoted(path: Path | None) -> str:
    return shlex.quote(str(path))
