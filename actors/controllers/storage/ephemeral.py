"""The ephemeral volume controller: creates the claim of each ephemeral volume of a pod.

The claim is named `<pod>-<volume>` and has the pod as its controller, so that the garbage collector deletes it with the
pod. A claim of that name that belongs to something else stays as it is, and an Event about the pod reports it; when
that claim is removed, the pod gets its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from actors.controllers.client import Client
from actors.controllers.context import ControllerContext
from actors.controllers.loop import RetryLater
from actors.controllers.pages import Position, next_page
from actors.controllers.work_queue import WorkQueue
from actors.errors import AlreadyExists
from actors.kinds.values.times import seconds_text
from actors.messages import Object
from actors.store.document import decode, is_being_deleted
from journal.records import Event, Row

_TEMPLATE: Final = b'"volumeClaimTemplate"'
Key = tuple[str, str]  # namespace and name


class EphemeralVolumeController:
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
        after: Position | None = None
        while (after := self._scan(after)) is not None:
            await trio.lowlevel.checkpoint()

    def _scan(self, after: Position | None) -> Position | None:
        last = None
        with self._journal.read() as view:
            for namespace, name, row in next_page(view, self._pods, None, after):
                last = (namespace, name)
                if _TEMPLATE in row.body:
                    self.queue.add(last)
        return last

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
