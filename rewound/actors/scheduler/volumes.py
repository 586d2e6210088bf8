"""The plugins of volumes: claims that are bound or can be, zones of volumes, disks for only one pod, and limits.

A claim of a class with WaitForFirstConsumer is bound when a pod that uses it is scheduled: `VolumeChoice` has the
volumes, or the claims to provision for the node. Volumes of in-tree plugins are used as they are: v1.25 would translate
those that a CSI driver took over.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.scheduler.matching import Selector, selector_of
from rewound.actors.scheduler.nodes import Cluster, NodeState
from rewound.actors.scheduler.plugins import (
    NODE_ADD,
    NODE_LABELS,
    POD_DELETE,
    Failure,
    Filter,
    Plugin,
    Prepared,
    Refusal,
    SchedulingContext,
    SchedulingError,
)
from rewound.actors.scheduler.pods import NO_DISKS, Disks, PodFacts, amount, claims_in_use
from rewound.actors.scheduler.volume_objects import VolumeObjects
from rewound.actors.selectors.nodes import NodeSelector
from rewound.actors.versions.features import AFFINITY_OF_VOLUMES, READ_WRITE_ONCE_POD
from rewound.actors.workloads.volume_matching import (
    FreeVolumes,
    VolumeKeys,
    capacity,
    is_reserved_for,
    reserved_fits,
)

CLAIM_ADD, CLAIM_UPDATE, VOLUME_ADD, VOLUME_UPDATE = (
    "claim added",
    "claim updated",
    "volume added",
    "volume updated",
)
CLASS_ADD, CLASS_UPDATE = "storage class added", "storage class updated"
CSI_NODE_ADD, CSI_NODE_UPDATE = "CSI node added", "CSI node updated"
CSI_DRIVER_ADD, CSI_DRIVER_UPDATE = "CSI driver added", "CSI driver updated"
CAPACITY_ADD, CAPACITY_UPDATE = "storage capacity added", "storage capacity updated"

T = TypeVar("T")
_STEP: Final = 64  # objects: a fraction of a turn on the event loop
_NODE_CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
_OLD_NODE_CONFLICT: Final = "node(s) had volume node affinity conflict"
_BIND_CONFLICT: Final = "node(s) didn't find available persistent volumes to bind"
_NO_SPACE: Final = "node(s) did not have enough free storage"
_NO_VOLUME: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


def claim_names(pod: PodFacts) -> list[tuple[str, bool]]:
    """The claims of a pod, and whether each is of an ephemeral volume."""
    found = []
    for volume in pod.shape.volumes:
        if "persistentVolumeClaim" in volume:
            found.append((volume["persistentVolumeClaim"].get("claimName", ""), False))
        elif "ephemeral" in volume:
            found.append((f"{pod.name}-{volume['name']}", True))
    return found


@dataclass(slots=True)
class VolumeChoice:
    """A node's choice for the unbound claims of a pod."""

    reasons: list[str] = field(default_factory=list)
    bindings: list[tuple[Object, Object]] = field(default_factory=list)  # claim and volume
    provisions: list[Object] = field(default_factory=list)  # claims


@dataclass(slots=True)
class Reserved:
    """Volumes and claims in their future state, so that the pod can run on its node."""

    volumes: list[Object]
    bound: list[Object]  # the claims of these volumes
    claims: list[Object]  # to be provisioned for the node

    def awaited(self) -> Iterator[tuple[str, str]]:
        """Namespaces and names of the volumes, which have no namespace, and of the claims."""
        for one in (*self.volumes, *self.bound, *self.claims):
            yield one["metadata"].get("namespace", ""), one["metadata"]["name"]

    def is_bound(self, objects: VolumeObjects, node: str) -> bool:
        """Whether everything is bound. Raises SchedulingError if it no longer can be."""
        for volume in self.volumes:
            name = volume["metadata"]["name"]
            stored = objects.volume(name)
            if stored is None:
                raise SchedulingError(f'failed to check binding: could not find v1.PersistentVolume "{name}"')
            if not stored["spec"].get("claimRef", {}).get("uid"):
                raise SchedulingError(f'ClaimRef got reset for pv "{name}"')
        selected = objects.names.key("selected-node", "volume")
        for claim in (*self.bound, *self.claims):
            metadata = claim["metadata"]
            stored = objects.claim(metadata["namespace"], metadata["name"])
            if stored is None:
                text = f'could not find v1.PersistentVolumeClaim "{metadata["namespace"]}/{metadata["name"]}"'
                raise SchedulingError(f"failed to check provisioning pvc: {text}")
            if claim in self.claims and stored["metadata"].get("annotations", {}).get(selected) != node:
                raise SchedulingError(f'provisioning failed for PVC "{metadata["name"]}"')
            if not objects.is_bound(stored):
                return False
        return True


