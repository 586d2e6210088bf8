"""Which pods serve a Service, at which addresses and ports: shared by Endpoints and EndpointSlices.

A pod serves a Service if it has the labels of its selector and an address, and has not finished. Whether it must be
ready, and whether a terminating pod still counts, differs between the two controllers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import md5
from typing import Any, Final, Protocol

from rewound.actors.messages import Object
from rewound.actors.runtime.steps import Steps, chosen, parts_of
from rewound.actors.versions.features import NO_EXTERNAL_SLICES, PORTS_BY_FNV
from rewound.actors.workloads.cache import CachedType, Key, key_of
from rewound.actors.workloads.pods import condition_of, is_finished, is_ready, is_terminating

IPV4, IPV6 = "IPv4", "IPv6"
HEADLESS_IP: Final = "None"
_BITS: Final = (1 << 128) - 1
_CHUNK: Final = 4096  # bytes to hash in one step
# The fields of a pod, besides its conditions, that endpoints depend on.
_ENDPOINT_FIELDS: Final = (
    ("metadata", ("labels",)),
    ("spec", ("hostname", "subdomain", "nodeName")),
    ("status", ("podIP", "podIPs")),
)

# Every change of a pod triggers a pass over all pods of its Services. A Service with many waits a little, so that one
# pass handles many changes: two seconds for ten thousand pods.
_IMMEDIATE: Final = 100  # pods
_PODS_PER_SECOND: Final = 5_000
_LONGEST_PAUSE: Final = 2.0
_PAUSE_FOR_EACH: Final = 0.00005  # seconds for each pod beyond that: passes take a third of a CPU at most


def selects(service: Object, labels: Mapping[str, str]) -> bool:
    """Whether the Service selects these labels. Without a selector it selects nothing: clients write its endpoints."""
    selector = service["spec"].get("selector")
    return bool(selector) and all(labels.get(name) == value for name, value in selector.items())


def pods_of(pods: CachedType, service: Object) -> Steps[list[Object]]:
    return chosen(pods.in_namespace(service["metadata"]["namespace"]), selecting(service))


def selecting(service: Object) -> Callable[[Object], bool]:
    """A predicate for the pods that the Service selects."""
    return lambda pod: selects(service, pod["metadata"].get("labels", {}))


def concerns_services(old: Object | None, new: Object | None) -> bool:
    """Whether the controllers look at endpoints after a change of a pod; a new or deleted one has no `old` or `new`.

    As in Kubernetes, that a pod has finished is no such change: if it was never ready, it stays until the next one.
    """
    if old is None or new is None or is_terminating(new) or is_terminating(old):
        return True
    for part, fields in _ENDPOINT_FIELDS:
        before, after = old[part], new[part]
        for field in fields:
            if before.get(field) != after.get(field):
                return True
    return is_ready(old) != is_ready(new)


def pause_before(pods: int) -> float:
    """How long a change of a pod waits for others, in seconds, if its Service last had this many pods."""
    if pods <= _IMMEDIATE:
        return 0.0
    return min(pods / _PODS_PER_SECOND, max(_LONGEST_PAUSE, pods * _PAUSE_FOR_EACH))


def may_serve(pod: Object, *, terminating: bool) -> bool:
    """Whether the pod has endpoints at all. `terminating`: also while it is being deleted."""
    status = pod["status"]
    if is_finished(pod) or not (status.get("podIP") or status.get("podIPs")):
        return False
    return terminating or not is_terminating(pod)


def addresses_of(pod: Object) -> list[str]:
    status = pod["status"]
    found = [one["ip"] for one in status.get("podIPs", ())]
    return found or [one for one in (status.get("podIP"),) if one]


def family_of(address: str) -> str:
    return IPV6 if ":" in address else IPV4


def addresses_in(pod: Object, family: str) -> list[str]:
    return [one for one in addresses_of(pod) if family_of(one) == family]


def families_of(service: Object) -> tuple[str, ...]:
    """The address families of a Service. One that has none, such as an external name, gets both."""
    return tuple(service["spec"].get("ipFamilies") or (IPV4, IPV6))


def first_address(service: Object, pod: Object) -> str:
    """The address of a pod in the first family of the Service, or any if it has none; "" without one."""
    families = service["spec"].get("ipFamilies")
    found = addresses_in(pod, families[0]) if families else addresses_of(pod)
    return found[0] if found else ""


def has_endpoints(service: Object, features: frozenset[str]) -> bool:
    """Whether the controllers write its endpoints: without a selector, clients do."""
    spec = service["spec"]
    if spec.get("type") == "ExternalName" and NO_EXTERNAL_SLICES in features:
        return False
    return bool(spec.get("selector"))


def is_headless(service: Object) -> bool:
    return bool(service["spec"].get("clusterIP") == HEADLESS_IP)


def has_address(service: Object) -> bool:
    """Whether it has a cluster IP. Neither headless Services nor external names have one."""
    return service["spec"].get("clusterIP", "") not in ("", HEADLESS_IP)


def publishes_unready(service: Object) -> bool:
    return bool(service["spec"].get("publishNotReadyAddresses"))


def hostname_in(service: Object, pod: Object) -> str:
    """The DNS name of the pod below its Service, or nothing."""
    spec = pod["spec"]
    return spec.get("hostname", "") if spec.get("subdomain") == service["metadata"]["name"] else ""


def reference_to(pod: Object) -> Object:
    metadata = pod["metadata"]
    return {"kind": "Pod", **{part: metadata[part] for part in ("namespace", "name", "uid")}}


class Hash(Protocol):
    """As those of `hashlib`."""

    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


NewHash = Callable[[], Hash]


def hash_in(features: frozenset[str]) -> NewHash:
    """The hash by which ports and subsets are ordered."""
    return Fnv if PORTS_BY_FNV in features else md5


class Fnv:
    """FNV-1a of 128 bits."""

    def __init__(self) -> None:
        self._value = 0x6C62272E07BB014262B821756295C58D

    def update(self, data: bytes, /) -> None:
        value = self._value
        for byte in data:
            value = ((value ^ byte) * 0x13B + ((value ^ byte) << 88)) & _BITS
        self._value = value

    def digest(self) -> bytes:
        return self._value.to_bytes(16, "big")


def hashed(text: str, new_hash: NewHash) -> bytes:
    found = new_hash()
    found.update(text.encode())
    return found.digest()


def long_hashed(text: str, new_hash: NewHash) -> Steps[bytes]:
    """The same for the text of many addresses."""
    found, encoded = new_hash(), text.encode()
    for start in range(0, len(encoded), _CHUNK):
        found.update(encoded[start : start + _CHUNK])
        yield
    return found.digest()


Ports = tuple[tuple[tuple[str, Any], ...], ...]  # comparable: each port by its fields, as `dict` takes them


class ServicePorts:
    """The pod ports behind a Service: name, port, protocol, and appProtocol if it has one."""

    def __init__(self, service: Object) -> None:
        self._ports: list[Object] = service["spec"].get("ports", [])
        # The same for every pod, unless a target port is named.
        self._is_fixed = all(isinstance(port.get("targetPort", 0), int) for port in self._ports)
        self._fixed: Ports | None = None

    def of(self, pod: Object) -> Steps[Ports]:
        if self._fixed is not None:
            return self._fixed
        offered: list[tuple[tuple[str, Any], ...]] = []
        declared = _declared_ports(pod)
        for part in parts_of(self._ports):
            numbers = ((port, _number_of(port, declared)) for port in part)
            offered += [_described(port, number) for port, number in numbers if number is not None]
            yield
        if self._is_fixed:
            self._fixed = tuple(offered)
        return tuple(offered)


def _described(port: Object, number: int) -> tuple[tuple[str, Any], ...]:
    described = {"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")}
    if "appProtocol" in port:
        described["appProtocol"] = port["appProtocol"]
    return tuple(described.items())


def _declared_ports(pod: Object) -> dict[tuple[str, str], int]:
    """The numbers of the containers' ports by name and protocol; the first of the same name counts."""
    found: dict[tuple[str, str], int] = {}
    for container in pod.get("spec", {}).get("containers", ()):
        for declared in container.get("ports", ()):
            if declared.get("name"):
                named = declared["name"], declared.get("protocol", "TCP")
                found.setdefault(named, declared["containerPort"])
    return found


