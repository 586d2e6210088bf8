"""IngressBackend: where an ingress sends requests, either a port of a Service or another resource."""

from __future__ import annotations

from actors.kinds.core.claim_spec import TYPED_LOCAL_OBJECT_REFERENCE
from actors.kinds.schema.fields import INT32, STRING, Field, Struct
from actors.kinds.validation import (
    FieldErrors,
    dns_1035_label,
    dns_subdomain,
    invalid,
    name_is_path_segment,
    port_name,
    port_number,
    required,
)
from actors.messages import Object

SERVICE_PORT = Struct("networking.v1.ServiceBackendPort", Field("name", STRING, 1), Field("number", INT32, 2))
SERVICE = Struct(
    "networking.v1.IngressServiceBackend",
    Field("name", STRING, 1, required=True, always=True),
    Field("port", SERVICE_PORT, 2),
)
BACKEND = Struct(
    "networking.v1.IngressBackend",
    Field("service", SERVICE, 4, pointer=True),
    Field("resource", TYPED_LOCAL_OBJECT_REFERENCE, 3, pointer=True),
)


def backend_rules(errors: FieldErrors, backend: Object, field: str) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        errors.add(invalid(field, "", "cannot set both resource and service backends"))
        return
    if resource is not None:
        reference_rules(errors, resource, f"{field}.resource")
        return
    if service is not None:
        _service_rules(errors, service, field)
    else:
        errors.add(invalid(field, "", "resource or service backend is required"))


def reference_rules(errors: FieldErrors, reference: Object, field: str) -> None:
    """Validate a reference to an object of any kind; its kind and name must be path segments."""
    group = reference.get("apiGroup")
    if group is not None:
        errors.add_each(f"{field}.apiGroup", group, dns_subdomain(group))
    for part in ("kind", "name"):
        value = reference[part]
        if not value:
            errors.add(required(f"{field}.{part}", f"{part} is required"))
        errors.add_each(f"{field}.{part}", value, name_is_path_segment(value, False))


def _service_rules(errors: FieldErrors, service: Object, field: str) -> None:
    _service_name(errors, service["name"], f"{field}.service.name")
    _service_port(errors, service["port"], field)


def _service_name(errors: FieldErrors, name: str, field: str) -> None:
    if name:
        errors.add_each(field, name, dns_1035_label(name))
    else:
        errors.add(required(field))


def _service_port(errors: FieldErrors, port: Object, field: str) -> None:
    if "name" in port and "number" in port:
        errors.add(invalid(field, "", "cannot set both port name & port number"))
        return
    if "name" in port:
        errors.add_each(f"{field}.service.port.name", port["name"], port_name(port["name"]))
        return
    if "number" in port:
        wrong = port_number(port["number"])
        errors.add_each(f"{field}.service.port.number", port["number"], wrong)
        return
    errors.add(required(field, "port name or number is required"))