class BindingFilter(Filter):
    """The claims of one pod, compared with the volumes as of the start of its attempt (`is_current`)."""

    of_node_only = False

    def __init__(
        self, objects: VolumeObjects, bound: list[Object], unbound: list[Object], features: frozenset[str]
    ) -> None:
        self._objects, self._bound = objects, bound
        self._node_conflict = _NODE_CONFLICT if AFFINITY_OF_VOLUMES in features else _OLD_NODE_CONFLICT
        self._unbound = sorted(unbound, key=_size)
        self._volumes = [_Candidates(claim, objects.keys) for claim in self._unbound]
        self._capacities: dict[str, _ByLabels[tuple[Selector, Object]]] = {}  # by class

    def steps(self) -> Iterator[None]:
        if not self._unbound:
            return
        for number, volume in enumerate(tuple(self._objects.every_volume()), 1):
            for candidates in self._volumes:
                candidates.add(volume)
            if number % _STEP == 0:
                yield
        for number, one in enumerate(tuple(self._objects.csi_capacities), 1):
            if one.get("nodeTopology") is not None:
                found = self._capacities.setdefault(one.get("storageClassName", ""), _ByLabels())
                found.add((selector_of(one["nodeTopology"]), one), _topology_label(one["nodeTopology"]))
            if number % _STEP == 0:
                yield
        for candidates in self._volumes:
            yield from candidates.sort()

    def check(self, node: NodeState) -> Failure | None:
        reasons = self.choose(node).reasons
        return Failure("VolumeBinding", tuple(reasons), False) if reasons else None

    def is_current(self, node: NodeState) -> bool:
        """Whether the choice for this node is still valid: nothing that it depends on has changed."""
        objects, choice = self._objects, self.choose(node)
        claims = (*self._bound, *self._unbound)
        return (
            not choice.reasons
            and all(objects.claim(*_key(one)) == one for one in claims)
            and all(objects.volume(one["metadata"]["name"]) == one for _, one in choice.bindings)
        )

    def choose(self, node: NodeState) -> VolumeChoice:
        choice = VolumeChoice()
        matches, found = self._bound_volumes_match(node)
        satisfied = enough = True
        if self._unbound:
            satisfied, enough = self._find(node, choice)
        if not matches:
            choice.reasons.append(self._node_conflict)
        if not satisfied:
            choice.reasons.append(_BIND_CONFLICT)
        if not enough:
            choice.reasons.append(_NO_SPACE)
        if not found:
            choice.reasons.append(_NO_VOLUME)
        return choice

    def reserve(self, node: NodeState) -> Reserved | None:
        """The writes that must precede the pod on the node; None: nothing."""
        if not self._unbound:
            return None
        choice, names = self.choose(node), self._objects.names
        chosen = {names.key("selected-node", "volume"): node.name}
        return Reserved(
            [_bound_to(volume, claim, names) for claim, volume in choice.bindings],
            [claim for claim, _ in choice.bindings],
            [_annotated(claim, chosen) for claim in choice.provisions],
        )

    def _bound_volumes_match(self, node: NodeState) -> tuple[bool, bool]:
        for claim in self._bound:
            volume = self._objects.volume(claim["spec"]["volumeName"])
            if volume is None:
                return True, False
            if not reaches(volume, node):
                return False, True
        return True, True

    def _find(self, node: NodeState, choice: VolumeChoice) -> tuple[bool, bool]:
        """Volumes for the claims. Returns whether all were found, and whether there is space to provision."""
        selected = self._objects.names.key("selected-node", "volume")
        matching: list[_Candidates] = []
        provisions: list[Object] = []
        for candidates in self._volumes:
            chosen = candidates.claim["metadata"].get("annotations", {}).get(selected)
            if chosen is None:
                matching.append(candidates)
            elif chosen != node.name:
                return False, True
            else:
                provisions.append(candidates.claim)
        taken: set[str] = set()
        for candidates in matching:
            volume = candidates.best(node, taken)
            if volume is None:
                provisions.append(candidates.claim)
            else:
                taken.add(volume["metadata"]["name"])
                choice.bindings.append((candidates.claim, volume))
        return self._provision(node, provisions, choice) if provisions else (True, True)

    def _provision(self, node: NodeState, claims: list[Object], choice: VolumeChoice) -> tuple[bool, bool]:
        for claim in claims:
            name = self._objects.class_of(claim)
            where = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
            if not name:
                raise SchedulingError(f'running "VolumeBinding" filter plugin: no class for claim "{where}"')
            made = self._objects.storage_class(name)
            if made is None:
                text = f'failed to find storage class "{name}"'
                raise SchedulingError(f'running "VolumeBinding" filter plugin: {text}')
            provisioner = made.get("provisioner", "")
            if not provisioner or provisioner == self._objects.names.key("no-provisioner"):
                return False, True
            if not _is_allowed(made.get("allowedTopologies", ()), node):
                return False, True
            if not self._has_capacity(provisioner, claim, made, node):
                return True, False
            choice.provisions.append(claim)
        return True, True

    def _has_capacity(self, provisioner: str, claim: Object, made: Object, node: NodeState) -> bool:
        quantity = claim["spec"].get("resources", {}).get("requests", {}).get("storage")
        driver = self._objects.csi_drivers.get("", provisioner)
        if quantity is None or driver is None or not driver["spec"].get("storageCapacity"):
            return True
        found = self._capacities.get(made["metadata"]["name"])
        return found is not None and any(
            size_limit(one) >= amount("", quantity) and selector.matches(node.labels)
            for some in found.of(node.labels)
            for selector, one in some
        )


