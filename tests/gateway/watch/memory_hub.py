"""A watch hub on a real journal with pipes in memory: for tests of groups in virtual time, with sends split anywhere.

async with memory_hub() as base:
    watcher = base.join(FakePipe(room=100))
    base.put("a")
    await wait_all_tasks_blocked()
    assert watcher.names == ["a"]
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import orjson
import trio

from rewound.actors.selectors import LabelSelector, criteria, matcher
from rewound.actors.selectors.facts import pack_facts
from rewound.actors.store.feed import Feed
from rewound.gateway.handlers.watches import BookmarkParts, bookmarker, encoder
from rewound.gateway.watch.broadcast import one_by_one
from rewound.gateway.watch.framing import Framing, document, unframed
from rewound.gateway.watch.group import Group
from rewound.gateway.watch.hub import Hub
from rewound.gateway.watch.interest import Interest
from rewound.gateway.watch.member import Member
from rewound.gateway.watch.selection import Selection
from rewound.journal.log import Journal
from rewound.journal.records import Event
from tests.actors.object_store import memory_folder

THINGS, OTHERS = "definition of things", "definition of others"
PREFIX = b'{"kind":"Thing","apiVersion":"v1",'


class FakePipe:
    """A pipe with room for some bytes. `slice`: it takes this many at once and sends what fits, as TLS does."""

    def __init__(self, room: float = inf, slice: int = 0) -> None:
        self.room = room
        self.received = b""
        self.calls = 0
        self.closed = False
        self.deadline = inf
        self._slice = slice
        self._unsent = b""
        self._writable = trio.lowlevel.ParkingLot()
        self._woken = trio.Event()
        self.waiting = 0

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def transmit(self, data: bytes | memoryview) -> int:
        self.calls += 1
        if self.closed:
            raise ConnectionResetError("disconnected")
        if self._unsent:
            return 0
        if not self._slice:
            return self._send(bytes(data))
        taken = 0
        while taken < len(data):
            part = bytes(data[taken : taken + self._slice])
            taken += len(part)
            self._unsent = part[self._send(part) :]
            if self._unsent:
                return -taken
        return taken

    broadcast = staticmethod(one_by_one)

    def _send(self, data: bytes) -> int:
        sent = int(min(self.room, len(data)))
        self.room -= sent
        self.received += data[:sent]
        return sent

    def read(self, count: float) -> None:
        """Let the client read more bytes."""
        self.room += count
        self._writable.unpark_all()

    async def flush(self) -> None:
        assert not self.waiting, "two tasks wait for one pipe"
        self.waiting += 1
        try:
            if self.closed:
                raise trio.ClosedResourceError
            if self.room <= 0:
                await self._writable.park()
            else:
                await trio.lowlevel.checkpoint()
            self.flush_nowait()
        finally:
            self.waiting -= 1

    def flush_nowait(self) -> None:
        self._unsent = self._unsent[self._send(self._unsent) :]

    async def receive(self) -> bytes:
        await self._woken.wait()
        self._woken = trio.Event()
        raise trio.ClosedResourceError

    def interrupt(self) -> None:
        self._woken.set()
        self._writable.unpark_all()

    def close(self) -> None:
        self.closed = True
        self.interrupt()


class Watcher:
    def __init__(self, group: Group, member: Member, pipe: FakePipe) -> None:
        self.group = group
        self.member = member
        self.pipe = pipe

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the events received in whole lines."""
        *lines, _ = self.pipe.received.split(b"\n")
        return [orjson.loads(line) for line in lines]

    @property
    def names(self) -> list[str]:
        return [event["object"]["metadata"].get("name", "") for event in self.events]

    @property
    def versions(self) -> list[int]:
        return [int(event["object"]["metadata"]["resourceVersion"]) for event in self.events]


