"""The pod garbage collector: deletes pods that are bound to a node that no longer exists.

It waits for 40 seconds, as v1.25 does, in case the node comes back, and deletes without a grace period, because no
kubelet is left to stop the pod. In an API server alone, pods whose node was never known stay: they are bound to nodes
that another program tracks. With the controllers of a whole cluster they are deleted too, and so are the oldest
finished pods beyond --terminated-pod-gc-threshold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import trio

from rewound.actors.controllers.client import Client, run_concurrently
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.stored_objects import Position, next_page
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import Conflict, NotFound
from rewound.actors.messages import DeleteOptions
from rewound.actors.runtime.steps import in_order
from rewound.actors.runtime.turns import in_turns
from rewound.actors.store.document import decode
from rewound.journal.records import Event

QUARANTINE: Final = 40.0  # seconds
# A match may be elsewhere in the body: it leads to a check, never to a deletion.
_NODE_NAME: Final = re.compile(rb'"nodeName":"([^"\\]+)"')
_FINISHED: Final = (b'"phase":"Succeeded"', b'"phase":"Failed"')  # the same holds for these
_FINISHED_PODS: Final = ""  # the key of the finished pods; all other keys are names of nodes
# A pod that finishes beyond the limit causes a check of all finished pods: this many seconds apart, for each of them.
SECONDS_FOR_EACH: Final = 0.0001
Orphan = tuple[str, str, str]  # namespace, name, uid


class PodGarbageCollector:
    name = "pod garbage collector"

    def __init__(self, context: ControllerContext) -> None:
        self._journal = context.journal
        self._pods = context.journal.type_id("pods")
        self._nodes = context.journal.type_id("nodes")
        self.observed_types = frozenset({self._pods, self._nodes})
        self._definition = context.registry.current.storage("pods")
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, "pod-garbage-collector"
        )
        self._known: set[str] = set()  # the names of existing nodes
        self._whole_cluster = context.whole_cluster
        self._threshold = context.workloads.terminated_pod_gc_threshold if context.whole_cluster else 0
        self._finished: dict[Position, tuple[str, str]] = {}  # creation time and uid
        self._next_check = 0.0  # at those that have finished
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._pods:
                if not event.removed:
                    self._check_nodes_of(event.body)
                if self._threshold > 0:
                    self._count((event.namespace, event.name), b"" if event.removed else event.body)
            elif event.type_id != self._nodes:
                continue
            elif event.removed:
                self._known.discard(event.name)
                self.queue.add_after(event.name, QUARANTINE)
            else:
                self._known.add(event.name)

    def _check_nodes_of(self, pod: bytes) -> None:
        for found in _NODE_NAME.finditer(pod):
            name = found[1].decode()
            if name not in self._known:
                self.queue.add_after(name, QUARANTINE)

    def _count(self, pod: Position, body: bytes) -> None:
        """Record whether the pod has finished; an empty body is that of a removed pod."""
        self._finished.pop(pod, None)
        if any(mark in body for mark in _FINISHED):
            stored = decode(body)
            if stored["status"].get("phase") in ("Succeeded", "Failed"):
                metadata = stored["metadata"]
                self._finished[pod] = metadata["creationTimestamp"], metadata["uid"]
        if len(self._finished) > self._threshold:
            self.queue.add_after(_FINISHED_PODS, max(0.0, self._next_check - trio.current_time()))

    async def catch_up(self) -> None:
        self._known.clear()
        self._finished.clear()
        for type_id in (self._nodes, self._pods):
            after: Position | None = None
            while (after := self._scan(type_id, after)) is not None:
                await trio.lowlevel.checkpoint()

    def _scan(self, type_id: int, after: Position | None) -> Position | None:
        last = None
        with self._journal.read() as view:
            for namespace, name, row in next_page(view, type_id, None, after):
                last = (namespace, name)
                if type_id == self._nodes:
                    self._known.add(name)
                else:
                    self._check_nodes_of(row.body)
                    if self._threshold > 0:
                        self._count(last, row.body)
        return last

    async def reconcile(self, key: str) -> None:
        if key == _FINISHED_PODS:
            await self._delete_finished()
        elif self._is_gone(key):
            await self._delete_pods_of(key)

    async def _delete_finished(self) -> None:
        self._next_check = trio.current_time() + len(self._finished) * SECONDS_FOR_EACH
        oldest_first = await in_turns(in_order(self._finished.items(), lambda one: (one[1][0], one[0][1])))
        too_many = max(0, len(oldest_first) - self._threshold)
        pods = [(*position, uid) for position, (_, uid) in oldest_first[:too_many]]
        if errors := await run_concurrently(self._delete, pods):
            raise errors[0]

    async def _delete_pods_of(self, key: str) -> None:
        after: Position | None = None
        while True:
            orphans, after = self._orphans(key, after)
            if errors := await run_concurrently(self._delete, orphans):
                raise errors[0]
            if after is None:
                return
            await trio.lowlevel.checkpoint()

    def _is_gone(self, node: str) -> bool:
        """Whether the node does not exist; in an API server alone, whether the journal still has its deletion."""
        with self._journal.read() as view:
            if view.get(self._nodes, "", node) is not None:
                return False
            if self._whole_cluster:
                return True
            return any(event.removed for event in view.history(self._nodes, "", node))

    def _orphans(self, node: str, after: Position | None) -> tuple[list[Orphan], Position | None]:
        """The pods of the node in the next page, and the position of its end; None at the end."""
        found, last, hint = [], None, f'"nodeName":"{node}"'.encode()
        with self._journal.read() as view:
            for namespace, name, row in next_page(view, self._pods, None, after):
                last = (namespace, name)
                if hint in row.body:
                    pod = decode(row.body)
                    if pod["spec"].get("nodeName") == node:
                        found.append((namespace, name, pod["metadata"]["uid"]))
        return found, last

    async def _delete(self, orphan: Orphan) -> None:
        namespace, name, uid = orphan
        at_once = DeleteOptions(uid=uid, grace_period_seconds=0)
        try:
            await self._client.delete(self._definition, namespace, name, at_once)
        except (Conflict, NotFound):
            return
