"""The scheduler's facts about a pod: its requests as numbers, its host ports, its affinity terms.

Pods of one template share a `PodShape`, so that ten thousand of them cost ten thousand small `PodFacts`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple

import orjson

from rewound.actors.kinds.core.resources import is_extended, is_sidecar, nanos
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.steps import Steps, exhausted, parts_of
from rewound.actors.scheduler.matching import Labels, Selector, selector_of
from rewound.actors.selectors.nodes import NodeRequirement, NodeTerm
from rewound.actors.versions.features import POD_LEVEL_RESOURCES, RESIZE, RESIZE_POD_LEVEL

CPU, MEMORY, EPHEMERAL, PODS = "cpu", "memory", "ephemeral-storage", "pods"
# The default requests of a container in scores, as in v1.25: 100m of CPU, 200 MB of memory.
DEFAULT_MILLI_CPU: Final = 100
DEFAULT_MEMORY: Final = 200 * 1024 * 1024
FEW_TERMS: Final = 8  # of affinity, or topology spread constraints
_MOST_SHAPES: Final = 4096  # different templates and single pods; then all are forgotten
# Volumes that some filter checks; the others (config maps, tokens, empty folders) do not depend on nodes.
VOLUME_SOURCES: Final = frozenset(
    (
        "persistentVolumeClaim",
        "ephemeral",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "azureDisk",
        "cinder",
        "iscsi",
        "rbd",
    )
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


class Requests(NamedTuple):
    """What a pod requests, as it is written: of each container, of the whole pod, and its overhead."""

    containers: tuple[Object, ...]
    initial: tuple[tuple[Object, bool], ...]  # of init containers, and whether each keeps running
    whole: Object
    overhead: Object

    def totals(self) -> Amounts:
        """The total of every resource that something requests, in one pass over what is written."""
        regular: Amounts = {}
        for requests in self.containers:
            _add(regular, requests)
        sidecars: Amounts = {}
        most: Amounts = {}
        for requests, keeps_running in self.initial:
            # Of a resource that this one does not request no more is needed than of those after it.
            for name, quantity in requests.items():
                needed = sidecars.get(name, 0) + amount(name, quantity)
                most[name] = max(most.get(name, 0), needed)
                if keeps_running:
                    sidecars[name] = needed
        found = {name: value + sidecars.get(name, 0) for name, value in regular.items()}
        for name, needed in most.items():
            found[name] = max(found.get(name, sidecars.get(name, 0)), needed)
        found.update((name, amount(name, quantity)) for name, quantity in self.whole.items())
        _add(found, self.overhead)
        return found

    def total(self, name: str, default: int = 0, *, of_containers: bool = False) -> int:
        """The sum of the containers, or the most that is needed while they are initialized, or of the whole pod.

        `default`: counts for each container without a request. `of_containers` leaves out what the whole pod requests.
        """
        sidecars = most = 0
        for requests, keeps_running in self.initial:
            value = _request(requests, name, default)
            if keeps_running:
                sidecars += value
            most = max(most, sidecars if keeps_running else sidecars + value)
        total = max(sum(_request(one, name, default) for one in self.containers) + sidecars, most)
        if name in self.whole and not of_containers:
            total = amount(name, self.whole[name])
        return total + _request(self.overhead, name, 0)


def _add(sums: Amounts, requests: Object) -> None:
    for name, quantity in requests.items():
        sums[name] = sums.get(name, 0) + amount(name, quantity)


def _request(requests: Object, name: str, default: int) -> int:
    quantity = requests.get(name)
    return default if quantity is None else amount(name, quantity)


def requests_of(pod: Object, features: frozenset[str]) -> Requests:
    """The requests of a pod; on its node, those that are not resized yet count as long as they are larger."""
    spec, status = pod["spec"], pod.get("status", {})
    resized = "nodeName" in spec and RESIZE in features
    held = {one["name"]: one for one in _statuses(status) if "resources" in one} if resized else {}
    fails = bool(held) and is_infeasible(status)
    whole: Object = {}
    if "resources" in spec and POD_LEVEL_RESOURCES in features:
        of_pod = status if resized and RESIZE_POD_LEVEL in features else None
        wanted = _effective(spec["resources"], of_pod, fails)
        whole = {name: value for name, value in wanted.items() if _is_of_whole_pod(name)}
    initial = [
        (
            _effective(one.get("resources", {}), held.get(one["name"]) if is_sidecar(one) else None, fails),
            is_sidecar(one),
        )
        for one in spec.get("initContainers", ())
    ]
    containers = [
        _effective(one.get("resources", {}), held.get(one["name"]), fails) for one in spec["containers"]
    ]
    return Requests(tuple(containers), tuple(initial), whole, spec.get("overhead", {}))


def _statuses(status: Object) -> Iterable[Object]:
    return (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ()))


def is_infeasible(status: Object) -> bool:
    """Whether the node can never resize the pod as asked."""
    conditions = status.get("conditions", ())
    return any(one["type"] == "PodResizePending" and one.get("reason") == "Infeasible" for one in conditions)


def _effective(resources: Object, held: Object | None, is_infeasible: bool) -> Object:
    """The largest of what is requested, allocated and in use."""
    requests: Object = resources.get("requests", {})
    if held is None or "resources" not in held:
        return requests
    used, allocated = held["resources"].get("requests", {}), held.get("allocatedResources", {})
    if used == requests and (allocated == requests or not allocated):
        return requests
    largest: Object = {}
    for part in (used, allocated) if is_infeasible else (requests, used, allocated):
        for name, quantity in part.items():
            if name not in largest or nanos(quantity) > nanos(largest[name]):
                largest[name] = quantity
    return largest


def _is_of_whole_pod(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


class Disks(NamedTuple):
    """The disks that a pod mounts itself, by what identifies them: sets, because pods may have thousands."""

    written: frozenset[Hashable] = frozenset()
    only_read: frozenset[Hashable] = frozenset()

    def conflict_with(self, other: Disks) -> bool:
        """Whether the two pods cannot be on one node: they have a disk in common that one of them writes."""
        return not (
            self.written.isdisjoint(other.written)
            and self.written.isdisjoint(other.only_read)
            and self.only_read.isdisjoint(other.written)
        )


NO_DISKS: Final = Disks()


def _disks_of(volumes: Iterable[Object]) -> Disks:
    written: set[Hashable] = set()
    only_read: set[Hashable] = set()
    for volume in volumes:
        for kind, identity in (("gcePersistentDisk", "pdName"), ("iscsi", "iqn")):
            if kind in volume:
                disk = volume[kind]
                (only_read if disk.get("readOnly") else written).add((kind, disk[identity]))
        if "awsElasticBlockStore" in volume:  # cannot be shared at all
            written.add(("aws", volume["awsElasticBlockStore"]["volumeID"]))
        if "rbd" in volume:
            disk = volume["rbd"]
            places = ((disk.get("pool", "rbd"), disk["image"], monitor) for monitor in disk["monitors"])
            (only_read if disk.get("readOnly") else written).update(places)
    return Disks(frozenset(written), frozenset(only_read)) if written or only_read else NO_DISKS


def text_of(parts: object) -> bytes:
    """Equal for equal parts of stored pods. `repr` takes ten times as long, 30 ms for thousands of terms."""
    try:
        return orjson.dumps(parts)
    except orjson.JSONEncodeError:  # it nests deeper than usual pods, or has numbers beyond 64 bits
        return repr(parts).encode(errors="surrogatepass")


Preferences = tuple[tuple[int, NodeTerm], ...]  # terms with their weights


def node_preferences(spec: Object) -> Steps[Preferences]:
    wanted = (spec.get("affinity") or {}).get("nodeAffinity", {})
    return (yield from preferences(wanted.get("preferredDuringSchedulingIgnoredDuringExecution", ())))


def preferences(terms: Iterable[Object]) -> Steps[Preferences]:
    """Preferred terms; those without weight or requirements are dropped."""
    kept: list[tuple[int, NodeTerm]] = []
    for part in parts_of(terms):
        compiled = ((one["weight"], NodeTerm.compile(one["preference"])) for one in part)
        kept += [(weight, term) for weight, term in compiled if weight and term is not None]
        yield
    return tuple(kept)


class AffinityTerms:
    """The terms of pod affinity and anti-affinity, required ones first. A pod may have tens of thousands: they are
    compiled when they are used, or before that in steps.
    """

    __slots__ = ("_compiled", "_namespace", "_written", "counts")

    def __init__(self, namespace: str, affinity: Object) -> None:
        self._namespace = namespace
        near, away = affinity.get("podAffinity", {}), affinity.get("podAntiAffinity", {})
        self._written: tuple[Sequence[Object], ...] = (
            *(one.get("requiredDuringSchedulingIgnoredDuringExecution", ()) for one in (near, away)),
            *(one.get("preferredDuringSchedulingIgnoredDuringExecution", ()) for one in (near, away)),
        )
        self.counts = tuple(map(len, self._written))
        self._compiled: list[tuple[Term, ...]] | None = None

    def compiled(self) -> list[tuple[Term, ...]]:
        if self._compiled is None:
            exhausted(self.compile())
        assert self._compiled is not None
        return self._compiled

    def compile(self) -> Steps[None]:
        if self._compiled is not None:
            return
        compiled: list[tuple[Term, ...]] = []
        for written in self._written:
            terms: list[Term] = []
            for part in parts_of(written):
                terms += [_term(self._namespace, one) for one in part]
                yield
            compiled.append(tuple(terms))
        self._compiled, self._written = compiled, ()


class PodShape(NamedTuple):
    key: bytes  # equal for equal shapes
    requested: Requests
    requests: Amounts
    nonzero_cpu: int
    nonzero_memory: int
    ports: tuple[HostPort, ...]
    terms: AffinityTerms
    has_affinity: bool  # pod affinity or anti-affinity of any kind
    volumes: tuple[Object, ...]
    disks: Disks

    @property
    def required_affinity(self) -> tuple[Term, ...]:
        return self.terms.compiled()[0]

    @property
    def required_anti_affinity(self) -> tuple[Term, ...]:
        return self.terms.compiled()[1]

    @property
    def preferred_affinity(self) -> tuple[Term, ...]:
        return self.terms.compiled()[2]

    @property
    def preferred_anti_affinity(self) -> tuple[Term, ...]:
        return self.terms.compiled()[3]

    @property
    def follows(self) -> bool:
        """Whether it requires other pods near it."""
        return self.terms.counts[0] > 0

    @property
    def repels(self) -> bool:
        """Whether it requires that other pods are not near it."""
        return self.terms.counts[1] > 0

    @property
    def has_many_terms(self) -> bool:
        """Whether comparing it with the pods of one node may take as long as a step."""
        return sum(self.terms.counts) > FEW_TERMS


class PodFacts:
    __slots__ = (
        *(
            "_node_preferences",
            "_node_requirement",
            "labels",
            "name",
            "namespace",
            "pod",
            "priority",
            "shape",
        ),
        *("terminating", "uid"),
    )

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
        self._node_requirement: NodeRequirement | None = None
        self._node_preferences: Preferences | None = None

    def compile_terms(self) -> Steps[None]:
        """Compile the terms of all affinities in steps: there may be tens of thousands."""
        yield from self.shape.terms.compile()
        if self._node_requirement is None:
            self._node_requirement = yield from NodeRequirement.in_steps(self.spec)
        if self._node_preferences is None:
            self._node_preferences = yield from node_preferences(self.spec)

    @property
    def node_requirement(self) -> NodeRequirement:
        if self._node_requirement is None:
            self._node_requirement = NodeRequirement.of_pod(self.spec)
        return self._node_requirement

    @property
    def node_preferences(self) -> Preferences:
        if self._node_preferences is None:
            self._node_preferences = exhausted(node_preferences(self.spec))
        return self._node_preferences

    def counts_like(self, other: PodFacts) -> bool:
        """Whether another version of the pod is the same for decisions about other pods."""
        return (
            self.shape.key == other.shape.key
            and self.labels == other.labels
            and self.priority == other.priority
            and self.terminating == other.terminating
        )

    @property
    def spec(self) -> Object:
        spec: Object = self.pod["spec"]
        return spec


class Shapes:
    """Facts of pods, with one shape for equal specs."""

    def __init__(self, names: Names, features: frozenset[str]) -> None:
        self._api_domain, self._features = names.key(""), features
        self._shapes: dict[bytes, PodShape] = {}

    def facts(self, pod: Object) -> PodFacts:
        spec = pod["spec"]
        namespace = pod["metadata"]["namespace"]
        requested = requests_of(pod, self._features)
        ports = [one.get("ports") for one in spec["containers"]]
        volumes = tuple(one for one in spec.get("volumes", ()) if not VOLUME_SOURCES.isdisjoint(one))
        key = text_of((namespace, *requested, ports, spec.get("affinity"), volumes))
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            shape = self._shapes[key] = self._shape(key, namespace, spec, requested, volumes)
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

    def _shape(
        self, key: bytes, namespace: str, spec: Object, requested: Requests, volumes: tuple[Object, ...]
    ) -> PodShape:
        affinity = spec.get("affinity", {})
        totals = requested.totals().items()
        return PodShape(
            key,
            requested,
            {name: total for name, total in totals if name != PODS and self._is_counted(name)},
            requested.total(CPU, DEFAULT_MILLI_CPU),
            requested.total(MEMORY, DEFAULT_MEMORY),
            tuple(_host_ports(spec["containers"])),
            AffinityTerms(namespace, affinity),
            "podAffinity" in affinity or "podAntiAffinity" in affinity,
            volumes,
            _disks_of(volumes),
        )


def amount(name: str, quantity: str) -> int:
    """CPU in thousandths, everything else in whole units, rounded up."""
    return -(-nanos(quantity) // (10**6 if name == CPU else 10**9))


def claims_in_use(shape: PodShape) -> Iterable[str]:
    """The names of the claims that a pod names, without those of its ephemeral volumes."""
    return (
        one["persistentVolumeClaim"].get("claimName", "")
        for one in shape.volumes
        if "persistentVolumeClaim" in one
    )


def _host_ports(containers: Iterable[Object]) -> Iterable[HostPort]:
    for container in containers:
        for port in container.get("ports", ()):
            if port.get("hostPort", 0) > 0:
                yield HostPort(
                    port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"]
                )


def _term(namespace: str, written: Object) -> Term:
    """A required term, or a preferred one, which has a weight."""
    term, weight = written.get("podAffinityTerm", written), written.get("weight", 0)
    named, by_labels = term.get("namespaces", ()), term.get("namespaceSelector")
    namespaces = frozenset(named) if named or by_labels is not None else frozenset([namespace])
    return Term(
        namespaces,
        selector_of(by_labels),
        selector_of(term.get("labelSelector")),
        term["topologyKey"],
        weight,
    )
