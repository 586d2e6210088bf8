"""Questions that tell how a container is, and what is done when it starts and before it stops."""

from __future__ import annotations

from typing import Any, Final

from actors.kinds.schema.fields import (
    INT32,
    INT64,
    INT_OR_STRING,
    STRING,
    STRINGS,
    Field,
    ListOf,
    Struct,
)
from actors.kinds.validation.checks import (
    NEGATIVE,
    FieldError,
    each,
    forbidden,
    header_name,
    invalid,
    not_supported,
    port_name,
    port_number,
    required,
)
from actors.messages import Object

SCHEMES: Final = ("HTTP", "HTTPS")
_TIMINGS: Final = (
    *("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"),
)

EXEC_ACTION = Struct(
    "core.v1.ExecAction",
    Field("command", STRINGS, 1),
)
HTTP_HEADER = Struct(
    "core.v1.HTTPHeader",
    Field("name", STRING, 1, required=True, always=True),
    Field("value", STRING, 2, required=True, always=True),
)
HTTP_GET_ACTION = Struct(
    "core.v1.HTTPGetAction",
    Field("path", STRING, 1, default="/"),
    Field("port", INT_OR_STRING, 2, required=True),
    Field("host", STRING, 3),
    Field("scheme", STRING, 4, enum=("HTTP", "HTTPS"), default="HTTP"),
    Field("httpHeaders", ListOf(HTTP_HEADER), 5),
)
TCP_SOCKET_ACTION = Struct(
    "core.v1.TCPSocketAction",
    Field("port", INT_OR_STRING, 1, required=True),
    Field("host", STRING, 2),
)
GRPC_ACTION = Struct(
    "core.v1.GRPCAction",
    Field("port", INT32, 1, required=True, always=True),
    Field("service", STRING, 2, pointer=True, always=True, default=""),
)
PROBE = Struct(
    "core.v1.Probe",
    Field("exec", EXEC_ACTION, 1, embedded=1, pointer=True),
    Field("httpGet", HTTP_GET_ACTION, 2, embedded=1, pointer=True),
    Field("tcpSocket", TCP_SOCKET_ACTION, 3, embedded=1, pointer=True),
    Field("grpc", GRPC_ACTION, 4, embedded=1, pointer=True),
    Field("initialDelaySeconds", INT32, 2),
    Field("timeoutSeconds", INT32, 3, default=1),
    Field("periodSeconds", INT32, 4, default=10),
    Field("successThreshold", INT32, 5, default=1),
    Field("failureThreshold", INT32, 6, default=3),
    Field("terminationGracePeriodSeconds", INT64, 7, pointer=True),
)
LIFECYCLE_HANDLER = Struct(
    "core.v1.LifecycleHandler",
    Field("exec", EXEC_ACTION, 1, pointer=True),
    Field("httpGet", HTTP_GET_ACTION, 2, pointer=True),
    Field("tcpSocket", TCP_SOCKET_ACTION, 3, pointer=True),
)
LIFECYCLE = Struct(
    "core.v1.Lifecycle",
    Field("postStart", LIFECYCLE_HANDLER, 1, pointer=True),
    Field("preStop", LIFECYCLE_HANDLER, 2, pointer=True),
)


def container_probe_rules(container: Object, field: str) -> list[FieldError]:
    """Of the containers that may have probes at all."""
    errors: list[FieldError] = []
    if "lifecycle" in container:
        for part, handler in container["lifecycle"].items():
            errors += _handler(handler, f"{field}.lifecycle.{part}")
    for part in ("livenessProbe", "readinessProbe", "startupProbe"):
        if part in container:
            errors += _probe(container[part], f"{field}.{part}")
            errors += _only_in_its_place(container[part], part, f"{field}.{part}")
    return errors


def _only_in_its_place(probe: Object, kind: str, field: str) -> list[FieldError]:
    if kind == "readinessProbe":
        grace = probe.get("terminationGracePeriodSeconds")
        text = "must not be set for readinessProbes"
        return [] if grace is None else [invalid(f"{field}.terminationGracePeriodSeconds", grace, text)]
    times = probe.get("successThreshold", 0)
    return [] if times == 1 else [invalid(f"{field}.successThreshold", times, "must be 1")]


def _probe(probe: Object, field: str) -> list[FieldError]:
    errors = _handler(probe, field)
    for part in _TIMINGS:
        if probe.get(part, 0) < 0:
            errors.append(invalid(f"{field}.{part}", probe[part], NEGATIVE))
    grace = probe.get("terminationGracePeriodSeconds", 1)
    if grace <= 0:
        errors.append(invalid(f"{field}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
    return errors


def _handler(handler: Object, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    found = False
    for part, rules in _HANDLERS:
        if part not in handler:
            continue
        if found:
            errors.append(forbidden(f"{field}.{part}", "may not specify more than 1 handler type"))
        else:
            errors += rules(handler[part], f"{field}.{part}")
        found = True
    return errors if found else [required(field, "must specify a handler type")]


def _exec(action: Object, field: str) -> list[FieldError]:
    return [] if action.get("command") else [required(f"{field}.command")]


def _http_get(action: Object, field: str) -> list[FieldError]:
    errors = [] if action.get("path") else [required(f"{field}.path")]
    errors += _port(action, field)
    scheme = action.get("scheme", "")
    if scheme not in SCHEMES:
        errors.append(not_supported(f"{field}.scheme", scheme, SCHEMES))
    for header in action.get("httpHeaders", ()):
        errors += each(f"{field}.httpHeaders", header["name"], header_name(header["name"]))
    return errors


def _port(action: Object, field: str) -> list[FieldError]:
    """By its number, or by the name it has among the container's ports."""
    port: Any = action["port"]
    wrong = port_name(port) if isinstance(port, str) else port_number(port)
    return [invalid(f"{field}.port", port, text) for text in wrong]


_HANDLERS: Final = (("exec", _exec), ("httpGet", _http_get), ("tcpSocket", _port), ("grpc", _port))
