"""Deletes the Endpoints of a Service when the Service is deleted.

An API server alone needs only this part of the endpoints controller; `actors.workloads.endpoints` has all of it,
including this.

A new Service of the same name must not get the addresses of the old one. Endpoints that a client wrote after the
Service was deleted stay. Endpoints may also exist without any Service. That is why the controller searches for nothing
at start, and why they have no owner reference for the garbage collector.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import Conflict, NotFound
from rewound.actors.messages import DeleteOptions
from rewound.journal.records import Event

DeletedService = tuple[str, str, int]  # namespace, name, and the offset of the delete


class EndpointsCleanup:
    name = "endpoints cleanup"

    def __init__(self, context: ControllerContext) -> None:
        self._journal = context.journal
        self._services = context.journal.type_id("services")
        self.observed_types = frozenset({self._services})
        self._endpoints = context.journal.type_id("endpoints")
        self._definition = context.registry.current.storage("endpoints")
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, "endpoint-controller"
        )
        self.queue: WorkQueue[DeletedService] = WorkQueue(namespace_of=lambda key: key[0])

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.removed and event.type_id == self._services:
                self.queue.add((event.namespace, event.name, event.offset))

    async def catch_up(self) -> None:
        """Do nothing: stored Endpoints do not show whether a Service existed."""

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
