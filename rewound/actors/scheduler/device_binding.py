"""Writes what was decided about resource claims: allocations and reservations before a pod is bound, and their end.

A claim gets the finalizer that protects it, then its allocation, together with the pod among those that it is reserved
for. If binding fails, the pod gives its reservation back.
"""

from __future__ import annotations

import logging
from typing import Final

from rewound.actors.controllers.client import Client
from rewound.actors.errors import Conflict, NotFound, RequestError
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.scheduler.device_objects import BindingFailed, DeviceObjects, is_bound
from rewound.actors.scheduler.dynamic_resources import ReservedDevices
from rewound.actors.scheduler.plugins import SchedulingError
from rewound.actors.scheduler.pods import PodFacts
from rewound.actors.store.document import decode
from rewound.actors.versions.features import BINDING_CONDITIONS, DEVICE_STATUS
from rewound.actors.workloads.pods import copied

logger = logging.getLogger(__name__)

POLL: Final = 5.0  # seconds between two looks at devices that are being bound
_MOST_TRIES: Final = 5  # of a write that others disturb


class DeviceBinding:
    def __init__(self, client: Client, pods: Definition, claims: Definition, objects: DeviceObjects) -> None:
        self._client, self._pods, self._claims, self._objects = client, pods, claims, objects
        self._finalizer = objects.names.key("delete-protection", "resource")

    async def bind(self, pod: PodFacts, reserved: ReservedDevices) -> None:
        """Write the allocations. Raises SchedulingError or RequestError."""
        for at, (claim, allocation) in enumerate(reserved.claims):
            uid, is_extended = claim["metadata"]["uid"], claim is reserved.extended
            try:
                if is_extended:
                    claim = await self._create(claim)
                    reserved.claims[at] = claim, allocation
                elif _is_reserved_for(claim, pod):
                    continue
                bound = await self._write(pod, claim, allocation)
            finally:
                self._objects.end(uid)
            if is_extended:
                status = {
                    "requestMappings": reserved.mappings,
                    "resourceClaimName": bound["metadata"]["name"],
                }
                await self._patch_pod(pod, {"extendedResourceClaimStatus": status})

    async def _create(self, claim: Object) -> Object:
        namespace = claim["metadata"]["namespace"]
        left_out = ("name", "uid", "namespace")
        metadata = {name: value for name, value in claim["metadata"].items() if name not in left_out}
        new = copied({"metadata": metadata, "spec": claim["spec"], "status": {}})
        try:
            return decode(await self._client.create(self._claims, namespace, new))
        except RequestError as refused:
            raise SchedulingError(f"create claim for extended resources {namespace}/: {refused}") from None

    async def _write(self, pod: PodFacts, claim: Object, allocation: Object | None) -> Object:
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        key = f"{namespace}/{name}"
        for attempt in range(_MOST_TRIES):
            stored = self._objects.claims.get(namespace, name)
            if stored is None or stored["metadata"]["uid"] != claim["metadata"]["uid"]:
                raise SchedulingError(f"claim {key} got deleted in the meantime")
            try:
                return await self._write_once(pod, copied(stored), allocation, key)
            except Conflict as refused:
                if attempt == _MOST_TRIES - 1:
                    what = "allocation and reservation" if allocation is not None else "reservation"
                    raise SchedulingError(f"add {what} to claim {key}: {refused}") from None
        raise AssertionError

    async def _write_once(self, pod: PodFacts, claim: Object, allocation: Object | None, key: str) -> Object:
        if "deletionTimestamp" in claim["metadata"]:
            raise SchedulingError(f"claim {key} got deleted in the meantime")
        status = claim.setdefault("status", {})
        if allocation is not None:
            if "allocation" in status:
                raise SchedulingError(f"claim {key} got allocated elsewhere in the meantime")
            finalizers = claim["metadata"].get("finalizers", [])
            if self._finalizer not in finalizers:
                claim["metadata"]["finalizers"] = [*finalizers, self._finalizer]
                claim = await self._replace(claim, f"add finalizer to claim {key}")
                status = claim.setdefault("status", {})
            status["allocation"] = copied(allocation)
        consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
        status["reservedFor"] = [*status.get("reservedFor", ()), consumer]
        if {BINDING_CONDITIONS, DEVICE_STATUS} <= self._objects.features:
            if "allocation" not in status:
                raise SchedulingError(f"claim {key} got deallocated elsewhere in the meantime")
            status["allocation"].setdefault("allocationTimestamp", seconds_text(self._objects.now()))
        what = "allocation and reservation" if allocation is not None else "reservation"
        return await self._replace(claim, f"add {what} to claim {key}", "status")

    async def _replace(self, claim: Object, what: str, subresource: str = "") -> Object:
        try:
            return decode(await self._client.replace(self._claims, claim, subresource))
        except Conflict:
            raise
        except RequestError as refused:
            raise SchedulingError(f"{what}: {refused}") from None

    def is_bound(self, reserved: ReservedDevices) -> bool:
        """Whether the devices are ready for the pod. Raises SchedulingError if they will not be."""
        for claim, _ in reserved.claims:
            namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
            stored = self._objects.claims.get(namespace, name)
            if stored is None:
                raise SchedulingError(f'could not find ResourceClaim "{namespace}/{name}"')
            try:
                is_ready = is_bound(stored)
            except BindingFailed as failed:
                raise SchedulingError(str(failed)) from None
            if not is_ready:
                if self._objects.is_late(stored):
                    raise SchedulingError(f"device binding timeout: claim={name}")
                return False
        return True

    async def release(self, claim: Object) -> None:
        """Give up the allocation of a claim, or a claim for extended resources."""
        try:
            if claim["metadata"].get("annotations", {}).get(self._extended_annotation) == "true":
                await self._delete(claim)
                return
            changed = copied(claim)
            for part in ("reservedFor", "allocation", "devices"):
                changed["status"].pop(part, None)
            await self._client.replace(self._claims, changed, "status")
        except RequestError as refused:
            logger.info("claim %s was not released: %s", claim["metadata"]["name"], refused)

    @property
    def _extended_annotation(self) -> str:
        return self._objects.names.key("extended-resource-claim", "resource")

    async def unreserve(self, pod: PodFacts, reserved: ReservedDevices) -> None:
        """Undo `bind`, as far as it came."""
        for claim, _ in reserved.claims:
            metadata = claim["metadata"]
            self._objects.end(metadata["uid"])
            stored = self._objects.claims.get(metadata["namespace"], metadata["name"])
            if stored is None or stored["metadata"]["uid"] != metadata["uid"]:
                continue
            try:
                if metadata.get("annotations", {}).get(self._extended_annotation) == "true":
                    await self._delete(stored)
                elif _is_reserved_for(stored, pod):
                    patch = {
                        "metadata": {"uid": metadata["uid"]},
                        "status": {"reservedFor": [{"$patch": "delete", "uid": pod.uid}]},
                    }
                    await self._client.patch(
                        self._claims, metadata["namespace"], metadata["name"], patch, "strategic", "status"
                    )
            except RequestError as refused:
                logger.info("claim %s stays reserved: %s", metadata["name"], refused)

    async def _delete(self, claim: Object) -> None:
        metadata = claim["metadata"]
        if self._finalizer in metadata.get("finalizers", ()):
            changed = copied(claim)
            changed["metadata"]["finalizers"].remove(self._finalizer)
            await self._client.replace(self._claims, changed)
        options = DeleteOptions(uid=metadata["uid"])
        await self._client.delete(self._claims, metadata["namespace"], metadata["name"], options)

    async def _patch_pod(self, pod: PodFacts, status: Object) -> None:
        try:
            await self._client.patch(
                self._pods, pod.namespace, pod.name, {"status": status}, "strategic", "status"
            )
        except NotFound:
            raise SchedulingError(
                f'update pod {pod.namespace}/{pod.name} ExtendedResourceClaimStatus: pods "{pod.name}" not found'
            ) from None


def _is_reserved_for(claim: Object, pod: PodFacts) -> bool:
    return any(one["uid"] == pod.uid for one in claim.get("status", {}).get("reservedFor", ()))
