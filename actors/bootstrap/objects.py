"""What every cluster holds from its first moment: namespaces, the classes of its most important pods, and the
Service by which those inside it find this server.

Pure: documents and where they belong, for `ensure` to store. In two steps, because the Service lives in a namespace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from actors.allocation.ranges import ServiceRanges, first_address
from actors.certificates.names import address_of
from actors.kinds.scheduling import SYSTEM
from actors.messages import Object
from actors.names import Names

_DESCRIPTIONS = {
    "system-cluster-critical": "Used for system critical pods that must run in the cluster, "
    "but can be moved to another node if necessary.",
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
}


@dataclass(frozen=True, slots=True)
class Seed:
    type_name: str
    document: Object
    renewed: tuple[
        str, ...
    ] = ()  # paths that are put right at every start, such as where this server listens


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where this server is reached: the address it listens on, and its port."""

    address: str
    port: int

    @property
    def reachable(self) -> bool:
        """Whether others can reach that address, too."""
        address = address_of(self.address)
        return address is not None and not address.is_loopback and not address.is_unspecified


def namespaces(names: Names) -> list[Seed]:
    wanted = ("default", names.system_namespace, names.public_namespace, names.node_lease_namespace)
    return [Seed("namespaces", {"metadata": {"name": name}}) for name in wanted]


def priority_classes(names: Names) -> list[Seed]:
    type_name = f"priorityclasses.{names.group('scheduling')}"
    return [
        Seed(type_name, {"metadata": {"name": name}, "value": value, "description": _DESCRIPTIONS[name]})
        for name, value in SYSTEM.items()
    ]


def api_service(names: Names, ranges: ServiceRanges, where: Whereabouts) -> Iterator[Seed]:
    name = names.api_service
    port = {"name": "https", "port": 443, "targetPort": where.port, "protocol": "TCP"}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    spec = {"clusterIP": first_address(ranges), "ports": [port]}
    yield Seed("services", _named(name, labels, spec=spec), ("spec.ports",))
    if where.reachable:
        yield _endpoints(names, where)
        yield _slice(names, where)


def _endpoints(names: Names, where: Whereabouts) -> Seed:
    labels = {names.key("skip-mirror", "endpointslice"): "true"}
    ports = [{"name": "https", "port": where.port, "protocol": "TCP"}]
    subsets = [{"addresses": [{"ip": where.address}], "ports": ports}]
    return Seed("endpoints", _named(names.api_service, labels, subsets=subsets), ("subsets",))


def _slice(names: Names, where: Whereabouts) -> Seed:
    address = address_of(where.address)
    made = _named(
        names.api_service,
        {names.key("service-name"): names.api_service},
        addressType=f"IPv{address.version if address else 4}",
        endpoints=[{"addresses": [where.address], "conditions": {"ready": True}}],
        ports=[{"name": "https", "port": where.port, "protocol": "TCP"}],
    )
    return Seed(f"endpointslices.{names.group('discovery')}", made, ("endpoints", "ports"))


def _named(name: str, labels: dict[str, str], **content: object) -> Object:
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, **content}
