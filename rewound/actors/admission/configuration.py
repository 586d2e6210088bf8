"""Reads the file of --admission-control-config-file: the configuration of single admission plugins.

    apiVersion: apiserver.config.cluster.io/v1
    kind: AdmissionConfiguration
    plugins:
      - name: EventRateLimit
        path: event-rates.yaml          # relative to the folder of this file
      - name: PodNodeSelector
        configuration: {podNodeSelectorPluginConfig: {...}}

A plugin reads its configuration when the server starts:

    given = configuration.of("PodNodeSelector")     # None: nothing
    given.document                                  # the mapping
    raise given.error("podNodeSelectorPluginConfig", "must be a mapping")

The server reads all files once, at start. An error names the file and the field, and nothing else of the contents.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from rewound.actors.access.remote.yaml_file import NotYaml, load_yaml
from rewound.actors.admission.selection import AVAILABLE
from rewound.actors.names import Names

_FIELDS: Final = ("apiVersion", "kind", "plugins")
_PLUGIN_FIELDS: Final = ("name", "path", "configuration")


class AdmissionConfigurationError(ValueError):
    """The configuration cannot be used; the text names the file and the field."""


class PluginConfiguration(msgspec.Struct, frozen=True):
    """The configuration of one plugin, inline or in its own file."""

    path: Path  # of the file that has it
    place: str  # of the mapping in that file, with a trailing dot; empty for the whole file
    document: Mapping[str, Any]

    def error(self, name: str, why: str) -> AdmissionConfigurationError:
        return AdmissionConfigurationError(f"{self.path}: {self.place}{name}: {why}")

    def check_type(self, *allowed: tuple[str, str]) -> None:
        """Reject a document that has none of these pairs of apiVersion and kind."""
        found = self.document.get("apiVersion"), self.document.get("kind")
        if found not in allowed:
            api_version, kind = allowed[0]
            raise self.error("kind", f"write apiVersion: {api_version} and kind: {kind}")

    def check_fields(self, *allowed: str) -> None:
        """Reject unknown fields, besides apiVersion and kind."""
        for name in self.document:
            if name not in (*allowed, "apiVersion", "kind"):
                raise self.error(str(name), f"is not known; there are {', '.join(allowed)}")


class AdmissionConfiguration(msgspec.Struct, frozen=True):
    plugins: Mapping[str, PluginConfiguration] = msgspec.field(default_factory=dict)

    def of(self, plugin: str) -> PluginConfiguration | None:
        return self.plugins.get(plugin)


NO_CONFIGURATION: Final = AdmissionConfiguration()


def read_admission_configuration(path: Path, names: Names) -> AdmissionConfiguration:
    top = PluginConfiguration(path, "", _mapping(path))
    group = names.group("apiserver.config")
    top.check_type(
        (f"{group}/v1", "AdmissionConfiguration"),
        (f"{group}/v1alpha1", "AdmissionConfiguration"),
        (f"{names.group('apiserver')}/v1alpha1", "AdmissionConfiguration"),
    )
    top.check_fields("plugins")
    entries = top.document.get("plugins")
    if not isinstance(entries, list | None):
        raise top.error("plugins", "must be a list")
    found: dict[str, PluginConfiguration] = {}
    for index, entry in enumerate(entries or ()):
        name, configuration = _plugin(top, f"plugins[{index}]", entry)
        if name in found:
            raise top.error(f"plugins[{index}].name", f"{name} is in the list twice")
        if configuration is not None:
            found[name] = configuration
    return AdmissionConfiguration(found)


def _plugin(top: PluginConfiguration, place: str, entry: Any) -> tuple[str, PluginConfiguration | None]:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise top.error(place, "must be a mapping with a name")
    for member in entry:
        if member not in _PLUGIN_FIELDS:
            raise top.error(f"{place}.{member}", f"is not known; there are {', '.join(_PLUGIN_FIELDS)}")
    name, path, inline = entry["name"], entry.get("path"), entry.get("configuration")
    if name not in AVAILABLE:
        raise top.error(f"{place}.name", f"there is no plugin {name!r}; there are {', '.join(AVAILABLE)}")
    if inline is not None:
        if path:
            raise top.error(f"{place}.path", "cannot be used with configuration; leave one of them out")
        if not isinstance(inline, dict):
            raise top.error(f"{place}.configuration", "must be a mapping")
        return name, PluginConfiguration(top.path, f"{place}.configuration.", inline)
    if not path:
        return name, None
    if not isinstance(path, str):
        raise top.error(f"{place}.path", "must be a string")
    file = top.path.parent / path
    return name, PluginConfiguration(file, "", _mapping(file))


def _mapping(path: Path) -> Mapping[str, Any]:
    try:
        document = load_yaml(path.read_bytes())
    except OSError as error:
        raise AdmissionConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except NotYaml as error:
        raise AdmissionConfigurationError(f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise AdmissionConfigurationError(f"{path}: must be a mapping with apiVersion and kind")
    return document
