"""The flags of `rewound serve`, with the names that operators know from Kubernetes.

Both `--flag value` and `--flag=value` work, the last occurrence of a flag wins (lists accumulate), and a boolean flag
needs no value. An unknown flag is refused. Values that scripts often set and this server does not implement yet (some
admission plugins) are accepted with a warning.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from rewound.actors.versions.features import FIELDS_ONLY
from rewound.actors.versions.version import stored_version
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.server_config import ServerSettings
from rewound.gateway.settings.settings import Settings
from rewound.server.flags.sections import (
    add_access,
    add_audit,
    add_authorization,
    add_certificates,
    add_cluster,
    add_controllers,
    add_history,
    add_kinds,
    add_oidc,
    add_operation,
    add_proxy,
    add_request_headers,
    add_service_accounts,
    add_services,
    add_serving,
    add_signing,
    add_standby,
    add_token_webhook,
    add_workloads,
)

if TYPE_CHECKING:
    from rewound.server.flags.config_file import ConfigFile

_LISTS = {
    "authorization_mode",
    "runtime_config",
    "feature_gates",
    "enable_admission_plugins",
    "disable_admission_plugins",
    "rule",
    "tls_san",
}


class FlagParser(argparse.ArgumentParser):
    """Raises SettingsError for every mistake, so that all of them are reported in one form."""

    def error(self, message: str) -> NoReturn:
        flag, _, why = message.partition(": ")
        if flag.startswith("argument ") and why:
            raise SettingsError(
                flag.removeprefix("argument "), why.replace("expected one argument", "needs a value")
            )
        raise SettingsError("rewound serve", message)

    def help_texts(self) -> dict[str, str]:
        """The help of each flag, by its name."""
        return {
            option.removeprefix("--"): action.help or ""
            for action in self._actions
            for option in action.option_strings
        }

    def unknown(self, flag: str) -> SettingsError:
        known = [option for action in self._actions for option in action.option_strings]
        name = flag.partition("=")[0]
        if not flag.startswith("-"):
            return SettingsError(flag, "is not a flag; see rewound serve --help")
        import difflib

        near = difflib.get_close_matches(name, known, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        return SettingsError(name, f"is not a flag of this server; {meant}see rewound serve --help")


def parse_flags(arguments: Sequence[str]) -> tuple[Settings, list[str]]:
    """Parse flags; returns the settings, and the warnings to print. Raises SettingsError."""
    return read_flags(arguments).settings()


class Given(msgspec.Struct, frozen=True):
    """What is given: flags of the command line, and keys of the file of --config that no flag overrides."""

    flags: dict[str, Any]  # parsed values, by the name of the setting
    file: ConfigFile | None

    def settings(self) -> tuple[Settings, list[str]]:
        """The settings, and the warnings to print. Raises SettingsError."""
        values = dict(self.flags)
        if self.file is None:
            return _settings(values)
        values = {name: entry.value for name, entry in self.file.entries.items()} | values
        try:
            return _settings(values)
        except SettingsError as error:
            raise self.file.locate(error, self.flags) from None

    def file_arguments(self) -> list[str]:
        """The keys of the file that no flag overrides, as arguments."""
        entries = {} if self.file is None else self.file.entries
        return [one for name, entry in entries.items() if name not in self.flags for one in entry.arguments]


def read_flags(arguments: Sequence[str], parser: FlagParser | None = None) -> Given:
    """Parse flags, and read the file of --config. Raises SettingsError."""
    parser = parser or make_parser()
    values, rest = parser.parse_known_args(arguments)
    if rest:
        raise parser.unknown(rest[0])
    flags = {name: value for name, value in vars(values).items() if value is not None}
    path = flags.pop("config", None)
    if path is None:
        return Given(flags, None)
    from rewound.server.flags.config_file import read_config_file

    return Given(flags, read_config_file(path, parser._actions))


def without_config(arguments: Sequence[str]) -> list[str]:
    """The same flags without --config: with what its file says now. Raises SettingsError."""
    kept: list[str] = []
    rest = iter(arguments)
    for one in rest:
        if one == "--config":
            next(rest)
        elif not one.startswith("--config="):
            kept.append(one)
    return kept if len(kept) == len(arguments) else [*read_flags(arguments).file_arguments(), *kept]


def _settings(given: dict[str, Any]) -> tuple[Settings, list[str]]:
    for name in _LISTS & given.keys():
        given[name] = ",".join(given[name])
    if (
        "AlwaysAllow" in given.get("authorization_mode", "").split(",")
        and "authentication_config" not in given
    ):
        # Under AlwaysAllow, anonymous callers could do everything; only an explicit flag allows that.
        given.setdefault("anonymous_auth", False)
    if "journal_retention" in given:
        given["journal_retention"], given["retention_by_kind"] = given["journal_retention"]
    if not {"dialect", "kubernetes_version"} <= given.keys():
        _adopt_stored(given)
    grouped = _grouped(dict(given))
    _refuse_two_binds(given, grouped["server"])
    settings = Settings(**grouped)
    return settings, _warnings(settings)


def _refuse_two_binds(given: dict[str, Any], server: ServerSettings) -> None:
    """Refuse a flag and a key of --server-config that both say where to listen.

    This needs the arguments, because a flag may be given with its default value."""
    for key, names in (("bind", ("bind_address", "secure_port")), ("insecure_bind", ("insecure_port",))):
        for name in names:
            if name in given and server.binds(key) is not None:
                flag = f"--{name.replace('_', '-')}"
                raise server.refuse(key, f"says where to listen, and so does {flag}; leave one of them out")


def _grouped(given: dict[str, Any]) -> dict[str, Any]:
    """Move the values of flags that belong to a group of settings into that group."""
    for one in fields(Settings):
        group: Any = one.default_factory
        if is_dataclass(group):
            values = {inner.name: given.pop(inner.name) for inner in fields(group) if inner.name in given}
            given[one.name] = group(  # type: ignore[operator]
                **{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
            )
    return given


def _adopt_stored(given: dict[str, Any]) -> None:
    """Take the dialect and the version of Kubernetes from the data folder, unless flags say them.

    The folders of a standby and of a node that etcd orders are copies: the leader, or etcd, says the version.
    """
    dialect, version = stored_choice(given.get("data_dir", Settings().data_dir))
    if dialect:
        given.setdefault("dialect", dialect)
        if given["dialect"] == dialect and not {"journal", "follow"} & given.keys():
            given.setdefault("kubernetes_version", version)


def stored_choice(data_dir: Path) -> tuple[str, str]:
    """The dialect and the version that a data folder has; empty where there is no readable journal."""
    if not (data_dir / "journal").is_dir():
        return "", ""
    from rewound.journal.errors import JournalError
    from rewound.journal.log import Journal

    try:
        journal = Journal.open(data_dir / "journal", readonly=True, check_tail=False)
    except (JournalError, OSError):
        return "", ""  # the server reports it when it opens the journal
    try:
        return journal.dialect, stored_version(journal.kubernetes)
    finally:
        journal.close()


def _warnings(settings: Settings) -> list[str]:
    warnings = []
    if "api/legacy" in settings.runtime_config:
        warnings.append("--runtime-config: api/legacy has no effect any more; v1 is the core group")
    warnings += [
        f"--feature-gates: {name} only serves its fields: no controller, scheduler or simulated node follows them"
        for name in sorted(FIELDS_ONLY & settings.features)
    ]
    if settings.plain_port_accepts_only_account_tokens:
        warnings.append(_plain_port_warning(settings))
    return warnings


def _plain_port_warning(settings: Settings) -> str:
    others = " and bootstrap tokens" if settings.controllers.enable_bootstrap_token_auth else ""
    why = (
        "client certificates work on the secure port only"
        if settings.secure_binds
        else "and without a secure port nobody can request the first one"
    )
    bound = settings.server.binds("insecure_bind") is not None
    where = "--server-config: insecure_bind" if bound else "--insecure-port"
    return f"{where}: only service account tokens{others} sign in there without --token-auth-file: {why}"


_EXAMPLES = """\
Durations are written like 500ms, 90s, 5m or 1h30m.

