"""StatefulSets: pods with stable names and claims, created and replaced in the order of their ordinals.

`plan_of` decides what a set needs now, from the set, its two revisions and its pods at one moment, and computes its
status; the controller then carries it out. A plan has three phases of at most `BURST` steps, which follow one another
unless a write fails: create or repair replicas, delete the pods beyond `replicas` (the condemned), delete one pod of an
old revision.

An ordered set (OrderedReady) does one thing at a time: it stops at the first pod that is not yet ready and available. A
parallel set does not wait for other pods, except between the pods that an update replaces.

Status is counted from the pods that the plan was based on: a pod that it creates counts only in the next one. v1.25
counts like this, and it matters: a set with one replica completes its update at the moment when it creates the new pod.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from rewound.actors.controllers.client import batch_of, run_concurrently
from rewound.actors.errors import AlreadyExists, RequestError
from rewound.actors.golang.json import dumps
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.workloads import number_in
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.names import Names
from rewound.actors.runtime.steps import Steps, chosen, parts_of
from rewound.actors.runtime.steps import in_order as sorted_in_turns
from rewound.actors.runtime.turns import in_turns
from rewound.actors.versions.features import (
    AVAILABLE_FIRST,
    CAPITAL_VERBS,
    CONTROLLED_CLAIMS,
    INDEX_LABELS,
    MISSING_CLAIMS,
    QUIET_REPLACEMENT,
    SEMANTIC_REVISIONS,
    TERMINATED_REPLACEMENT,
    WHOLE_UPDATES,
)
from rewound.actors.workloads.cache import Key, controller_of, key_of
from rewound.actors.workloads.controller import CHANGED, Pace, Parts, WorkloadController
from rewound.actors.workloads.pods import (
    Claims,
    available_in,
    copied,
    is_ready,
    is_terminating,
    owner_reference,
    pod_from_template,
    stored_status,
)
from rewound.actors.workloads.revisions import (
    REVISION_LABEL,
    holds,
    in_order,
    new_revision,
    restored,
    revision_name,
    snapshot,
    snapshot_hash,
)

_MEMBER: Final = re.compile("(.*)-([0-9]+)")
_LARGEST_ORDINAL: Final = 2**31 - 1
_COUNTS: Final = ("replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas")
_COMPARED: Final = (*_COUNTS, "currentRevision", "updateRevision")
BURST: Final = 500  # steps of one phase of a pass, as v1.25 has it for ReplicaSets


def ordinals_of(set_: Object) -> range:
    """The ordinals of the pods that a set is to have."""
    start = (set_["spec"].get("ordinals") or {}).get("start", 0)
    return range(start, start + set_["spec"].get("replicas", 1))


def member_of(pod: Object) -> tuple[str, int]:
    """The name of the set in a pod's name, and its ordinal; -1: it has none."""
    found = _MEMBER.fullmatch(pod["metadata"]["name"])
    if found is None:
        return "", -1
    ordinal = int(found[2])
    return found[1], ordinal if ordinal <= _LARGEST_ORDINAL else -1


def is_created(pod: Object) -> bool:
    return bool(pod["status"].get("phase"))


def is_running_and_ready(pod: Object) -> bool:
    return pod["status"].get("phase") == "Running" and is_ready(pod)


def is_healthy(pod: Object) -> bool:
    return is_running_and_ready(pod) and not is_terminating(pod)


def revision_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))