class _ByLabels(Generic[T]):
    """Items by a label that a node must have: of thousands, a node is compared only with its own."""

    def __init__(self) -> None:
        self._any: list[T] = []
        self._by_label: dict[str, dict[str, list[T]]] = {}

    def add(self, item: T, label: tuple[str, Iterable[str]] | None) -> None:
        """`label`: a key, and the values of which a node must have one; None: it may have any labels."""
        if label is None:
            self._any.append(item)
            return
        values = self._by_label.setdefault(label[0], {})
        for value in set(label[1]):
            values.setdefault(value, []).append(item)

    def of(self, labels: Mapping[str, str]) -> list[list[T]]:
        """The items for a node with these labels, in lists that each keep the order of insertion."""
        found = [self._any]
        for key, values in self._by_label.items():
            if (value := labels.get(key)) is not None and value in values:
                found.append(values[value])
        return found


def _topology_label(selector: Object) -> tuple[str, Iterable[str]] | None:
    for key, value in (selector.get("matchLabels") or {}).items():
        return key, (value,)
    return None


class _Candidate(NamedTuple):
    capacity: int
    number: int  # among all volumes
    volume: Object
    terms: NodeSelector | None  # of its node affinity


class _Candidates:
    """The volumes that satisfy a claim, on some node."""

    def __init__(self, claim: Object, keys: VolumeKeys) -> None:
        self.claim = claim
        self._matching = FreeVolumes(claim, keys)
        self._reserved: list[Object] = []
        self._free: list[_Candidate] = []
        self._by_labels: _ByLabels[_Candidate] = _ByLabels()

    def add(self, volume: Object) -> None:
        if is_reserved_for(volume, self.claim):
            if reserved_fits(volume, self.claim):
                self._reserved.append(volume)
        elif self._matching.has(volume):
            required = volume["spec"].get("nodeAffinity", {}).get("required")
            terms = None if required is None else NodeSelector.compile(required)
            self._free.append(_Candidate(capacity(volume), len(self._free), volume, terms))

    def sort(self) -> Iterator[None]:
        """Call after the last volume: sorts the smallest first."""
        self._free.sort()  # their numbers differ, so nothing after these is compared
        for number, one in enumerate(self._free, 1):
            self._by_labels.add(one, _affinity_label(one.volume))
            if number % _STEP == 0:
                yield

    def best(self, node: NodeState, taken: Collection[str]) -> Object | None:
        """The one reserved for the claim, or the smallest that the node can access."""
        for volume in self._reserved:
            if volume["metadata"]["name"] not in taken:
                return volume if reaches(volume, node) else None
        # Each list is in ascending order: the first match is the best of the list.
        firsts = []
        for some in self._by_labels.of(node.labels):
            for one in some:
                if one.volume["metadata"]["name"] not in taken and _reaches(one.terms, node):
                    firsts.append(one)
                    break
        return min(firsts).volume if firsts else None


