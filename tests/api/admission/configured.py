"""Writes the file of --admission-control-config-file with the configuration of one plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from rewound.gateway.settings.settings import AdmissionSettings


def configured(folder: Path, plugin: str, **configuration: Any) -> AdmissionSettings:
    file = folder / "admission.yaml"
    document = {
        "apiVersion": "apiserver.config.cluster.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": plugin, "configuration": configuration}],
    }
    file.write_text(yaml.safe_dump(document))
    return AdmissionSettings(admission_control_config_file=file)
