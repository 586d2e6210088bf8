"""--tracing-config-file: what it may say, and what is said if OpenTelemetry is not installed."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from rewound.actors.names import CLUSTER
from rewound.gateway.settings.checks import SettingsError
from rewound.server.tracing import build_tracing
from tests.cases import cases

ENVIRONMENT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


def written(folder: Path, **members: Any) -> Path:
    path = folder / "tracing.json"
    kind = {"apiVersion": "apiserver.config.cluster.io/v1beta1", "kind": "TracingConfiguration"}
    path.write_text(json.dumps({**kind, **members}))
    return path


@cases(
    ("members", "why"),
    [
        ({"endpoints": "a"}, 'strict decoding error: unknown field "endpoints"'),
        (
            {"kind": "AdmissionConfiguration"},
            "expected TracingConfiguration, got *apiserver.AdmissionConfiguration",
        ),
        ({"samplingRatePerMillion": -1}, "Invalid value: -1: sampling rate must be positive"),
        (
            {"samplingRatePerMillion": 1_000_001},
            "sampling rate per million must be less than or equal to one million",
        ),
        ({"endpoint": "unix:///a"}, 'endpoint: Invalid value: "unix:///a": give host and port'),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, members: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError, match="--tracing-config-file") as refused:
        build_tracing(written(tmp_path, **members), CLUSTER, {})
    assert why in str(refused.value)


def test_packages_that_are_missing_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "rewound.gateway.ops.tracing", None)  # its import fails
    with pytest.raises(SettingsError, match=r"pip install 'rewound\[tracing\]'"):
        build_tracing(written(tmp_path), CLUSTER, {})
    with caplog.at_level(logging.WARNING):
        assert build_tracing(None, CLUSTER, ENVIRONMENT) is None
    assert "rewound[tracing]" in caplog.text


@cases(
    "environment",
    [
        {},
        {**ENVIRONMENT, "OTEL_SDK_DISABLED": "true"},
        {**ENVIRONMENT, "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_SERVICE_NAME": "a"},
    ],
)
def test_nothing_is_traced_unless_asked_for(environment: dict[str, str]) -> None:
    assert build_tracing(None, CLUSTER, environment) is None
