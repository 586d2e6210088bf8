"""The service account controller: creates a service account named `default` in every active namespace.

Pods that name no service account run as this one. The controller creates it with the namespace and again when it is
deleted, but not in a terminating namespace, where admission would refuse it.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from actors.controllers.client import Client
from actors.controllers.context import ControllerContext
from actors.controllers.pages import Position, next_page
from actors.controllers.work_queue import WorkQueue
from actors.errors import AlreadyExists
from actors.store.document import is_being_deleted
from journal.records import Event

ACCOUNT = "default"


class ServiceAccountController:
    name = "service account controller"

    def __init__(self, context: ControllerContext) -> None:
        self._journal = context.journal
        self._namespaces = context.journal.type_id("namespaces")
        self._accounts = context.journal.type_id("serviceaccounts")
        self.observed_types = frozenset({self._namespaces, self._accounts})
        self._definition = context.registry.current.storage("serviceaccounts")
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, "service-account-controller"
        )
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._namespaces:
                if not event.previous:
                    self.queue.add(event.name)
            elif event.type_id == self._accounts and event.removed and event.name == ACCOUNT:
                self.queue.add(event.namespace)

    async def catch_up(self) -> None:
        after: Position | None = None
        while (after := self._scan(after)) is not None:
            await trio.lowlevel.checkpoint()

    def _scan(self, after: Position | None) -> Position | None:
        last = None
        with self._journal.read() as view:
            for _, name, row in next_page(view, self._namespaces, "", after):
                last = ("", name)
                if view.get(self._accounts, name, ACCOUNT) is None and not is_being_deleted(row.body):
                    self.queue.add(name)
        return last

    async def reconcile(self, key: str) -> None:
        if not self._needs_account(key):
            return
        new = self._definition.schema.decode_object({"metadata": {"name": ACCOUNT}}).object
        try:
            await self._client.create(self._definition, key, new)
        except AlreadyExists:
            return

    def _needs_account(self, namespace: str) -> bool:
        with self._journal.read() as view:
            row = view.get(self._namespaces, "", namespace)
            if row is None or is_being_deleted(row.body):
                return False
            return view.get(self._accounts, namespace, ACCOUNT) is None
