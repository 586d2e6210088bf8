"""The service account controller: every active namespace has a service account named `default`.

Pods that name no account run as this one. It is made with the namespace and made again when it is deleted;
a namespace that is going gets none, and admission would refuse it anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from actors.controllers.marks import is_marked
from actors.controllers.slices import Place, next_slice
from actors.controllers.work import WorkQueue
from actors.controllers.writer import Writer
from actors.errors import AlreadyExists
from actors.kinds.registry import Registry
from actors.names import Names
from actors.resource.directory import Directory
from actors.stamps import Stamps
from journal.log import Journal
from journal.records import Event

ACCOUNT = "default"


class ServiceAccountController:
    name = "service account controller"

    def __init__(
        self, registry: Registry, journal: Journal, directory: Directory, stamps: Stamps, names: Names
    ) -> None:
        self._journal = journal
        self._namespaces = journal.type_id("namespaces")
        self._accounts = journal.type_id("serviceaccounts")
        self._definition = registry.current.storage("serviceaccounts")
        self._writer = Writer.of_controller(directory, stamps, names, "service-account-controller")
        self.queue: WorkQueue[str] = WorkQueue()

    def note(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._namespaces:
                if not event.previous:
                    self.queue.add(event.name)
            elif event.type_id == self._accounts and event.removed and event.name == ACCOUNT:
                self.queue.add(event.namespace)

    async def catch_up(self) -> None:
        after: Place | None = None
        while (after := self._scan(after)) is not None:
            await trio.lowlevel.checkpoint()

    def _scan(self, after: Place | None) -> Place | None:
        last = None
        with self._journal.read() as view:
            for _, name, row in next_slice(view, self._namespaces, "", after):
                last = ("", name)
                if view.get(self._accounts, name, ACCOUNT) is None and not is_marked(row.body):
                    self.queue.add(name)
        return last

    async def handle(self, key: str) -> None:
        if not self._wanting(key):
            return
        new = self._definition.schema.decode_object({"metadata": {"name": ACCOUNT}}).object
        try:
            await self._writer.create(self._definition, key, new)
        except AlreadyExists:
            return

    def _wanting(self, namespace: str) -> bool:
        with self._journal.read() as view:
            row = view.get(self._namespaces, "", namespace)
            if row is None or is_marked(row.body):
                return False
            return view.get(self._accounts, namespace, ACCOUNT) is None
