"""Probes and lifecycle hooks of containers."""

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
from actors.kinds.validation import (
    NEGATIVE,
    FieldErrors,
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


def container_probe_rules(errors: FieldErrors, container: Object, field: str) -> None:
    """Rules for containers that may have probes."""
    if "lifecycle" in container:
        for part, handler in container["lifecycle"].items():
            _handler_rules(errors, handler, f"{field}.lifecycle.{part}")
    for part in ("livenessProbe", "readinessProbe", "startupProbe"):
        if part in container:
            _probe_rules(errors, container[part], f"{field}.{part}")
            _probe_kind_rules(errors, container[part], part, f"{field}.{part}")


def _probe_kind_rules(errors: FieldErrors, probe: Object, kind: str, field: str) -> None:
    if kind == "readinessProbe":
        grace = probe.get("terminationGracePeriodSeconds")
        text = "must not be set for readinessProbes"
        if grace is not None:
            errors.add(invalid(f"{field}.terminationGracePeriodSeconds", grace, text))
        return
    times = probe.get("successThreshold", 0)
    if times != 1:
        errors.add(invalid(f"{field}.successThreshold", times, "must be 1"))


def _probe_rules(errors: FieldErrors, probe: Object, field: str) -> None:
    _handler_rules(errors, probe, field)
    for part in _TIMINGS:
        if probe.get(part, 0) < 0:
            errors.add(invalid(f"{field}.{part}", probe[part], NEGATIVE))
    grace = probe.get("terminationGracePeriodSeconds", 1)
    if grace <= 0:
        errors.add(invalid(f"{field}.terminationGracePeriodSeconds", grace, "must be greater than 0"))


def _handler_rules(errors: FieldErrors, handler: Object, field: str) -> None:
    found = False
    for part, rules in _HANDLERS:
        if part not in handler:
            continue
        if found:
            errors.add(forbidden(f"{field}.{part}", "may not specify more than 1 handler type"))
        else:
            rules(errors, handler[part], f"{field}.{part}")
        found = True
    if not found:
        errors.add(required(field, "must specify a handler type"))


def _exec_rules(errors: FieldErrors, action: Object, field: str) -> None:
    if not action.get("command"):
        errors.add(required(f"{field}.command"))


def _http_get_rules(errors: FieldErrors, action: Object, field: str) -> None:
    if not action.get("path"):
        errors.add(required(f"{field}.path"))
    _port_rules(errors, action, field)
    scheme = action.get("scheme", "")
    if scheme not in SCHEMES:
        errors.add(not_supported(f"{field}.scheme", scheme, SCHEMES))
    for header in action.get("httpHeaders", ()):
        errors.add_each(f"{field}.httpHeaders", header["name"], header_name(header["name"]))


def _port_rules(errors: FieldErrors, action: Object, field: str) -> None:
    """A port by its number, or by its name among the container's ports."""
    port: Any = action["port"]
    wrong = port_name(port) if isinstance(port, str) else port_number(port)
    errors.add_each(f"{field}.port", port, wrong)


_HANDLERS: Final = (
    ("exec", _exec_rules),
    ("httpGet", _http_get_rules),
    ("tcpSocket", _port_rules),
    ("grpc", _port_rules),
)
