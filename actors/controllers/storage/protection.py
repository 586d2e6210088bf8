"""What PVC and PV protection share: release a finalizer of a deleted object once nothing uses the object.

The finalizer keeps a claim or volume that is deleted while it is in use. Objects that lack it, because they are older
than the admission plugin that adds it or because somebody removed it, get it here, as in v1.25. A controller
reconciles an object when it lacks the finalizer, when its deletion begins, and again when something that uses it
changes; at rest nothing runs.
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
        self._mark = f'"{self._finalizer}"'.encode()  # in the body of every object that has it
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
            elif not event.removed and self._may_be_due(event.body):
                self.queue.add((event.namespace, event.name))

    def _may_be_due(self, body: bytes) -> bool:
        return is_being_deleted(body) or self._mark not in body

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
                if self._may_be_due(row.body):
                    self.queue.add(last)
        return last

    async def reconcile(self, key: Key) -> None:
        with self._journal.read() as view:
            row = view.get(self._protected, *key)
        if row is None:
            return
        stored = decode(row.body)
        metadata = stored["metadata"]
        finalizers = metadata.get("finalizers") or []
        if "deletionTimestamp" not in metadata and self._finalizer not in finalizers:
            await self._replace(stored, [*finalizers, self._finalizer])
        elif deletion_waits_for(stored, self._finalizer) and not self.is_in_use(key, stored):
            await self._replace(stored, [one for one in finalizers if one != self._finalizer])

    async def _replace(self, stored: Object, finalizers: list[str]) -> None:
        metadata = {**stored["metadata"], "finalizers": finalizers}
        try:
            await self._client.replace(self._definition, {**stored, "metadata": metadata})
        except (Conflict, NotFound):
            return  # a change leads to another call
