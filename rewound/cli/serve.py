"""`rewound serve`: parse the flags, run the server, and report a failed start in one sentence."""

from __future__ import annotations

import gc
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rewound.actors.certificates.issuing_process import begin_early
from rewound.actors.profile import parse_assignments, profile_of
from rewound.cli.typed import typed_name
from rewound.gateway.pipeline.route import PAGE_PATH
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.server_config import Address, host_and_port
from rewound.gateway.settings.settings import Addresses, Settings
from rewound.release import RELEASE
from rewound.server.flags.parser import parse_flags, without_config
from rewound.server.logs import print_error
from rewound.server.ports import unusable_port


def serve(arguments: Sequence[str]) -> int:
    try:
        settings, warnings = parse_flags(arguments)
        arguments = without_config(arguments)  # for processes of --workers, whatever the file says later
    except SettingsError as error:
        print_error(str(error))
        return 2
    for warning in warnings:
        print_error(f"warning: {warning}")
    if (busy := unusable_port(settings)) is not None:
        print_error(busy)
        return 1
    needs_certificates = bool(settings.secure_binds) and not (settings.pki / "ca.crt").exists()
    with begin_early(wanted=needs_certificates and settings.workers == 1):
        # The modules of a server are imported only now: reporting a wrong flag should not take as long as a start.
        from rewound.server.process import run_configured, write_pid_file

        try:
            write_pid_file(settings)
        except SettingsError as error:
            print_error(str(error))
            return 2
        if settings.workers > 1:
            return run_configured(settings, lambda: _serve_with_workers(settings, arguments))
        return run_configured(settings, lambda: _serve(settings))


def _serve(settings: Settings) -> int:
    import trio

    from rewound.server.process import serve_until_signal
    from rewound.testing.controlled import WITH_CONTROLS

    def announce(addresses: Addresses) -> None:
        gc.freeze()
        gc.enable()
        print(banner(_with_stored_dialect(settings), addresses), flush=True)

    if settings.enable_test_controls:
        from rewound.testing.clock import AdvancingClock

        clock = AdvancingClock()
        trio.run(serve_until_signal, settings, announce, WITH_CONTROLS, clock, clock=clock.deadlines)
    else:
        trio.run(serve_until_signal, settings, announce, WITH_CONTROLS)
    return 0


def _serve_with_workers(settings: Settings, arguments: Sequence[str]) -> int:
    import trio

    from rewound.workers.parent import Parent
    from rewound.workers.roles import Role

    def announce(addresses: Addresses) -> None:
        print(banner(settings, addresses), flush=True)

    def command(role: Role) -> list[str]:
        return [sys.executable, "-P", "-m", "rewound.cli.child", role.encode(), *arguments]

    gc.enable()
    return trio.run(Parent(settings, command).run, announce)


def _with_stored_dialect(settings: Settings) -> Settings:
    """The settings of a standby with the dialect of its leader, which its journal records."""
    if not settings.standby.follow:
        return settings
    from rewound.journal.copy import dialect_of

    return replace(settings, dialect=dialect_of(settings.journal))


_LOOPBACKS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_SIGN_IN = "callers still sign in"
_ACCOUNTS_SIGN_IN = "with service account tokens; for others give --token-auth-file"


def banner(settings: Settings, addresses: Addresses) -> str:
    """What `rewound serve` prints when the server is ready: addresses, data folder, rights, and commands to try."""
    lines = [f"Rewound {RELEASE} is ready.", ""]
    lines += [f"  {name:<8} {text}" for name, text in _facts(settings, addresses)]
    lines += ["", "Next, in another terminal:", ""]
    lines += [f"  {line}" for line in _next_steps(settings, addresses)]
    lines += ["", "Stop with Ctrl-C."]
    return "\n".join(lines) + "\n"


def _facts(settings: Settings, addresses: Addresses) -> Iterator[tuple[str, str]]:
    if addresses.secure is not None:
        yield "secure", f"https://{_local(addresses.secure)}"
        for host in _other_hosts(addresses):
            yield "", f"https://{host_and_port(host, addresses.secure[1])} (from other machines)"
    if addresses.insecure is not None:
        sign_in = _ACCOUNTS_SIGN_IN if settings.plain_port_accepts_only_account_tokens else _SIGN_IN
        yield "plain", f"http://{_local(addresses.insecure)} (this machine only; {sign_in})"
    for url in addresses.others:
        yield "also", url
    if addresses.quic is not None:
        yield "http3", f"https://{_local(addresses.quic)} (over QUIC; callers sign in with tokens only)"
    if settings.workers > 1:
        yield (
            "workers",
            f"{settings.workers} processes, the first of which writes the journal; SIGHUP replaces them in turn",
        )
    if settings.serves_page and (url := _url(addresses)):
        yield "page", f"{url}{PAGE_PATH} (what happened; `{typed_name()} open` signs you in)"
    yield "data", f"{settings.data_dir} (dialect {settings.dialect}{_version(settings)})"
    if settings.dialect != "kubernetes":
        yield "", "for kubectl and other Kubernetes clients: a new folder with --dialect kubernetes"
    if settings.standby.follow:
        from rewound.client.target import without_credentials

        yield (
            "standby",
            f"of {without_credentials(settings.standby.follow)}, where writes go; this server refuses them",
        )
    yield "profile", _profile(settings)
    config = settings.authorization.authorization_config
    modes = ",".join(settings.authorization_modes) if config is None else f"by {config}"
    yield "rights", f"{modes}, anonymous {'on' if settings.allows_anonymous else 'off'}"
    if (nodes := settings.controllers.nodes) is not None:
        yield "nodes", f"{nodes} simulated"


def _version(settings: Settings) -> str:
    """The version of Kubernetes, unless only the leader or the cluster knows it."""
    is_copy = settings.standby.follow or settings.cluster.journal
    if is_copy and not settings.kubernetes_version:
        return ""
    return f", Kubernetes {settings.release.version}"


def _profile(settings: Settings) -> str:
    """The name of the profile, and the rules that --rule overrides."""
    given = parse_assignments(settings.rule)
    changed = ", ".join(f"{name.replace('_', '-')}={word}" for name, word in given.items())
    return (settings.profile or profile_of(settings.dialect)) + (f", but {changed}" if changed else "")


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
            [f"curl {url}/version"]
            if settings.allows_anonymous
            else [f"{typed_name()} serve --token-auth-file FILE"]
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
    if not url.startswith("--unix-socket"):
        if settings.dialect == "kubernetes":
            steps.append(f"kubectl --kubeconfig {_quoted(settings.kubeconfig)} get namespaces")
        if settings.serves_page:
            steps.append(f"{typed_name()} open --kubeconfig {_quoted(settings.kubeconfig)}")
    return steps


def _url(addresses: Addresses) -> str:
    """The URL of a server that listens on a port; empty if it has Unix sockets only."""
    if addresses.secure is not None:
        return f"https://{_local(addresses.secure)}"
    return f"http://{_local(addresses.insecure)}" if addresses.insecure is not None else ""


def _local(address: Address) -> str:
    """Host and port for a client on this machine."""
    host, port = address
    return host_and_port(_LOOPBACKS.get(host, host), port)


def _other_hosts(addresses: Addresses) -> tuple[str, ...]:
    """The hosts by which other machines reach a server that listens on every address."""
    if addresses.secure is None or addresses.secure[0] not in _LOOPBACKS:
        return ()
    return tuple(host for host in addresses.hosts if host not in _LOOPBACKS.values())


def _quoted(path: Path | None) -> str:
    return shlex.quote(str(path))
