"""The pod garbage collector: deletes pods that are bound to a node which no longer exists.

It waits for 40 seconds, as v1.25 does, in case the node comes back, and deletes without a grace period, because no node
agent is left to end the pod. Pods whose node was never known stay: they are bound to nodes that somebody else tracks.
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
from rewound.actors.store.document import decode
from rewound.journal.records import Event

QUARANTINE: Final = 40.0  # seconds
# A match may be in another place of the body: it leads to a check, never to a deletion.
_NODE_NAME: Final = re.compile(rb'"nodeName":"([^"\\]+)"')
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
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._pods:
                if not event.removed:
                    self._check_nodes_of(event.body)
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

    async def catch_up(self) -> None:
        self._known.clear()
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
        return last

    async def reconcile(self, key: str) -> None:
        if not self._was_deleted(key):
            return
        after: Position | None = None
        while True:
            orphans, after = self._orphans(key, after)
            if errors := await run_concurrently(self._delete, orphans):
                raise errors[0]
            if after is None:
                return
            await trio.lowlevel.checkpoint()

    def _was_deleted(self, node: str) -> bool:
        """Whether the node does not exist, and the journal still has its deletion."""
        with self._journal.read() as view:
            if view.get(self._nodes, "", node) is not None:
                return False
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