class MemoryHub:
    def __init__(self, journal: Journal, nursery: trio.Nursery) -> None:
        self.journal = journal
        self.type_id = journal.register_type("things")
        self.other_id = journal.register_type("others")
        self.feed = Feed(journal.head, journal)
        self.floor = 0
        self.served = {THINGS, OTHERS}
        self.hub = Hub(journal, self.feed, lambda type_name="": self.floor, nursery, self.served.__contains__)
        self._latest: dict[str, Event] = {}
        self._next = journal.head + 1

    # Writes.

    def event(self, name: str, *, removed: bool = False, size: int = 0, **labels: str) -> Event:
        before = self._latest.get(name)
        offset, self._next = self._next, self._next + 1
        if removed:
            assert before is not None
            document = orjson.loads(before.body)
            facts = before.facts
        else:
            document = {"metadata": {"name": name, "labels": labels}, "data": "x" * size}
            facts = pack_facts(labels, {"metadata.name": name}, name, ())
        document["metadata"]["resourceVersion"] = str(offset)
        event = Event(
            offset=offset,
            type_id=self.type_id,
            verb="delete" if removed else "update",
            namespace="",
            name=name,
            previous=before.offset if before else 0,
            removed=removed,
            time=offset * 1_000_000,
            user="u",
            manager="m",
            facts=facts,
            body=orjson.dumps(document),
        )
        if removed:
            del self._latest[name]
        else:
            self._latest[name] = event
        return event

    def commit(self, events: Sequence[Event]) -> None:
        self.journal.append(events)
        self.feed.publish(events)

    def put(self, name: str, *, size: int = 0, **labels: str) -> int:
        event = self.event(name, size=size, **labels)
        self.commit([event])
        return event.offset

    def remove(self, name: str) -> int:
        event = self.event(name, removed=True)
        self.commit([event])
        return event.offset

    def put_other_type(self) -> int:
        """Write an object of another type."""
        event = self.event(f"o-{self._next}")._replace(type_id=self.other_id)
        del self._latest[event.name]
        self.commit([event])
        return event.offset

    # Watchers.

    def interest(
        self,
        labels: str = "",
        *,
        name: str | None = None,
        bookmarks: bool = False,
        first_differs: bool = False,
    ) -> Interest:
        def item(body: bytes) -> bytes:
            return PREFIX + body[1:]

        def make() -> Interest:
            selector = LabelSelector.parse(labels)
            return Interest(
                (labels, name, bookmarks, first_differs),
                self.type_id,
                "things",
                Selection(None, name, matcher(selector, None), criteria(selector, None)),
                encoder(document, item),
                encoder(document, lambda body: b'{"columns":1,' + body[1:]) if first_differs else None,
                document,
                bookmarker(document, BookmarkParts(PREFIX)) if bookmarks else None,
                definition=THINGS,
            )

        return self.hub.interest((labels, name, bookmarks, first_differs), make)

    def join(
        self,
        pipe: FakePipe | None = None,
        labels: str = "",
        *,
        after: int | None = None,
        ends_at: float = inf,
        framing: Framing = unframed,
        **asked: Any,
    ) -> Watcher:
        pipe = pipe or FakePipe()
        interest = self.interest(labels, **asked)
        member = Member(pipe, ends_at, self.hub, first_pending=interest.encode_first is not None)
        member.cursor = self.feed.head if after is None else after
        self.hub.enter(member, interest)
        return Watcher(self.hub.join(interest, framing, member), member, pipe)

    def leave(self, watcher: Watcher, labels: str = "", **asked: Any) -> None:
        self.hub.leave(self.interest(labels, **asked), unframed, watcher.member)


@asynccontextmanager
async def memory_hub() -> AsyncIterator[MemoryHub]:
    with memory_folder() as folder:
        journal = Journal.open(folder / "journal")
        async with trio.open_nursery() as nursery:
            yield MemoryHub(journal, nursery)
            nursery.cancel_scope.cancel()
        journal.close()