examples:
  rewound serve                                              https://127.0.0.1:6443, with ./rewound-data
  rewound serve --dialect kubernetes --data-dir k8s          with the names that kubectl expects
  rewound serve --secure-port 0 --insecure-port 8080 --token-auth-file tokens.csv
  rewound serve --audit-policy-file policy.yaml --audit-log-path audit.log
  rewound serve --config server.yaml                         flags from a file; `rewound config print` shows them
"""


def make_parser() -> FlagParser:
    parser = FlagParser(
        prog="rewound serve",
        usage="rewound serve [flags]",
        description="Serve the API from a data folder, which the first start creates.",
        epilog=_EXAMPLES,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=42),
    )
    for title, add_flags in _SECTIONS:
        add_flags(parser.add_argument_group(title))
    return parser


_SECTIONS = (
    ("data and listeners", add_serving),
    ("certificates", add_certificates),
    ("authentication, authorization and admission", add_access),
    ("OpenID Connect", add_oidc),
    ("token webhook", add_token_webhook),
    ("authenticating proxy", add_request_headers),
    ("service account tokens", add_service_accounts),
    ("authorization", add_authorization),
    ("signing of certificates", add_signing),
    ("controllers", add_controllers),
    ("workloads", add_workloads),
    ("proxied requests and kubelets", add_proxy),
    ("audit", add_audit),
    ("kinds and features", add_kinds),
    ("services", add_services),
    ("history", add_history),
    ("standby", add_standby),
    ("several nodes", add_cluster),
    ("operation", add_operation),
)
