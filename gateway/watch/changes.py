"""Committed events of one type as watchers see them: each with what its object was before, looked up at most once.

Every watched type has one `Changes`. The newest changes stay in memory, so that groups share the work; whoever is
further behind reads the journal, in steps that are bounded by events and by bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import orjson

from journal.errors import Compacted
from journal.log import Journal
from journal.records import Event

# What stays in memory: enough for every group to take its turn at a full burst, and not much more.
KEPT_EVENTS = 2048
KEPT_BYTES = 4 << 20
# What one step takes: a few milliseconds of filtering and framing, and no more memory than a few rounds of sends.
STEP_EVENTS = 512
STEP_BYTES = 512 << 10


class TooOld(Exception):
    """What is asked for has left the watch history, or the journal."""


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
            if self._before is None:
                # Taken for an object that did not exist, a change would be shown as something it is not.
                raise TooOld
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

    def add(self, event: Event) -> None:
        """Take over a committed event of this type, unless it is here already."""
        if self._offsets and event.offset <= self._offsets[-1]:
            return
        # A copy: what orjson made of an object keeps the room it was made in, eight times its size.
        event = event._replace(body=bytes(memoryview(event.body)))
        self._kept.append(Change(self._journal, event))
        self._offsets.append(event.offset)
        self._bytes += len(event.body)
        if len(self._kept) > KEPT_EVENTS or self._bytes > KEPT_BYTES:
            self._forget()

    def after(self, offset: int, upto: int, size: int = STEP_BYTES) -> tuple[list[Change], int]:
        """Some changes behind an offset and not beyond `upto`, and the offset up to which they tell everything."""
        if offset >= self._floor:
            first = bisect_right(self._offsets, offset)
            return _step(self._kept[first : first + STEP_EVENTS], upto, size)
        with self._journal.read() as view:
            try:
                events = view.events(offset, type_id=self._type_id)
            except Compacted:
                raise TooOld from None
            return _step((Change(self._journal, event) for event in events), upto, size)

    def _forget(self) -> None:
        """Drop the older half; those who still need it find it in the journal."""
        half = len(self._kept) // 2 + 1
        self._floor = self._offsets[half - 1]
        self._bytes -= sum(len(change.event.body) for change in self._kept[:half])
        del self._kept[:half], self._offsets[:half]


def _step(changes: Iterable[Change], upto: int, size: int) -> tuple[list[Change], int]:
    found: list[Change] = []
    for change in changes:
        event = change.event
        if event.offset > upto:
            break
        found.append(change)
        size -= len(event.body)
        if size <= 0 or len(found) == STEP_EVENTS:
            return found, event.offset
    return found, upto
