"""The controllers that protect claims, volumes, classes of attributes and groups of pods in use, and the one that
creates the claims of ephemeral volumes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.loop import RetryLater
from rewound.actors.controllers.stored_objects import Page, deletion_waits_for, take_pages
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import AlreadyExists, Conflict, NotFound
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object
from rewound.actors.store.document import decode, is_being_deleted
from rewound.actors.versions.features import UNUSED_CLAIMS
from rewound.journal.records import Event, Row
from rewound.journal.view import View

Key = tuple[str, str]  # namespace and name


class FinalizerRelease:
    """Releases one finalizer of deleted objects of one type, once nothing uses the object; subclasses define use.

    The finalizer keeps a claim or volume that is deleted while it is in use. Objects that lack it, because they are
    older than the admission plugin that adds it or because a client removed it, get it here, as in v1.25. A controller
    reconciles an object when it lacks the finalizer, when its deletion begins, and again when something that uses it
    changes; at rest nothing runs.
    """

    adds = True  # whether objects that lack the finalizer get it

    def __init__(
        self, context: ControllerContext, type_name: str, finalizer: str, account: str = "", group: str = ""
    ) -> None:
        """`account`: the service account, if the finalizer is not named like it; `group`: the API group in its key."""
        self._journal = context.journal
        self._protected = context.journal.type_id(type_name)
        self._definition = context.registry.current.storage(type_name)
        names = context.names
        self._finalizer = f"{names.group(group)}/{finalizer}" if group else names.key(finalizer)
        self._mark = f'"{self._finalizer}"'.encode()  # in the body of every object that has it
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, account or f"{finalizer}-controller"
        )
        self.queue: WorkQueue[Key] = WorkQueue()

    def is_in_use(self, key: Key, stored: Object) -> bool:
        raise NotImplementedError

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id != self._protected:
                self.observe_user(event)
            elif not event.removed and self._may_be_due(event.body):
                self.queue.add((event.namespace, event.name))

    def _may_be_due(self, body: bytes) -> bool:
        return is_being_deleted(body) or (self.adds and self._mark not in body)

    def observe_user(self, event: Event) -> None:
        """Called with the events of the other observed types."""

    async def catch_up(self) -> None:
        await take_pages(self._journal, self._protected, None, self._take_protected)

    def _take_protected(self, view: View, page: Page) -> None:
        for namespace, name, row in page:
            if self._may_be_due(row.body):
                self.queue.add((namespace, name))

    async def reconcile(self, key: Key) -> None:
        with self._journal.read() as view:
            row = view.get(self._protected, *key)
        if row is None:
            return
        stored = decode(row.body)
        metadata = stored["metadata"]
        finalizers = metadata.get("finalizers") or []
        if self.adds and "deletionTimestamp" not in metadata and self._finalizer not in finalizers:
            await self._replace(stored, [*finalizers, self._finalizer])
        elif deletion_waits_for(stored, self._finalizer) and not self.is_in_use(key, stored):
            await self._replace(stored, [one for one in finalizers if one != self._finalizer])

    async def _replace(self, stored: Object, finalizers: list[str]) -> None:
        metadata = {**stored["metadata"], "finalizers": finalizers}
        try:
            await self._client.replace(self._definition, {**stored, "metadata": metadata})
        except (Conflict, NotFound):
            return  # a change leads to another call


class ClaimProtection(FinalizerRelease):
    """PVC protection: a deleted claim stays while a pod uses it.

    As in v1.25, a pod uses a claim from when it is bound to a node until it is removed, even if it has finished before;
    a pod without a node does not, because no node starts a pod whose claim is being deleted.

    With UNUSED_CLAIMS, the condition `Unused` says since when a pod that has not ended names the claim, or none does.
    """

    name = "PVC protection controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "persistentvolumeclaims", "pvc-protection")
        self._pods = context.journal.type_id("pods")
        self.observed_types = frozenset({self._protected, self._pods})
        self._users = PodsByClaim(_uses)
        # Pods that will or may still run, with or without a node: their claims do not count as unused.
        self._referrers = PodsByClaim(_references) if UNUSED_CLAIMS in context.features else None

    def is_in_use(self, key: Key, stored: Object) -> bool:
        return self._users.uses(key, _controllers_of(stored))

    def _may_be_due(self, body: bytes) -> bool:
        if super()._may_be_due(body):
            return True
        return self._referrers is not None and (_UNUSED not in body or _unused_in(decode(body)) is None)

    async def reconcile(self, key: Key) -> None:
        if self._referrers is not None:
            await self._note_unused(key, self._referrers)
        await super().reconcile(key)

    async def _note_unused(self, key: Key, referrers: PodsByClaim) -> None:
        """Say in the status since when the claim has been used, or has not."""
        with self._journal.read() as view:
            row = view.get(self._protected, *key)
        if row is None or is_being_deleted(row.body):
            return
        stored = decode(row.body)
        is_unused = not referrers.uses(key, _controllers_of(stored))
        status: Object = stored.get("status") or {}
        conditions: list[Object] = list(status.get("conditions") or ())
        at = _unused_in(stored)
        wanted = "True" if is_unused else "False"
        if at is not None and (conditions[at]["status"] == "True") is is_unused:
            return
        reason, message = _NOT_USED if is_unused else _USED
        now = seconds_text(self._client.now())
        condition = {"type": "Unused", "status": wanted, "lastTransitionTime": now}
        condition |= {"reason": reason, "message": message}
        if at is None:
            conditions.append(condition)
        else:
            conditions[at] = condition
        changed = {**stored, "status": {**status, "conditions": conditions}}
        try:
            await self._client.replace(self._definition, changed, "status")
        except Conflict:
            raise RetryLater from None
        except NotFound:
            return

    def observe_user(self, event: Event) -> None:
        if event.type_id != self._pods:
            return
        pod = (event.namespace, event.name)
        for claim in self._users.remove(pod) if event.removed else self._users.update(pod, event.body)[0]:
            self.queue.add(claim)
        if self._referrers is None:
            return
        if event.removed:
            released, added = self._referrers.remove(pod), list[Key]()
        else:
            released, added = self._referrers.update(pod, event.body)
        for claim in (*released, *added):
            self.queue.add(claim)

    async def catch_up(self) -> None:
        self._users.clear()
        if self._referrers is not None:
            self._referrers.clear()
        await take_pages(self._journal, self._pods, None, self._take_pods)
        await super().catch_up()

    def _take_pods(self, view: View, page: Page) -> None:
        for namespace, name, row in page:
            self._users.update((namespace, name), row.body)
            if self._referrers is not None:
                self._referrers.update((namespace, name), row.body)


_UNUSED: Final = b'"Unused"'  # the type of a condition, in the body of every claim that has it
_NOT_USED: Final = ("NoPodsUsingPVC", "No pods are currently referencing this PVC")
_USED: Final = ("PodUsingPVC", "A pod is currently referencing this PVC")

Uses = dict[
    str, str
]  # by name of the claim: "", or the uid of the pod if the claim must have been created for that pod


class PodsByClaim:
    """An index of the pods that use a claim, made from the bodies of pods."""

    def __init__(self, uses: Callable[[Object], Iterable[tuple[str, str]]]) -> None:
        """`uses` returns the claims that a pod uses."""
        self._uses = uses
        self._claims: dict[Key, Uses] = {}  # by pod
        self._pods: dict[Key, set[Key]] = {}  # by claim

    def uses(self, claim: Key, controllers: Collection[str]) -> bool:
        """Whether a pod uses the claim, which these uids control."""
        found = (self._claims[pod][claim[1]] for pod in self._pods.get(claim, ()))
        return any(not uid or uid in controllers for uid in found)

    def update(self, pod: Key, body: bytes) -> tuple[list[Key], list[Key]]:
        """Replace the claims of a pod; returns those that it no longer uses, and those that it did not use before."""
        # Most pods have no claim and are not parsed. The bytes may occur anywhere, so a match proves nothing.
        mentions = b'"claimName"' in body or b'"volumeClaimTemplate"' in body
        new = dict(self._uses(decode(body))) if mentions else {}
        if not new and pod not in self._claims:
            return [], []
        before = self.remove(pod)
        if new:
            self._claims[pod] = new
        for name in new:
            self._pods.setdefault((pod[0], name), set()).add(pod)
        added = [(pod[0], name) for name in new if (pod[0], name) not in before]
        return [claim for claim in before if claim[1] not in new], added

    def remove(self, pod: Key) -> list[Key]:
        """Forget a pod; returns the claims that it used."""
        claims = [(pod[0], name) for name in self._claims.pop(pod, ())]
        for claim in claims:
            self._pods[claim].discard(pod)
            if not self._pods[claim]:
                del self._pods[claim]
        return claims

    def clear(self) -> None:
        self._claims.clear()
        self._pods.clear()


def _unused_in(claim: Object) -> int | None:
    """Where the condition is in the status of a claim."""
    conditions = (claim.get("status") or {}).get("conditions") or ()
    return next((at for at, one in enumerate(conditions) if one["type"] == "Unused"), None)


def _controllers_of(claim: Object) -> set[str]:
    owners = claim["metadata"].get("ownerReferences") or ()
    return {owner["uid"] for owner in owners if owner.get("controller")}


def _uses(pod: Object) -> Iterator[tuple[str, str]]:
    metadata = pod["metadata"]
    if pod["spec"].get("nodeName"):
        # A finalizer that waits for the pod's own claims may hold a pod that its node has stopped.
        is_stopped = "deletionTimestamp" in metadata and metadata.get("deletionGracePeriodSeconds") == 0
        yield from _claims_of(pod, ephemeral=not is_stopped)


def _references(pod: Object) -> Iterator[tuple[str, str]]:
    """The same for a pod that has not ended, whether or not it has a node."""
    status = pod.get("status") or {}
    states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
    is_stopped = "deletionTimestamp" in pod["metadata"] and all(
        "terminated" in one or "waiting" in one for one in states
    )
    if status.get("phase") not in ("Succeeded", "Failed") and not is_stopped:
        yield from _claims_of(pod, ephemeral=True)


def _claims_of(pod: Object, *, ephemeral: bool) -> Iterator[tuple[str, str]]:
    metadata, volumes = pod["metadata"], pod["spec"].get("volumes") or ()
    if ephemeral:
        for volume in volumes:
            if "ephemeral" in volume:
                yield f"{metadata['name']}-{volume['name']}", metadata["uid"]
    for volume in volumes:
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"], ""


class VolumeProtection(FinalizerRelease):
    """PV protection: a deleted volume stays while it is bound to a claim."""

    name = "PV protection controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "persistentvolumes", "pv-protection")
        self.observed_types = frozenset({self._protected})

    def is_in_use(self, key: Key, stored: Object) -> bool:
        return bool((stored.get("status") or {}).get("phase") == "Bound")


class AttributesClassProtection(FinalizerRelease):
    """VAC protection: a deleted VolumeAttributesClass stays while a claim or a volume names it."""

    name = "VolumeAttributesClass protection controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(
            context,
            f"volumeattributesclasses.{context.names.group('storage')}",
            "vac-protection",
            "volumeattributesclass-protection-controller",
        )
        self._users = frozenset(map(context.journal.type_id, ("persistentvolumeclaims", "persistentvolumes")))
        self.observed_types = frozenset({self._protected, *self._users})
        self._named: dict[tuple[int, str, str], frozenset[str]] = {}  # classes by type and key of their user

    def is_in_use(self, key: Key, stored: Object) -> bool:
        return any(key[1] in classes for classes in self._named.values())

    def observe_user(self, event: Event) -> None:
        if event.type_id in self._users:
            body = b"" if event.removed else event.body
            self._update((event.type_id, event.namespace, event.name), body)

    def _update(self, user: tuple[int, str, str], body: bytes) -> None:
        """Replace the classes that an object names; those that it no longer names may be released."""
        before = self._named.pop(user, frozenset())
        after = frozenset(_attributes_classes(decode(body))) if _ATTRIBUTES_CLASS in body else frozenset()
        if after:
            self._named[user] = after
        for name in sorted(before - after):
            self.queue.add(("", name))

    async def catch_up(self) -> None:
        self._named.clear()
        for type_id in sorted(self._users):
            await take_pages(self._journal, type_id, None, partial(self._take_users, type_id))
        await super().catch_up()

    def _take_users(self, type_id: int, view: View, page: Page) -> None:
        for namespace, name, row in page:
            self._update((type_id, namespace, name), row.body)


_ATTRIBUTES_CLASS: Final = b'olumeAttributesClassName"'  # in the body of every object that names one


def _attributes_classes(user: Object) -> Iterator[str]:
    """Yield the classes that a claim wants, has or is changed to, or that a volume has."""
    status = user.get("status") or {}
    for holder, part in (
        (user["spec"], "volumeAttributesClassName"),
        (status, "currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}, "targetVolumeAttributesClassName"),
    ):
        if holder.get(part):
            yield holder[part]


class PodGroupProtection(FinalizerRelease):
    """A deleted PodGroup stays while a pod that has not ended names it."""

    name = "PodGroup protection controller"
    adds = False

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(
            context,
            f"podgroups.{context.names.group('scheduling')}",
            "podgroup-protection",
            "podgroup-protection-controller",
            "scheduling",
        )
        self._pods = context.journal.type_id("pods")
        self.observed_types = frozenset({self._protected, self._pods})
        self._named: dict[Key, Key] = {}  # the group of each pod
        self._users: dict[Key, set[Key]] = {}  # the pods of each group

    def is_in_use(self, key: Key, stored: Object) -> bool:
        return key in self._users

    def observe_user(self, event: Event) -> None:
        if event.type_id == self._pods:
            self._update((event.namespace, event.name), b"" if event.removed else event.body)

    def _update(self, pod: Key, body: bytes) -> None:
        before, after = self._named.pop(pod, None), _group_of(pod[0], body)
        if after is not None:
            self._named[pod] = after
            self._users.setdefault(after, set()).add(pod)
        if before is not None and before != after:
            users = self._users[before]
            users.discard(pod)
            if not users:
                del self._users[before]
                self.queue.add(before)

    async def catch_up(self) -> None:
        self._named.clear()
        self._users.clear()
        await take_pages(self._journal, self._pods, None, self._take_pods)
        await super().catch_up()

    def _take_pods(self, view: View, page: Page) -> None:
        for namespace, name, row in page:
            self._update((namespace, name), row.body)


_GROUP: Final = b'"schedulingGroup"'


def _group_of(namespace: str, body: bytes) -> Key | None:
    """The group that a pod names; None if it has ended."""
    if _GROUP not in body:
        return None
    pod = decode(body)
    name = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
    has_ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return None if has_ended or not name else (namespace, name)


_TEMPLATE: Final = b'"volumeClaimTemplate"'


class EphemeralVolumeController:
    """The ephemeral volume controller: creates the claim of each ephemeral volume of a pod.

    The claim is named `<pod>-<volume>` and has the pod as its controller, so that the garbage collector deletes it with
    the pod. A claim of that name that belongs to something else stays as it is, and an Event about the pod reports it;
    when that claim is removed, the pod gets its own.
    """

    name = "ephemeral volume controller"

    def __init__(self, context: ControllerContext) -> None:
        self._journal = context.journal
        self._pods = context.journal.type_id("pods")
        self._claims = context.journal.type_id("persistentvolumeclaims")
        self.observed_types = frozenset({self._pods, self._claims})
        self._claim_kind = context.registry.current.storage("persistentvolumeclaims")
        self._event_kind = context.registry.current.storage("events")
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, "ephemeral-volume-controller"
        )
        self._pod_of_claim: dict[Key, Key] = {}  # the pod with an ephemeral volume that needs this claim
        self.queue: WorkQueue[Key] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._pods:
                if _TEMPLATE in event.body:
                    self._observe_pod(event)
            elif event.type_id == self._claims and event.removed:
                pod = self._pod_of_claim.get((event.namespace, event.name))
                if pod is not None:
                    self.queue.add(pod)

    def _observe_pod(self, event: Event) -> None:
        if event.removed:
            for volume in ephemeral_volumes(decode(event.body)):
                self._pod_of_claim.pop((event.namespace, f"{event.name}-{volume['name']}"), None)
        elif not event.previous:  # updates cannot change the volumes
            self.queue.add((event.namespace, event.name))

    async def catch_up(self) -> None:
        self._pod_of_claim.clear()
        await take_pages(self._journal, self._pods, None, self._take)

    def _take(self, view: View, page: Page) -> None:
        for namespace, name, row in page:
            if _TEMPLATE in row.body:
                self.queue.add((namespace, name))

    async def reconcile(self, key: Key) -> None:
        row = self._row(self._pods, key)
        if row is None or is_being_deleted(row.body):
            return
        pod = decode(row.body)
        volumes = ephemeral_volumes(pod)
        for volume in volumes:
            self._pod_of_claim[key[0], f"{key[1]}-{volume['name']}"] = key
        for volume in volumes:
            await self._ensure_claim(pod, volume)

    async def _ensure_claim(self, pod: Object, volume: Object) -> None:
        namespace, name = pod["metadata"]["namespace"], f"{pod['metadata']['name']}-{volume['name']}"
        row = self._row(self._claims, (namespace, name))
        if row is None:
            await self._create(pod, name, volume["ephemeral"]["volumeClaimTemplate"])
        elif not _is_controlled_by(decode(row.body), pod):
            await self._report_foreign_claim(pod, volume["name"], name)

    async def _create(self, pod: Object, name: str, template: Object) -> None:
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        copied = {
            field: value
            for field, value in (template.get("metadata") or {}).items()
            if field in ("annotations", "labels")
        }
        metadata = {"name": name, **copied, "ownerReferences": [owner]}
        claim = {"metadata": metadata, "spec": template["spec"]}
        new = self._claim_kind.schema.decode_object(claim).object
        try:
            await self._client.create(self._claim_kind, pod["metadata"]["namespace"], new)
        except AlreadyExists:
            raise RetryLater from None

    async def _report_foreign_claim(self, pod: Object, volume: str, claim: str) -> None:
        metadata, now = pod["metadata"], self._client.now()
        namespace, name = metadata["namespace"], metadata["name"]
        event = {
            "metadata": {"name": f"{name}.{now * 1000:x}"},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": namespace,
                "name": name,
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "type": "Warning",
            "reason": "FailedBinding",
            "message": f"ephemeral volume {volume}: PVC {namespace}/{claim} was not created for pod "
            f"{namespace}/{name} (pod is not owner)",
            "source": {"component": "ephemeral_volume"},
            "firstTimestamp": seconds_text(now),
            "lastTimestamp": seconds_text(now),
            "count": 1,
        }
        new = self._event_kind.schema.decode_object(event).object
        try:
            await self._client.create(self._event_kind, namespace, new)
        except AlreadyExists:
            return

    def _row(self, type_id: int, key: Key) -> Row | None:
        with self._journal.read() as view:
            return view.get(type_id, *key)


def ephemeral_volumes(pod: Object) -> list[Object]:
    return [volume for volume in pod["spec"].get("volumes") or () if "ephemeral" in volume]


def _is_controlled_by(claim: Object, pod: Object) -> bool:
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner["uid"] == pod["metadata"]["uid"] for owner in owners)
