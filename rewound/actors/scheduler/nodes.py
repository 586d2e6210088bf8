"""The scheduler's view of nodes: their resources, the requests on them, and their pods.

`Cluster` follows Nodes and assigned Pods one change at a time. It also counts pods that were just assigned and whose
binding is not written yet (`assume`), so that the next decision knows of them. Two values describe changes: `layout`
grows when the set or the order of nodes changes, or something that concerns all of them; `changes` lists the nodes
whose own state changed, so that an `Evaluation` checks only these again.

Nodes are in the order in which v1.25 tries them: one of each zone in turn, in order of arrival.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.scheduler.matching import Labels
from rewound.actors.scheduler.pods import (
    CPU,
    EPHEMERAL,
    MEMORY,
    PODS,
    Amounts,
    HostPort,
    PodFacts,
    Shapes,
    claims_in_use,
)
from rewound.actors.versions.features import FIT_OF_REQUESTED

ANY_ADDRESS: Final = "0.0.0.0"
# After this many all evaluations start over: as many as several thousand pods cause.
_MOST_CHANGES: Final = 20_000
_MEASURED: Final = (CPU, MEMORY, EPHEMERAL)


class NodeState:
    """One node. Only `add`, `remove` and `renew` may change its pods, because they update the sums."""

    __slots__ = (
        "affine",
        "allocatable",
        "cpu",
        "images",
        "labels",
        "memory",
        "name",
        "node",
        "nonzero_cpu",
        "nonzero_memory",
        "pod_limit",
        "pods",
        "ports",
        "repelling",
        "requested",
        "taints",
        "unschedulable",
    )

    def __init__(self, node: Object, shapes: Shapes) -> None:
        self.pods: dict[str, PodFacts] = {}  # by uid
        self.affine: dict[str, PodFacts] = {}  # pods with pod affinity or anti-affinity
        self.repelling: dict[str, PodFacts] = {}  # pods with required anti-affinity
        self.requested: Amounts = {}
        self.nonzero_cpu = self.nonzero_memory = 0
        self.ports: set[HostPort] = (
            set()
        )  # if two pods hold the same one, the first that ends frees it, as in v1.25
        self.set_node(node, shapes)

    def set_node(self, node: Object, shapes: Shapes) -> None:
        spec, status = node.get("spec", {}), node.get("status", {})
        allocatable = shapes.amounts(status.get("allocatable", {}))  # first, because it may raise
        self.node = node
        self.name: str = node["metadata"]["name"]
        self.labels: Labels = node["metadata"].get("labels", {})
        self.taints: list[Object] = spec.get("taints", [])
        self.unschedulable: bool = spec.get("unschedulable", False)
        self.allocatable: Amounts = allocatable
        self.pod_limit = self.allocatable.get(PODS, 0)
        self.cpu, self.memory = self.allocatable.get(CPU, 0), self.allocatable.get(MEMORY, 0)
        self.images: dict[str, int] = {
            name: image.get("sizeBytes", 0)
            for image in status.get("images", ())
            for name in image.get("names", ())
        }

    def add(self, pod: PodFacts) -> None:
        self._count(pod, 1)
        self.pods[pod.uid] = pod
        if pod.shape.has_affinity:
            self.affine[pod.uid] = pod
            if pod.shape.repels:
                self.repelling[pod.uid] = pod

    def remove(self, uid: str) -> PodFacts:
        pod = self.pods.pop(uid)
        self._count(pod, -1)
        self.affine.pop(uid, None)
        self.repelling.pop(uid, None)
        return pod

    def renew(self, pod: PodFacts) -> PodFacts | None:
        """Replace a pod by a newer version that counts alike; returns the older one, or None if it does not."""
        before = self.pods[pod.uid]
        if not before.counts_like(pod):
            return None
        for pods in (self.pods, self.affine, self.repelling):
            if pods.pop(pod.uid, None) is not None:
                pods[pod.uid] = pod
        return before

    def _count(self, pod: PodFacts, sign: int) -> None:
        shape = pod.shape
        for name, value in shape.requests.items():
            self.requested[name] = self.requested.get(name, 0) + sign * value
            if not self.requested[name]:
                del self.requested[name]
        self.nonzero_cpu += sign * shape.nonzero_cpu
        self.nonzero_memory += sign * shape.nonzero_memory
        if sign > 0:
            self.ports.update(shape.ports)
        else:
            self.ports.difference_update(shape.ports)

    def copy(self) -> NodeState:
        """A copy to try changes of its pods on."""
        made = NodeState.__new__(NodeState)
        for name in NodeState.__slots__:
            setattr(made, name, getattr(self, name))
        made.pods, made.affine, made.repelling = dict(self.pods), dict(self.affine), dict(self.repelling)
        made.requested, made.ports = dict(self.requested), self.ports.copy()
        return made

    def free(self, name: str) -> int:
        return self.allocatable.get(name, 0) - self.requested.get(name, 0)

    def has_conflict(self, port: HostPort) -> bool:
        """Whether a pod holds this port, on the same address or if one of the two means all addresses."""
        if port.address == ANY_ADDRESS:
            return any(held.port == port.port and held.protocol == port.protocol for held in self.ports)
        return port in self.ports or port._replace(address=ANY_ADDRESS) in self.ports


class Cluster:
    def __init__(self, names: Names, features: frozenset[str] = frozenset()) -> None:
        """`features`: those of the version whose scheduler this is."""
        self.names, self.features = names, features
        self.shapes = Shapes(names, features)
        self.nodes: dict[str, NodeState] = {}
        self.images: Counter[str] = Counter()  # how many nodes have an image
        self.layout = 0
        self.changes: list[str] = []
        self.affine_pods = self.repelling_pods = 0
        self.pods_with_many_terms = 0
        self.priorities: Counter[int] = Counter()  # of the running pods
        self.claims: Counter[tuple[str, str]] = Counter()  # how many of them have a claim
        self._zones: dict[str, dict[str, None]] = {}  # the nodes of each zone
        self._order: list[NodeState] | None = []
        self._placed: dict[str, str] = {}  # the node of each pod
        self._pods_of_missing_nodes: dict[str, dict[str, PodFacts]] = {}  # pods of nodes that do not exist
        self.zone_key, self.region_key = names.key("zone", "topology"), names.key("region", "topology")
        self.old_zone_key = names.key("zone", "failure-domain.beta")
        self.old_region_key = names.key("region", "failure-domain.beta")
        self.hostname_key = names.key("hostname")

    @property
    def order(self) -> list[NodeState]:
        """The nodes in the order in which they are tried."""
        if self._order is None:
            self._order = [self.nodes[name] for name in _in_turn(list(self._zones.values()))]
        return self._order

    def node_of(self, uid: str) -> str | None:
        return self._placed.get(uid)

    def set_node(self, node: Object) -> None:
        name = node["metadata"]["name"]
        state = self.nodes.get(name)
        if state is None:
            self._add_node(NodeState(node, self.shapes))
            return
        if not _differs(state.node, node):
            state.node = node
            return
        zone, images, labels = self._zone(state.labels), state.images, state.labels
        state.set_node(node, self.shapes)
        is_known = self._replace_images(images, state.images)
        if not is_known or labels != state.labels:
            self._all_changed()
        if zone != self._zone(state.labels):
            self._leave(zone, name)
            self._zones.setdefault(self._zone(state.labels), {})[name] = None
            self._order = None
        self._changed(name)

    def _replace_images(self, old: Mapping[str, int], new: Mapping[str, int]) -> bool:
        """Count the images of a node again; whether the same images as before are on any node."""
        if old == new:
            return True
        self.images.subtract(old.keys())
        self.images.update(new.keys())
        gone = any(not self.images[image] for image in old)
        return not gone and all(image in old or self.images[image] > 1 for image in new)

    def remove_node(self, name: str) -> None:
        state = self.nodes.pop(name, None)
        if state is None:
            return
        self._leave(self._zone(state.labels), name)
        self.images.subtract(state.images.keys())
        if state.pods:
            self._pods_of_missing_nodes[name] = state.pods
        self._order = None
        self._all_changed()

    def assume(self, pod: PodFacts, node: str) -> PodFacts | None:
        """Count the pod on the node; a newer version of the same pod replaces the old one, which is returned."""
        state = self.nodes.get(node)
        if (
            state is not None
            and self._placed.get(pod.uid) == node
            and (before := state.renew(pod)) is not None
        ):
            return before  # the node has not changed for others
        before = self.remove_pod(pod.uid)
        self._placed[pod.uid] = node
        self._count_pod(pod, 1)
        if state is None:
            self._pods_of_missing_nodes.setdefault(node, {})[pod.uid] = pod
        else:
            state.add(pod)
            self._changed(node)
        return before

    def renew(self, pod: Object) -> None:
        """Store a newer version of a pod that has not changed for the scheduler."""
        uid = pod["metadata"]["uid"]
        node = self._placed[uid]
        state = self.nodes.get(node)
        held = self._pods_of_missing_nodes[node] if state is None else state.pods
        held[uid].pod = pod

    def remove_pod(self, uid: str) -> PodFacts | None:
        node = self._placed.pop(uid, None)
        if node is None:
            return None
        state = self.nodes.get(node)
        if state is None:
            waiting = self._pods_of_missing_nodes[node]
            pod = waiting.pop(uid)
            if not waiting:
                del self._pods_of_missing_nodes[node]
        else:
            pod = state.remove(uid)
            self._changed(node)
        self._count_pod(pod, -1)
        return pod

    def _add_node(self, state: NodeState) -> None:
        for pod in self._pods_of_missing_nodes.pop(state.name, {}).values():
            state.add(pod)
        self.nodes[state.name] = state
        self.images.update(state.images.keys())
        self._zones.setdefault(self._zone(state.labels), {})[state.name] = None
        self._order = None
        self._all_changed()

    def _zone(self, labels: Labels) -> str:
        zone = labels.get(self.old_zone_key, labels.get(self.zone_key, ""))
        region = labels.get(self.old_region_key, labels.get(self.region_key, ""))
        return f"{region}:\0:{zone}" if region or zone else ""

    def _leave(self, zone: str, name: str) -> None:
        names = self._zones[zone]
        del names[name]
        if not names:
            del self._zones[zone]

    def has_lower(self, priority: int) -> bool:
        """Whether any pod has a lower priority than this."""
        return any(number and one < priority for one, number in self.priorities.items())

    def _count_pod(self, pod: PodFacts, sign: int) -> None:
        self.priorities[pod.priority] += sign
        for claim in claims_in_use(pod.shape) if pod.shape.volumes else ():
            self.claims[pod.namespace, claim] += sign
            if not self.claims[pod.namespace, claim]:
                del self.claims[pod.namespace, claim]
        before = bool(self.affine_pods), bool(self.repelling_pods)
        self.affine_pods += sign * pod.shape.has_affinity
        self.pods_with_many_terms += sign * pod.shape.has_many_terms
        self.repelling_pods += sign * pod.shape.repels
        if before != (bool(self.affine_pods), bool(self.repelling_pods)):
            self._all_changed()

    def _changed(self, name: str) -> None:
        self.changes.append(name)
        if len(self.changes) > _MOST_CHANGES:
            self._all_changed()

    def _all_changed(self) -> None:
        self.layout += 1
        self.changes.clear()


def _differs(old: Object, new: Object) -> bool:
    """Whether the scheduler has to check the node again: heartbeats do not matter."""
    for part, field in (
        ("spec", "taints"),
        ("spec", "unschedulable"),
        ("status", "allocatable"),
        ("status", "images"),
        ("status", "declaredFeatures"),
    ):
        if old.get(part, {}).get(field) != new.get(part, {}).get(field):
            return True
    return bool(old["metadata"].get("labels") != new["metadata"].get("labels"))


def _in_turn(zones: list[dict[str, None]]) -> Iterable[str]:
    waiting = [iter(zone) for zone in zones]
    while waiting:
        going_on = []
        for zone in waiting:
            name = next(zone, None)
            if name is not None:
                yield name
                going_on.append(zone)
        waiting = going_on


def insufficient(
    pod: Amounts, node: NodeState, features: frozenset[str], ignored: Iterable[str] = ()
) -> list[str]:
    """The resources of which the node has too little for one more pod with these requests.

    Before FIT_OF_REQUESTED, a pod that requests anything needs all of CPU, memory and ephemeral storage: it does not
    fit if any of these is overcommitted.
    """
    if FIT_OF_REQUESTED in features:
        pod = {name: wanted for name, wanted in pod.items() if wanted}
    missing = [PODS] if len(node.pods) + 1 > node.pod_limit else []
    scalars = [name for name in pod if name not in _MEASURED]
    if scalars or any(pod.values()):
        measured = [name for name in _MEASURED if name in pod or FIT_OF_REQUESTED not in features]
        missing += [name for name in measured if pod.get(name, 0) > node.free(name)]
        missing += [name for name in scalars if name not in ignored and pod[name] > node.free(name)]
    return missing
