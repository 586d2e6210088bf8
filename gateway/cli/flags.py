"""The flags of `rewound serve`, with the names that operators know from Kubernetes.

Both `--flag value` and `--flag=value` work, the last occurrence of a flag wins (lists accumulate), and a boolean flag
needs no value. A flag that this server does not have is refused. What scripts often set and this server does not do
yet (bootstrap tokens, some admission plugins) is accepted with a warning.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from actors.admission.selection import UNAVAILABLE, parse_plugins
from gateway.cli.durations import duration
from gateway.cli.sizes import size
from gateway.settings import Settings, SettingsError

_LISTS = {"runtime_config", "feature_gates", "enable_admission_plugins", "disable_admission_plugins"}
_DEFAULTS = Settings()


class _Parser(argparse.ArgumentParser):
    """Raises SettingsError for every mistake, so that all of them are reported in one form."""

    def error(self, message: str) -> NoReturn:
        flag, _, why = message.partition(": ")
        if flag.startswith("argument ") and why:
            raise SettingsError(
                flag.removeprefix("argument "), why.replace("expected one argument", "needs a value")
            )
        raise SettingsError("rewound serve", message)

    def unknown(self, flag: str) -> SettingsError:
        known = [option for action in self._actions for option in action.option_strings]
        name = flag.partition("=")[0]
        if not flag.startswith("-"):
            return SettingsError(flag, "is not a flag; see rewound serve --help")
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        return SettingsError(name, f"is not a flag of this server; {meant}see rewound serve --help")


def parse_flags(arguments: Sequence[str]) -> tuple[Settings, list[str]]:
    """The settings, and the warnings to print."""
    parser = make_parser()
    values, rest = parser.parse_known_args(arguments)
    if rest:
        raise parser.unknown(rest[0])
    given = {name: value for name, value in vars(values).items() if value is not None}
    bootstrap_tokens = given.pop("enable_bootstrap_token_auth", False)
    for name in _LISTS & given.keys():
        given[name] = ",".join(given[name])
    if given.get("authorization_mode") == "AlwaysAllow":
        # Under AlwaysAllow, anonymous callers could do everything; only an explicit flag allows that.
        given.setdefault("anonymous_auth", False)
    if given.get("journal_retention") == 0:
        given["journal_retention"] = None
    if "dialect" not in given and (stored := _stored_dialect(given.get("data_dir", _DEFAULTS.data_dir))):
        given["dialect"] = stored
    settings = Settings(**given)
    return settings, _warnings(settings, bootstrap_tokens=bootstrap_tokens)


def _stored_dialect(data_dir: Path) -> str | None:
    """The dialect that a data folder was created with; None where there is no readable journal."""
    if not (data_dir / "journal").is_dir():
        return None
    from journal.errors import JournalError
    from journal.log import Journal

    try:
        journal = Journal.open(data_dir / "journal", readonly=True, check_tail=False)
    except (JournalError, OSError):
        return None  # the server reports it when it opens the journal
    try:
        return journal.dialect
    finally:
        journal.close()


def _warnings(settings: Settings, *, bootstrap_tokens: bool) -> list[str]:
    warnings = []
    if bootstrap_tokens:
        warnings.append("--enable-bootstrap-token-auth: bootstrap tokens do not sign in yet")
    if missing := sorted(parse_plugins(settings.enable_admission_plugins).intersection(UNAVAILABLE)):
        warnings.append(
            f"--enable-admission-plugins: not available yet, and will not run: {', '.join(missing)}"
        )
    if "api/legacy" in settings.runtime_config:
        warnings.append("--runtime-config: api/legacy has no effect any more; v1 is the core group")
    if settings.nobody_signs_in_plain:
        warnings.append(
            "--insecure-port: nobody can sign in there without --token-auth-file: "
            "client certificates work on the secure port only"
        )
    return warnings


def make_parser() -> _Parser:
    parser = _Parser(
        prog="rewound serve",
        usage="rewound serve [flags]",
        description="Serve the API from a data folder, which the first start creates.",
        epilog="Durations are written like 500ms, 90s, 5m or 1h30m.",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=42),
    )
    _add_serving(parser.add_argument_group("data and listeners"))
    _add_certificates(parser.add_argument_group("certificates"))
    _add_access(parser.add_argument_group("authentication, authorization and admission"))
    _add_kinds(parser.add_argument_group("kinds and features"))
    _add_services(parser.add_argument_group("services"))
    _add_history(parser.add_argument_group("history"))
    _add_operation(parser.add_argument_group("operation"))
    return parser


def _add_serving(group: Any) -> None:
    _add(group, "--data-dir", Path, "FOLDER", "journal, certificates and admin.kubeconfig")
    _add(
        group,
        "--dialect",
        str,
        "NAME",
        "names in the API: cluster or kubernetes; a folder keeps the one it was created with (default cluster)",
    )
    _add(group, "--bind-address", str, "ADDRESS", "address to listen on; 0.0.0.0 or :: for all addresses")
    _add(group, "--secure-port", _port, "PORT", "HTTPS; 0 is off")
    _add(
        group, "--insecure-port", _port, "PORT", "plain HTTP on loopback; callers still sign in (default off)"
    )
    _add(
        group,
        "--http2-max-streams-per-connection",
        _number,
        "N",
        "requests that a client may have in progress on one HTTP/2 connection; 0 means 250 (default 250)",
    )


def _add_certificates(group: Any) -> None:
    _add(group, "--tls-cert-file", Path, "FILE", "serving certificate (PEM) instead of a generated one")
    _add(group, "--tls-private-key-file", Path, "FILE", "its key (PEM)")
    _add(group, "--client-ca-file", Path, "FILE", "trust client certificates of these CAs too (PEM)")


def _add_access(group: Any) -> None:
    _add(group, "--token-auth-file", Path, "FILE", 'CSV lines of token,user,uid[,"group1,group2"]')
    _add_switch(
        group,
        "--anonymous-auth",
        "authenticate callers without credentials as system:anonymous (default true; false under AlwaysAllow)",
    )
    _add(group, "--authorization-mode", str, "MODE", "AlwaysAllow, RBAC or Node,RBAC")
    _add_switch(group, "--enable-bootstrap-token-auth", "not implemented yet: accepted with a warning")
    _add_list(group, "--enable-admission-plugins", "NAME,...", "run these too, besides the default ones")
    _add_list(group, "--disable-admission-plugins", "NAME,...", "do not run these, although on by default")


def _add_kinds(group: Any) -> None:
    _add_list(
        group,
        "--runtime-config",
        "KEY[=BOOL],...",
        "switch <group>/<version>[/<resource>], v1, api/all, api/ga, api/beta or api/alpha on or off",
    )
    _add_list(group, "--feature-gates", "NAME=BOOL,...", "switch features that are off by default")


def _add_services(group: Any) -> None:
    _add(
        group,
        "--service-cluster-ip-range",
        str,
        "CIDR[,CIDR]",
        "addresses of services; with a second network of the other IP family, services get two",
    )
    _add(group, "--service-node-port-range", str, "FIRST-LAST", "node ports of services")


def _add_history(group: Any) -> None:
    _add(
        group,
        "--watch-history",
        _duration,
        "TIME",
        "how old a resourceVersion clients may request (default 5m)",
    )
    _add(
        group,
        "--journal-retention",
        _duration,
        "TIME",
        "how long the journal keeps events; 0 is forever (default 24h)",
    )


def _add_operation(group: Any) -> None:
    _add(
        group,
        "--memory-limit",
        _size,
        "SIZE",
        "memory that the server may use, like 512Mi or 2G; beyond it requests get 429 "
        "(default half of what the machine or the control group has)",
    )
    _add(
        group,
        "--max-connections",
        _number,
        "N",
        "connections at once; further clients wait (default what the limits of memory and file descriptors allow)",
    )
    _add(
        group,
        "--max-requests-inflight",
        _number,
        "N",
        "reading requests at once; with priority and fairness, its levels share the sum of this and the next one",
    )
    _add(group, "--max-mutating-requests-inflight", _number, "N", "changing requests at once")
    _add_switch(
        group,
        "--enable-priority-and-fairness",
        "queue requests by FlowSchemas and PriorityLevelConfigurations, so that one user's flood does not delay "
        "others; without, requests beyond the two limits get 429 (default true)",
    )
    _add(
        group,
        "--livez-grace-period",
        _duration,
        "TIME",
        "/livez succeeds for this long while the server starts (default 0)",
    )
    _add(
        group,
        "--shutdown-delay-duration",
        _duration,
        "TIME",
        "serve for this long after /readyz begins to fail (default 0)",
    )


def _add(group: Any, flag: str, kind: Callable[[str], Any], shown: str, text: str) -> None:
    default = getattr(_DEFAULTS, flag.removeprefix("--").replace("-", "_"), None)
    if default is not None and "default" not in text:
        text += f" (default {default})"
    group.add_argument(flag, type=kind, metavar=shown, help=text)


def _add_list(group: Any, flag: str, shown: str, text: str) -> None:
    """A flag that may occur more than once: values accumulate, and later ones take precedence."""
    group.add_argument(flag, action="append", metavar=shown, help=text)


def _add_switch(group: Any, flag: str, text: str) -> None:
    group.add_argument(flag, type=_boolean, nargs="?", const=True, metavar="true|false", help=text)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0", "t", "f"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() in ("true", "1", "t")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a port; give a number from 1 to 65535, or 0 for off"
        )
    return int(text)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _size(text: str) -> int:
    try:
        return size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _duration(text: str) -> float:
    try:
        return duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