def _affinity_label(volume: Object) -> tuple[str, Iterable[str]] | None:
    terms = volume["spec"].get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms") or []
    if len(terms) != 1:
        return None
    for one in terms[0].get("matchExpressions") or ():
        if one["operator"] == "In":
            return one["key"], one.get("values") or ()
    return None


def reaches(volume: Object, node: NodeState) -> bool:
    """Whether the volume can be used on the node, by its node affinity."""
    required = volume["spec"].get("nodeAffinity", {}).get("required")
    return _reaches(None if required is None else NodeSelector.compile(required), node)


def _reaches(required: NodeSelector | None, node: NodeState) -> bool:
    return required is None or any(term.labels.matches(node.labels) for term in required.terms)


def _key(claim: Object) -> tuple[str, str]:
    return claim["metadata"]["namespace"], claim["metadata"]["name"]


def _bound_to(volume: Object, claim: Object, names: Names) -> Object:
    """The volume, bound to the claim from its side."""
    if not is_reserved_for(volume, claim):
        volume = _annotated(volume, {names.key("bound-by-controller", "pv"): "yes"})
    metadata = claim["metadata"]
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    reference |= {part: metadata[part] for part in ("namespace", "name", "uid", "resourceVersion")}
    return {**volume, "spec": {**volume["spec"], "claimRef": reference}}


def _annotated(stored: Object, annotations: Mapping[str, str]) -> Object:
    metadata = stored["metadata"]
    return {
        **stored,
        "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}},
    }


def _size(claim: Object) -> int:
    return amount("", claim["spec"].get("resources", {}).get("requests", {}).get("storage", "0"))


def _is_allowed(topologies: Iterable[Object], node: NodeState) -> bool:
    terms = list(topologies)
    if not terms:
        return True
    return any(
        term.get("matchLabelExpressions")
        and all(node.labels.get(one["key"]) in one["values"] for one in term["matchLabelExpressions"])
        for term in terms
    )


def size_limit(capacity: Object) -> int:
    """The largest volume that a CSIStorageCapacity offers; -1 if it does not say."""
    limit = capacity.get("maximumVolumeSize", capacity.get("capacity"))
    return -1 if limit is None else amount("", limit)


def zones_of(volume: Object, names: Names) -> dict[str, str]:
    keys = (names.key(part, of) for of in ("failure-domain.beta", "topology") for part in ("zone", "region"))
    labels = volume["metadata"].get("labels", {})
    return {key: labels[key] for key in keys if key in labels}


class VolumeBinding(Plugin):
    name, filters = "VolumeBinding", True
    wakes = frozenset(
        [
            CLASS_ADD,
            CLASS_UPDATE,
            CLAIM_ADD,
            CLAIM_UPDATE,
            VOLUME_ADD,
            VOLUME_UPDATE,
            NODE_ADD,
            NODE_LABELS,
            CSI_NODE_ADD,
            CSI_NODE_UPDATE,
            CSI_DRIVER_ADD,
            CSI_DRIVER_UPDATE,
            CAPACITY_ADD,
            CAPACITY_UPDATE,
        ]
    )

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        claims = claim_names(pod)
        if not claims:
            return Prepared()
        objects = around.volumes
        found = [self._claim(pod, objects, name, is_ephemeral) for name, is_ephemeral in claims]
        bound = [one for one in found if objects.is_bound(one)]
        unbound = [one for one in found if not objects.is_bound(one)]
        if not all(_waits(objects, one) for one in unbound):
            text = "pod has unbound immediate PersistentVolumeClaims"
            raise Refusal(Failure(self.name, (text,), False))
        return Prepared(BindingFilter(objects, bound, unbound, around.cluster.features))

    def _claim(self, pod: PodFacts, objects: VolumeObjects, name: str, is_ephemeral: bool) -> Object:
        claim = objects.claim(pod.namespace, name)
        if claim is None and is_ephemeral:
            wrong = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        elif claim is None:
            wrong = f'persistentvolumeclaim "{name}" not found'
        elif claim.get("status", {}).get("phase") == "Lost":
            volume = claim["spec"].get("volumeName", "")
            wrong = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
        elif "deletionTimestamp" in claim["metadata"]:
            wrong = f'persistentvolumeclaim "{name}" is being deleted'
        elif is_ephemeral and not _is_controlled_by(claim, pod):
            of = f"{pod.namespace}/{pod.name}"
            wrong = f"PVC {pod.namespace}/{name} was not created for pod {of} (pod is not owner)"
        else:
            return claim
        raise Refusal(Failure(self.name, (wrong,), False))


