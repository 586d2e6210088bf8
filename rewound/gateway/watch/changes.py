"""Committed events of one type, with the previous event of each object, which is looked up at most once.

Every watched type has one `Changes`. It keeps the newest events in memory, so that groups share the work; older
events are read from the journal, in steps limited by events and bytes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import accumulate

import orjson

from rewound.actors.golang.json import dumps
from rewound.actors.kinds.declaration.stored_form import OF_MISFITS
from rewound.actors.runtime.turns import Turn
from rewound.actors.selectors.facts import LateField, completed
from rewound.actors.store.stored_json import is_json_object
from rewound.journal.errors import Compacted
from rewound.journal.log import Journal
from rewound.journal.records import Event

# Held in memory: enough for every group to process a full burst, and not much more.
HELD_EVENTS = 2048
HELD_BYTES = 4 << 20
# Limits of one read: a few milliseconds of filtering and framing, and no more memory than a few rounds of sends.
STEP_EVENTS = 512
STEP_BYTES = 512 << 10


class TooOld(Exception):
    """The requested offset is no longer in the watch history, or no longer in the journal."""


class Changes:
    def __init__(self, journal: Journal, type_id: int, head: int) -> None:
        self._journal = journal
        self._type_id = type_id
        self._held: list[Event] = []
        self._offsets: list[int] = []
        self._ends: list[int] = []  # total bytes of all events held so far, up to each of `_held`
        self._dropped = 0  # total bytes of those that were dropped
        self._floor = head  # `_held` has every event after this offset
        # Looked up for held events, by offset: the previous event, and the result of `deselected_body`.
        self._before: dict[int, Event] = {}
        self._deselected: dict[int, bytes] = {}

    def add(self, events: Sequence[Event]) -> None:
        """Add committed events of this type, except those that were added before."""
        offsets = self._offsets
        if offsets and events[0].offset <= offsets[-1]:
            events = [event for event in events if event.offset > offsets[-1]]
        if self._journal.is_copy:
            events = [event for event in events if is_json_object(event.body)]
        self._held += events
        ends = self._ends
        if len(events) == 1:
            offsets.append(events[0].offset)
            ends.append((ends[-1] if ends else self._dropped) + len(events[0].body))
        else:
            offsets += [event.offset for event in events]
            sizes = accumulate(
                [len(event.body) for event in events], initial=ends[-1] if ends else self._dropped
            )
            next(sizes)
            ends += sizes
        while len(offsets) > HELD_EVENTS or (ends and ends[-1] - self._dropped > HELD_BYTES):
            self._drop_older_half()

    def after(self, offset: int, upto: int, size: int = STEP_BYTES) -> tuple[list[Event], int]:
        """The events after an offset and up to `upto`, and the offset up to which they are complete."""
        if offset >= self._floor:
            return self._held_after(offset, upto, size)
        with self._journal.read() as view:
            try:
                events = view.events(offset, type_id=self._type_id)
            except Compacted:
                raise TooOld from None
            return _step(events, upto, size)

    def _held_after(self, offset: int, upto: int, size: int) -> tuple[list[Event], int]:
        offsets, ends = self._offsets, self._ends
        first = bisect_right(offsets, offset)
        beyond = bisect_right(offsets, upto, first)
        # The event that fills the step is its last one.
        reached = (ends[first - 1] if first else self._dropped) + size
        full = min(bisect_left(ends, reached, first, beyond) + 1, first + STEP_EVENTS)
        if full > beyond:
            return self._held[first:beyond], upto
        return self._held[first:full], offsets[full - 1]

    def _drop_older_half(self) -> None:
        """Free memory; groups that still need these events read them from the journal."""
        half = len(self._held) // 2 + 1
        self._floor, self._dropped = self._offsets[half - 1], self._ends[half - 1]
        if self._before:
            for offset in self._offsets[:half]:
                self._before.pop(offset, None)
                self._deselected.pop(offset, None)
        del self._held[:half], self._offsets[:half], self._ends[:half]

    # Previous events.

    def before(self, event: Event) -> Event | None:
        """The previous event of the same object; None if there was none."""
        if not event.previous:
            return None
        found = self._before.get(event.offset)
        if found is None:
            with self._journal.read() as view:
                found = view.readable(event.previous)
            if found is None:
                # Without the previous event, a MODIFIED or DELETED would be sent as ADDED or not at all.
                raise TooOld
            if event.offset > self._floor:
                self._before[event.offset] = found
        return found

    def facts_before(self, event: Event, late: Sequence[LateField] = ()) -> bytes | None:
        """The facts by which an object may have been selected before an event; a removal has them itself."""
        if event.removed:
            return None
        before = self.before(event)
        return None if before is None else completed(before.facts, before.body, late)

    def deselected_body(self, event: Event) -> bytes:
        """The previous object with the version of an event: the object of DELETED if an object stops matching."""
        body = self._deselected.get(event.offset, b"")
        if body:
            return body
        before = self.before(event)
        if before is not None:
            body = _at(before.body, event)
            if event.offset in self._before:
                self._deselected[event.offset] = body
        return body


def _at(body: bytes, event: Event) -> bytes:
    """An object with the version of a later event; what that event stored, if the object cannot be read."""
    with suppress(*OF_MISFITS):
        document = orjson.loads(body)
        document["metadata"]["resourceVersion"] = str(event.offset)
        return dumps(document)
    return event.body


def _step(events: Iterable[Event], upto: int, size: int) -> tuple[list[Event], int]:
    """Events to be read from the journal in one turn."""
    found: list[Event] = []
    turn = Turn()
    for event in events:
        if event.offset > upto:
            break
        if is_json_object(event.body):  # a foreign writer may have stored other bytes
            found.append(event)
        size -= len(event.body)
        if size <= 0 or len(found) == STEP_EVENTS or turn.over():
            return found, event.offset
    return found, upto
