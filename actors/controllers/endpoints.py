"""The endpoints controller: deletes the endpoints of a service when the service is deleted.

A new service of the same name must not get the addresses of the old one. Endpoints that a client has written after the
service was deleted stay. Endpoints may also exist without any service: that is why the controller looks for nothing at
start, and why they have no owner reference that the garbage collector could follow.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.controllers.client import Client
from actors.controllers.work_queue import WorkQueue
from actors.errors import Conflict, NotFound
from actors.kinds.registry import Registry
from actors.messages import DeleteOptions
from actors.names import Names
from actors.resource.directory import Directory
from actors.write_context import WriteContexts
from journal.log import Journal
from journal.records import Event

DeletedService = tuple[str, str, int]  # namespace, name, and the offset of the delete


class EndpointsController:
    name = "endpoints controller"

    def __init__(
        self,
        registry: Registry,
        journal: Journal,
        directory: Directory,
        write_contexts: WriteContexts,
        names: Names,
    ) -> None:
        self._journal = journal
        self._services = journal.type_id("services")
        self.observed_types = frozenset({self._services})
        self._endpoints = journal.type_id("endpoints")
        self._definition = registry.current.storage("endpoints")
        self._client = Client.of_controller(directory, write_contexts, names, "endpoint-controller")
        self.queue: WorkQueue[DeletedService] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.removed and event.type_id == self._services:
                self.queue.add((event.namespace, event.name, event.offset))

    async def catch_up(self) -> None:
        """Do nothing: stored endpoints do not show whether a service existed."""

    async def reconcile(self, key: DeletedService) -> None:
        namespace, name, deleted_at = key
        with self._journal.read() as view:
            row = view.get(self._endpoints, namespace, name)
        if row is None or row.offset > deleted_at:
            return
        unchanged = DeleteOptions(resource_version=str(row.offset))
        try:
            await self._client.delete(self._definition, namespace, name, unchanged)
        except (Conflict, NotFound):
            return
