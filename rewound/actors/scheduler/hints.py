"""Which changes may help a pod, by the plugin that rejected it: the queueing hints of v1.32 and later.

Before, a plugin named the kinds of changes only (`Plugin.wakes`). A hint also looks at the object before and after the
change, so that a pod is tried again only if that concerns it. Pods are passed as `PodFacts`, other objects as they are
stored. A plugin without hints here is helped by every change that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.scheduler.device_objects import DeviceObjects
from rewound.actors.scheduler.dynamic_resources import DEVICE_CLAIM, DEVICE_CLASS, DEVICE_SLICE
from rewound.actors.scheduler.plugins import (
    NODE_ADD,
    NODE_ALLOCATABLE,
    NODE_DECLARES,
    NODE_DELETE,
    NODE_LABELS,
    NODE_TAINTS,
    POD_ADD,
    POD_ASKS,
    POD_DELETE,
    POD_LABELS,
    POD_SCALE_DOWN,
    POD_TOLERATIONS,
    Plugin,
)
from rewound.actors.scheduler.pods import PODS, Amounts, PodFacts, Shapes, Term
from rewound.actors.scheduler.spread import HARD, Constraint, own_constraints
from rewound.actors.scheduler.volumes import (
    CAPACITY_ADD,
    CAPACITY_UPDATE,
    CLAIM_ADD,
    CLAIM_UPDATE,
    CLASS_ADD,
    CLASS_UPDATE,
    CSI_NODE_ADD,
    CSI_NODE_UPDATE,
    VOLUME_ADD,
    VOLUME_UPDATE,
    claim_names,
    size_limit,
    zones_of,
)
from rewound.actors.selectors.nodes import NO_EXECUTE, NO_SCHEDULE, tolerates, untolerated


@dataclass(frozen=True, slots=True)
class Change:
    kind: str
    old: Any  # None: it was added
    new: Any  # None: it was deleted
    # What a node offered before and offers now, if that changed.
    before: Amounts = field(default_factory=dict)
    after: Amounts = field(default_factory=dict)


class Hints:
    def __init__(
        self,
        names: Names,
        features: frozenset[str],
        shapes: Shapes,
        plugins: Sequence[Plugin],
        devices: DeviceObjects | None = None,
    ) -> None:
        self._names, self._features, self._shapes, self._devices = names, features, shapes, devices
        self._cordon = {"key": names.key("unschedulable", "node"), "effect": NO_SCHEDULE}
        own: dict[str, dict[str, Callable[[PodFacts, Change], bool]]] = {
            "NodeUnschedulable": {
                NODE_ADD: self._uncordoned,
                NODE_TAINTS: self._uncordoned,
                POD_TOLERATIONS: lambda pod, change: _is_itself(pod, change) and self._tolerates_cordon(pod),
            },
            "NodeName": {NODE_ADD: _always},
            "TaintToleration": {NODE_ADD: _untainted, NODE_TAINTS: _untainted, POD_TOLERATIONS: _is_itself},
            "NodeAffinity": {NODE_ADD: _attractive, NODE_LABELS: _attractive},
            "NodePorts": {POD_DELETE: _frees_ports, NODE_ADD: _always},
            "NodeResourcesFit": {
                POD_DELETE: _always,
                POD_SCALE_DOWN: _frees_resources,
                NODE_ADD: self._is_large_enough,
                NODE_ALLOCATABLE: self._has_grown,
            },
            "VolumeRestrictions": {POD_DELETE: _frees_volumes, NODE_ADD: _always, CLAIM_ADD: _is_own_claim},
            "NodeVolumeLimits": {
                CSI_NODE_ADD: _always,
                CSI_NODE_UPDATE: _takes_more_volumes,
                POD_DELETE: lambda _, change: bool(claim_names(change.old)),
                CLAIM_ADD: _is_own_claim,
            },
            "VolumeBinding": {
                CLASS_ADD: _always,
                CLASS_UPDATE: _differs_in("allowedTopologies"),
                CLAIM_ADD: _is_own_claim,
                CLAIM_UPDATE: _is_own_claim,
                VOLUME_ADD: _always,
                VOLUME_UPDATE: _always,
                NODE_ADD: _always,
                NODE_LABELS: _always,
                CSI_NODE_ADD: _always,
                CSI_NODE_UPDATE: self._has_migrated,
                CAPACITY_ADD: _always,
                CAPACITY_UPDATE: lambda _, change: size_limit(change.new) > size_limit(change.old),
            },
            "VolumeZone": {
                CLASS_ADD: lambda _, change: change.new.get("volumeBindingMode") == "WaitForFirstConsumer",
                NODE_ADD: _always,
                NODE_LABELS: _always,
                CLAIM_ADD: _is_own_claim,
                CLAIM_UPDATE: _is_own_claim,
                VOLUME_ADD: _always,
                VOLUME_UPDATE: lambda _, change: zones_of(change.old, names) != zones_of(change.new, names),
            },
            "NodeDeclaredFeatures": {NODE_ADD: _always, NODE_DECLARES: _always},
            "PodTopologySpread": {
                POD_ADD: self._changes_spread,
                POD_LABELS: self._changes_spread,
                POD_TOLERATIONS: self._changes_spread,
                POD_DELETE: self._changes_spread,
                NODE_ADD: self._changes_domains,
                NODE_DELETE: self._changes_domains,
                NODE_LABELS: self._changes_domains,
                NODE_TAINTS: self._changes_domains,
            },
            "InterPodAffinity": {
                POD_ADD: _changes_affinity,
                POD_LABELS: _changes_affinity,
                POD_DELETE: _changes_affinity,
                NODE_ADD: _changes_topology,
                NODE_LABELS: _changes_topology,
            },
        }
        # Kubernetes lets every plugin that looks at new nodes look at all changes of taints too.
        self._table: Mapping[str, Mapping[str, Callable[[PodFacts, Change], bool]]] = {
            name: {NODE_TAINTS: _always, **hints} if NODE_ADD in hints else hints
            for name, hints in own.items()
        }
        self.wakes = self._wakes(plugins)  # the plugins that each kind of change may help

    def _wakes(self, plugins: Sequence[Plugin]) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for plugin in plugins:
            of_devices = plugin.wakes & {DEVICE_CLAIM, DEVICE_CLASS, DEVICE_SLICE}
            of_nodes = {NODE_TAINTS} if NODE_ADD in plugin.wakes else set()
            for kind in (POD_ASKS, *of_devices, *self._table.get(plugin.name, plugin.wakes | of_nodes)):
                found.setdefault(kind, set()).add(plugin.name)
        return {kind: frozenset(names) for kind, names in found.items()}

    def change(self, kind: str, old: Any, new: Any) -> Change:
        if kind not in (NODE_ADD, NODE_ALLOCATABLE):
            return Change(kind, old, new)
        before, after = (
            {} if one is None else self._shapes.amounts(one.get("status", {}).get("allocatable", {}))
            for one in (old, new)
        )
        return Change(kind, old, new, before, after)

    def helps(self, change: Change, pod: PodFacts, plugins: frozenset[str]) -> bool:
        """Whether a change may help a pod that these plugins rejected; if none did, any may."""
        return not plugins or any(self._helps(change, pod, one) for one in plugins)

    def _helps(self, change: Change, pod: PodFacts, plugin: str) -> bool:
        hints = self._table.get(plugin)
        if hints is None:
            return plugin in self.wakes.get(change.kind, ())
        hint = hints.get(change.kind)
        try:
            return hint is not None and hint(pod, change)
        except Exception:
            return True  # the decision finds what is wrong too, and reports it

    def _tolerates_cordon(self, pod: PodFacts) -> bool:
        return any(tolerates(one, self._cordon) for one in pod.spec.get("tolerations", ()))

    def _uncordoned(self, _: PodFacts, change: Change) -> bool:
        was = change.old is None or change.old.get("spec", {}).get("unschedulable", False)
        return bool(was and not change.new.get("spec", {}).get("unschedulable", False))

    def _is_large_enough(self, pod: PodFacts, change: Change) -> bool:
        requests = pod.shape.requests
        elsewhere = () if self._devices is None else self._devices.delegated(requests)
        return change.after.get(PODS, 0) > 0 and all(
            value <= change.after.get(name, 0) for name, value in requests.items() if name not in elsewhere
        )

    def _has_grown(self, pod: PodFacts, change: Change) -> bool:
        wanted = (PODS, *(name for name, value in pod.shape.requests.items() if value))
        has_more = any(change.after.get(name, 0) > change.before.get(name, 0) for name in wanted)
        return has_more and self._is_large_enough(pod, change)

    def _has_migrated(self, _: PodFacts, change: Change) -> bool:
        key = self._names.key("migrated-plugins", "storage.alpha")
        before, after = (one["metadata"].get("annotations", {}).get(key) for one in (change.old, change.new))
        return bool(before != after)

    def _constraints(self, pod: PodFacts) -> list[Constraint] | None:
        """None: it has those of its profile."""
        if not pod.spec.get("topologySpreadConstraints"):
            return None
        return own_constraints(pod, HARD, self._features)

    def _changes_spread(self, pod: PodFacts, change: Change) -> bool:
        if not all(_is_spread_with(one, pod) for one in (change.old, change.new) if one is not None):
            return False
        constraints = self._constraints(pod)
        if constraints is None:
            return True
        if change.old is None or change.new is None:
            labels = (change.new or change.old).labels
            return any(one.selector.matches(labels) for one in constraints)
        is_tolerant = _is_itself(pod, change) and change.kind == POD_TOLERATIONS
        if is_tolerant and any(one.honors_taints for one in constraints):
            return True
        return any(
            one.selector.matches(change.old.labels) != one.selector.matches(change.new.labels)
            for one in constraints
        )

    def _changes_domains(self, pod: PodFacts, change: Change) -> bool:
        constraints = self._constraints(pod)
        if constraints is None:
            return True
        keys = [one.topology_key for one in constraints]
        before, after = (None if one is None else _values(one, keys) for one in (change.old, change.new))
        if before is None or after is None:
            return None not in ((after or ()) if before is None else before)
        if (None in before) != (None in after):
            return True
        taints = (one.get("spec", {}).get("taints") for one in (change.old, change.new))
        return None not in after and (before != after or len({repr(one) for one in taints}) > 1)


def _always(_: PodFacts, __: Change) -> bool:
    return True


def _is_itself(pod: PodFacts, change: Change) -> bool:
    return bool(change.old is not None and change.new is not None and change.new.uid == pod.uid)


def _differs_in(field: str) -> Callable[[PodFacts, Change], bool]:
    return lambda _, change: change.old.get(field) != change.new.get(field)


def _untainted(pod: PodFacts, change: Change) -> bool:
    return (change.old is None or _is_tainted(pod, change.old)) and not _is_tainted(pod, change.new)


def _is_tainted(pod: PodFacts, node: Object) -> bool:
    taints = node.get("spec", {}).get("taints", ())
    return untolerated(taints, pod.spec.get("tolerations", ()), (NO_SCHEDULE, NO_EXECUTE)) is not None


def _attractive(pod: PodFacts, change: Change) -> bool:
    required = pod.node_requirement
    after, before = (
        one is not None and required.matches(one["metadata"]["name"], one["metadata"].get("labels", {}))
        for one in (change.new, change.old)
    )
    return after and not before


def _frees_ports(pod: PodFacts, change: Change) -> bool:
    return any(
        held.port == one.port
        and held.protocol == one.protocol
        and (held.address == one.address or "0.0.0.0" in (held.address, one.address))
        for held in change.old.shape.ports
        for one in pod.shape.ports
    )


def _frees_resources(pod: PodFacts, change: Change) -> bool:
    if change.new.uid == pod.uid:
        return True
    before, after = change.old.shape.requests, change.new.shape.requests
    return any(
        value and before.get(name, 0) > after.get(name, 0) for name, value in pod.shape.requests.items()
    )


def _frees_volumes(pod: PodFacts, change: Change) -> bool:
    if change.old.namespace != pod.namespace:
        return False
    if pod.shape.disks.conflict_with(change.old.shape.disks):
        return True
    own, theirs = (
        {name for name, ephemeral in claim_names(one) if not ephemeral} for one in (pod, change.old)
    )
    return not own.isdisjoint(theirs)


def _is_own_claim(pod: PodFacts, change: Change) -> bool:
    metadata = change.new["metadata"]
    return metadata["namespace"] == pod.namespace and metadata["name"] in dict(claim_names(pod))


def _takes_more_volumes(_: PodFacts, change: Change) -> bool:
    before, after = (
        {
            driver["name"]: driver.get("allocatable", {}).get("count", 0)
            for driver in one["spec"].get("drivers") or ()
        }
        for one in (change.old, change.new)
    )
    return any(number > before.get(name, 0) for name, number in after.items())


def _is_spread_with(other: PodFacts, pod: PodFacts) -> bool:
    return other.uid == pod.uid or bool(other.spec.get("nodeName") and other.namespace == pod.namespace)


def _values(node: Object, keys: Sequence[str]) -> tuple[str | None, ...]:
    labels = node["metadata"].get("labels", {})
    return tuple(labels.get(key) for key in keys)


def _selects_all(terms: Sequence[Term], pod: PodFacts) -> bool:
    """Namespaces are compared by name only: hints do not look up their labels."""
    return bool(terms) and all(one.matches(pod.namespace, pod.labels, _NO_LABELS) for one in terms)


_NO_LABELS: Final[Mapping[str, str]] = {}


def _changes_affinity(pod: PodFacts, change: Change) -> bool:
    if _is_itself(pod, change):
        return True
    near, away = pod.shape.required_affinity, pod.shape.required_anti_affinity
    if change.old is None:
        return _selects_all(near, change.new)
    if change.new is None:
        theirs = change.old.shape.required_anti_affinity
        return _selects_all(away, change.old) or _selects_all(theirs, pod)
    comes_near = _selects_all(near, change.new) and not _selects_all(near, change.old)
    return comes_near or (_selects_all(away, change.old) and not _selects_all(away, change.new))


def _changes_topology(pod: PodFacts, change: Change) -> bool:
    near, away = (
        [one.topology_key for one in terms]
        for terms in (pod.shape.required_affinity, pod.shape.required_anti_affinity)
    )
    after = _values(change.new, near)
    if change.old is None:
        return any(value is not None for value in after) or bool(away)
    before = _values(change.old, near)
    if any(new is not None and new != old for old, new in zip(before, after, strict=True)):
        return True
    pairs = zip(_values(change.old, away), _values(change.new, away), strict=True)
    return any(old is not None and new != old for old, new in pairs)
