"""Event expiry: deletes Events when --event-ttl has passed since they were last written.

Events of both API groups are one stored type. Those that are due at about the same time share a slot, so that writing
an Event adds one entry to a list, and the queue has one key per slot. So an Event stays up to a twentieth of its TTL
longer, at most a minute, as with the shared leases of v1.25.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from rewound.actors.controllers.client import BATCH, Client, run_concurrently
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.stored_objects import Page, take_pages
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import Conflict, NotFound
from rewound.actors.identity import SERVER_USER
from rewound.actors.messages import DeleteOptions
from rewound.actors.store.document import is_being_deleted
from rewound.journal.records import Event
from rewound.journal.view import View

SECOND = 1_000_000
Version = tuple[str, str, int]  # namespace, name, and the offset of the write that set the time


class EventExpiry:
    name = "event expiry"

    def __init__(self, context: ControllerContext) -> None:
        self._journal, self._clock = context.journal, context.clock
        self._lifetime = round(context.event_ttl * SECOND)
        self._width = max(min(self._lifetime // 20, 60 * SECOND), SECOND)
        self._type_id = context.journal.type_id("events")
        self.observed_types = frozenset({self._type_id})
        self._definition = context.registry.current.storage("events")
        self._client = Client(context.directory, context.write_contexts, SERVER_USER)
        self._slots: dict[int, list[Version]] = {}
        self.queue: WorkQueue[int] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id and not event.removed and not is_being_deleted(event.body):
                self._schedule((event.namespace, event.name, event.offset), event.time)

    def _schedule(self, version: Version, written: int) -> None:
        slot = -(-(written + self._lifetime) // self._width)
        versions = self._slots.get(slot)
        if versions is not None:
            versions.append(version)
            return
        self._slots[slot] = [version]
        self.queue.add_after(slot, self._seconds_until(slot))

    def _seconds_until(self, slot: int) -> float:
        return max(slot * self._width - self._clock.now(), 0) / SECOND

    async def catch_up(self) -> None:
        self._slots.clear()
        await take_pages(self._journal, self._type_id, None, self._take)

    def _take(self, view: View, page: Page) -> None:
        expired = view.offset_at(self._clock.now() - self._lifetime)
        for namespace, name, row in page:
            if not is_being_deleted(row.body):
                written = 0 if row.offset <= expired else self._time(view, row.offset)
                self._schedule((namespace, name, row.offset), written)

    def _time(self, view: View, offset: int) -> int:
        """When the write of this offset happened; the present if the journal no longer has it."""
        after = max(offset - 1, view.floor)
        found = next(view.events(after, type_id=self._type_id, contents=False), None)
        return self._clock.now() if found is None else found.time

    async def reconcile(self, key: int) -> None:
        if pause := self._seconds_until(key):
            self.queue.add_after(key, pause)
            return
        versions = self._slots.pop(key, [])
        remaining = iter(versions)
        while batch := list(islice(remaining, BATCH)):
            errors = await run_concurrently(self._delete, self._unchanged(batch))
            if errors:
                self._slots.setdefault(key, []).extend(versions)
                raise errors[0]

    def _unchanged(self, versions: list[Version]) -> list[Version]:
        """The versions that no later write has replaced or removed."""
        with self._journal.read() as view:
            return [one for one in versions if self._is_current(view, one)]

    def _is_current(self, view: View, version: Version) -> bool:
        namespace, name, offset = version
        row = view.get(self._type_id, namespace, name)
        return row is not None and row.offset == offset

    async def _delete(self, version: Version) -> None:
        namespace, name, offset = version
        unchanged = DeleteOptions(resource_version=str(offset))
        try:
            await self._client.delete(self._definition, namespace, name, unchanged)
        except (Conflict, NotFound):
            return
