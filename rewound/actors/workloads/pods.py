"""Helpers for all controllers of pods: pods from templates, when a pod counts, and who owns an object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final

import orjson

from rewound.actors.controllers.client import Client, batch_of, run_concurrently
from rewound.actors.errors import Forbidden, Invalid, NotFound, RequestError
from rewound.actors.kinds.core.pod import set_own_defaults
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.meta import LabelMatcher
from rewound.actors.kinds.schema.fields import Struct
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.runtime.steps import chosen
from rewound.actors.runtime.turns import in_turns
from rewound.actors.workloads.cache import CachedType, Key, controller_of, key_of
from rewound.actors.workloads.recorder import Recorder

FINISHED: Final = ("Succeeded", "Failed")
LONGEST_NAME: Final = 253
SOURCES_WITH_CLAIM: Final = frozenset(("persistentVolumeClaim", "ephemeral"))  # of volumes


def copied(stored: Object) -> Object:
    """A copy of an object of the cache, to be changed."""
    copy: Object = orjson.loads(orjson.dumps(stored))
    return copy


def is_finished(pod: Object) -> bool:
    return pod["status"].get("phase") in FINISHED


def is_terminating(stored: Object) -> bool:
    return "deletionTimestamp" in stored["metadata"]


def is_active(pod: Object) -> bool:
    """Whether a pod runs, or will."""
    return not is_finished(pod) and not is_terminating(pod)


def node_of(pod: Object) -> tuple[str, ...]:
    """The node that a pod is bound to, for an index."""
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()


def claim_of(pod: Object, volume: Object) -> str | None:
    """The name of the claim of a pod's volume; None if it has none."""
    if (claim := volume.get("persistentVolumeClaim")) is not None:
        name: str = claim["claimName"]
        return name
    return f"{pod['metadata']['name']}-{volume['name']}" if "ephemeral" in volume else None


def claims_of_volumes(pod: Object) -> Collection[Key]:
    """The claims of a pod's volumes, also those of ephemeral ones, for an index."""
    found = [one for one in pod["spec"].get("volumes") or () if not SOURCES_WITH_CLAIM.isdisjoint(one)]
    namespace = pod["metadata"]["namespace"]
    names = [claim_of(pod, volume) for volume in found] if found else ()
    return {(namespace, name): None for name in names if name is not None}


def condition_of(stored: Object, condition_type: str) -> Object | None:
    conditions: Iterable[Object] = stored["status"].get("conditions") or ()
    return next((one for one in conditions if one["type"] == condition_type), None)


def is_ready(pod: Object) -> bool:
    ready = condition_of(pod, "Ready")
    return ready is not None and ready["status"] == "True"


def available_in(pod: Object, min_ready_seconds: int, now: int) -> float | None:
    """In how many seconds a pod is available: 0 if it is, None if it is not ready."""
    ready = condition_of(pod, "Ready")
    if ready is None or ready["status"] != "True":
        return None
    if not min_ready_seconds:
        return 0.0
    since = ready.get("lastTransitionTime")
    if since is None:
        return None
    # As in v1.25 the time must have passed: the moment itself is too early.
    return max(0, micros_of(since) + min_ready_seconds * 1_000_000 + 1 - now) / 1_000_000


