"""Decides whether requests are traced: by --tracing-config-file, or by the environment variables of OpenTelemetry.

apiVersion: apiserver.config.k8s.io/v1beta1        # apiserver.config.cluster.io in the dialect cluster
kind: TracingConfiguration
endpoint: localhost:4318                           # of a collector that takes OTLP over HTTP
samplingRatePerMillion: 10000                      # of requests whose client has not decided it
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from rewound.actors.names import Names
from rewound.gateway.settings.checks import SettingsError

if TYPE_CHECKING:
    from rewound.gateway.ops.tracing import Tracing

logger = logging.getLogger(__name__)

FLAG: Final = "--tracing-config-file"
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
MOST_SAMPLES: Final = 1_000_000
_KIND: Final = "TracingConfiguration"
_MISSING: Final = "the packages of OpenTelemetry are not installed: pip install 'rewound[tracing]'"


def build_tracing(path: Path | None, names: Names, environment: Mapping[str, str]) -> Tracing | None:
    """Return what traces requests; None if nothing asks for it. Raises SettingsError."""
    if path is None and not _asks(environment):
        return None
    endpoint, samples = ("", None) if path is None else _read(path, names)
    try:
        from rewound.gateway.ops.tracing import Tracing
    except ImportError:
        if path is not None:
            raise SettingsError(FLAG, _MISSING) from None
        logger.warning("requests are not traced, although the environment asks for it: %s", _MISSING)
        return None
    return Tracing(f"{socket.gethostname()}-{os.getpid()}", endpoint, samples)


def _asks(environment: Mapping[str, str]) -> bool:
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    if exporter == "none" or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    return exporter == "otlp" or any(environment.get(name) for name in ENDPOINTS)


def _read(path: Path, names: Names) -> tuple[str, int]:
    """The URL of the collector, empty for that of the environment, and how many of a million requests to sample."""
    from rewound.actors.kinds.schema.fields import INT32, STRING, Field, Struct
    from rewound.server.configuration_file import decode_configuration

    struct = Struct(
        "apiserver.TracingConfiguration",
        Field("endpoint", STRING, 0),
        Field("samplingRatePerMillion", INT32, 0),
    )
    group = names.group("apiserver.config")
    structs = {f"{group}/{version}": struct for version in ("v1", "v1beta1", "v1alpha1")}
    scheme = "k8s.io/apiserver/pkg/server/options/tracing.go:52"
    try:
        found = decode_configuration(path.read_bytes(), _KIND, structs, scheme)
    except (OSError, ValueError) as error:
        raise SettingsError(FLAG, f"{path}: {error}") from None
    samples = found.get("samplingRatePerMillion") or 0
    if samples < 0:
        raise _invalid(path, "samplingRatePerMillion", samples, "sampling rate must be positive")
    if samples > MOST_SAMPLES:
        text = "sampling rate per million must be less than or equal to one million"
        raise _invalid(path, "samplingRatePerMillion", samples, text)
    return _url(path, found.get("endpoint") or ""), samples


def _url(path: Path, endpoint: str) -> str:
    if not endpoint:
        return ""
    url = urlsplit(endpoint if "//" in endpoint else f"http://{endpoint}")
    if url.scheme not in ("http", "https") or not url.netloc:
        text = "give host and port, or an http or https URL, of a collector that takes OTLP over HTTP"
        raise _invalid(path, "endpoint", endpoint, text)
    return url.geturl() if url.path.strip("/") else f"{url.scheme}://{url.netloc}/v1/traces"


def _invalid(path: Path, field: str, value: object, why: str) -> SettingsError:
    shown = f'"{value}"' if isinstance(value, str) else value
    return SettingsError(FLAG, f"{path}: {field}: Invalid value: {shown}: {why}")
