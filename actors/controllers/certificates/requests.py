"""What the controllers of certificate signing requests share: the queue of names, and reading and writing a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import trio

from actors.controllers.client import Client
from actors.controllers.context import ControllerContext
from actors.controllers.loop import RetryLater
from actors.controllers.pages import Position, next_page
from actors.controllers.work_queue import WorkQueue
from actors.errors import Conflict, NotFound
from actors.messages import Object
from actors.store.document import decode, is_being_deleted
from journal.records import Event

# A request may wait for a right for a day, and there may be many of them.
LONGEST_PAUSE: Final = 600.0
# Threads that read requests or sign, so that a flood of requests leaves the processor to others.
_MAX_THREADS: Final = 2


class RequestController:
    name: ClassVar[str]
    account: ClassVar[str]  # the service account that it writes as

    def __init__(self, context: ControllerContext) -> None:
        self._journal, self._clock, self._names = context.journal, context.clock, context.names
        type_name = f"certificatesigningrequests.{context.names.group('certificates')}"
        self._requests = context.journal.type_id(type_name)
        self.observed_types: frozenset[int] | None = frozenset({self._requests})
        self._definition = context.registry.current.storage(type_name)
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, self.account
        )
        self.queue: WorkQueue[str] = WorkQueue(longest_pause=LONGEST_PAUSE)
        self._threads = trio.CapacityLimiter(_MAX_THREADS)

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._requests and not event.removed:
                self.queue.add(event.name)

    async def catch_up(self) -> None:
        after: Position | None = None
        while (after := self._scan(after)) is not None:
            await trio.lowlevel.checkpoint()

    def _scan(self, after: Position | None) -> Position | None:
        last = None
        with self._journal.read() as view:
            for namespace, name, _ in next_page(view, self._requests, "", after):
                last = (namespace, name)
                self.queue.add(name)
        return last

    async def reconcile(self, key: str) -> None:
        with self._journal.read() as view:
            row = view.get(self._requests, "", key)
        if row is not None and not is_being_deleted(row.body):
            await self.handle(decode(row.body))

    async def handle(self, request: Object) -> None:
        raise NotImplementedError

    async def _replace(self, request: Object, status: Object, subresource: str) -> None:
        """Store another status, unless the request has changed meanwhile."""
        try:
            await self._client.replace(self._definition, {**request, "status": status}, subresource)
        except (Conflict, NotFound):
            raise RetryLater from None


def condition_types(request: Object) -> set[str]:
    return {one["type"] for one in request["status"].get("conditions") or ()}
