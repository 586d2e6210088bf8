"""The objects that every cluster has from the start: namespaces, the system's priority classes, the default roles and
bindings, the mandatory and suggested objects of flow control, an APIService for each built-in group version, and the
Service by which clients inside the cluster find this server, with its Endpoints and EndpointSlice.

Pure functions that return documents; `Bootstrap` stores them. The default roles and bindings of RBAC, which every
start reconciles, are read from `default_roles.txt`: it explains its format.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from rewound.actors.access.authorization.rbac.roles import aggregate_label, aggregated_rules, autoupdate_key
from rewound.actors.aggregation.priorities import api_services_type, built_in_priorities, local_api_service
from rewound.actors.allocation.ranges import ServiceRanges, first_address
from rewound.actors.certificates.names import address_of
from rewound.actors.controllers.service_addresses import cidr_type, default_cidr
from rewound.actors.flowcontrol.initial_objects import SPEC_MANAGER, initial_object, initial_specs
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.scheduling import SYSTEM
from rewound.actors.kinds.schema.projection import Structs
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import POD_CERTIFICATES, TRUST_BUNDLES

_DESCRIPTIONS = {
    "system-cluster-critical": "Used for system critical pods that must run in the cluster, "
    "but can be moved to another node if necessary.",
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
}


class InitialObject(msgspec.Struct, frozen=True):
    """An object to create if it is missing. An existing one stays unchanged, except for the fields in `updated`."""

    type_name: str
    document: Object
    updated: tuple[str, ...] = ()  # paths that every start sets again, such as this server's address
    immutable: tuple[str, ...] = ()  # paths that only a new object can change
    reconciled: bool = False  # a default role or binding: every start adds what it lacks
    manager: str = ""  # field manager; empty: that of the server


class ServingAddress(msgspec.Struct, frozen=True):
    """The IP address and port at which clients reach this server."""

    address: str
    port: int


def namespaces(names: Names) -> list[InitialObject]:
    wanted = ("default", names.system_namespace, names.public_namespace, names.node_lease_namespace)
    return [InitialObject("namespaces", {"metadata": {"name": name}}) for name in wanted]


def priority_classes(names: Names) -> list[InitialObject]:
    type_name = f"priorityclasses.{names.group('scheduling')}"
    return [
        InitialObject(
            type_name, {"metadata": {"name": name}, "value": value, "description": _DESCRIPTIONS[name]}
        )
        for name, value in SYSTEM.items()
    ]


def roles(
    names: Names, catalog: Catalog, features: frozenset[str], *, aggregates: bool = True
) -> list[InitialObject]:
    """Return the default roles and bindings of RBAC, which exist in every authorization mode.

    Aggregated roles have no rules if no controller of this server aggregates them.
    """
    found: Iterable[tuple[str, Object]] = default_roles(names, catalog.structs, features & _GATES)
    if not aggregates:
        found = (
            (type_name, {**one, "rules": None} if "aggregationRule" in one else one)
            for type_name, one in found
        )
    return [InitialObject(type_name, document, reconciled=True) for type_name, document in found]


def health_roles(names: Names, catalog: Catalog, features: frozenset[str]) -> list[InitialObject]:
    """Return the role and the binding that let every client read the health and the version of the server."""
    found = roles(names, catalog, features)
    return [one for one in found if one.document["metadata"]["name"] == "system:public-info-viewer"]


def flow_control(names: Names, features: frozenset[str]) -> list[InitialObject]:
    """Return the initial objects of flow control; a controller maintains their specs."""
    return [
        InitialObject(type_name, initial_object(names, features, type_name, name), manager=SPEC_MANAGER)
        for type_name, specs in initial_specs(names, features).items()
        for name in specs
    ]


def local_api_services(names: Names, features: frozenset[str], catalog: Catalog) -> list[InitialObject]:
    """Return an APIService for every served version of a built-in group; a controller restores deleted ones."""
    type_name, served = api_services_type(names), catalog.groups()
    return [
        InitialObject(type_name, local_api_service(names, features, group, version))
        for group, version in built_in_priorities(names, features)
        if version in served.get(group, ())
    ]


def service_cidrs(names: Names, ranges: ServiceRanges) -> list[InitialObject]:
    """Return the ServiceCIDR with the ranges of the flags; a controller says that it is ready."""
    return [InitialObject(cidr_type(names), default_cidr(ranges.networks))]


def api_service(names: Names, ranges: ServiceRanges, serving: ServingAddress) -> InitialObject:
    """Return the Service of the API server, as v1.25 writes it."""
    port = {"name": "https", "port": 443, "targetPort": serving.port, "protocol": "TCP"}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    spec = {"clusterIP": first_address(ranges), "ports": [port]}
    return InitialObject("services", _in_default(names.api_service, labels, spec=spec), ("spec.ports",))


def api_endpoints(names: Names, serving: Collection[ServingAddress]) -> list[InitialObject]:
    """Return the Endpoints and the EndpointSlice of that Service, as v1.25's endpoint reconciler writes them.

    Servers with the same port share a subset. As in v1.25, the EndpointSlice has only the first subset.
    """
    if not serving:
        return []
    ports = sorted({one.port for one in serving})
    subsets = [(port, sorted({one.address for one in serving if one.port == port})) for port in ports]
    return [_endpoints(names, subsets), _slice(names, *subsets[0])]


def _endpoints(names: Names, subsets: Sequence[tuple[int, list[str]]]) -> InitialObject:
    # No mirroring: this server writes the EndpointSlice itself.
    labels = {names.key("skip-mirror", "endpointslice"): "true"}
    written = [
        {"addresses": [{"ip": one} for one in addresses], "ports": [_port(port)]}
        for port, addresses in subsets
    ]
    document = _in_default(names.api_service, labels, subsets=written)
    return InitialObject("endpoints", document, ("subsets",))


def _slice(names: Names, port: int, addresses: list[str]) -> InitialObject:
    address = address_of(addresses[0])
    document = _in_default(
        names.api_service,
        {names.key("service-name"): names.api_service},
        addressType=f"IPv{address.version if address else 4}",
        endpoints=[{"addresses": [one], "conditions": {"ready": True}} for one in addresses],
        ports=[_port(port)],
    )
    type_name = f"endpointslices.{names.group('discovery')}"
    return InitialObject(type_name, document, ("endpoints", "ports"), immutable=("addressType",))


def _port(number: int) -> Object:
    return {"name": "https", "port": number, "protocol": "TCP"}


def _in_default(name: str, labels: dict[str, str], **content: object) -> Object:
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, **content}


FILE: Final = Path(__file__).with_name("default_roles.txt")
_GATES: Final = frozenset((POD_CERTIFICATES, TRUST_BUNDLES))  # those that the file names
_PLURALS: Final = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


@cache
def default_roles(
    names: Names, structs: Structs, gates: frozenset[str] = frozenset()
) -> tuple[tuple[str, Object], ...]:
    """Return type name and document of every default role and binding; aggregated roles already have their rules.

    They are those of the version of Kubernetes whose structs are given, and of these gates. Documents are in decoded
    form: with fields in declared order, and without any that has its default. They never change.
    """
    reader = _Reader(names)
    for line in _lines_of_version(structs, gates):
        reader.read(line)
    _aggregate([document for type_name, document in reader.found if type_name.startswith("clusterroles.")])
    return tuple(reader.found)


def _lines_of_version(structs: Structs, gates: frozenset[str]) -> Iterator[str]:
    """Yield the lines of a version, without the rules of roles that it does not have."""
    has_role = True
    for line in FILE.read_text().splitlines():
        if line and not line.startswith("#"):
            content, _, limits = line.partition(" @")
            limits, _, gate = limits.partition("+")
            exists = not limits or structs.exists(*limits.split("-"))
            exists = exists and (not gate or gate in gates)
            if not line.startswith(" "):
                has_role = exists
            if exists and has_role:
                yield content


def _aggregate(roles: Sequence[Object]) -> None:
    """Fill view, then edit, then admin: each aggregates the one before, but sorts before it by name."""
    for role in sorted(roles, key=_name, reverse=True):
        if "aggregationRule" in role:
            role["rules"] = aggregated_rules(role, sorted(roles, key=_name))


def _name(role: Object) -> str:
    name: str = role["metadata"]["name"]
    return name


class _Reader:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._group = names.group("rbac.authorization")
        self._namespaces = {"system": names.system_namespace, "public": names.public_namespace}
        self._in_names = {
            "{certificates}": names.group("certificates"),
            "{client_signer}": names.client_signer,
            "{node_client_signer}": names.node_client_signer,
            "{serving_signer}": names.serving_signer,
            "{legacy_signer}": names.legacy_signer,
            "{publisher_signer}": names.legacy_signer.rpartition("/")[0] + "/kube-apiserver-serving",
        }
        self.found: list[tuple[str, Object]] = []

    def read(self, line: str) -> None:
        words = line.split()
        if line.startswith(" "):
            self.found[-1][1]["rules"].append(self._rule(words))
            return
        kind, name, *others = words
        document: Object = {"metadata": self._metadata(name)}
        if kind.endswith("Binding"):
            if subjects := [self._subject(word) for word in others[1:]]:
                document["subjects"] = subjects
            document["roleRef"] = {
                "apiGroup": self._group,
                "kind": kind.removesuffix("Binding"),
                "name": self._filled(others[0]),
            }
        else:
            document["rules"] = []
            self._set_aggregation(document, others)
        self.found.append((f"{_PLURALS[kind]}.{self._group}", document))

    def _metadata(self, name: str) -> Object:
        namespace, _, rest = name.rpartition("/")
        metadata: Object = {"name": self._filled(rest)}
        if namespace:
            metadata["namespace"] = self._namespaces[namespace]
        metadata["labels"] = {self._names.key("bootstrapping"): "rbac-defaults"}
        metadata["annotations"] = {autoupdate_key(self._names): "true"}
        return metadata

    def _set_aggregation(self, role: Object, words: Sequence[str]) -> None:
        for word in words:
            label = aggregate_label(self._names, word[1:])
            if word[0] == "+":
                role["metadata"]["labels"][label] = "true"
            else:
                role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}

    def _rule(self, words: Sequence[str]) -> Object:
        verbs, groups, *lists = (word.split(",") for word in words)
        if groups == ["paths"]:
            return {"verbs": verbs, "nonResourceURLs": lists[0]}
        rule: Object = {
            "verbs": verbs,
            "apiGroups": [self._api_group(group) for group in groups],
            "resources": lists[0],
        }
        if len(lists) > 1:
            rule["resourceNames"] = [self._filled(name) for name in lists[1]]
        return rule

    def _api_group(self, word: str) -> str:
        if word == "core":
            return ""
        return self._names.group(word[:-1]) if word.endswith(".") else word

    def _subject(self, word: str) -> Object:
        kind, _, name = word.partition(":")
        if kind == "ServiceAccount":
            namespace, _, account = name.partition("/")
            return {"kind": kind, "name": account, "namespace": self._namespaces[namespace]}
        return {"kind": kind, "apiGroup": self._group, "name": name}

    def _filled(self, text: str) -> str:
        for mark, name in self._in_names.items():
            text = text.replace(mark, name)
        return text
