"""Endpoints: the addresses and ports behind a service."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Final

from rewound.actors.kinds.core.references import OBJECT_REFERENCE
from rewound.actors.kinds.declaration.columns import AGE, NAME, NONE, Column
from rewound.actors.kinds.declaration.definition import Definition, DiscoveryNames, Strategy, Table
from rewound.actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
from rewound.actors.kinds.schema.fields import INT32, STRING, UNTYPED_BEFORE_1_30, Field, ListOf, Struct
from rewound.actors.kinds.validation import (
    FieldErrors,
    dns_label,
    dns_subdomain,
    ip_rules,
    ip_warnings,
    name_is_subdomain,
    not_supported,
    ordinary_ip,
    port_number,
    qualified_name,
    required,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import ADDRESSES_AND_NETWORKS

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
    Field("addresses", ListOf(ADDRESS), 1, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("notReadyAddresses", ListOf(ADDRESS), 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("ports", ListOf(PORT), 3, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
ENDPOINTS = Struct(
    "core.v1.Endpoints",
    METADATA,
    Field("subsets", ListOf(SUBSET), 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    return Definition(
        group="",
        version="v1",
        kind="Endpoints",
        plural="endpoints",
        names=DiscoveryNames(short_names=("ep",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=ENDPOINTS,
        deprecation_warning=(
            f"v1 Endpoints is deprecated in v1.33+; use {names.group('discovery')}/v1 EndpointSlice"
        ),
        deprecated="1.33",
        table=Table(COLUMNS),
        strategy=Strategy(
            allow_create_on_update=True,
            validate_create=partial(rules, names=names),
            validate_update=partial(update_rules, names=names),
            warnings=partial(warnings, names.key("managed-by", "endpoints"), features)
            if ADDRESSES_AND_NETWORKS in features
            else None,
        ),
    )


def of_api_service(names: Names, metadata: Object) -> bool:
    """Whether these are the endpoints of this server's own Service, the only ones that may have loopback addresses."""
    return metadata.get("namespace") == "default" and metadata.get("name") == names.api_service


def rules(errors: FieldErrors, new: Object, *, names: Names) -> None:
    loopback = of_api_service(names, new["metadata"])
    for index, subset in enumerate(new.get("subsets", ())):
        _subset_rules(errors, subset, f"subsets[{index}]", loopback=loopback)


def update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    if ADDRESSES_AND_NETWORKS not in errors.features or new.get("subsets") != old.get("subsets"):
        rules(errors, new, names=names)


def warnings(managed_by: str, features: frozenset[str], new: Object, _: Object | None) -> list[str]:
    """Warn of odd addresses, unless the controller of endpoints, which has none, made them."""
    if new["metadata"].get("labels", {}).get(managed_by) == "endpoint-controller":
        return []
    return [
        text
        for index, subset in enumerate(new.get("subsets", ()))
        for part in ("addresses", "notReadyAddresses")
        for position, address in enumerate(subset.get(part, ()))
        for text in ip_warnings(features, f"subsets[{index}].{part}[{position}].ip", address["ip"])
    ]


def _subset_rules(errors: FieldErrors, subset: Object, field: str, *, loopback: bool) -> None:
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        errors.add(required(field, "must specify `addresses` or `notReadyAddresses`"))
    for part in ("addresses", "notReadyAddresses"):
        for index, address in enumerate(subset.get(part, ())):
            _address_rules(errors, address, f"{field}.{part}[{index}]", loopback=loopback)
    ports = subset.get("ports", ())
    for index, port in enumerate(ports):
        _port_rules(errors, port, f"{field}.ports[{index}]", needs_name=len(ports) > 1)


def _address_rules(errors: FieldErrors, address: Object, field: str, *, loopback: bool) -> None:
    ip = address["ip"]
    ip_rules(errors, f"{field}.ip", ip)
    if "hostname" in address:
        errors.add_each(f"{field}.hostname", address["hostname"], dns_label(address["hostname"]))
    if "nodeName" in address:
        errors.add_each(f"{field}.nodeName", address["nodeName"], dns_subdomain(address["nodeName"]))
    errors.add_each(f"{field}.ip", ip, ordinary_ip(ip, loopback=loopback))


def _port_rules(errors: FieldErrors, port: Object, field: str, *, needs_name: bool) -> None:
    name, protocol = port.get("name", ""), port.get("protocol", "")
    if name:
        errors.add_each(f"{field}.name", name, dns_label(name))
    elif needs_name:
        errors.add(required(f"{field}.name"))
    errors.add_each(f"{field}.port", port["port"], port_number(port["port"]))
    if not protocol:
        errors.add(required(f"{field}.protocol"))
    elif protocol not in PROTOCOLS:
        errors.add(not_supported(f"{field}.protocol", protocol, PROTOCOLS))
    if "appProtocol" in port:
        errors.add_each(f"{field}.appProtocol", port["appProtocol"], qualified_name(port["appProtocol"]))


MAX_ENDPOINTS = 3


def _endpoints_cell(stored: Object, _: int) -> str:
    subsets = stored.get("subsets", ())
    if not subsets:
        return NONE
    shown = (
        _with_port(address["ip"], port["port"]) if port else address["ip"]
        for subset in subsets
        for port in (subset.get("ports") or [None] if subset.get("addresses") else ())
        for address in subset["addresses"]
    )
    count = sum(len(one.get("ports") or (None,)) * len(one.get("addresses", ())) for one in subsets)
    more = f" + {count - MAX_ENDPOINTS} more..." if count > MAX_ENDPOINTS else ""
    return ",".join(islice(shown, MAX_ENDPOINTS)) + more


def _with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


COLUMNS = (NAME, Column("Endpoints", "string", "Addresses with their ports.", _endpoints_cell), AGE)