def _waits(objects: VolumeObjects, claim: Object) -> bool:
    """Whether the claim is bound only when a pod is scheduled."""
    made = objects.storage_class(objects.class_of(claim))
    if made is None or claim["spec"].get("volumeName"):
        return False
    return bool(made.get("volumeBindingMode") == "WaitForFirstConsumer")


def _is_controlled_by(claim: Object, pod: PodFacts) -> bool:
    owners = claim["metadata"].get("ownerReferences", ())
    return any(one.get("controller") and one["uid"] == pod.uid for one in owners)


class _ZoneFilter(Filter):
    of_node_only = False

    def __init__(self, pod: PodFacts, around: SchedulingContext) -> None:
        self._pod, self._objects = pod, around.volumes
        cluster = around.cluster
        self._keys = cluster.old_zone_key, cluster.old_region_key, cluster.zone_key, cluster.region_key

    def check(self, node: NodeState) -> Failure | None:
        if not any(key in node.labels for key in self._keys):
            return None
        for volume in self._pod.shape.volumes:
            if "persistentVolumeClaim" in volume:
                wrong = self._wrong(volume["persistentVolumeClaim"].get("claimName", ""), node)
                if wrong:
                    return Failure("VolumeZone", (wrong,), False)
        return None

    def _wrong(self, name: str, node: NodeState) -> str:
        if not name:
            return "PersistentVolumeClaim had no name"
        claim = self._objects.claim(self._pod.namespace, name)
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        volume_name = claim["spec"].get("volumeName", "")
        if not volume_name:
            return self._unbound(claim)
        volume = self._objects.volume(volume_name)
        if volume is None:
            return f'persistentvolume "{volume_name}" not found'
        labels = volume["metadata"].get("labels", {})
        for key in self._keys:
            zones = set(labels.get(key, "").split("__"))
            if key in labels and "" not in zones and node.labels.get(key, "") not in zones:
                return "node(s) had no available volume zone"
        return ""

    def _unbound(self, claim: Object) -> str:
        name = self._objects.class_of(claim)
        if not name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        made = self._objects.storage_class(name)
        if made is None:
            return f'storageclass.{self._objects.names.group("storage")} "{name}" not found'
        mode = made.get("volumeBindingMode")
        if mode is None:
            return f'VolumeBindingMode not set for StorageClass "{name}"'
        return "" if mode == "WaitForFirstConsumer" else "PersistentVolume had no name"


class VolumeZone(Plugin):
    name, filters = "VolumeZone", True
    wakes = frozenset([CLASS_ADD, NODE_ADD, NODE_LABELS, CLAIM_ADD, VOLUME_ADD, VOLUME_UPDATE])

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        return Prepared(_ZoneFilter(pod, around)) if pod.shape.volumes else Prepared()


_DISK_CONFLICT: Final = Failure("VolumeRestrictions", ("node(s) had no available disk",))


_IN_USE: Final = Failure(
    "VolumeRestrictions",
    (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another "
        "pod",
    ),
)


