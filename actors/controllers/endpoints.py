"""The endpoints controller: endpoints go with the service whose name they have.

Whoever makes a service of that name again must not find the addresses of the one before. Endpoints that somebody
has written since the service went are theirs and stay. Endpoints may also be there without any service: that is why
nothing is looked for at the start, and why there is no owner reference that the garbage collector could follow.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.controllers.work import WorkQueue
from actors.controllers.writer import Writer
from actors.errors import Conflict, NotFound
from actors.kinds.registry import Registry
from actors.messages import DeleteOptions
from actors.names import Names
from actors.resource.directory import Directory
from actors.stamps import Stamps
from journal.log import Journal
from journal.records import Event

Gone = tuple[str, str, int]  # namespace and name of a service, and when it went


class EndpointsController:
    name = "endpoints controller"

    def __init__(
        self, registry: Registry, journal: Journal, directory: Directory, stamps: Stamps, names: Names
    ) -> None:
        self._journal = journal
        self._services = journal.type_id("services")
        self._endpoints = journal.type_id("endpoints")
        self._definition = registry.current.storage("endpoints")
        self._writer = Writer.of_controller(directory, stamps, names, "endpoint-controller")
        self.queue: WorkQueue[Gone] = WorkQueue()

    def note(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.removed and event.type_id == self._services:
                self.queue.add((event.namespace, event.name, event.offset))

    async def catch_up(self) -> None:
        """Nobody can tell from what is there which endpoints a service has left behind."""

    async def handle(self, key: Gone) -> None:
        namespace, name, gone = key
        with self._journal.read() as view:
            row = view.get(self._endpoints, namespace, name)
        if row is None or row.offset > gone:
            return
        as_it_is = DeleteOptions(resource_version=str(row.offset))
        try:
            await self._writer.delete(self._definition, namespace, name, as_it_is)
        except (Conflict, NotFound):
            return
