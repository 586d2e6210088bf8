"""What PVC and PV protection share: release a finalizer of a deleted object once nothing uses the object.

The finalizer keeps a claim or volume that is deleted while it is in use. A controller reconciles an object when its
deletion begins, and again when something that uses it changes; at rest nothing runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from actors.controllers.client import Client
from actors.controllers.context import ControllerContext
from actors.controllers.deletion import deletion_waits_for
from actors.controllers.pages import Position, next_page
from actors.controllers.work_queue import WorkQueue
from actors.errors import Conflict, NotFound
from actors.messages import Object
from actors.store.document import decode, is_being_deleted
from journal.records import Event

Key = tuple[str, str]  # namespace and name


class FinalizerRelease:
    """Releases one finalizer of one type; subclasses say what is in use."""

    def __init__(self, context: ControllerContext, type_name: str, finalizer: str) -> None:
        self._journal = context.journal
        self._protected = context.journal.type_id(type_name)
        self._definition = context.registry.current.storage(type_name)
        self._finalizer = context.names.key(finalizer)
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, f"{finalizer}-controller"
        )
        self.queue: WorkQueue[Key] = WorkQueue()

    def is_in_use(self, key: Key, stored: Object) -> bool:
        raise NotImplementedError

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id != self._protected:
                self.observe_user(event)
            elif not event.removed and is_being_deleted(event.body):
                self.queue.add((event.namespace, event.name))

    def observe_user(self, event: Event) -> None:
        """Called with the events of the other observed types."""

    async def catch_up(self) -> None:
        after: Position | None = None
        while (after := self._scan(after)) is not None:
            await trio.lowlevel.checkpoint()

    def _scan(self, after: Position | None) -> Position | None:
        last = None
        with self._journal.read() as view:
            for namespace, name, row in next_page(view, self._protected, None, after):
                last = (namespace, name)
                if is_being_deleted(row.body):
                    self.queue.add(last)
        return last

    async def reconcile(self, key: Key) -> None:
        with self._journal.read() as view:
            row = view.get(self._protected, *key)
        if row is None:
            return
        stored = decode(row.body)
        if not deletion_waits_for(stored, self._finalizer) or self.is_in_use(key, stored):
            return
        metadata = stored["metadata"]
        kept = [one for one in metadata["finalizers"] if one != self._finalizer]
        try:
            await self._client.replace(
                self._definition, {**stored, "metadata": {**metadata, "finalizers": kept}}
            )
        except (Conflict, NotFound):
            return  # a change leads to another call
