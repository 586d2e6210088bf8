"""The scheduler's facts about a pod: its requests as numbers, its host ports, its affinity terms.

Pods of one template share a `PodShape`, so that ten thousand of them cost ten thousand small `PodFacts`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from rewound.actors.kinds.core.resources import is_extended, nanos
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.scheduler.matching import Labels, Selector, selector_of

CPU, MEMORY, EPHEMERAL, PODS = "cpu", "memory", "ephemeral-storage", "pods"
# The default requests of a container in scores, as in v1.25: 100m of CPU, 200 MB of memory.
DEFAULT_MILLI_CPU: Final = 100
DEFAULT_MEMORY: Final = 200 * 1024 * 1024
_MOST_SHAPES: Final = 4096  # different templates and single pods; then all are forgotten
# Volumes that some filter checks; the others (config maps, tokens, empty folders) do not depend on nodes.
VOLUME_SOURCES: Final = (
    "persistentVolumeClaim",
    "ephemeral",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "azureDisk",
    "cinder",
    "iscsi",
    "rbd",
)

Amounts = dict[str, int]  # CPU in thousandths, everything else in whole units, rounded up


class HostPort(NamedTuple):
    address: str
    protocol: str
    port: int


class Term(NamedTuple):
    """A pod affinity term: pods in these namespaces, or in namespaces with these labels, with these labels."""

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    topology_key: str
    weight: int = 0  # of a preferred term

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


class PodShape(NamedTuple):
    key: str  # equal for equal shapes
    requests: Amounts
    nonzero_cpu: int
    nonzero_memory: int
    ports: tuple[HostPort, ...]
    required_affinity: tuple[Term, ...]
    required_anti_affinity: tuple[Term, ...]
    preferred_affinity: tuple[Term, ...]
    preferred_anti_affinity: tuple[Term, ...]
    has_affinity: bool  # pod affinity or anti-affinity of any kind
    volumes: tuple[Object, ...]


class PodFacts:
    __slots__ = ("labels", "name", "namespace", "pod", "priority", "shape", "terminating", "uid")

    def __init__(self, pod: Object, shape: PodShape) -> None:
        metadata = pod["metadata"]
        self.pod = pod
        self.uid: str = metadata["uid"]
        self.namespace: str = metadata["namespace"]
        self.name: str = metadata["name"]
        self.labels: Labels = metadata.get("labels", {})
        self.priority: int = pod["spec"].get("priority", 0)
        self.terminating: bool = "deletionTimestamp" in metadata
        self.shape = shape

    @property
    def spec(self) -> Object:
        spec: Object = self.pod["spec"]
        return spec


class Shapes:
    """Facts of pods, with one shape for equal specs."""

    def __init__(self, names: Names) -> None:
        self._api_domain = names.key("")
        self._shapes: dict[str, PodShape] = {}

    def facts(self, pod: Object) -> PodFacts:
        spec = pod["spec"]
        namespace = pod["metadata"]["namespace"]
        containers = [
            (one.get("resources", {}).get("requests"), one.get("ports")) for one in spec["containers"]
        ]
        initial = [one.get("resources", {}).get("requests") for one in spec.get("initContainers", ())]
        volumes = tuple(one for one in spec.get("volumes", ()) if any(kind in one for kind in VOLUME_SOURCES))
        key = repr((namespace, containers, initial, spec.get("overhead"), spec.get("affinity"), volumes))
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            shape = self._shapes[key] = self._shape(key, namespace, spec, volumes)
        return PodFacts(pod, shape)

    def amounts(self, resources: Object) -> Amounts:
        """A list of resources as numbers; those that no scheduler counts are dropped."""
        return {
            name: amount(name, quantity) for name, quantity in resources.items() if self._is_counted(name)
        }

    def is_scalar(self, name: str) -> bool:
        return (
            is_extended(name, self._api_domain)
            or name.startswith(("hugepages-", "attachable-volumes-"))
            or self._api_domain in name
        )

    def is_extended(self, name: str) -> bool:
        return is_extended(name, self._api_domain)

    def _is_counted(self, name: str) -> bool:
        return name in (CPU, MEMORY, EPHEMERAL, PODS) or self.is_scalar(name)

    def _shape(self, key: str, namespace: str, spec: Object, volumes: tuple[Object, ...]) -> PodShape:
        affinity = spec.get("affinity", {})
        near, away = affinity.get("podAffinity", {}), affinity.get("podAntiAffinity", {})
        cpu, memory = nonzero_requests(spec)
        return PodShape(
            key,
            self._requests(spec),
            cpu,
            memory,
            tuple(_host_ports(spec["containers"])),
            _required(namespace, near),
            _required(namespace, away),
            _preferred(namespace, near),
            _preferred(namespace, away),
            "podAffinity" in affinity or "podAntiAffinity" in affinity,
            volumes,
        )

    def _requests(self, spec: Object) -> Amounts:
        """The sum of the containers, or the largest init container; and the overhead."""
        total: Amounts = {}
        for container in spec["containers"]:
            _add(total, self.amounts(_requests_of(container)))
        for container in spec.get("initContainers", ()):
            for name, value in self.amounts(_requests_of(container)).items():
                if name != PODS:
                    total[name] = max(total.get(name, 0), value)
        _add(total, self.amounts(spec.get("overhead", {})))
        total.pop(PODS, None)
        return total


def amount(name: str, quantity: str) -> int:
    """CPU in thousandths, everything else in whole units, rounded up."""
    return -(-nanos(quantity) // (10**6 if name == CPU else 10**9))


def request_of(container: Object, name: str, *, nonzero: bool) -> int:
    """The request of a container; for scores, at least a default of CPU and memory."""
    quantity = _requests_of(container).get(name)
    if quantity is not None:
        return amount(name, quantity)
    if not nonzero:
        return 0
    return {CPU: DEFAULT_MILLI_CPU, MEMORY: DEFAULT_MEMORY}.get(name, 0)


def nonzero_requests(spec: Object) -> tuple[int, int]:
    """CPU and memory that a pod occupies in scores."""
    found = []
    for name in (CPU, MEMORY):
        total = sum(request_of(one, name, nonzero=True) for one in spec["containers"])
        initial = [request_of(one, name, nonzero=True) for one in spec.get("initContainers", ())]
        overhead = spec.get("overhead", {}).get(name)
        found.append(max([total, *initial]) + (amount(name, overhead) if overhead is not None else 0))
    return found[0], found[1]


def _requests_of(container: Object) -> Object:
    requests: Object = container.get("resources", {}).get("requests", {})
    return requests


def _add(total: Amounts, more: Amounts) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _host_ports(containers: Iterable[Object]) -> Iterable[HostPort]:
    for container in containers:
        for port in container.get("ports", ()):
            if port.get("hostPort", 0) > 0:
                yield HostPort(
                    port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"]
                )


def _required(namespace: str, affinity: Object) -> tuple[Term, ...]:
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", ())
    return tuple(_term(namespace, one) for one in terms)


def _preferred(namespace: str, affinity: Object) -> tuple[Term, ...]:
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())
    return tuple(_term(namespace, one["podAffinityTerm"], one["weight"]) for one in terms)


def _term(namespace: str, term: Object, weight: int = 0) -> Term:
    named, by_labels = term.get("namespaces", ()), term.get("namespaceSelector")
    namespaces = frozenset(named) if named or by_labels is not None else frozenset([namespace])
    return Term(
        namespaces,
        selector_of(by_labels),
        selector_of(term.get("labelSelector")),
        term["topologyKey"],
        weight,
    )