def claim_name(template: Object, set_: Object, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{set_['metadata']['name']}-{ordinal}"


ClaimOf = Callable[[str, str], Object | None]  # by namespace and name


@dataclass(frozen=True, slots=True)
class Member:
    """How the pods of a set are created, what makes a pod one of them, and who owns its claims."""

    sets: Definition
    pods: Definition
    names: Names
    claim_of: ClaimOf
    features: frozenset[str] = frozenset()

    @property
    def _name_label(self) -> str:
        return self.names.key("pod-name", "statefulset")

    def new_pod(self, set_: Object, ordinal: int, revision: str) -> Object:
        spec = set_["spec"]
        pod = pod_from_template(spec["template"], self.sets, set_)
        name = f"{set_['metadata']['name']}-{ordinal}"
        labels = {**(pod["metadata"].get("labels") or {}), self._name_label: name, REVISION_LABEL: revision}
        if INDEX_LABELS in self.features:
            labels[self.names.key("pod-index", "apps")] = str(ordinal)
        pod["metadata"] |= {"name": name, "namespace": set_["metadata"]["namespace"], "labels": labels}
        pod["spec"]["hostname"] = name
        if spec.get("serviceName"):
            pod["spec"]["subdomain"] = spec["serviceName"]
        _mount_claims(set_, pod, ordinal)
        return pod

    def repaired(self, set_: Object, pod: Object) -> Object | None:
        """The pod with the identity and the volumes of a member; None: it has them."""
        name, ordinal = pod["metadata"]["name"], member_of(pod)[1]
        is_identified = (pod["metadata"].get("labels") or {}).get(self._name_label) == name
        if is_identified and _has_claims(set_, pod, ordinal):
            return None
        changed = copied(pod)
        changed["metadata"].setdefault("labels", {})[self._name_label] = name
        if not _has_claims(set_, pod, ordinal):
            _mount_claims(set_, changed, ordinal)
        return changed

    def claims_to_own(self, set_: Object, pod: Object) -> tuple[Object, ...]:
        """The claims of a pod whose owners the retention policy of the set changes, with their owners.

        A claim that is deleted with the set belongs to the set; one that is deleted when the set shrinks belongs to its
        pod, once that is condemned.
        """
        policy = retention_of(set_)
        if policy is None:
            return ()
        is_condemned = member_of(pod)[1] not in ordinals_of(set_)
        goes_with_pod = policy["whenScaled"] == "Delete" and is_condemned
        goes_with_set = policy["whenDeleted"] == "Delete" and not goes_with_pod
        changed = []
        for claim in self._claims(set_, pod):
            before: list[Object] = claim["metadata"].get("ownerReferences") or []
            if CONTROLLED_CLAIMS in self.features:
                references = self._controlled(before, set_, pod, goes_with_set, goes_with_pod)
            else:
                references = _with_owner(before, self.sets, set_, goes_with_set)
                references = _with_owner(references, self.pods, pod, goes_with_pod)
            if references != before:
                changed.append({**claim, "metadata": {**claim["metadata"], "ownerReferences": references}})
        return tuple(changed)

    def _controlled(
        self, before: list[Object], set_: Object, pod: Object, goes_with_set: bool, goes_with_pod: bool
    ) -> list[Object]:
        """The owners of a claim, of which the set or the pod is the controller, unless another object is."""
        owners = ((self.sets, set_, goes_with_set), (self.pods, pod, goes_with_pod))
        others, others_control = [], False
        for one in before:
            owner = next((owner for kind, owner, _ in owners if _names(one, kind, owner)), None)
            if owner is None:
                others.append(one)
            if (owner is None and one.get("controller")) or (owner is not None and one["uid"] != _uid(owner)):
                others_control = True
        if others_control:
            return others
        return [*others, *(owner_reference(kind, owner) for kind, owner, wanted in owners if wanted)]

    def waits_for_claims(self, set_: Object, pod: Object) -> bool:
        """Whether a claim of a new pod is being deleted with a former pod of the same name."""
        policy = retention_of(set_)
        if policy is None or policy["whenScaled"] != "Delete":
            return False
        name = pod["metadata"]["name"]
        return any(
            reference["name"] == name
            for claim in self._claims(set_, pod)
            for reference in claim["metadata"].get("ownerReferences") or ()
        )

    def lacks_claims(self, set_: Object, pod: Object) -> bool:
        """Whether a pod waits for claims that somebody has deleted."""
        if MISSING_CLAIMS not in self.features or pod["status"].get("phase") != "Pending":
            return False
        return len(list(self._claims(set_, pod))) < len(set_["spec"].get("volumeClaimTemplates") or ())

    def _claims(self, set_: Object, pod: Object) -> Iterator[Object]:
        """The existing claims of a pod."""
        ordinal = member_of(pod)[1]
        for template in set_["spec"].get("volumeClaimTemplates") or ():
            claim = self.claim_of(set_["metadata"]["namespace"], claim_name(template, set_, ordinal))
            if claim is not None:
                yield claim


def retention_of(set_: Object) -> Object | None:
    """The retention policy; None: the feature is off, and claims stay."""
    policy: Object | None = set_["spec"].get("persistentVolumeClaimRetentionPolicy")
    return policy


def _names(reference: Object, definition: Definition, owner: Object) -> bool:
    """Whether an owner reference has the kind and the name of an object."""
    wanted = definition.api_version, definition.kind, owner["metadata"]["name"]
    return (reference["apiVersion"], reference["kind"], reference["name"]) == wanted


def _uid(owner: Object) -> str | None:
    uid: str | None = owner["metadata"].get("uid")
    return uid


def _with_owner(
    references: list[Object], definition: Definition, owner: Object, wanted: bool
) -> list[Object]:
    name, uid = owner["metadata"]["name"], owner["metadata"].get("uid")
    if not wanted:
        return [one for one in references if one["uid"] != uid]
    if any(one["uid"] == uid for one in references):
        return references
    added = {"apiVersion": definition.api_version, "kind": definition.kind, "name": name, "uid": uid}
    return [*references, added]


def new_claims(set_: Object, ordinal: int) -> list[Object]:
    """The claims of a pod, from the templates of the set."""
    claims = []
    for template in set_["spec"].get("volumeClaimTemplates") or ():
        claim = {
            part: value for part, value in copied(template).items() if part not in ("kind", "apiVersion")
        }
        metadata = claim["metadata"]
        metadata["name"] = claim_name(template, set_, ordinal)
        metadata["namespace"] = set_["metadata"]["namespace"]
        if labels := set_["spec"]["selector"].get("matchLabels"):
            metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
        claims.append(claim)
    return claims


def _mount_claims(set_: Object, pod: Object, ordinal: int) -> None:
    claimed: dict[str, Object] = {
        template["metadata"]["name"]: {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(template, set_, ordinal)},
        }
        for template in set_["spec"].get("volumeClaimTemplates") or ()
    }
    others = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in claimed]
    if claimed or others:
        pod["spec"]["volumes"] = [*claimed.values(), *others]


