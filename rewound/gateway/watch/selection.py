"""The filter of a group: which changes become events of a watch, and of which type.

An object that starts to match is ADDED; one that stops matching is DELETED, with its last matching content and the
new version; a change of an object that matches neither before nor after is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from rewound.actors.runtime.turns import Turn
from rewound.actors.selectors.index import NO_CRITERIA, Criteria
from rewound.gateway.watch.changes import Changes
from rewound.gateway.watch.frames import Frame
from rewound.gateway.watch.framing import Encode
from rewound.journal.records import Event

# Encoded between two reads of the clock: bytes of objects, and the extra cost of each event in bytes.
CLOCK_BYTES, EVENT_BYTES = 8 << 10, 1 << 10

Match = Callable[[bytes, bytes], bool]
Selected = tuple[str, bytes]  # event type, stored object


class Selection(msgspec.Struct, frozen=True):
    namespace: str | None = None  # None: any
    name: str | None = None
    match: Match | None = None  # matches the facts and the body of an event; None: all
    criteria: Criteria = NO_CRITERIA  # keys under which an index finds `match`; if empty, it is always tried

    def select(self, event: Event, changes: Changes) -> Selected | None:
        """The type and object of the watch event for a change, or None; `changes` has the previous events."""
        if self.namespace is not None and event.namespace != self.namespace:
            return None
        if self.name is not None and event.name != self.name:
            return None
        if self.match is None:
            if event.removed:
                return "DELETED", event.body
            return ("MODIFIED" if event.previous else "ADDED"), event.body
        return self._select_matching(event, changes, self.match)

    def framed(
        self,
        events: Sequence[Event],
        changes: Changes,
        frame: Encode,
        first: Encode | None,
        turn: Turn | None,
    ) -> tuple[list[Frame], int | None]:
        """The frames of as many events as fit the turn, and the offset of the last one, or None if that is all.

        `first` encodes the first event of a watch, if that is among them and differs.
        """
        if self.namespace is None and self.name is None and self.match is None:
            return _all_framed(events, frame, first, turn)
        frames: list[Frame] = []
        encode = first or frame
        for event in events:
            selected = self.select(event, changes)
            if selected is not None:
                frames.append((event.offset, encode(*selected)))
                encode = frame
            if turn is not None and turn.over():
                return frames, None if event is events[-1] else event.offset
        return frames, None

    def select_all(self, events: Iterable[Event], changes: Changes) -> list[tuple[int, str, bytes]]:
        """For each change that becomes an event of a watch: its offset, the type, and the stored object."""
        found = ((event.offset, self.select(event, changes)) for event in events)
        return [(offset, *selected) for offset, selected in found if selected is not None]

    @staticmethod
    def _select_matching(event: Event, changes: Changes, match: Match) -> Selected | None:
        if event.removed:
            return ("DELETED", event.body) if match(event.facts, event.body) else None
        before = changes.before(event)
        matched = before is not None and match(before.facts, before.body)
        if match(event.facts, event.body):
            return ("MODIFIED" if matched else "ADDED"), event.body
        return ("DELETED", changes.deselected_body(event)) if matched else None


def _all_framed(
    events: Sequence[Event], frame: Encode, first: Encode | None, turn: Turn | None
) -> tuple[list[Frame], int | None]:
    """Like `Selection.framed` if every event is selected: reads the clock less often."""
    frames: list[Frame] = []
    encode = first or frame
    left = CLOCK_BYTES
    for event in events:
        kind = "DELETED" if event.removed else "MODIFIED" if event.previous else "ADDED"
        frames.append((event.offset, encode(kind, event.body)))
        encode = frame
        left -= EVENT_BYTES + len(event.body)
        if left <= 0 and turn is not None:
            left = CLOCK_BYTES
            if turn.over():
                return frames, None if event is events[-1] else event.offset
    return frames, None
