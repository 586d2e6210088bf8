"""Pods that are placed together: their groups, how many of each must find a node, and which pods wait for others.

A pod names its group in `spec.schedulingGroup` (a PodGroup, since 1.36) or `spec.workloadRef` (a group inside of a
Workload, 1.35). A group with the policy `gang` has a `minCount`: none of its pods is tried until so many exist, and
none is bound until so many have a node. Pods of other groups are tried together too, and bound as they fit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.scheduler.nodes import Cluster
from rewound.actors.scheduler.pods import PodFacts
from rewound.actors.scheduler.queue import Key
from rewound.actors.versions.features import GANG_SCHEDULING, GENERIC_WORKLOAD, POD_GROUPS
from rewound.actors.workloads.cache import CachedType

Group = tuple[
    str, ...
]  # namespace and name of the PodGroup; or those of the Workload, its group, and a replica

UNSCHEDULABLE: Final = "pod group is unschedulable"
FOR_OTHERS: Final = (
    f"{UNSCHEDULABLE}, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)
FOR_VICTIMS: Final = f"{UNSCHEDULABLE}, pod group is waiting for preemption to complete"


def groups_type(names: Names, features: frozenset[str]) -> str:
    """The type of the objects that say how many pods of a group are needed; "": groups mean nothing here."""
    if GENERIC_WORKLOAD not in features:
        return ""
    if POD_GROUPS in features:
        return f"podgroups.{names.group('scheduling')}"
    return f"workloads.v1alpha1.{names.group('scheduling')}" if GANG_SCHEDULING in features else ""


class PodGroups:
    def __init__(self, features: frozenset[str], objects: CachedType, cluster: Cluster) -> None:
        self._features, self._objects, self._cluster = features, objects, cluster
        self._members: dict[Group, dict[str, Key]] = {}  # pods that have not ended, by uid
        self._held: dict[Group, dict[Key, PodFacts]] = {}  # pods that wait for the group, or for others of it

    def of(self, pod: Object) -> Group | None:
        spec, namespace = pod["spec"], pod["metadata"]["namespace"]
        if POD_GROUPS in self._features:
            name = spec.get("schedulingGroup", {}).get("podGroupName")
            return (namespace, name) if name else None
        reference = spec.get("workloadRef")
        if not reference:
            return None
        return namespace, reference["name"], reference["podGroup"], reference.get("podGroupReplicaKey", "")

    def follow(self, old: Object | None, new: Object | None) -> None:
        """A pod has changed; None: it did not exist, or has ended."""
        before, after = (None if one is None else self.of(one) for one in (old, new))
        if old is not None and before is not None and before != after:
            members = self._members.get(before, {})
            members.pop(old["metadata"]["uid"], None)
            if not members:
                self._members.pop(before, None)
        if new is not None and after is not None:
            metadata = new["metadata"]
            self._members.setdefault(after, {})[metadata["uid"]] = metadata["namespace"], metadata["name"]

    def members(self, group: Group) -> Collection[Key]:
        return self._members.get(group, {}).values()

    def placed(self, group: Group) -> int:
        """How many pods have a node, or are about to get one."""
        return sum(self._cluster.node_of(uid) is not None for uid in self._members.get(group, ()))

    def minimum(self, group: Group) -> int | None:
        """How many pods must have a node before any is bound; None: the group does not exist (yet)."""
        if GANG_SCHEDULING not in self._features:
            return 0
        policy = self._policy(group)
        return None if policy is None else policy.get("gang", {}).get("minCount", 0)

    def _policy(self, group: Group) -> Object | None:
        stored = self._objects.get(group[0], group[1])
        if stored is None:
            return None
        if POD_GROUPS in self._features:
            policy: Object = stored["spec"]["schedulingPolicy"]
            return policy
        return next((one["policy"] for one in stored["spec"]["podGroups"] if one["name"] == group[2]), None)

    def is_complete(self, group: Group) -> bool:
        """Whether its pods may be tried."""
        minimum = self.minimum(group)
        return minimum is not None and len(self._members.get(group, ())) >= minimum

    def hold(self, group: Group, pod: PodFacts) -> None:
        self._held.setdefault(group, {})[pod.namespace, pod.name] = pod

    def drop(self, group: Group, pod: Object) -> None:
        """The pod waits for nothing any more."""
        held = self._held.get(group, {})
        held.pop((pod["metadata"]["namespace"], pod["metadata"]["name"]), None)
        if not held:
            self._held.pop(group, None)

    def take_held(self, group: Group) -> Iterable[PodFacts]:
        """The pods that may be tried now."""
        return self._held.pop(group).values() if group in self._held and self.is_complete(group) else ()

    def named(self, stored: Object) -> list[Group]:
        """The groups of an object for which pods wait."""
        key = stored["metadata"]["namespace"], stored["metadata"]["name"]
        return [group for group in self._held if group[:2] == key]


def condition_of(stored: Object, status: str, reason: str, message: str, now: str) -> Object | None:
    """The condition of a PodGroup after a decision; None if nothing changes. A group that was placed stays so."""
    conditions = stored.get("status", {}).get("conditions", ())
    before: Object = next((one for one in conditions if one["type"] == "PodGroupScheduled"), {})
    if before.get("status") == "True" and status != "True":
        return None
    changed = {
        "type": "PodGroupScheduled",
        "status": status,
        "observedGeneration": stored["metadata"].get("generation", 0),
        "lastTransitionTime": before["lastTransitionTime"] if before.get("status") == status else now,
        "reason": reason,
        "message": message,
    }
    if not changed["observedGeneration"]:
        del changed["observedGeneration"]
    return None if changed == before else changed
