"""Endpoints: the addresses and ports behind a service."""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.kinds.core.cells import ENDPOINTS as COLUMNS
from actors.kinds.core.references import OBJECT_REFERENCE
from actors.kinds.declaration.definition import Definition, DiscoveryNames, Table
from actors.kinds.declaration.meta import METADATA, metadata_change_rules, metadata_rules
from actors.kinds.declaration.strategy import Strategy
from actors.kinds.schema.fields import INT32, STRING, Field, ListOf, Struct
from actors.kinds.validation.checks import (
    FieldError,
    dns_label,
    dns_subdomain,
    each,
    invalid,
    ip_address,
    name_is_subdomain,
    not_supported,
    ordinary_ip,
    port_number,
    qualified_name,
    required,
)
from actors.messages import Object
from actors.names import Names

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")

ADDRESS = Struct(
    "core.v1.EndpointAddress",
    Field("ip", STRING, 1, required=True, always=True),
    Field("hostname", STRING, 3),
    Field("nodeName", STRING, 4, pointer=True),
    Field("targetRef", OBJECT_REFERENCE, 2, pointer=True),
    atomic=True,
)
PORT = Struct(
    "core.v1.EndpointPort",
    Field("name", STRING, 1),
    Field("port", INT32, 2, required=True, always=True),
    Field("protocol", STRING, 3, default="TCP", enum=PROTOCOLS),
    Field("appProtocol", STRING, 4, pointer=True),
    atomic=True,
)
SUBSET = Struct(
    "core.v1.EndpointSubset",
    Field("addresses", ListOf(ADDRESS), 1),
    Field("notReadyAddresses", ListOf(ADDRESS), 2),
    Field("ports", ListOf(PORT), 3),
)
ENDPOINTS = Struct("core.v1.Endpoints", METADATA, Field("subsets", ListOf(SUBSET), 2))


def define(names: Names) -> Definition:
    return Definition(
        group="",
        version="v1",
        kind="Endpoints",
        plural="endpoints",
        names=DiscoveryNames(short_names=("ep",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=ENDPOINTS,
        table=Table(COLUMNS),
        strategy=Strategy(
            allow_create_on_update=True,
            validate_create=partial(rules, names),
            validate_update=partial(change_rules, names),
        ),
    )


def of_api_service(names: Names, metadata: Object) -> bool:
    """Whether these are endpoints of this server's own Service: the only ones that may point at loopback."""
    return metadata.get("namespace") == "default" and metadata.get("name") == names.api_service


def rules(names: Names, new: Object) -> list[FieldError]:
    loopback = of_api_service(names, new["metadata"])
    errors: list[FieldError] = []
    for index, subset in enumerate(new.get("subsets", ())):
        errors += _subset(subset, f"subsets[{index}]", loopback=loopback)
    return errors


def change_rules(names: Names, new: Object, old: Object) -> list[FieldError]:
    return [
        *metadata_change_rules(new["metadata"], old["metadata"]),
        *metadata_rules(new["metadata"], namespaced=True, check_name=name_is_subdomain),
        *rules(names, new),
    ]


def _subset(subset: Object, field: str, *, loopback: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        errors.append(required(field, "must specify `addresses` or `notReadyAddresses`"))
    for part in ("addresses", "notReadyAddresses"):
        for index, address in enumerate(subset.get(part, ())):
            errors += _address(address, f"{field}.{part}[{index}]", loopback=loopback)
    ports = subset.get("ports", ())
    for index, port in enumerate(ports):
        errors += _port(port, f"{field}.ports[{index}]", needs_name=len(ports) > 1)
    return errors


def _address(address: Object, field: str, *, loopback: bool) -> list[FieldError]:
    ip = address["ip"]
    errors = each(f"{field}.ip", ip, ip_address(ip))
    if "hostname" in address:
        errors += each(f"{field}.hostname", address["hostname"], dns_label(address["hostname"]))
    if "nodeName" in address:
        errors += each(f"{field}.nodeName", address["nodeName"], dns_subdomain(address["nodeName"]))
    return errors + each(f"{field}.ip", ip, ordinary_ip(ip, loopback=loopback))


def _port(port: Object, field: str, *, needs_name: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    name, protocol = port.get("name", ""), port.get("protocol", "")
    if name:
        errors += each(f"{field}.name", name, dns_label(name))
    elif needs_name:
        errors.append(required(f"{field}.name"))
    errors += [invalid(f"{field}.port", port["port"], text) for text in port_number(port["port"])]
    if not protocol:
        errors.append(required(f"{field}.protocol"))
    elif protocol not in PROTOCOLS:
        errors.append(not_supported(f"{field}.protocol", protocol, PROTOCOLS))
    if "appProtocol" in port:
        errors += each(f"{field}.appProtocol", port["appProtocol"], qualified_name(port["appProtocol"]))
    return errors
