"""ReplicaSets and ReplicationControllers: keep `spec.replicas` pods of one template.

Both share one flow and differ in the form of their selector. A status must be cheap even if a ReplicaSet has ten
thousand pods and each of them changes: `Members` counts its pods as they change, so that no pass reads all of them.
Pods are compared only when some must be deleted (`pods_to_delete`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache, partial
from typing import Final, NamedTuple

import trio

from rewound.actors.controllers.loop import RetryLater
from rewound.actors.errors import Conflict, NotFound, RequestError
from rewound.actors.kinds.declaration.meta import LabelMatcher
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.steps import Steps, chosen, in_order, parts_of
from rewound.actors.runtime.turns import in_turns
from rewound.actors.versions.features import TERMINATING_REPLICAS
from rewound.actors.workloads.cache import CachedType, Key, controller_of, key_of
from rewound.actors.workloads.controller import Parts, WorkloadController, may_match
from rewound.actors.workloads.pods import (
    PHASE_ORDER,
    Claims,
    PodWriter,
    condition_of,
    is_active,
    is_finished,
    is_namespace_terminating,
    is_terminating,
    pod_from_template,
)

BURST: Final = 500  # pods that one pass creates, or deletes before it checks whether it still must
# While many pods become ready or are deleted one after the other, their number is written this often, in seconds.
MANY: Final = 200
REPORTS_EVERY: Final = 0.1
FAILURE: Final = "ReplicaFailure"


class _Counted(NamedTuple):
    """What one pod adds to the counts of its owner."""

    is_labelled: bool  # has all labels of the template
    is_ready: bool
    since: int | None  # when it became ready, in microseconds, if known


class Members:
    """The pods of one owner that count: active ones that its selector matches."""

    def __init__(self, selector: Object, template_labels: dict[str, str]) -> None:
        self._matcher = LabelMatcher(selector)
        self.template_labels = template_labels
        self._counted: dict[Key, _Counted] = {}
        self.labelled = self.ready = 0
        self.unmatched: dict[Key, Object] = {}  # active ones that the selector does not match
        self._terminating: set[Key] = set()
        self.reported = -math.inf  # when the status was written
        self.is_complete = False

    @property
    def active(self) -> int:
        return len(self._counted)

    @property
    def terminating(self) -> int:
        return len(self._terminating)

    def __contains__(self, key: Key) -> bool:
        return key in self._counted

    def has_all(self, owner: Object) -> bool:
        """Whether all pods exist and are ready."""
        return bool(self.ready == self.active == owner["spec"]["replicas"])

    def replace(self, key: Key, pod: Object | None) -> None:
        """Apply a change of a pod; None: it is not, or no longer, a pod of this owner."""
        before = self._counted.pop(key, None)
        if before is not None:
            self.labelled -= before.is_labelled
            self.ready -= before.is_ready
        self.unmatched.pop(key, None)
        self._terminating.discard(key)
        if pod is None or is_finished(pod):
            return
        labels = pod["metadata"].get("labels") or {}
        matches = self._matcher.matches(labels)
        if is_terminating(pod):
            if matches:
                self._terminating.add(key)
            return
        if not matches:
            self.unmatched[key] = pod
            return
        since = ready_since(pod)
        is_labelled, is_ready = self.template_labels.items() <= labels.items(), since is not None
        self._counted[key] = _Counted(is_labelled, is_ready, _micros(since) if since else None)
        self.labelled += is_labelled
        self.ready += is_ready

    def add_all(self, pods: CachedType, uid: str) -> Steps[None]:
        """Count all pods of the owner with this uid; `replace` gets concurrent changes."""
        for part in parts_of(pods.controlled_by(uid)):
            for key in map(key_of, part):
                pod = pods.get(*key)
                reference = None if pod is None else controller_of(pod)
                self.replace(key, pod if reference is not None and reference["uid"] == uid else None)
            yield
        self.is_complete = True

    def available(self, min_ready_seconds: int, now: int) -> Steps[tuple[int, float | None]]:
        """How many pods are available, and after how many seconds one more is."""
        if not min_ready_seconds:
            return self.ready, None
        available, next_one = 0, math.inf
        # After that time, not at it, as in v1.25.
        needed = min_ready_seconds * 1_000_000 + 1 - now
        for part in parts_of(self._counted.values()):
            for since in [one.since for one in part if one.since is not None]:
                left = since + needed
                if left <= 0:
                    available += 1
                else:
                    next_one = min(next_one, left / 1_000_000)
            yield
        return available, None if next_one == math.inf else next_one


class Replicas(WorkloadController):
    """The flow of both; subclasses define whose pods they are."""

    type_name: str
    _reports_terminating = False

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._owners = self.keyed_by(self.type_name)
        self._pods = self.cache.collection("pods")
        self._claims = Claims(self.client, self._owners, self._pods)
        self._writer = PodWriter(self.client, self.recorder, self._owners.definition, self._pods.definition)
        self._members: dict[str, Members] = {}  # by the uid of the owner
        self._may_adopt: set[Key] = set()  # owners that have not searched for pods without a controller
        self._owners.listen(self._owner_changed)
        self._pods.listen(self._pod_changed)

    def selector(self, owner: Object) -> Object:
        raise NotImplementedError

    async def catch_up(self) -> None:
        await self.cache.loaded()
        self._members.clear()
        self._may_adopt.update(map(key_of, self._owners))
        await super().catch_up()

    def _owner_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or _counting_fields(old) != _counting_fields(new):
            if old is not None:
                self._members.pop(old["metadata"]["uid"], None)
            if new is not None:
                self._may_adopt.add(key_of(new))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        before, after = _controller(old), _controller(new)
        stored = new if new is not None else old
        assert stored is not None
        namespace, key = stored["metadata"]["namespace"], key_of(stored)
        stays = before is not None and after is not None and before["uid"] == after["uid"]
        if before is not None and not stays:
            self._count(namespace, before, key, None)
        if after is not None:
            if not stays or _relevant_facts(old) != _relevant_facts(new):
                self._count(namespace, after, key, new)
        elif new is not None and (old is None or before is not None or _labels(old) != _labels(new)):
            for owner in self._owners.in_namespace(namespace):
                if may_match(self.selector(owner), _labels(new)):
                    self._may_adopt.add(key_of(owner))
                    self.queue.add(key_of(owner))

    def _count(self, namespace: str, reference: Object, key: Key, pod: Object | None) -> None:
        members = self._members.get(reference["uid"])
        if members is not None:
            members.replace(key, pod)
        owner = self._owners.get(namespace, reference["name"])
        if owner is not None and owner["metadata"]["uid"] == reference["uid"]:
            self.queue.add((namespace, reference["name"]))

    async def _count_members(self, owner: Object) -> None:
        uid = owner["metadata"]["uid"]
        found = self._members.get(uid)
        if found is None or not found.is_complete:
            labels = owner["spec"]["template"]["metadata"].get("labels") or {}
            found = self._members[uid] = Members(self.selector(owner), labels)
            await in_turns(found.add_all(self._pods, uid))

    def _members_of(self, owner: Object) -> Members:
        """The counted pods of an owner. Raises RetryLater if the owner changed so that they must be counted again."""
        found = self._members.get(owner["metadata"]["uid"])
        if found is None or not found.is_complete:
            raise RetryLater
        return found

    async def reconcile(self, key: Key) -> None:
        owner = self._owners.get(*key)
        if owner is None:
            self._may_adopt.discard(key)
            return
        failure: RequestError | None = None
        await self._count_members(owner)
        if not is_terminating(owner):
            await self._claim(key, owner)
            failure = await self._create_or_delete(key)
        await self._write_status(key, failure)
        if failure is not None:
            raise failure

    async def _claim(self, key: Key, owner: Object) -> None:
        """Adopt active pods that match and have no controller, and release those that no longer match."""
        unmatched = tuple(self._members_of(owner).unmatched.values())
        may_adopt = key in self._may_adopt
        self._may_adopt.discard(key)
        orphans = await self._orphans(owner) if may_adopt else []
        if not unmatched and not orphans:
            return
        try:
            await self._claims.exchange(owner, orphans, unmatched)
        except RequestError:
            self._may_adopt.add(key)
            raise

    async def _orphans(self, owner: Object) -> list[Object]:
        matcher = LabelMatcher(self.selector(owner))

        def matches(pod: Object) -> bool:
            return is_active(pod) and matcher.matches(_labels(pod))

        return await in_turns(chosen(self._pods.uncontrolled(owner["metadata"]["namespace"]), matches))

    async def _create_or_delete(self, key: Key) -> RequestError | None:
        """Create or delete pods. Creates slowly at first: if one pod is rejected, all may be."""
        created, batch = 0, 1
        while (owner := self._owners.get(*key)) is not None and not is_terminating(owner):
            missing = owner["spec"]["replicas"] - self._members_of(owner).active
            if missing < 0:
                return None if created else await self._delete(owner, -missing)
            count = min(missing, batch, BURST - created)
            if count == 0:
                return None
            if failure := await self._create(owner, count):
                return None if is_namespace_terminating(failure) else failure
            created, batch = created + count, 2 * batch
        return None

    async def _create(self, owner: Object, count: int) -> RequestError | None:
        new = pod_from_template(owner["spec"]["template"], self._owners.definition, owner)
        errors = await self._writer.create_together(owner, [new] * count)
        return errors[0] if errors else None

    async def _delete(self, owner: Object, count: int) -> RequestError | None:
        members, key = self._members_of(owner), key_of(owner)
        uid, wanted = owner["metadata"]["uid"], owner["spec"]["replicas"]
        pods = await in_turns(chosen(self._pods.controlled_by(uid), lambda one: key_of(one) in members))
        if count < len(pods):
            on_nodes = await in_turns(self._on_nodes(owner))
            pods = await in_turns(pods_to_delete(pods, on_nodes, count, self.now(), self.names))
        while pods:
            current = self._owners.get(*key)
            if current is None or current["spec"]["replicas"] != wanted:
                return None  # its change triggers the next pass
            count = min(self._members_of(current).active - wanted, BURST)
            if count <= 0:
                return None
            going, pods = pods[:count], pods[count:]
            if errors := await self._writer.delete(owner, going):
                return _NotDeleted(errors[0])
        return None

    def _on_nodes(self, owner: Object) -> Steps[dict[str, int]]:
        """How many active pods of the same controller, such as a Deployment, each node has."""
        found: dict[str, int] = {}
        reference = controller_of(owner)
        if reference is not None:
            for one in tuple(self._owners.controlled_by(reference["uid"])):
                for part in parts_of(self._pods.controlled_by(one["metadata"]["uid"])):
                    for pod in filter(is_active, part):
                        node = pod["spec"].get("nodeName", "")
                        found[node] = found.get(node, 0) + 1
                    yield
        return found

    async def _write_status(self, key: Key, failure: RequestError | None) -> None:
        owner = self._owners.get(*key)
        if owner is None:
            return
        members = self._members_of(owner)
        min_ready = owner["spec"].get("minReadySeconds", 0)
        available, next_one = await in_turns(members.available(min_ready, self.now()))
        if next_one is not None:
            self.queue.add_after(key, next_one)
        counts = {
            "fullyLabeledReplicas": members.labelled,
            "readyReplicas": members.ready,
            "availableReplicas": available,
            "observedGeneration": owner["metadata"].get("generation", 0),
        }
        status: Object = {
            "replicas": members.active,
            **{part: number for part, number in counts.items() if number},
        }
        if self._reports_terminating:
            status["terminatingReplicas"] = members.terminating
        if conditions := self._conditions(owner, members, failure):
            status["conditions"] = conditions
        if status == owner["status"]:
            return
        wait = members.reported + REPORTS_EVERY - trio.current_time()
        if wait > 0 and failure is None and members.active >= MANY and not members.has_all(owner):
            self.queue.add_after(key, wait)
            return
        members.reported = trio.current_time()
        try:
            await self.client.replace(self._owners.definition, {**owner, "status": status}, "status")
        except (Conflict, NotFound):
            raise RetryLater from None  # its spec changed, or it is gone: what to write may differ

    def _conditions(self, owner: Object, members: Members, failure: RequestError | None) -> list[Object]:
        conditions: list[Object] = owner["status"].get("conditions") or []
        known = condition_of(owner, FAILURE)
        if failure is None:
            return [one for one in conditions if one is not known]
        if known is not None:
            return conditions
        condition: Object = {
            "type": FAILURE,
            "status": "True",
            "lastTransitionTime": self.now_text(),
            "message": str(failure),
        }
        if members.active != owner["spec"]["replicas"]:
            condition["reason"] = (
                "FailedCreate" if members.active < owner["spec"]["replicas"] else "FailedDelete"
            )
        return [*conditions, condition]


class ReplicaSets(Replicas):
    name, account = "replicaset", "replicaset-controller"
    type_name = "replicasets.apps"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._reports_terminating = TERMINATING_REPLICAS in self.release.features

    def selector(self, owner: Object) -> Object:
        selector: Object = owner["spec"]["selector"]
        return selector


class ReplicationControllers(Replicas):
    name, account = "replicationcontroller", "replication-controller"
    type_name = "replicationcontrollers"

    def selector(self, owner: Object) -> Object:
        return {"matchLabels": owner["spec"].get("selector") or {}}


class _NotDeleted(RequestError):
    def __init__(self, error: RequestError) -> None:
        self.message = f"unable to delete pods: {error}"


_micros: Final = lru_cache(maxsize=1024)(micros_of)  # many pods become ready in the same second


def ready_since(pod: Object) -> str | None:
    """When a pod became ready; None if it is not, "" if unknown."""
    ready = condition_of(pod, "Ready")
    if ready is None or ready["status"] != "True":
        return None
    return ready.get("lastTransitionTime") or ""


def pods_to_delete(
    pods: Sequence[Object], on_nodes: dict[str, int], count: int, now: int, names: Names
) -> Steps[list[Object]]:
    """Choose the pods to delete, in the order of v1.25.

    First pods without a node, then pending, then not ready ones, those with a lower cost by their annotation, on nodes
    with more pods of the same controller, ready for a shorter time, with more restarts, younger ones. Times count by
    their logarithm: among pods of about the same age, chance (the uid) decides. Unlike v1.25, restarts also decide
    between pods that are ready for about the same time, not only for exactly the same.
    """
    cost_key = names.key("pod-deletion-cost", "controller")
    age = cache(partial(_age, now))

    def rank(pod: Object) -> tuple[object, ...]:
        metadata, status = pod["metadata"], pod["status"]
        node = pod["spec"].get("nodeName", "")
        since = ready_since(pod)
        restarts = [one.get("restartCount", 0) for one in status.get("containerStatuses") or ()]
        return (
            bool(node),
            PHASE_ORDER.get(status.get("phase", ""), 0),
            since is not None,
            _cost((metadata.get("annotations") or {}).get(cost_key)),
            -on_nodes.get(node, 0),
            age(since) if since else -1,
            -max(restarts, default=0),
            age(metadata["creationTimestamp"]),
            metadata["uid"],
        )

    ranked = yield from in_order(pods, rank)
    return ranked[:count]


def _age(now: int, since: str) -> int:
    """The logarithm of the nanoseconds since a time; -1 for a time in the future."""
    passed = (now - _micros(since)) * 1000
    return int(math.log2(passed)) if passed > 0 else -1


def _cost(text: str | None) -> int:
    """The cost in the annotation; 0 if it is not a number of 32 bits."""
    try:
        number = int(text) if text is not None and text.strip() == text and "_" not in text else 0
    except ValueError:
        return 0
    return number if -(2**31) <= number < 2**31 else 0


def _counting_fields(owner: Object) -> tuple[object, object]:
    """The fields that decide which pods count, and as what."""
    spec = owner["spec"]
    return spec.get("selector"), (spec["template"].get("metadata") or {}).get("labels")


def _controller(pod: Object | None) -> Object | None:
    return controller_of(pod) if pod is not None else None


def _labels(stored: Object) -> dict[str, str]:
    return stored["metadata"].get("labels") or {}


def _relevant_facts(pod: Object | None) -> tuple[bool, bool, dict[str, str], str | None] | None:
    """The facts of a pod that its owner acts on."""
    return None if pod is None else (is_finished(pod), is_terminating(pod), _labels(pod), ready_since(pod))
