"""Committed events of one type as watchers see them: each with what its object was before, looked up at most once.

The hub keeps one `Changes` per watched type. The newest changes stay in memory, so that groups share the work; whoever
is further behind reads the journal.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import orjson

from journal.log import Journal
from journal.records import Event

# What stays in memory: enough for every group to take its turn at a full burst, and not much more.
KEPT_EVENTS = 2048
KEPT_BYTES = 4 << 20


class Change:
    """One event. `before` is the event it follows for the same object, None when there was none."""

    __slots__ = ("_before", "_journal", "_left", "event")

    def __init__(self, journal: Journal, event: Event) -> None:
        self.event = event
        self._journal = journal
        self._before: Event | None = None
        self._left = b""

    def before(self) -> Event | None:
        if self._before is None and self.event.previous:
            with self._journal.read() as view:
                self._before = view.event(self.event.previous)
        return self._before

    def left(self) -> bytes:
        """The object as it was before, at the version of this change: what leaves a selection is shown so."""
        before = self.before()
        if not self._left and before is not None:
            document = orjson.loads(before.body)
            document["metadata"]["resourceVersion"] = str(self.event.offset)
            self._left = orjson.dumps(document)
        return self._left


class Changes:
    def __init__(self, journal: Journal, type_id: int, head: int) -> None:
        self._journal = journal
        self._type_id = type_id
        self._kept: list[Change] = []
        self._offsets: list[int] = []
        self._bytes = 0
        self._floor = head  # changes behind it are all kept
        self.head = head

    def add(self, events: Sequence[Event], head: int) -> bool:
        """Take over a committed batch; True when this type is in it."""
        self.head = head
        mine = [event for event in events if event.type_id == self._type_id]
        for event in mine:
            self._kept.append(Change(self._journal, event))
            self._offsets.append(event.offset)
            self._bytes += len(event.body)
        if len(self._kept) > KEPT_EVENTS or self._bytes > KEPT_BYTES:
            self._forget()
        return bool(mine)

    def after(self, offset: int, limit: int) -> tuple[list[Change], int]:
        """Up to `limit` changes behind an offset, and the offset up to which they tell everything."""
        if offset >= self._floor:
            first = bisect_right(self._offsets, offset)
            found = self._kept[first : first + limit]
        else:
            found = self._read(offset, limit)
        reached = found[-1].event.offset if len(found) == limit else self.head
        return found, reached

    def _read(self, offset: int, limit: int) -> list[Change]:
        found: list[Change] = []
        with self._journal.read() as view:
            for event in view.events(offset, type_id=self._type_id):
                if event.offset > self.head or len(found) == limit:
                    break
                found.append(Change(self._journal, event))
        return found

    def _forget(self) -> None:
        """Drop the older half; those who still need it find it in the journal."""
        half = len(self._kept) // 2 + 1
        self._floor = self._offsets[half - 1]
        self._bytes -= sum(len(change.event.body) for change in self._kept[:half])
        del self._kept[:half], self._offsets[:half]
