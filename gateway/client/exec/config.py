"""The `exec` entry of a user in a kubeconfig file: which command provides the credentials, and how it is called."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.names import NAMES, Names
from gateway.client.errors import ConfigError

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
    """`source` is the file and the field, `folder` the folder of the file."""
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