class _RestrictionFilter(Filter):
    """Disks that only one pod of a node can have, and claims that only one pod of the cluster can."""

    of_node_only = False

    def __init__(self, cluster: Cluster, disks: Disks, claims: Collection[str], in_use: int) -> None:
        """`claims`: the names of those for one pod; `in_use`: how many of them other pods have."""
        self._cluster, self._disks, self._claims, self._in_use = cluster, disks, claims, in_use

    def check(self, node: NodeState) -> Failure | None:
        if self._disks is not NO_DISKS:
            for pod in node.pods.values():
                if pod.shape.disks is not NO_DISKS and self._disks.conflict_with(pod.shape.disks):
                    return _DISK_CONFLICT
        return _IN_USE if self._in_use > 0 else None

    def assuming(self, node: NodeState) -> Filter:
        if not self._claims:
            return self
        changed = self._used_on(node) - self._used_on(self._cluster.nodes[node.name])
        return _RestrictionFilter(self._cluster, self._disks, self._claims, self._in_use + changed)

    def _used_on(self, node: NodeState) -> int:
        """Like v1.27 and later, it takes claims of the same name for the same, whatever their namespaces."""
        return sum(
            one.get("persistentVolumeClaim", {}).get("claimName") in self._claims
            for pod in node.pods.values()
            for one in pod.shape.volumes
        )


class VolumeRestrictions(Plugin):
    name, filters = "VolumeRestrictions", True
    wakes = frozenset([POD_DELETE, NODE_ADD, CLAIM_ADD, CLAIM_UPDATE])

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        disks = pod.shape.disks
        cluster, claims = around.cluster, self._claims_for_one_pod(pod, around)
        in_use = sum(bool(cluster.claims[pod.namespace, one]) for one in claims)
        if disks is NO_DISKS and not in_use:
            return Prepared()
        return Prepared(_RestrictionFilter(cluster, disks, claims, in_use))

    def _claims_for_one_pod(self, pod: PodFacts, around: SchedulingContext) -> set[str]:
        if READ_WRITE_ONCE_POD not in around.cluster.features:
            return set()
        found = set()
        for name in claims_in_use(pod.shape):
            claim = around.volumes.claim(pod.namespace, name)
            if claim is None:
                raise Refusal(Failure(self.name, (f'persistentvolumeclaim "{name}" not found',), False))
            if READ_WRITE_ONCE_POD in claim["spec"].get("accessModes", ()):
                found.add(name)
        return found


_TOO_MANY: Final = "node(s) exceed max volume count"
_ATTACHABLE: Final = "attachable-volumes-"
_LONGEST_RESOURCE: Final = 63


@dataclass(frozen=True, slots=True)
class DiskKind:
    """A kind of disk of which a node can have a limited number."""

    plugin: str
    source: str  # the field of volumes
    identity: str  # its field that identifies the disk
    resource: str
    provisioner: str
    limit: int


DISK_KINDS: Final = {
    one.plugin: one
    for one in (
        DiskKind("EBSLimits", "awsElasticBlockStore", "volumeID", "aws-ebs", "aws-ebs", 39),
        DiskKind("GCEPDLimits", "gcePersistentDisk", "pdName", "gce-pd", "gce-pd", 16),
        DiskKind("AzureDiskLimits", "azureDisk", "diskName", "azure-disk", "azure-disk", 16),
        DiskKind("CinderLimits", "cinder", "volumeID", "cinder", "cinder", 256),
    )
}
# Instances of this kind can attach fewer disks.
_NITRO: Final = re.compile(r"^[cmr]5.*|t3|z1d")
_NITRO_LIMIT: Final = 25


class _DiskLimitFilter(Filter):
    of_node_only = False

    def __init__(self, kind: DiskKind, pod: PodFacts, around: SchedulingContext) -> None:
        self._kind, self._objects, self._names = kind, around.volumes, around.cluster.names
        self._wanted = self._disks(pod)

    def check(self, node: NodeState) -> Failure | None:
        if not self._wanted or self._is_migrated(node):
            return None
        held = {disk for pod in node.pods.values() for disk in self._disks(pod)}
        limit = node.allocatable.get(_ATTACHABLE + self._kind.resource, self._limit(node))
        return Failure(self._kind.plugin, (_TOO_MANY,)) if len(held | self._wanted) > limit else None

    def _disks(self, pod: PodFacts) -> set[str]:
        source, identity = self._kind.source, self._kind.identity
        found = {one[source][identity] for one in pod.shape.volumes if source in one}
        for name, _ in claim_names(pod):
            claim = self._objects.claim(pod.namespace, name)
            if claim is None:
                continue
            volume = self._objects.volume(claim["spec"].get("volumeName", ""))
            if volume is None:
                if self._is_provisioned(claim):
                    found.add(f"{pod.namespace}/{name}")
            elif source in volume["spec"]:
                found.add(volume["spec"][source][identity])
        return found

    def _is_provisioned(self, claim: Object) -> bool:
        made = self._objects.storage_class(claim["spec"].get("storageClassName", ""))
        return made is not None and made.get("provisioner") == self._names.key(self._kind.provisioner)

    def _is_migrated(self, node: NodeState) -> bool:
        return self._names.key(self._kind.provisioner) in migrated_plugins(self._objects, node)

    def _limit(self, node: NodeState) -> int:
        if self._kind.plugin == "EBSLimits":
            keys = self._names.key("instance-type", "beta"), self._names.key("instance-type", "node")
            if any(_NITRO.search(node.labels.get(key, "")) for key in keys):
                return _NITRO_LIMIT
        return self._kind.limit