def owner_reference(definition: Definition, owner: Object) -> Object:
    """The reference to the controller of an object."""
    metadata = owner["metadata"]
    return {
        "apiVersion": definition.api_version,
        "kind": definition.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def stored_status(definition: Definition, counted: Object) -> Object:
    """A status in its stored form: in the declared order, and without zeros that Go's encoder omits."""
    declared = definition.fields.by_name["status"].type
    assert isinstance(declared, Struct)
    fields = declared.by_name.items()
    return {
        name: counted[name]
        for name, field in fields
        if name in counted and (counted[name] or field.pointer or field.always)
    }


def is_namespace_terminating(error: RequestError) -> bool:
    """Whether a create was rejected because its namespace is being deleted, which is no failure."""
    return isinstance(error, Forbidden) and any(
        cause.reason == "NamespaceTerminating" for cause in error.causes
    )


def pod_from_template(template: Object, definition: Definition, owner: Object) -> Object:
    """A new pod of this owner from a stored template; it has no name yet.

    A stored template is decoded, and so is the pod, which has some more defaults.
    """
    described: Object = template.get("metadata") or {}
    name = owner["metadata"]["name"]
    metadata: Object = {
        "generateName": f"{name}-" if len(name) < LONGEST_NAME else name,
        "labels": dict(described.get("labels") or {}),
        "annotations": dict(described.get("annotations") or {}),
        "ownerReferences": [owner_reference(definition, owner)],
    }
    if described.get("finalizers"):
        metadata["finalizers"] = list(described["finalizers"])
    metadata = {part: value for part, value in metadata.items() if value}
    spec = copied(template["spec"])
    set_own_defaults(spec)
    return {"metadata": metadata, "spec": spec, "status": {}}


class Claims:
    """Finds what belongs to an owner, adopts what has no owner and matches, releases what no longer matches."""

    def __init__(
        self, client: Client, owners: CachedType, dependents: CachedType, finalizers: Sequence[str] = ()
    ) -> None:
        """Adopted objects get the finalizers, and released ones lose them."""
        self._client = client
        self._owners = owners
        self._dependents = dependents
        self._finalizers = list(finalizers)

    async def claim(
        self,
        owner: Object,
        selector: Object,
        accepts: Callable[[Object], bool] = lambda _: True,
        *,
        releases: bool = True,
    ) -> list[Object]:
        """Claim objects; returns those of `owner` from the cache: the caller decides on them without another `await`.

        If there are many, the result is a moment old, because reading them takes turns. Only objects that `selector`
        and `accepts` match belong to the owner. If a write fails, its error is raised after all others.
        """
        uid, namespace = owner["metadata"]["uid"], owner["metadata"]["namespace"]

        matcher = LabelMatcher(selector)

        def matches(one: Object) -> bool:
            return matcher.matches(one["metadata"].get("labels") or {}) and accepts(one)

        if not is_terminating(owner):
            mine = self._dependents.controlled_by(uid) if releases else ()
            unmatched = await in_turns(chosen(mine, lambda one: not matches(one)))
            free = self._dependents.uncontrolled(namespace)
            orphans = await in_turns(chosen(free, lambda one: matches(one) and not is_terminating(one)))
            if unmatched or orphans:
                await self.exchange(owner, orphans, unmatched)
        return await in_turns(chosen(self._dependents.controlled_by(uid), matches))

    async def exchange(self, owner: Object, adopted: Sequence[Object], released: Sequence[Object]) -> None:
        """Adopt some objects and release others. If a write fails, its error is raised after all others."""
        uid = owner["metadata"]["uid"]
        errors = await run_concurrently(lambda one: self._release(one, uid), released)
        errors += await run_concurrently(lambda one: self._adopt(one, owner), adopted)
        if errors:
            raise errors[0]

    async def _adopt(self, one: Object, owner: Object) -> None:
        current = self._owners.get(*key_of(owner))
        if current is None or current["metadata"]["uid"] != owner["metadata"]["uid"]:
            return
        if is_terminating(current) or controller_of(one) is not None:
            return
        reference = owner_reference(self._owners.definition, owner)
        await self._patch(one, [reference], "finalizers")

    async def _release(self, one: Object, uid: str) -> None:
        try:
            reference = {"$patch": "delete", "uid": uid}
            await self._patch(one, [reference], "$deleteFromPrimitiveList/finalizers")
        except Invalid:
            return  # it has the reference in another form, or no longer

    async def _patch(self, one: Object, references: list[Object], finalizers: str) -> None:
        """The uid ensures that it is still the same object."""
        metadata: Object = {"ownerReferences": references, "uid": one["metadata"]["uid"]}
        if self._finalizers:
            metadata[finalizers] = self._finalizers
        try:
            await self._client.patch(
                self._dependents.definition, *key_of(one), {"metadata": metadata}, "strategic"
            )
        except NotFound:
            return


class PodWriter:
    """Creates and deletes the pods of one kind of owner, and records Events about the owner."""

    def __init__(self, client: Client, recorder: Recorder, owners: Definition, pods: Definition) -> None:
        self._client = client
        self._recorder = recorder
        self._owners = owners
        self._pods = pods

    async def create(self, owner: Object, pods: Sequence[Object]) -> list[RequestError]:
        """Create new pods, one first and then twice as many each time: if one is rejected, all may be.

        Returns the errors of the first batch that had any; the pods after it are not tried.
        """
        done, batch = 0, 1
        while done < len(pods):
            if errors := await self.create_together(owner, pods[done : done + batch]):
                return errors
            done, batch = done + batch, 2 * batch
        return []

    async def create_together(self, owner: Object, pods: Sequence[Object]) -> list[RequestError]:
        """Create new pods concurrently; all are about as large as the first."""
        at_once = batch_of(len(orjson.dumps(pods[0]))) if pods else 1
        return await run_concurrently(partial(self._create, owner), pods, at_once)

    async def delete(self, owner: Object, pods: Sequence[Object]) -> list[RequestError]:
        """Delete pods gracefully; one that is gone is no error."""
        return await run_concurrently(partial(self._delete, owner), pods)

    async def _create(self, owner: Object, pod: Object) -> None:
        try:
            body = await self._client.create(self._pods, owner["metadata"]["namespace"], pod)
        except RequestError as error:
            if not is_namespace_terminating(error):
                self._report(owner, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        self._report(owner, "Normal", "SuccessfulCreate", f"Created pod: {name_in(body)}")

    async def _delete(self, owner: Object, pod: Object) -> None:
        try:
            await self._client.delete(self._pods, *key_of(pod), DeleteOptions(uid=pod["metadata"]["uid"]))
        except NotFound:
            return
        except RequestError as error:
            self._report(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        self._report(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")

    def _report(self, owner: Object, event_type: str, reason: str, message: str) -> None:
        self._recorder.event(self._owners, owner, event_type, reason, message)


def name_in(body: bytes) -> str:
    """The name in the bytes of a stored object: metadata, and in it the name, come first."""
    start = body.index(b'"name":"') + 8
    return body[start : body.index(b'"', start)].decode()


# Active pods with a lower number are deleted first.
PHASE_ORDER: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def deletion_order(pod: Object) -> tuple[object, ...]:
    """Sort key of active pods by deletion order.

    First pods without a node, then pending, not ready, ready for a short time, restarted often, young.
    """
    ready = condition_of(pod, "Ready")
    is_up = ready is not None and ready["status"] == "True"
    since = ready.get("lastTransitionTime") if ready is not None and is_up else None
    restarts = max(
        (one.get("restartCount", 0) for one in pod["status"].get("containerStatuses") or ()), default=0
    )
    created = micros_of(pod["metadata"]["creationTimestamp"])
    return (
        bool(pod["spec"].get("nodeName")),
        PHASE_ORDER.get(pod["status"].get("phase", ""), 0),
        is_up,
        -micros_of(since) if since else float("-inf"),
        -restarts,
        -created,
    )