def _number_of(port: Object, declared: dict[tuple[str, str], int]) -> int | None:
    """The port number; None if no container has a port of that name and protocol."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target
    return declared.get((str(target), str(port.get("protocol", "TCP"))))


class TriggerTimes:
    """The times of the changes that triggered an update of endpoints, for the annotation that measures the delay."""

    def __init__(self) -> None:
        self._seen: dict[Key, tuple[str, dict[str, str]]] = {}  # of the Service, and of its pods by name

    def since_last(self, service: Object, pods: Iterable[Object]) -> Steps[str]:
        """The earliest time that is new since the last call for the Service; "" if none is."""
        key, created = key_of(service), service["metadata"]["creationTimestamp"]
        last_created, last_ready = self._seen.get(key, ("", {}))
        ready: dict[str, str] = {}
        changed: list[str] = []
        for part in parts_of(pods):
            for pod in part:
                if time := _ready_since(pod):
                    name = pod["metadata"]["name"]
                    ready[name] = time
                    if time > last_ready.get(name, ""):
                        changed.append(time)
            yield
        known = key in self._seen
        self._seen[key] = created, ready
        if not known:
            return str(created)
        if created > last_created:
            changed.append(created)
        return min(changed, default="")

    def forget(self, key: Key) -> None:
        self._seen.pop(key, None)


def _ready_since(pod: Object) -> str:
    found = condition_of(pod, "Ready")
    return "" if found is None else found.get("lastTransitionTime") or ""