def migrated_plugins(objects: VolumeObjects, node: NodeState) -> frozenset[str]:
    """The in-tree plugins whose volumes a CSI driver serves on the node."""
    csi_node = objects.csi_nodes.get("", node.name)
    if csi_node is None:
        return frozenset()
    annotations = csi_node["metadata"].get("annotations", {})
    return frozenset(annotations.get(objects.names.key("migrated-plugins", "storage.alpha"), "").split(","))


class DiskLimits(Plugin):
    filters = True
    wakes = frozenset([NODE_ADD, POD_DELETE])

    def __init__(self, kind: DiskKind) -> None:
        self.name, self._kind = kind.plugin, kind

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        if not pod.shape.volumes:
            return Prepared()
        return Prepared(_DiskLimitFilter(self._kind, pod, around))


class _CsiLimitFilter(Filter):
    of_node_only = False

    def __init__(self, pod: PodFacts, around: SchedulingContext) -> None:
        self._objects = around.volumes
        self._wanted = self._attached(pod)

    def check(self, node: NodeState) -> Failure | None:
        limits = self._limits(node) if self._wanted else {}
        if not limits:
            return None
        held: dict[str, str] = {}
        for pod in node.pods.values():
            held |= self._attached(pod)
        added = {handle: driver for handle, driver in self._wanted.items() if handle not in held}
        for driver in set(added.values()):
            limit = limits.get(driver)
            number = sum(one == driver for one in (*held.values(), *added.values()))
            if limit is not None and number > limit:
                return Failure("NodeVolumeLimits", (_TOO_MANY,))
        return None

    def _attached(self, pod: PodFacts) -> dict[str, str]:
        """The drivers of the pod's volumes, by the handles of these."""
        found = {}
        for name, _ in claim_names(pod):
            claim = self._objects.claim(pod.namespace, name)
            if claim is None:
                continue
            driver, handle = self._driver(claim)
            if driver and handle:
                found[f"{driver}/{handle}"] = attach_limit_key(driver)
        return found

    def _driver(self, claim: Object) -> tuple[str, str]:
        volume = self._objects.volume(claim["spec"].get("volumeName", ""))
        if volume is not None:
            source = volume["spec"].get("csi", {})
            return source.get("driver", ""), source.get("volumeHandle", "")
        made = self._objects.storage_class(self._objects.class_of(claim))
        if made is None:
            return "", ""
        provisioner: str = made.get("provisioner", "")
        if provisioner.startswith(self._objects.names.key("")):
            return "", ""
        return provisioner, f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"

    def _limits(self, node: NodeState) -> Mapping[str, int]:
        limits = {name: value for name, value in node.allocatable.items() if name.startswith(_ATTACHABLE)}
        csi_node = self._objects.csi_nodes.get("", node.name)
        for driver in (csi_node or {}).get("spec", {}).get("drivers", ()):
            number = driver.get("allocatable", {}).get("count")
            if number is not None:
                limits[attach_limit_key(driver["name"])] = number
        return limits


def attach_limit_key(driver: str) -> str:
    """The resource that limits the volumes of a driver; long names are cut and hashed."""
    prefix = f"{_ATTACHABLE}csi-"
    if len(prefix) + len(driver) < _LONGEST_RESOURCE:
        return prefix + driver
    return prefix + driver[:23] + hashlib.sha1(driver.encode(), usedforsecurity=False).hexdigest()[:16]


class NodeVolumeLimits(Plugin):
    name, filters = "NodeVolumeLimits", True
    wakes = frozenset([CSI_NODE_ADD, POD_DELETE])

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        return Prepared(_CsiLimitFilter(pod, around)) if claim_names(pod) else Prepared()
