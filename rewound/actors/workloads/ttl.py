"""Two controllers of times to live: of finished Jobs, and of the kubelets' caches.

`FinishedJobs` deletes a Job and its pods `spec.ttlSecondsAfterFinished` after it has finished. `NodeTTLs` writes an
annotation to every Node: for how many seconds its kubelet may cache a ConfigMap or Secret, which grows with the number
of nodes. The limits for a falling number are below those for a rising one, so that a cluster of about that size does
not switch back and forth; nodes get a new value when they next change.
"""

from __future__ import annotations

from typing import Final

from rewound.actors.errors import NotFound
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.workloads.cache import Key
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.jobs import finished_condition
from rewound.actors.workloads.pods import is_terminating

SECOND: Final = 1_000_000
# (the least and the greatest number of nodes, seconds)
STEPS: Final = ((0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, None, 300))


class FinishedJobs(WorkloadController):
    name, account = "ttl-after-finished", "ttl-after-finished-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._jobs = self.keyed_by("jobs.batch")

    async def reconcile(self, key: Key) -> None:
        job = self._jobs.get(*key)
        if job is None or is_terminating(job):
            return
        end, seconds = finished_condition(job), job["spec"].get("ttlSecondsAfterFinished")
        if end is None or seconds is None or "lastTransitionTime" not in end:
            return
        left = micros_of(end["lastTransitionTime"]) + seconds * SECOND - self.now()
        if left > 0:
            self.queue.add_after(key, left / SECOND)
            return
        options = DeleteOptions(propagation_policy="Foreground", uid=job["metadata"]["uid"])
        try:
            await self.client.delete(self._jobs.definition, *key, options)
        except NotFound:
            return


class NodeTTLs(WorkloadController):
    name, account = "ttl", "ttl-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._annotation = self.names.key("ttl", "node.alpha")
        self._nodes = self.keyed_by("nodes")
        self._step = 0
        self._nodes.listen(self._node_changed)

    async def catch_up(self) -> None:
        await self.cache.loaded()
        self._find_step()
        await super().catch_up()

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None:
            self._find_step()

    def _find_step(self) -> None:
        count = len(self._nodes)
        while (most := STEPS[self._step][1]) is not None and count > most:
            self._step += 1
        while count < STEPS[self._step][0]:
            self._step -= 1

    async def reconcile(self, key: Key) -> None:
        node = self._nodes.get(*key)
        wanted = str(STEPS[self._step][2])
        if node is None or (node["metadata"].get("annotations") or {}).get(self._annotation) == wanted:
            return
        patch = {"metadata": {"annotations": {self._annotation: wanted}}}
        try:
            await self.client.patch(self._nodes.definition, *key, patch, "strategic")
        except NotFound:
            return