def _has_claims(set_: Object, pod: Object, ordinal: int) -> bool:
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for template in set_["spec"].get("volumeClaimTemplates") or ():
        claimed = volumes.get(template["metadata"]["name"], {}).get("persistentVolumeClaim") or {}
        if claimed.get("claimName") != claim_name(template, set_, ordinal):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Revisions:
    """The two revisions of a set, and the set at each of them."""

    current: str
    update: str
    current_set: Object
    update_set: Object
    collisions: int


@dataclass(frozen=True, slots=True)
class Step:
    """The writes for the pod of one ordinal, in this order.

    Give its claims owners, delete `deleted`, create the claims that `waiting` lacks, then create the pod (`creates`) or
    write `repaired`.
    """

    ordinal: int
    claims: tuple[Object, ...] = ()
    deleted: Object | None = None
    waiting: Object | None = None
    creates: bool = False
    repaired: Object | None = None
    ended: bool = False  # `deleted` has failed or succeeded


@dataclass(slots=True)
class Plan:
    status: Object
    replicas: list[Step] = field(default_factory=list)
    condemned: list[Step] = field(default_factory=list)
    outdated: list[Step] = field(default_factory=list)
    due: float | None = None  # seconds until the next ready pod is available
    is_partial: bool = False  # there is more to do than one pass does


