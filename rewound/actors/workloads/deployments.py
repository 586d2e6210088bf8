"""Deployments: replace the pods of one template by those of another, with a ReplicaSet for each template.

`rollout` decides the next steps; this controller writes them, and reconciles a Deployment when something changes that
it depends on. A pass writes one step, or several that belong together; its writes trigger the next pass.
"""

from __future__ import annotations

from collections.abc import Callable

from rewound.actors.controllers.loop import RetryLater
from rewound.actors.errors import AlreadyExists, Conflict, NotFound, RequestError
from rewound.actors.kinds.declaration.meta import label_selector_matches
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.runtime.steps import Steps
from rewound.actors.versions.features import SCALED_FROM_TO
from rewound.actors.workloads.cache import Key, controller_of, key_of
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.pods import (
    Claims,
    is_finished,
    is_namespace_terminating,
    owner_reference,
)
from rewound.actors.workloads.rollout import (
    NOT_CREATED,
    Annotate,
    Annotations,
    Create,
    Remove,
    RollBack,
    Rollout,
    Scale,
    Step,
    Wake,
    WriteStatus,
)


class Deployments(WorkloadController):
    name, account = "deployment", "deployment-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._deployments = self.keyed_by("deployments.apps")
        self._sets = self.cache.collection("replicasets.apps")
        self._pods = self.cache.collection("pods")
        self._claims = Claims(self.client, self._deployments, self._sets)
        self._keys = Annotations.of(self.names)
        self._sets.listen(self._set_changed)
        self._pods.listen(self._pod_changed)

    def _set_changed(self, old: Object | None, new: Object | None) -> None:
        for one in (old, new):
            if one is not None and (owner := self._owner(one)) is not None:
                self.queue.add(key_of(owner))
        if new is not None and controller_of(new) is None:
            self._offer(new)

    def _offer(self, orphan: Object) -> None:
        """Let Deployments check a ReplicaSet that has no controller."""
        metadata = orphan["metadata"]
        for one in self._deployments.in_namespace(metadata["namespace"]):
            if label_selector_matches(one["spec"]["selector"], metadata.get("labels") or {}):
                self.queue.add(key_of(one))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """With the strategy Recreate, the new pods wait until the last old one is gone."""
        if new is not None or old is None:
            return
        replica_set = _controller_in(old, self._sets.get)
        owner = self._owner(replica_set) if replica_set is not None else None
        if owner is not None and owner["spec"]["strategy"]["type"] == "Recreate":
            self.queue.add(key_of(owner))

    def _owner(self, replica_set: Object) -> Object | None:
        return _controller_in(replica_set, self._deployments.get)

    async def reconcile(self, key: Key) -> None:
        deployment = self._deployments.get(*key)
        if deployment is None:
            return
        selector = deployment["spec"]["selector"]
        owned = await self._claims.claim(deployment, selector)
        uid = deployment["metadata"]["uid"]
        deployment = self._deployments.get(*key)
        if deployment is None or deployment["metadata"]["uid"] != uid:
            return
        rollout = Rollout(self._keys, deployment, owned, self.now(), self._has_running_pods, self.release)
        for step in rollout.steps():
            if not await self._take(step, rollout, deployment):
                return

    def _has_running_pods(self, replica_set: Object) -> bool:
        return any(not is_finished(pod) for pod in self._pods.controlled_by(replica_set["metadata"]["uid"]))

    async def _take(self, step: Step, rollout: Rollout, deployment: Object) -> bool:
        """Carry out a step. Returns whether the steps after it still apply."""
        match step:
            case Scale():
                return await self._scale(step, deployment)
            case WriteStatus():
                await self._write_status(deployment, step)
            case Create():
                return await self._create(step, rollout, deployment)
            case Annotate():
                await self._annotate(step, deployment)
            case Remove():
                await self._remove(step, deployment)
            case RollBack():
                await self.client.replace(self._deployments.definition, step.changed)
                self._report(deployment, step.event_type, step.reason, step.message)
            case Wake():
                self.queue.add_after(key_of(deployment), step.seconds)
        return True

    async def _write_status(self, deployment: Object, step: WriteStatus) -> None:
        metadata = deployment["metadata"]
        if step.revision is not None:
            annotations = {**(metadata.get("annotations") or {}), self._keys.revision: step.revision}
            metadata = {**metadata, "annotations": annotations}
        changed = {**deployment, "metadata": metadata, "status": step.status}
        try:
            await self.client.replace(self._deployments.definition, changed, "status")
        except (Conflict, NotFound):
            raise RetryLater from None  # it was changed or deleted: what to write may differ

    async def _create(self, step: Create, rollout: Rollout, deployment: Object) -> bool:
        """False if the Deployment has changed while its ReplicaSet was made: its key was added again."""
        new = await self.work_on(deployment, self._new_set(step, rollout, deployment))
        if self._deployments.get(*key_of(deployment)) is not deployment:
            return False
        name, size = new["metadata"]["name"], new["spec"]["replicas"]
        try:
            await self.client.create(self._sets.definition, deployment["metadata"]["namespace"], new)
        except AlreadyExists:
            # Another template has the same hash, or a ReplicaSet of this template is no longer ours.
            status = deployment["status"]
            counted = {**status, "collisionCount": status.get("collisionCount", 0) + 1}
            await self._write_status(deployment, WriteStatus(counted))
            return True
        except RequestError as error:
            if not is_namespace_terminating(error):
                await self._report_not_created(deployment, rollout, name, error)
                raise
            return True
        if size:
            sizes = f"from 0 to {size}" if SCALED_FROM_TO in self.release.features else f"to {size}"
            message = f"Scaled up replica set {name} {sizes}"
            self._report(deployment, "Normal", "ScalingReplicaSet", message)
        await self._write_status(deployment, WriteStatus(rollout.created(name), step.revision))
        return True

    def _new_set(self, step: Create, rollout: Rollout, deployment: Object) -> Steps[Object]:
        new = yield from rollout.new_set(step.revision)
        new["metadata"]["ownerReferences"] = [owner_reference(self._deployments.definition, deployment)]
        return self._sets.definition.schema.decode_object(new).object

    async def _report_not_created(
        self, deployment: Object, rollout: Rollout, name: str, error: RequestError
    ) -> None:
        status, message = rollout.failed_to_create(name, str(error))
        self._report(deployment, "Warning", NOT_CREATED, message)
        if status is not None and status != deployment["status"]:
            await self._write_status(deployment, WriteStatus(status))

    async def _scale(self, step: Scale, deployment: Object) -> bool:
        """False if the ReplicaSet has changed since this was decided."""
        current = self._sets.get(deployment["metadata"]["namespace"], step.name)
        if current is None or current["spec"]["replicas"] != step.before:
            return False
        await self._patch_set(current, step.annotations, {"replicas": step.after})
        if (message := step.message(self.release)) is not None:
            self._report(deployment, "Normal", "ScalingReplicaSet", message)
        return True

    async def _annotate(self, step: Annotate, deployment: Object) -> None:
        current = self._sets.get(deployment["metadata"]["namespace"], step.name)
        if current is not None:
            await self._patch_set(current, step.annotations, {"minReadySeconds": step.min_ready_seconds})

    async def _patch_set(self, current: Object, annotations: dict[str, str], spec: Object) -> None:
        """By a patch: steps belong together, and a concurrent write of the status must not make one fail."""
        metadata = {"uid": current["metadata"]["uid"], "annotations": annotations}
        patch = {"metadata": metadata, "spec": spec}
        await self.client.patch(self._sets.definition, *key_of(current), patch)

    async def _remove(self, step: Remove, deployment: Object) -> None:
        namespace = deployment["metadata"]["namespace"]
        try:
            await self.client.delete(self._sets.definition, namespace, step.name, DeleteOptions())
        except NotFound:
            return

    def _report(self, deployment: Object, event_type: str, reason: str, message: str) -> None:
        self.recorder.event(self._deployments.definition, deployment, event_type, reason, message)


def _controller_in(stored: Object, get: Callable[[str, str], Object | None]) -> Object | None:
    """The controller of an object, if `get` finds it."""
    reference = controller_of(stored)
    if reference is None:
        return None
    found = get(stored["metadata"]["namespace"], reference["name"])
    return found if found is not None and found["metadata"]["uid"] == reference["uid"] else None
