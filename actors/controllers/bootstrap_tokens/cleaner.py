"""The token cleaner: deletes the Secrets of expired bootstrap tokens.

Authentication refuses an expired token by itself; this controller only removes what nobody can use any more.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from actors.access.bootstrap_token import expiration, has_expired, secret_type
from actors.controllers.client import Client
from actors.controllers.context import ControllerContext
from actors.controllers.pages import Position, next_page
from actors.controllers.work_queue import WorkQueue
from actors.errors import Conflict, NotFound
from actors.messages import DeleteOptions
from actors.store.document import decode, is_being_deleted
from journal.records import Event


class TokenCleaner:
    name = "token cleaner"

    def __init__(self, context: ControllerContext) -> None:
        self._journal, self._clock = context.journal, context.clock
        self._namespace = context.names.system_namespace
        self._type = secret_type(context.names)
        self._secrets = context.journal.type_id("secrets")
        self.observed_types = frozenset({self._secrets})
        self._definition = context.registry.current.storage("secrets")
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, "token-cleaner"
        )
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._secrets and event.namespace == self._namespace and not event.removed:
                self.queue.add(event.name)

    async def catch_up(self) -> None:
        after: Position | None = None
        while (after := self._scan(after)) is not None:
            await trio.lowlevel.checkpoint()

    def _scan(self, after: Position | None) -> Position | None:
        last = None
        with self._journal.read() as view:
            for namespace, name, _ in next_page(view, self._secrets, self._namespace, after):
                last = (namespace, name)
                self.queue.add(name)
        return last

    async def reconcile(self, key: str) -> None:
        with self._journal.read() as view:
            row = view.get(self._secrets, self._namespace, key)
        if row is None or is_being_deleted(row.body):
            return
        secret = decode(row.body)
        expires = expiration(secret)
        if secret.get("type") != self._type or expires is None:
            return
        now = self._clock.now()
        if not has_expired(expires, now):
            self.queue.add_after(key, (expires - now) / 1_000_000)
            return
        unchanged = DeleteOptions(resource_version=str(row.offset))
        try:
            await self._client.delete(self._definition, self._namespace, key, unchanged)
        except (Conflict, NotFound):
            return