class _Planner:
    """Plans one set; `pods` are those that belong to it.

    Its time and memory depend on the existing pods, never on the number of replicas, which users set: ordinals without
    a pod are found between those with one.
    """

    def __init__(
        self, member: Member, set_: Object, revisions: Revisions, pods: Sequence[Object], now: int
    ) -> None:
        self._member, self._set, self._revisions = member, set_, revisions
        self._min_ready = set_["spec"].get("minReadySeconds", 0)
        self._now = now
        self._ordered = set_["spec"].get("podManagementPolicy") != "Parallel"
        self._ordinals = ordinals_of(set_)
        self._pods = pods
        self._replicas: dict[int, Object] = {}  # by ordinal, in order; without those that are recreated
        self._condemned: list[Object] = []  # the highest ordinal first: it is deleted first
        self._plan = Plan({})

    def plan(self) -> Steps[Plan]:
        yield from self._sort()
        if not is_terminating(self._set):
            passed = (yield from self._plan_replicas()) and (yield from self._plan_condemned())
            if passed and self._set["spec"]["updateStrategy"].get("type") != "OnDelete":
                self._plan.outdated = yield from self._outdated()
        yield from self._count_pods()
        return self._plan

    def _sort(self) -> Steps[None]:
        by_ordinal: dict[int, Object] = {}
        for part in parts_of(self._pods):
            by_ordinal.update((member_of(pod)[1], pod) for pod in part)
            yield
        ordinals = yield from sorted_in_turns(by_ordinal, int)
        for some in parts_of(ordinals):
            for ordinal in some:
                if ordinal in self._ordinals:
                    self._replicas[ordinal] = by_ordinal[ordinal]
                else:
                    self._condemned.append(by_ordinal[ordinal])
            yield
        self._condemned.reverse()

    def _plan_replicas(self) -> Steps[bool]:
        """Whether nothing stops an ordered set, and one pass can do everything."""
        following = self._ordinals.start  # the ordinal after the last one
        for part in parts_of(self._replicas.items()):
            for ordinal, pod in part:
                if not self._create_missing(following, ordinal):
                    return False
                following = ordinal + 1
                self._add_step(self._replica_step(ordinal, pod))
                if self._ordered and not (is_healthy(pod) and self._is_available(pod)):
                    return False
                if self._is_full(self._plan.replicas):
                    return False
            yield
        return self._create_missing(following, self._ordinals.stop)

    def _create_missing(self, first: int, end: int) -> bool:
        """Plan the missing pods between two existing ones; False if nothing else may follow in this pass."""
        for ordinal in range(first, end):
            if self._is_full(self._plan.replicas):
                return False
            if not self._member.waits_for_claims(self._set, self._missing(ordinal)):
                self._add_step(Step(ordinal, creates=True))
            if self._ordered:
                return False
        return True

    def _add_step(self, step: Step | None) -> None:
        if step is not None:
            self._plan.replicas.append(step)

    def _is_full(self, steps: Sequence[Step]) -> bool:
        """Whether a pass has enough to do; another one follows."""
        if len(steps) < BURST:
            return False
        self._plan.is_partial = True
        return True

    def _replica_step(self, ordinal: int, pod: Object) -> Step | None:
        if self._has_ended(pod):
            return self._replacement(ordinal, pod)
        if not is_created(pod):
            if self._member.waits_for_claims(self._set, pod):
                return None
            return Step(ordinal, creates=True)
        waiting = pod if self._member.lacks_claims(self._set, pod) else None
        if self._ordered and not (is_healthy(pod) and self._is_available(pod)):
            return None if waiting is None else Step(ordinal, waiting=waiting)
        claims = self._member.claims_to_own(self._set, pod)
        repaired = self._member.repaired(self._set, pod)
        if claims or repaired is not None:
            return Step(ordinal, claims, waiting=waiting, repaired=repaired or pod)
        return None if waiting is None else Step(ordinal, waiting=waiting)

    def _has_ended(self, pod: Object) -> bool:
        phase = pod["status"].get("phase")
        return phase == "Failed" or (phase == "Succeeded" and TERMINATED_REPLACEMENT in self._member.features)

    def _replacement(self, ordinal: int, pod: Object) -> Step | None:
        """Delete a pod that has ended. Until 1.27 the same pass creates it again, later the one that misses it."""
        if QUIET_REPLACEMENT in self._member.features:
            return None if is_terminating(pod) else Step(ordinal, deleted=pod, ended=True)
        del self._replicas[ordinal]
        return Step(ordinal, deleted=pod, creates=True, ended=True)

    def _plan_condemned(self) -> Steps[bool]:
        steps = self._plan.condemned
        for part in parts_of(self._condemned):
            for pod in part:
                if claims := self._member.claims_to_own(self._set, pod):
                    steps.append(Step(member_of(pod)[1], claims))
                    if self._is_full(steps):
                        return False
            yield
        if self._ordered:
            return (yield from self._plan_last())
        for part in parts_of(self._condemned):
            for pod in part:
                if not is_terminating(pod):
                    steps.append(Step(member_of(pod)[1], deleted=pod))
                    if self._is_full(steps):
                        return False
            yield
        return True

    def _plan_last(self) -> Steps[bool]:
        """Plan to delete the last pod of an ordered set that has too many, if all its replicas are healthy."""
        if not self._condemned:
            return True
        pod = self._condemned[0]
        unhealthy = yield from chosen(self._condemned, lambda one: not self._is_up(one))
        is_working = is_running_and_ready(pod) and self._is_available(pod)
        # While a lower one of them is not healthy, only the first unhealthy one may be deleted.
        if not is_terminating(pod) and (is_working or (unhealthy and pod is unhealthy[-1])):
            self._plan.condemned.append(Step(member_of(pod)[1], deleted=pod))
        return False

    def _outdated(self) -> Steps[list[Step]]:
        """The pod with the highest ordinal that an update has to replace, unless a higher one is not healthy.

        With maxUnavailable, which needs a feature gate, as many as that allows.
        """
        rolling = self._set["spec"]["updateStrategy"].get("rollingUpdate") or {}
        limit, first = rolling.get("maxUnavailable"), self._ordinals.start + rolling.get("partition", 0)
        room = 1
        if limit is not None:
            unhealthy = yield from chosen(self._replicas.values(), lambda pod: not self._is_up(pod))
            missing = len(self._ordinals) - len(self._replicas)
            room = min(self._share(limit) - len(unhealthy) - missing, BURST)
        found: list[Step] = []
        expected = self._ordinals.stop - 1
        for part in parts_of(reversed(self._replicas.items())):
            for ordinal, pod in part:
                if ordinal < first or len(found) >= room:
                    return found
                if limit is None and ordinal != expected:
                    return found  # a higher one is missing
                expected -= 1
                if self._is_old(pod):
                    found.append(Step(ordinal, deleted=pod))
                elif limit is None and not self._is_up(pod):
                    return found
            yield
        return found

    def _is_old(self, pod: Object) -> bool:
        return is_created(pod) and revision_of(pod) != self._revisions.update and not is_terminating(pod)

    def _share(self, limit: int | str) -> int:
        """At least one; a percentage of the replicas is rounded down."""
        number = number_in(limit) * len(self._ordinals) // 100 if isinstance(limit, str) else limit
        return max(number, 1)

    def _missing(self, ordinal: int) -> Object:
        """A placeholder for a missing pod; creating each of them would take long for a large set."""
        return {"metadata": {"name": f"{self._set['metadata']['name']}-{ordinal}"}, "status": {}}

    def _is_up(self, pod: Object) -> bool:
        """Whether an update, or a scale down, need not wait for a pod."""
        return is_healthy(pod) and (AVAILABLE_FIRST not in self._member.features or self._is_available(pod))

    def _is_available(self, pod: Object) -> bool:
        return available_in(pod, self._min_ready, self._now) == 0

    def _count_pods(self) -> Steps[None]:
        counts = dict.fromkeys(_COUNTS, 0)
        for part in parts_of((*self._replicas.values(), *self._condemned)):
            for pod in part:
                if is_created(pod):
                    self._count_pod(counts, pod)
            yield
        self._plan.status = {
            "observedGeneration": self._set["metadata"].get("generation", 0),
            **counts,
            "currentRevision": self._revisions.current,
            "updateRevision": self._revisions.update,
            "collisionCount": self._revisions.collisions,
        }

    def _count_pod(self, counts: dict[str, int], pod: Object) -> None:
        counts["replicas"] += 1
        if is_running_and_ready(pod):
            counts["readyReplicas"] += 1
            due = available_in(pod, self._min_ready, self._now)
            counts["availableReplicas"] += due == 0
            if due:
                known = self._plan.due
                self._plan.due = due if known is None else min(known, due)
        if not is_terminating(pod):
            counts["currentReplicas"] += revision_of(pod) == self._revisions.current
            counts["updatedReplicas"] += revision_of(pod) == self._revisions.update


