"""The discovery group: EndpointSlice, a part of the endpoints of a Service."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from rewound.actors.kinds.core.endpoints import of_api_service
from rewound.actors.kinds.core.references import OBJECT_REFERENCE
from rewound.actors.kinds.declaration.columns import AGE, NAME, Column, at
from rewound.actors.kinds.declaration.definition import Definition, Storage, Strategy, Table, bump_generation
from rewound.actors.kinds.declaration.meta import METADATA, metadata_rules
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT32,
    STRING,
    STRING_MAP,
    STRINGS,
    Before,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.validation import (
    Address,
    FieldErrors,
    canonical_ip,
    dns_label,
    dns_subdomain,
    duplicate,
    invalid,
    ip_rules,
    ip_warnings,
    label_value,
    name_is_subdomain,
    not_supported,
    ordinary_ip,
    parse_ip,
    qualified_name,
    required,
    too_many,
    unchanged,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import ADDRESSES_AND_NETWORKS, FQDN_DEPRECATED, SLICES_CHECKED

ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
MAX_ENDPOINTS: Final = 1000
MAX_ADDRESSES: Final = 100
MAX_PORTS: Final = 20000
MAX_HINTS: Final = 8  # of each kind
CONTROLLERS: Final = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")
MAX_IN_CELL: Final = 3

FOR_ZONE = Struct("discovery.v1.ForZone", Field("name", STRING, 1, required=True, always=True))
FOR_NODE = Struct(
    "discovery.v1.ForNode",
    Field("name", STRING, 1, required=True, always=True),
)
HINTS = Struct(
    "discovery.v1.EndpointHints",
    Field("forZones", ListOf(FOR_ZONE), 1, list_type="atomic"),
    Field(
        "forNodes",
        ListOf(FOR_NODE),
        2,
        list_type="atomic",
        since="1.33",
        gate="PreferSameTrafficDistribution",
    ),
)
CONDITIONS = Struct(
    "discovery.v1.EndpointConditions",
    Field("ready", BOOL, 1, pointer=True),
    Field("serving", BOOL, 2, pointer=True),
    Field("terminating", BOOL, 3, pointer=True),
)
ENDPOINT = Struct(
    "discovery.v1.Endpoint",
    Field("addresses", STRINGS, 1, required=True, always=True, list_type="set"),
    Field("conditions", CONDITIONS, 2),
    Field("hostname", STRING, 3, pointer=True),
    Field("targetRef", OBJECT_REFERENCE, 4, pointer=True),
    Field("deprecatedTopology", STRING_MAP, 5),
    Field("nodeName", STRING, 6, pointer=True),
    Field("zone", STRING, 7, pointer=True),
    Field("hints", HINTS, 8, pointer=True),
)
PORT = Struct(
    "discovery.v1.EndpointPort",
    Field("name", STRING, 1, pointer=True, default=""),
    Field("protocol", STRING, 2, pointer=True, default="TCP"),
    Field("port", INT32, 3, pointer=True),
    Field("appProtocol", STRING, 4, pointer=True),
    atomic=True,
)
ENDPOINT_SLICE = Struct(
    "discovery.v1.EndpointSlice",
    METADATA,
    Field("addressType", STRING, 4, required=True, always=True, enum=ADDRESS_TYPES),
    Field(
        "endpoints",
        ListOf(ENDPOINT),
        2,
        always=True,
        list_type="atomic",
        before=(Before("1.36", required=True),),
    ),
    Field("ports", ListOf(PORT), 3, always=True, list_type="atomic"),
)


def _ports_cell(stored: Object, _: int) -> str:
    return _list_cell([str(port.get("port", port["name"])) for port in stored["ports"] or ()])


def _endpoints_cell(stored: Object, _: int) -> str:
    return _list_cell([one for endpoint in stored["endpoints"] or () for one in endpoint["addresses"] or ()])


def _list_cell(items: list[str]) -> str:
    more = f" + {len(items) - MAX_IN_CELL} more..." if len(items) > MAX_IN_CELL else ""
    return ",".join(items[:MAX_IN_CELL]) + more or "<unset>"


COLUMNS: Final = (
    NAME,
    Column("AddressType", "string", "Type of the addresses: IPv4, IPv6 or FQDN.", at("addressType")),
    Column("Ports", "string", "Port numbers, or names where there is no number.", _ports_cell),
    Column("Endpoints", "string", "Addresses of the endpoints.", _endpoints_cell),
    AGE,
)


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    endpoint_slice = Definition(
        group=names.group("discovery"),
        version="v1",
        kind="EndpointSlice",
        plural="endpointslices",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=ENDPOINT_SLICE,
        storage=Storage(announced_since={"1.25": "v1beta1", "1.31": "v1"}),
        table=Table(COLUMNS),
        strategy=Strategy(
            prepare_for_create=prepare_create,
            prepare_for_update=prepare_update,
            validate_create=partial(rules, names=names),
            validate_update=partial(update_rules, names=names),
            warnings=partial(warnings, names.key("managed-by", "endpointslice"), features)
            if FQDN_DEPRECATED in features
            else None,
        ),
    )
    return (endpoint_slice,)


def prepare_create(new: Object) -> None:
    new["metadata"]["generation"] = 1
    _drop_topology(new)


def prepare_update(new: Object, old: Object) -> None:
    """A change of labels is a new generation too: they name the Service that the endpoints belong to.

    deprecatedTopology is dropped only afterwards, so sending it is a new generation as well.
    """
    bump_generation(new, old, "addressType", "endpoints", "ports")
    if new["metadata"].get("labels") != old["metadata"].get("labels"):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    _drop_topology(new)


def _drop_topology(new: Object) -> None:
    """Drop deprecatedTopology, a field of an older version that clients of this one cannot set."""
    if any("deprecatedTopology" in endpoint for endpoint in new["endpoints"] or ()):
        new["endpoints"] = [
            {part: value for part, value in endpoint.items() if part != "deprecatedTopology"}
            for endpoint in new["endpoints"]
        ]


def rules(errors: FieldErrors, new: Object, *, names: Names, old: Object | None = None) -> None:
    loopback = of_api_service(names, new["metadata"])
    _address_type(errors, new["addressType"])
    later = SLICES_CHECKED in errors.features
    if later:
        _ports(errors, new["ports"] or [])
    if not later or old is None or (new["endpoints"] or []) != (old["endpoints"] or []):
        _endpoints(errors, new["endpoints"] or [], new["addressType"], loopback=loopback)
    if not later:
        _ports(errors, new["ports"] or [])


def warnings(managed_by: str, features: frozenset[str], new: Object, old: Object | None) -> list[str]:
    """Warn of odd addresses, unless a controller, which has none, made the slice."""
    texts: list[str] = []
    if new["addressType"] == "FQDN" and old is None:
        texts.append("spec.addressType: FQDN endpoints are deprecated")
    if new["metadata"].get("labels", {}).get(managed_by) in CONTROLLERS:
        return texts
    for index, endpoint in enumerate(new["endpoints"] or ()):
        for position, address in enumerate(endpoint["addresses"] or ()):
            texts += ip_warnings(features, f"endpoints[{index}].addresses[{position}]", address)
    return texts


def update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    rules(errors, new, names=names, old=old)
    unchanged(errors, "addressType", new["addressType"], old["addressType"])


def _address_type(errors: FieldErrors, kind: str) -> None:
    if kind not in ADDRESS_TYPES:
        errors.add(not_supported("addressType", kind, ADDRESS_TYPES) if kind else required("addressType"))


def _endpoints(errors: FieldErrors, endpoints: list[Object], kind: str, *, loopback: bool) -> None:
    if len(endpoints) > MAX_ENDPOINTS:
        errors.add(too_many("endpoints", len(endpoints), MAX_ENDPOINTS))
    else:
        for index, endpoint in enumerate(endpoints):
            _endpoint(errors, endpoint, kind, f"endpoints[{index}]", loopback=loopback)


def _endpoint(errors: FieldErrors, endpoint: Object, kind: str, field: str, *, loopback: bool) -> None:
    _addresses(errors, endpoint["addresses"] or [], kind, f"{field}.addresses", loopback=loopback)
    if "nodeName" in endpoint:
        errors.add_each(f"{field}.nodeName", endpoint["nodeName"], dns_subdomain(endpoint["nodeName"]))
    if "hostname" in endpoint:
        errors.add_each(f"{field}.hostname", endpoint["hostname"], dns_label(endpoint["hostname"]))
    hints = endpoint.get("hints", {})
    if len(hints.get("forZones", ())) > MAX_HINTS:
        errors.add(too_many(f"{field}.hints.forZones", len(hints["forZones"]), MAX_HINTS))
        return
    _hints(errors, hints.get("forZones", []), f"{field}.hints.forZones", label_value)
    if len(hints.get("forNodes", ())) > MAX_HINTS:
        errors.add(too_many(f"{field}.hints.forNodes", len(hints["forNodes"]), MAX_HINTS))
        return
    _hints(errors, hints.get("forNodes", []), f"{field}.hints.forNodes", dns_subdomain)


def _addresses(errors: FieldErrors, addresses: list[str], kind: str, field: str, *, loopback: bool) -> None:
    if not addresses:
        errors.add(required(field, "must contain at least 1 address"))
    elif len(addresses) > MAX_ADDRESSES:
        errors.add(too_many(field, len(addresses), MAX_ADDRESSES))
    for index, address in enumerate(addresses):
        here = f"{field}[{index}]"
        if kind == "FQDN":
            _fqdn(errors, address, here)
        elif kind in ADDRESS_TYPES:
            _ip(errors, address, kind, here, field, loopback=loopback)


def _ip(errors: FieldErrors, text: str, kind: str, field: str, of_all: str, *, loopback: bool) -> None:
    address = parse_ip(text)
    of_kind = address is not None and (kind == "IPv4") is _is_ipv4(address)
    if ADDRESSES_AND_NETWORKS not in errors.features:
        if not of_kind:
            errors.add(invalid(field, text, f"must be a valid {kind} address"))
    elif errors.added_by(_form_rules, text, kind, field):
        return
    elif not of_kind:
        errors.add(invalid(of_all, text, f"must be an {kind} address"))
    errors.add_each(field, text, ordinary_ip(text, loopback=loopback))


def _form_rules(errors: FieldErrors, text: str, kind: str, field: str) -> None:
    """Early versions took odd IPv4 addresses."""
    if kind == "IPv4":
        ip_rules(errors, field, text)
    else:
        errors.add_each(field, text, canonical_ip(text))


def _is_ipv4(address: Address) -> bool:
    return address.version == 4 or address.ipv4_mapped is not None


def _fqdn(errors: FieldErrors, name: str, field: str) -> None:
    if not name:
        errors.add(required(field))
        return
    name = name.removesuffix(".")
    wrong = dns_subdomain(name)
    if wrong:
        errors.add(invalid(field, name, ",".join(wrong)))
        return
    labels = name.split(".")
    if len(labels) < 2:
        errors.add(invalid(field, name, "should be a domain with at least two segments separated by dots"))
        return
    for label in labels:
        if dns_label(label):
            errors.add(invalid(field, label, ",".join(dns_label(label))))
            return


def _hints(errors: FieldErrors, hints: list[Object], field: str, check: Callable[[str], list[str]]) -> None:
    names = [hint["name"] for hint in hints]
    for index, name in enumerate(names):
        here = f"{field}[{index}].name"
        if name in names[:index]:
            errors.add(duplicate(here, name))
        errors.add_each(here, name, check(name))


def _ports(errors: FieldErrors, ports: list[Object]) -> None:
    if len(ports) > MAX_PORTS:
        errors.add(too_many("ports", len(ports), MAX_PORTS))
        return
    seen: set[str] = set()
    for index, port in enumerate(ports):
        _port(errors, port, f"ports[{index}]", repeated=port["name"] in seen)
        seen.add(port["name"])


def _port(errors: FieldErrors, port: Object, field: str, *, repeated: bool) -> None:
    name, protocol = port["name"], port["protocol"]
    if name:
        errors.add_each(f"{field}.name", name, dns_label(name))
    if repeated:
        errors.add(duplicate(f"{field}.name", name))
    if protocol not in PROTOCOLS:
        errors.add(not_supported(f"{field}.protocol", protocol, PROTOCOLS))
    if "appProtocol" in port:
        errors.add_each(f"{field}.appProtocol", port["appProtocol"], qualified_name(port["appProtocol"]))
