"""The file of --admission-control-config-file: its versions, inline configuration, files per plugin, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rewound.actors.admission.configuration import (
    AdmissionConfigurationError,
    PluginConfiguration,
    read_admission_configuration,
)
from rewound.actors.names import CLUSTER, KUBERNETES

V1 = "apiserver.config.cluster.io/v1"


def written(folder: Path, document: Any, name: str = "admission.yaml") -> Path:
    file = folder / name
    file.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return file


def configured(*plugins: dict[str, Any], api_version: str = V1) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "AdmissionConfiguration", "plugins": list(plugins)}


def test_inline_configuration(tmp_path: Path) -> None:
    file = written(tmp_path, configured({"name": "PodNodeSelector", "configuration": {"a": {"b": "c"}}}))
    read = read_admission_configuration(file, CLUSTER)
    given = read.of("PodNodeSelector")
    assert given == PluginConfiguration(file, "plugins[0].configuration.", {"a": {"b": "c"}})
    assert read.of("EventRateLimit") is None
    assert str(given.error("a.b", "is wrong")) == f"{file}: plugins[0].configuration.a.b: is wrong"


def test_path_is_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    own = written(tmp_path, {"limits": []}, "more/rates.yaml")
    entry = {"name": "EventRateLimit", "path": "more/rates.yaml"}
    read = read_admission_configuration(written(tmp_path, configured(entry)), CLUSTER)
    assert read.of("EventRateLimit") == PluginConfiguration(own, "", {"limits": []})


@pytest.mark.parametrize(
    ("names", "api_version"),
    [
        (CLUSTER, V1),
        (CLUSTER, "apiserver.config.cluster.io/v1alpha1"),
        (CLUSTER, "apiserver.cluster.io/v1alpha1"),
        (KUBERNETES, "apiserver.config.k8s.io/v1"),
        (KUBERNETES, "apiserver.k8s.io/v1alpha1"),
    ],
)
def test_versions(tmp_path: Path, names: Any, api_version: str) -> None:
    file = written(tmp_path, configured({"name": "Priority"}, api_version=api_version))
    assert read_admission_configuration(file, names).of("Priority") is None


def test_plugin_without_configuration_ignores_one(tmp_path: Path) -> None:
    given = {"apiVersion": "example.com/v1", "kind": "Anything"}
    file = written(tmp_path, configured({"name": "Priority", "configuration": given}))
    given_to_it = read_admission_configuration(file, CLUSTER).of("Priority")
    assert given_to_it is not None and given_to_it.document == given  # the plugin never reads it


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("[", "is neither YAML nor JSON at line "),
        ("secret", "must be a mapping with apiVersion and kind"),
        (configured(api_version="v1"), f"kind: write apiVersion: {V1} and kind: AdmissionConfiguration"),
        ({**configured(), "plugin": 1}, "plugin: is not known; there are plugins"),
        ({**configured(), "plugins": {}}, "plugins: must be a list"),
        (configured({"path": "x"}), "plugins[0]: must be a mapping with a name"),
        (configured({"name": "Wrong"}), "plugins[0].name: there is no plugin 'Wrong'; there are "),
        (configured({"name": "Priority", "config": 1}), "plugins[0].config: is not known; there are name, "),
        (configured({"name": "Priority", "configuration": 1}), "plugins[0].configuration: must be a mapping"),
        (configured({"name": "Priority", "path": 1}), "plugins[0].path: must be a string"),
        (
            configured({"name": "Priority", "path": "x", "configuration": {}}),
            "plugins[0].path: cannot be used with configuration",
        ),
        (configured({"name": "Priority"}, {"name": "Priority", "path": "x"}), "x: cannot be read: No such"),
        (
            configured(*[{"name": "Priority", "configuration": {}}] * 2),
            "plugins[1].name: Priority is in the list twice",
        ),
    ],
)
def test_error_names_the_field(tmp_path: Path, document: Any, text: str) -> None:
    file = written(tmp_path, document)
    with pytest.raises(AdmissionConfigurationError) as refused:
        read_admission_configuration(file, CLUSTER)
    assert str(refused.value).startswith(str(tmp_path))
    assert text in str(refused.value)


def test_plugin_checks_type_and_fields() -> None:
    given = PluginConfiguration(Path("f"), "", {"apiVersion": "g/v1", "kind": "Limits", "other": 1})
    given.check_type(("g/v2", "Limits"), ("g/v1", "Limits"))
    with pytest.raises(AdmissionConfigurationError, match="f: kind: write apiVersion: g/v2 and kind: Limits"):
        given.check_type(("g/v2", "Limits"))
    given.check_fields("other")
    with pytest.raises(AdmissionConfigurationError, match="f: other: is not known; there are limits"):
        given.check_fields("limits")