def plan_of(
    member: Member, set_: Object, revisions: Revisions, pods: Sequence[Object], now: int
) -> Steps[Plan]:
    return _Planner(member, set_, revisions, pods, now).plan()


def new_pod(member: Member, set_: Object, revisions: Revisions, ordinal: int) -> Object:
    """The pod of an ordinal, of the revision that it should have."""
    if _keeps_current(set_, ordinal):
        return member.new_pod(revisions.current_set, ordinal, revisions.current)
    return member.new_pod(revisions.update_set, ordinal, revisions.update)


def _keeps_current(set_: Object, ordinal: int) -> bool:
    strategy = set_["spec"]["updateStrategy"]
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        kept = rolling.get("partition", 0)
    else:
        kept = set_["status"].get("currentReplicas", 0) if strategy.get("type") == "RollingUpdate" else 0
    return bool(ordinal < ordinals_of(set_).start + kept)


def completed(set_: Object, status: Object, *, whole: bool) -> Object:
    """A status in which an update that replaced all pods is the current revision.

    With `whole`, these are as many as the set wants: pods that are being replaced at the moment are missing otherwise.
    """
    is_rolling = set_["spec"]["updateStrategy"].get("type") == "RollingUpdate"
    if whole and status["replicas"] != set_["spec"].get("replicas", 1):
        return status
    if is_rolling and status["updatedReplicas"] == status["readyReplicas"] == status["replicas"]:
        return {
            **status,
            "currentReplicas": status["updatedReplicas"],
            "currentRevision": status["updateRevision"],
        }
    return status


def _has_changed(old: Object, new: Object) -> bool:
    if new["observedGeneration"] > old.get("observedGeneration", 0):
        return True
    return any(old.get(part, type(new[part])()) != new[part] for part in _COMPARED)


