"""What `rewound serve` prints when the server is ready: addresses, data folder, rights, and commands to try."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from gateway.release import RELEASE
from gateway.settings.server import Address, host_and_port
from gateway.settings.settings import Addresses, Settings

_LOOPBACKS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_SIGN_IN = "callers still sign in"
_ACCOUNTS_SIGN_IN = "with service account tokens; for others give --token-auth-file"


def banner(settings: Settings, addresses: Addresses) -> str:
    lines = [f"Rewound {RELEASE} is ready.", ""]
    lines += [f"  {name:<8} {text}" for name, text in _facts(settings, addresses)]
    lines += ["", "Next, in another terminal:", ""]
    lines += [f"  {line}" for line in _next_steps(settings, addresses)]
    lines += ["", "Stop with Ctrl-C."]
    return "\n".join(lines) + "\n"


def _facts(settings: Settings, addresses: Addresses) -> Iterator[tuple[str, str]]:
    if addresses.secure is not None:
        yield "secure", f"https://{_local(addresses.secure)}"
        for host in _elsewhere(addresses):
            yield "", f"https://{host_and_port(host, addresses.secure[1])} (from other machines)"
    if addresses.insecure is not None:
        sign_in = _ACCOUNTS_SIGN_IN if settings.only_accounts_sign_in_plain else _SIGN_IN
        yield "plain", f"http://{_local(addresses.insecure)} (this machine only; {sign_in})"
    for url in addresses.others:
        yield "also", url
    if addresses.quic is not None:
        yield "http3", f"https://{_local(addresses.quic)} (over QUIC; callers sign in with tokens only)"
    yield "data", f"{settings.data_dir} (dialect {settings.dialect})"
    if settings.dialect != "kubernetes":
        yield "", "for kubectl and other Kubernetes clients: a new folder with --dialect kubernetes"
    yield "rights", f"{settings.authorization_mode}, anonymous {'on' if settings.anonymous_auth else 'off'}"


def _next_steps(settings: Settings, addresses: Addresses) -> list[str]:
    if addresses.secure is not None:
        return _with_certificates(settings, f"https://{_local(addresses.secure)}")
    if addresses.insecure is not None:
        url = f"http://{_local(addresses.insecure)}"
    else:
        scheme, _, path = addresses.others[0].partition("+unix:")
        url = f"--unix-socket {shlex.quote(path)} {scheme}://localhost"
        if scheme == "https":
            return _with_certificates(settings, url)
    if settings.token_auth_file is None:
        return (
            [f"curl {url}/version"] if settings.anonymous_auth else ["rewound serve --token-auth-file FILE"]
        )
    token = f"<token of {_quoted(settings.token_auth_file)}>"
    return [f'curl -H "Authorization: Bearer {token}" {url}/api/v1/namespaces']


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
    if settings.dialect == "kubernetes" and not url.startswith("--unix-socket"):
        steps.append(f"kubectl --kubeconfig {_quoted(settings.kubeconfig)} get namespaces")
    return steps


def _local(address: Address) -> str:
    """Host and port for a client on this machine."""
    host, port = address
    return host_and_port(_LOOPBACKS.get(host, host), port)


def _elsewhere(addresses: Addresses) -> tuple[str, ...]:
    """The hosts by which other machines reach a server that listens on every address."""
    if addresses.secure is None or addresses.secure[0] not in _LOOPBACKS:
        return ()
    return tuple(host for host in addresses.hosts if host not in _LOOPBACKS.values())


def _quoted(path: Path | None) -> str:
    return shlex.quote(str(path))
