"""What an ingress sends requests to: a port of a service, or an object of another kind."""

from __future__ import annotations

from actors.kinds.core.claim_spec import TYPED_LOCAL_OBJECT_REFERENCE
from actors.kinds.schema.fields import INT32, STRING, Field, Struct
from actors.kinds.validation.checks import (
    FieldError,
    dns_subdomain,
    each,
    invalid,
    name_is_path_segment,
    port_number,
    required,
)
from actors.kinds.validation.formats import dns_1035_label, port_name
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


def backend_rules(backend: Object, field: str) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(field, "", "cannot set both resource and service backends")]
    if resource is not None:
        return reference_rules(resource, f"{field}.resource")
    if service is not None:
        return _service_rules(service, field)
    return [invalid(field, "", "resource or service backend is required")]


def reference_rules(reference: Object, field: str) -> list[FieldError]:
    """Of a reference to an object of any kind, whose name and kind must fit into a path."""
    errors: list[FieldError] = []
    group = reference.get("apiGroup")
    if group is not None:
        errors += each(f"{field}.apiGroup", group, dns_subdomain(group))
    for part in ("kind", "name"):
        value = reference[part]
        if not value:
            errors.append(required(f"{field}.{part}", f"{part} is required"))
        errors += each(f"{field}.{part}", value, name_is_path_segment(value, False))
    return errors


def _service_rules(service: Object, field: str) -> list[FieldError]:
    return [*_service_name(service["name"], f"{field}.service.name"), *_service_port(service["port"], field)]


def _service_name(name: str, field: str) -> list[FieldError]:
    return each(field, name, dns_1035_label(name)) if name else [required(field)]


def _service_port(port: Object, field: str) -> list[FieldError]:
    if "name" in port and "number" in port:
        return [invalid(field, "", "cannot set both port name & port number")]
    if "name" in port:
        return each(f"{field}.service.port.name", port["name"], port_name(port["name"]))
    if "number" in port:
        wrong = port_number(port["number"])
        return [invalid(f"{field}.service.port.number", port["number"], text) for text in wrong]
    return [required(field, "port name or number is required")]
