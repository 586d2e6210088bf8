"""Runs credential plugins: the commands in `exec` entries of users in kubeconfig files.

A credential is cached until it expires, until the server rejects it with 401, or until the process ends. One lock
covers the run and the cache: threads that need a credential at the same time share one run. A 401 drops a credential
only if it is still the one in the cache, so late responses to requests with an older one do not start another run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from rewound.actors.access.remote.yaml_file import NotYaml, load_yaml
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.names import NAMES, Names
from rewound.client.credentials import Credential, KeyPair, bearer
from rewound.client.errors import ConfigError, CredentialError

_RUNNING = "REWOUND_EXEC_PLUGINS"  # in the environment of a plugin


class ExecPlugin:
    """A CredentialSource. `cluster` is passed to the plugin with provideClusterInfo."""

    def __init__(
        self,
        config: ExecConfig,
        cluster: Mapping[str, Any],
        *,
        standard_input: TextIO | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._config, self._cluster = config, cluster
        self._standard_input = standard_input or sys.stdin
        self._now = now
        self._lock = threading.Lock()
        self._issued: Issued | None = None

    def credential(self) -> Credential:
        with self._lock:
            if self._issued is None or self._expired(self._issued):
                self._issued = None
                self._issued = self._run()
            return self._issued.credential

    def rejected(self, credential: Credential) -> None:
        with self._lock:
            if self._issued is not None and self._issued.credential is credential:
                self._issued = None

    def _expired(self, issued: Issued) -> bool:
        return issued.expires is not None and self._now() >= issued.expires

    def _run(self) -> Issued:
        interactive = self._interactive()
        command = self._executable()
        environment = {
            **os.environ,
            **dict(self._config.environment),
            self._config.info_variable: exec_info(self._config, self._cluster, interactive=interactive),
            _RUNNING: self._running(),
        }
        try:
            # Standard error is the user's: plugins write prompts and reasons there.
            ended = subprocess.run(
                [command, *self._config.arguments],
                env=environment,
                stdin=self._standard_input if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                check=False,
            )
        except FileNotFoundError as error:
            raise self._not_found() from error
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "a null byte in its arguments"
            raise self._failed(f"cannot be run: {reason}; make it executable") from error
        if ended.returncode:
            raise self._failed(f"failed with exit code {ended.returncode}; see what it wrote above")
        return parse_output(self._config, ended.stdout)

    def _running(self) -> str:
        """The running plugins including this one: a plugin that needs itself would start processes forever."""
        running = [one for one in os.environ.get(_RUNNING, "").split("\n") if one]
        if self._config.source in running:
            raise self._failed(
                "needs itself: it calls a command that reads the same kubeconfig file; give that command another one "
                "with --kubeconfig"
            )
        return "\n".join([*running, self._config.source])

    def _interactive(self) -> bool:
        """Whether the plugin gets standard input."""
        mode = self._config.interactive_mode
        if mode == NEVER:
            return False
        terminal = _is_terminal(self._standard_input)
        if mode == ALWAYS and not terminal:
            raise CredentialError(
                f"{self._config.source}: exec plugin cannot support interactive mode: standard input is not a "
                "terminal; run the command in one"
            )
        return terminal

    def _executable(self) -> str:
        command = self._config.command
        if "/" in command:
            return command
        found = shutil.which(command)
        if found is None:
            raise self._not_found()
        if not os.path.isabs(found):
            # Users who may write to the current folder must not choose the program.
            raise self._failed("is found in a relative folder of PATH; give the path of the plugin")
        return found

    def _not_found(self) -> CredentialError:
        hint = self._config.install_hint
        text = f"{self._config.source}: exec: executable {self._config.command} not found"
        return CredentialError(f"{text}\n\n{hint}" if hint else f"{text}; install it, or correct the command")

    def _failed(self, what: str) -> CredentialError:
        return CredentialError(f"{self._config.source}: exec: executable {self._config.command} {what}")


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        # It is closed.
        return False


NEVER, IF_AVAILABLE, ALWAYS = "Never", "IfAvailable", "Always"
_VERSIONS = {
    f"{names.group('client.authentication')}/{version}": names
    for names in NAMES.values()
    for version in ("v1", "v1beta1")
}


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """`source` names file and field for errors; the environment may hold secrets, so `repr` leaves it out."""

    source: str
    command: str
    api_version: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    install_hint: str
    provide_cluster_info: bool
    interactive_mode: str

    @property
    def names(self) -> Names:
        """The dialect of the plugin."""
        return _VERSIONS[self.api_version]

    @property
    def info_variable(self) -> str:
        """The environment variable with the input of the plugin."""
        return self.names.exec_info_variable

    def __repr__(self) -> str:
        return f"ExecConfig({self.command!r})"


def parse_exec(entry: Mapping[str, Any], source: str, folder: Path) -> ExecConfig:
    """Parse an `exec` entry. `source` is the file and the field, `folder` that of the file."""
    api_version = _api_version(entry, source)
    return ExecConfig(
        source=source,
        command=_command(entry, source, folder),
        api_version=api_version,
        arguments=_arguments(entry, source),
        environment=_environment(entry, source),
        install_hint=_text(entry, "installHint", source),
        provide_cluster_info=_flag(entry, "provideClusterInfo", source),
        interactive_mode=_interactive_mode(entry, source, api_version),
    )


def _command(entry: Mapping[str, Any], source: str, folder: Path) -> str:
    command = _text(entry, "command", source)
    if not command:
        raise ConfigError(f"{source}.command is missing; give the name or the path of the plugin")
    if "/" not in command or os.path.isabs(command):
        return command  # a bare name is found by PATH when it runs
    return os.path.normpath(folder / command)


def _api_version(entry: Mapping[str, Any], source: str) -> str:
    version = _text(entry, "apiVersion", source)
    if version not in _VERSIONS:
        wrong = f"is {version!r}" if version else "is missing"
        raise ConfigError(f"{source}.apiVersion {wrong}; give one of {', '.join(_VERSIONS)}")
    return version


def _interactive_mode(entry: Mapping[str, Any], source: str, api_version: str) -> str:
    mode = _text(entry, "interactiveMode", source)
    if not mode and api_version.endswith("/v1beta1"):
        return IF_AVAILABLE
    if mode not in (NEVER, IF_AVAILABLE, ALWAYS):
        wrong = f"is {mode!r}" if mode else f"is missing, and {api_version} requires it"
        raise ConfigError(f"{source}.interactiveMode {wrong}; give Never, IfAvailable or Always")
    return mode


def _arguments(entry: Mapping[str, Any], source: str) -> tuple[str, ...]:
    values = entry.get("args") or []
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise ConfigError(f"{source}.args is not a list of strings; put numbers in quotes")
    return tuple(values)


def _environment(entry: Mapping[str, Any], source: str) -> tuple[tuple[str, str], ...]:
    values = entry.get("env") or []
    if not isinstance(values, list):
        raise ConfigError(f"{source}.env is not a list; write entries with name and value")
    found = []
    for index, one in enumerate(values):
        if not isinstance(one, dict) or not isinstance(one.get("name"), str) or not one["name"]:
            raise ConfigError(f"{source}.env[{index}] has no name; write name and value")
        if not isinstance(one.get("value", ""), str):
            raise ConfigError(f"{source}.env[{index}].value is not a string; put it in quotes")
        found.append((one["name"], one.get("value", "")))
    return tuple(found)


def _text(entry: Mapping[str, Any], field: str, source: str) -> str:
    value = entry.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ConfigError(f"{source}.{field} is not a string; put it in quotes")
    return value


def _flag(entry: Mapping[str, Any], field: str, source: str) -> bool:
    value = entry.get(field)
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{source}.{field} is neither true nor false")
    return bool(value)


KIND = "ExecCredential"


@dataclass(frozen=True, slots=True)
class Issued:
    """The credential that a plugin returned; `expires` is None where it gave no time."""

    credential: Credential
    expires: float | None


def exec_info(config: ExecConfig, cluster: Mapping[str, Any], *, interactive: bool) -> str:
    """The input of the plugin. `cluster` is passed only with provideClusterInfo."""
    spec: dict[str, Any] = {"interactive": interactive}
    if config.provide_cluster_info:
        spec["cluster"] = dict(cluster)
    return json.dumps({"apiVersion": config.api_version, "kind": KIND, "spec": spec})


def parse_output(config: ExecConfig, output: bytes) -> Issued:
    # No error quotes the output: it may contain a token.
    status = _status(config, output)
    token = _output_text(config, status, "token")
    certificate = _output_text(config, status, "clientCertificateData")
    key = _output_text(config, status, "clientKeyData")
    if bool(certificate) != bool(key):
        present, absent = ("certificate", "key") if certificate else ("key", "certificate")
        raise _wrong(config, f"returned a {present} without a {absent}; it must return both or neither")
    if not token and not certificate:
        raise _wrong(config, "returned neither a token nor a certificate with its key")
    if not token.isprintable() or not token.isascii():
        raise _wrong(config, "returned a token with characters that a header cannot have")
    pair = KeyPair(certificate.encode(), key.encode()) if certificate else None
    return Issued(Credential(bearer(token) if token else "", pair), _expires(config, status))


def _status(config: ExecConfig, output: bytes) -> Mapping[str, Any]:
    document = _parsed(output)
    if not isinstance(document, dict):
        raise _wrong(config, f"printed no {KIND} in JSON or YAML to standard output")
    version, kind = document.get("apiVersion"), document.get("kind")
    if kind != KIND:
        raise _wrong(config, f"returned the kind {_shown(kind)}; it must return {KIND}")
    if version != config.api_version:
        raise _wrong(
            config,
            f"returned the version {_shown(version)}, but is configured for {config.api_version}; "
            "set apiVersion to what the plugin returns",
        )
    status = document.get("status")
    if not isinstance(status, dict):
        raise _wrong(config, f"returned an {KIND} without status")
    return status


def _parsed(output: bytes) -> Any:
    """Parse JSON, or YAML, which kubectl accepts too; None for neither."""
    try:
        return json.loads(output)
    except (ValueError, RecursionError):
        if output.lstrip()[:1] in (b"{", b"["):
            return None
    try:
        return load_yaml(output)
    except NotYaml:
        return None


def _expires(config: ExecConfig, status: Mapping[str, Any]) -> float | None:
    text = _output_text(config, status, "expirationTimestamp")
    if not text:
        return None
    try:
        return micros_of(text) / 1e6
    except ValueError:
        raise _wrong(config, "returned an expirationTimestamp that is not an RFC 3339 time") from None


def _output_text(config: ExecConfig, status: Mapping[str, Any], field: str) -> str:
    value = status.get(field)
    if value is not None and not isinstance(value, str):
        raise _wrong(config, f"returned a {field} that is not a string")
    return value or ""


def _shown(value: object) -> str:
    return repr(value)[:100] if isinstance(value, str) else "(none)"


def _wrong(config: ExecConfig, what: str) -> CredentialError:
    return CredentialError(f"{config.source}: the plugin {config.command} {what}")
