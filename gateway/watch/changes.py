"""Committed events of one type, each with its object's previous event, which is looked up at most once.

Every watched type has one `Changes`. It keeps the newest changes in memory, so that groups share the work; reads
from further back come from the journal, in steps bounded by events and by bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import orjson

from actors.turns import Turn
from journal.errors import Compacted
from journal.log import Journal
from journal.records import Event

# Kept in memory: enough for every group to process a full burst, and not much more.
KEPT_EVENTS = 2048
KEPT_BYTES = 4 << 20
# Read in one step: a few milliseconds of filtering and framing, and no more memory than a few rounds of sends.
STEP_EVENTS = 512
STEP_BYTES = 512 << 10


class TooOld(Exception):
    """The requested offset is no longer in the watch history, or no longer in the journal."""


class Change:
    """One event. `before()` returns the previous event of the same object, None when there was none."""

    __slots__ = ("_before", "_deselected_body", "_journal", "event")

    def __init__(self, journal: Journal, event: Event) -> None:
        self.event = event
        self._journal = journal
        self._before: Event | None = None
        self._deselected_body = b""

    def before(self) -> Event | None:
        if self._before is None and self.event.previous:
            with self._journal.read() as view:
                self._before = view.event(self.event.previous)
            if self._before is None:
                # Without the previous event, a MODIFIED or DELETED would be sent as ADDED or not at all.
                raise TooOld
        return self._before

    def facts_before(self) -> bytes | None:
        """The facts by which the object may have been selected before this change; a removal carries them itself."""
        if self.event.removed:
            return None
        before = self.before()
        return None if before is None else before.facts

    def deselected_body(self) -> bytes:
        """The previous object with the version of this change: DELETED carries it when an object stops matching."""
        before = self.before()
        if not self._deselected_body and before is not None:
            document = orjson.loads(before.body)
            document["metadata"]["resourceVersion"] = str(self.event.offset)
            self._deselected_body = orjson.dumps(document)
        return self._deselected_body


class Changes:
    def __init__(self, journal: Journal, type_id: int, head: int) -> None:
        self._journal = journal
        self._type_id = type_id
        self._kept: list[Change] = []
        self._offsets: list[int] = []
        self._bytes = 0
        self._floor = head  # `_kept` holds every change after it

    def add(self, event: Event) -> Change:
        """Add a committed event of this type, unless it was added before, and return it."""
        if self._offsets and event.offset <= self._offsets[-1]:
            return self._added(event)
        change = Change(self._journal, event)
        self._kept.append(change)
        self._offsets.append(event.offset)
        self._bytes += len(event.body)
        if len(self._kept) > KEPT_EVENTS or self._bytes > KEPT_BYTES:
            self._drop_older_half()
        return change

    def _added(self, event: Event) -> Change:
        position = bisect_right(self._offsets, event.offset) - 1
        if position >= 0 and self._offsets[position] == event.offset:
            return self._kept[position]
        return Change(self._journal, event)

    def after(self, offset: int, upto: int, size: int = STEP_BYTES) -> tuple[list[Change], int]:
        """Return changes after an offset, none beyond `upto`, and the offset up to which they are complete."""
        if offset >= self._floor:
            first = bisect_right(self._offsets, offset)
            return _step(self._kept[first : first + STEP_EVENTS], upto, size, None)
        with self._journal.read() as view:
            try:
                events = view.events(offset, type_id=self._type_id)
            except Compacted:
                raise TooOld from None
            return _step((Change(self._journal, event) for event in events), upto, size, Turn())

    def _drop_older_half(self) -> None:
        """Free memory; groups that still need these changes read them from the journal."""
        half = len(self._kept) // 2 + 1
        self._floor = self._offsets[half - 1]
        self._bytes -= sum([len(change.event.body) for change in self._kept[:half]])
        del self._kept[:half], self._offsets[:half]


def _step(changes: Iterable[Change], upto: int, size: int, turn: Turn | None) -> tuple[list[Change], int]:
    """`turn`: for changes that have to be read."""
    found: list[Change] = []
    for change in changes:
        event = change.event
        if event.offset > upto:
            break
        found.append(change)
        size -= len(event.body)
        if size <= 0 or len(found) == STEP_EVENTS or (turn is not None and turn.over()):
            return found, event.offset
    return found, upto