class StatefulSets(WorkloadController):
    name, account = "statefulset", "statefulset-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._sets = self.keyed_by("statefulsets.apps")
        self._pods = self.dependents("pods", self._sets)
        self._revisions = parts.cache.collection("controllerrevisions.apps")
        self._claims = parts.cache.collection("persistentvolumeclaims")
        self._claims.listen(self._claim_changed)
        self._pace = Pace(self.queue)
        self._pod_claims = Claims(self.client, self._sets, self._pods)
        self._revision_claims = Claims(self.client, self._sets, self._revisions)
        self._member = Member(
            self._sets.definition,
            self._pods.definition,
            self.names,
            self._claims.get,
            self.release.features,
        )

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        """A pod whose claim was being deleted can be created now."""
        if old is not None and new is None:
            namespace, name = key_of(old)
            for set_ in self._sets.in_namespace(namespace):
                templates = set_["spec"].get("volumeClaimTemplates") or ()
                between = f"-{set_['metadata']['name']}-"
                if any(name.startswith(one["metadata"]["name"] + between) for one in templates):
                    self.queue.add(key_of(set_))

    async def reconcile(self, key: Key) -> None:
        if key[1] == CHANGED:
            await self.find_owners_of_changed(key[0])
            return
        set_ = self._sets.get(*key)
        if set_ is None:
            self._pace.forget(key)
            return
        if self._pace.is_too_soon(key, len(self._pods.controlled_by(set_["metadata"]["uid"]))):
            return
        if is_terminating(set_):
            await self._count(set_)
            return
        revisions = await self._own_revisions(set_)
        revised = await self._revise(set_, revisions)
        is_member = self._is_member_of(set_)
        pods = await self._pod_claims.claim(set_, set_["spec"]["selector"], is_member)
        current = self._sets.get(*key)
        if current is None or current["metadata"]["resourceVersion"] != set_["metadata"]["resourceVersion"]:
            return  # its key was added again
        plan = await in_turns(plan_of(self._member, set_, revised, pods, self.now()))
        try:
            await self._carry_out(set_, plan, revised)
        finally:
            await self._forget_revisions(set_, revisions, revised, pods)
        if plan.is_partial:
            self.queue.add(key)
        elif plan.due is not None:
            self.queue.add_after(key, plan.due)

    async def _count(self, set_: Object) -> None:
        """Write the status of a set that is being deleted. Its revisions are deleted, too, without new ones."""
        status, uid = set_["status"], set_["metadata"]["uid"]
        current, update = status.get("currentRevision", ""), status.get("updateRevision", "")
        revised = Revisions(current, update, set_, set_, status.get("collisionCount", 0))
        pods = tuple(self._pods.controlled_by(uid))
        plan = await in_turns(plan_of(self._member, set_, revised, pods, self.now()))
        await self._write_status(set_, plan.status)

    def _is_member_of(self, set_: Object) -> Callable[[Object], bool]:
        name = set_["metadata"]["name"]
        return lambda pod: member_of(pod)[0] == name

    async def _own_revisions(self, set_: Object) -> list[Object]:
        return in_order(await self._revision_claims.claim(set_, set_["spec"]["selector"], releases=False))

    async def _revise(self, set_: Object, revisions: list[Object]) -> Revisions:
        """The current and the update revision of the set."""
        collisions = set_["status"].get("collisionCount", 0)
        data, equal = await self.work_on(set_, _equal(set_, revisions))
        if equal is not None and equal is revisions[-1]:
            update = equal
        elif equal is not None:
            update = {**equal, "revision": revisions[-1]["revision"] + 1}
            await self.client.replace(self._revisions.definition, update)
        elif bool(revisions) and await self.work_on(set_, self._has_template(revisions[-1], set_, data)):
            update = revisions[-1]
        else:
            number = revisions[-1]["revision"] + 1 if revisions else 1
            update, collisions = await self._create_revision(set_, data, number, collisions)
        wanted = set_["status"].get("currentRevision")
        current = next((one for one in revisions if one["metadata"]["name"] == wanted), update)
        names = current["metadata"]["name"], update["metadata"]["name"]
        before, updated = await self.work_on(set_, self._restored(set_, current, update))
        return Revisions(*names, before, updated, collisions)

    def _restored(self, set_: Object, current: Object, update: Object) -> Steps[tuple[Object, Object]]:
        """The set as it is at the current and at the update revision."""
        updated = restored(self._sets.definition, set_, update)
        yield
        if current["metadata"]["name"] == update["metadata"]["name"]:
            return updated, updated
        return restored(self._sets.definition, set_, current), updated

    def _has_template(self, revision: Object, set_: Object, data: bytes) -> Steps[bool]:
        """Whether a revision has the template of the set, once it has the defaults of this version.

        An earlier version wrote it, with fewer defaults: without this, an upgrade would replace all pods.
        """
        if SEMANTIC_REVISIONS not in self.release.features:
            return False
        definition = self._sets.definition
        then = dumps(restored(definition, set_, revision))
        yield
        return snapshot(definition.schema.decode_json(then).object) == data

    async def _create_revision(
        self, set_: Object, data: bytes, number: int, collisions: int
    ) -> tuple[Object, int]:
        namespace = set_["metadata"]["namespace"]
        hashed = await self.work_on(set_, snapshot_hash(data, collisions))
        labels = {self.names.key("hash", "controller"): hashed}
        while True:
            name = revision_name(set_, hashed)
            new = new_revision(self._sets.definition, set_, data, number, labels, name)
            try:
                await self.client.create(self._revisions.definition, namespace, new)
            except AlreadyExists:
                existing = self._revisions.get(namespace, name)
                if existing is not None and holds(existing, data):
                    return existing, collisions
                collisions += 1
                hashed = await self.work_on(set_, snapshot_hash(data, collisions))
            else:
                return new, collisions

    async def _forget_revisions(
        self, set_: Object, revisions: list[Object], revised: Revisions, pods: Sequence[Object]
    ) -> None:
        """Delete the oldest revisions beyond revisionHistoryLimit that neither the set nor a pod uses."""
        limit = set_["spec"].get("revisionHistoryLimit", 10)
        if len(revisions) <= limit:
            return
        used = {revised.current, revised.update, *await in_turns(_revisions_of(pods))}
        unused = [one for one in revisions if one["metadata"]["name"] not in used]
        surplus = len(unused) - limit
        for one in unused[: max(surplus, 0)]:
            await self.client.delete(self._revisions.definition, *key_of(one), DeleteOptions())

    async def _carry_out(self, set_: Object, plan: Plan, revised: Revisions) -> None:
        status = plan.status
        try:
            await self._take_steps(set_, plan.replicas, revised)
            await self._take_steps(set_, plan.condemned, revised)
            for step in plan.outdated:
                status = {**status, "currentReplicas": max(status["currentReplicas"] - 1, 0)}
                await self._take_step(set_, step, revised)
        finally:
            whole = WHOLE_UPDATES in self.release.features
            await self._write_status(set_, completed(set_, status, whole=whole))

    async def _write_status(self, set_: Object, status: Object) -> None:
        if _has_changed(set_["status"], status):
            stored = stored_status(self._sets.definition, status)
            await self.client.replace(self._sets.definition, {**set_, "status": stored}, "status")

    async def _take_steps(self, set_: Object, steps: Sequence[Step], revised: Revisions) -> None:
        """One after the other, or for a parallel set in batches that double: the first that fails is the last."""
        parallel = set_["spec"].get("podManagementPolicy") == "Parallel"
        done, size = 0, 1
        at_once = batch_of(len(orjson.dumps(set_["spec"]))) if steps else 1
        while done < len(steps):
            batch = steps[done : done + size]
            errors = await run_concurrently(lambda step: self._take_step(set_, step, revised), batch, at_once)
            if errors:
                raise errors[0]
            done += len(batch)
            size = 2 * size if parallel else 1

    async def _take_step(self, set_: Object, step: Step, revised: Revisions) -> None:
        if self._is_outdated(set_, step):
            return
        if step.repaired is None:
            await self._own_claims(step.claims)
        if step.deleted is not None:
            await self._delete_pod(set_, step.deleted, ended=step.ended)
        if step.waiting is not None:
            await self._create_claims(set_, step.waiting["metadata"]["name"], step.ordinal)
            await self._own_claims(self._member.claims_to_own(set_, step.waiting))
        if step.creates:
            await self._create_pod(set_, new_pod(self._member, set_, revised, step.ordinal), step.ordinal)
        if step.repaired is not None:
            await self._repair_pod(revised.update_set, step.repaired, step.claims, step.ordinal)

    def _is_outdated(self, set_: Object, step: Step) -> bool:
        """Whether the pod was created or deleted since the plan was made, which takes a while if there are many."""
        if step.deleted is not None:
            current = self._pods.get(*key_of(step.deleted))
            return current is None or current["metadata"]["uid"] != step.deleted["metadata"]["uid"]
        if not step.creates:
            return False
        namespace, name = key_of(set_)
        current = self._pods.get(namespace, f"{name}-{step.ordinal}")
        owner = None if current is None else controller_of(current)
        return owner is not None and owner["uid"] == set_["metadata"]["uid"]

    async def _delete_pod(self, set_: Object, pod: Object, *, ended: bool) -> None:
        namespace, name = key_of(pod)
        if ended and QUIET_REPLACEMENT not in self.release.features:
            has_failed = pod["status"]["phase"] == "Failed"
            event_type, how = ("Warning", "failed") if has_failed else ("Normal", "terminated")
            title = f"{namespace}/{set_['metadata']['name']}"
            message = f"StatefulSet {title} is recreating {how} Pod {name}"
            self._event(set_, event_type, f"Recreating{how.title()}Pod", message)
        await self._reported(
            set_,
            "delete",
            name,
            lambda: self.client.delete(self._pods.definition, namespace, name, DeleteOptions()),
        )

    async def _create_pod(self, set_: Object, pod: Object, ordinal: int) -> None:
        namespace, name = key_of(pod)

        async def create() -> None:
            await self._create_claims(set_, name, ordinal)
            document = {"apiVersion": self._pods.definition.api_version, "kind": "Pod", **pod}
            decoded = await self.decoded(self._pods.definition, document)
            await self.client.create(self._pods.definition, namespace, decoded)
            await self._own_claims(self._member.claims_to_own(set_, pod))

        await self._reported(set_, "create", name, create)

    async def _own_claims(self, claims: Sequence[Object]) -> None:
        for claim in claims:
            await self.client.replace(self._claims.definition, claim)

    async def _repair_pod(self, set_: Object, pod: Object, claims: Sequence[Object], ordinal: int) -> None:
        async def repair() -> None:
            await self._create_claims(set_, pod["metadata"]["name"], ordinal)
            await self._own_claims(claims)
            await self.client.replace(self._pods.definition, pod)

        await self._reported(set_, "update", pod["metadata"]["name"], repair)

    async def _create_claims(self, set_: Object, pod_name: str, ordinal: int) -> None:
        errors = []
        for claim in new_claims(set_, ordinal):
            error = await self._create_claim(set_, pod_name, claim)
            if error:
                errors.append(error)
        if errors:
            raise ClaimsMissing(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")

    async def _create_claim(self, set_: Object, pod_name: str, claim: Object) -> str:
        """Returns why the pod cannot have the claim, "" if it can."""
        namespace, name = key_of(claim)
        existing = self._claims.get(namespace, name)
        if existing is not None:
            return f"pvc {name} is being deleted" if is_terminating(existing) else ""
        title, create = set_["metadata"]["name"], self._word("create")
        try:
            await self.client.create(self._claims.definition, namespace, claim)
        except AlreadyExists as error:
            return f"failed to create PVC {name}: {error}"
        except RequestError as error:
            message = f"{create} Claim {name} for Pod {pod_name} in StatefulSet {title} failed error: {error}"
            self._event(set_, "Warning", "FailedCreate", message)
            return f"failed to create PVC {name}: {error}"
        message = f"{create} Claim {name} Pod {pod_name} in StatefulSet {title} success"
        self._event(set_, "Normal", "SuccessfulCreate", message)
        return ""

    async def _reported(
        self, set_: Object, verb: str, pod_name: str, write: Callable[[], Awaitable[None]]
    ) -> None:
        what = f"{self._word(verb)} Pod {pod_name} in StatefulSet {set_['metadata']['name']}"
        try:
            await write()
        except RequestError as error:
            # The controller sees an existing pod in a moment.
            if not (verb == "create" and isinstance(error, AlreadyExists)):
                message = f"{what} failed error: {error}"
                self._event(set_, "Warning", f"Failed{verb.title()}", message)
            raise
        self._event(set_, "Normal", f"Successful{verb.title()}", f"{what} successful")

    def _word(self, verb: str) -> str:
        return verb.title() if CAPITAL_VERBS in self.release.features else verb

    def _event(self, set_: Object, event_type: str, reason: str, message: str) -> None:
        self.recorder.event(self._sets.definition, set_, event_type, reason, message)


def _equal(set_: Object, revisions: Sequence[Object]) -> Steps[tuple[bytes, Object | None]]:
    """The data of the revision of the current template, and the newest revision that holds them."""
    data = snapshot(set_)
    # The newest first: it nearly always matches, and comparing takes the bytes of a revision.
    for revision in reversed(revisions):
        yield
        if holds(revision, data):
            return data, revision
    return data, None


def _revisions_of(pods: Sequence[Object]) -> Steps[set[str]]:
    found: set[str] = set()
    for part in parts_of(pods):
        found.update(map(revision_of, part))
        yield
    return found


class ClaimsMissing(RequestError):
    """A pod cannot be created, because its claims cannot be."""

    def __init__(self, message: str) -> None:
        self.message = message
