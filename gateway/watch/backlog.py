"""Past events as one group's frames, encoded once for all members that catch up through them.

Thousands of watchers that reconnect after a restart, or read again after a stall, need the same events. Offsets are
divided into segments of one length, so that watchers with different cursors share the segments after the first;
the cache drops the least recently used. An incomplete segment, or one larger than a round of sends, is not cached.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from gateway.watch.changes import Changes, TooOld
from gateway.watch.frames import ROUND_BYTES, Frame, allowance
from journal.records import Event

# Offsets in one segment: some ten kilobytes of small objects, and less than a round of large ones.
SEGMENT = 32

Segment = tuple[list[Frame], int]  # frames, and the offset that they bring a watcher to


class Backlog:
    __slots__ = ("_bytes", "_changes", "_framed", "_groups", "_segments")

    def __init__(
        self, changes: Changes, framed: Callable[[list[Event]], list[Frame]], groups: Callable[[], int]
    ) -> None:
        self._changes = changes
        self._framed = framed
        self._groups = groups
        self._segments: OrderedDict[int, Segment] = OrderedDict()
        self._bytes = 0

    def after(self, cursor: int, head: int) -> Segment:
        """Return frames after a cursor, none beyond `head`, and the offset that they bring a watcher to."""
        number = cursor // SEGMENT
        segment = self._segments.get(number)
        if segment is None:
            segment = self._build(number, head) if (number + 1) * SEGMENT <= head else None
            if segment is None:
                upto = min(head, (number + 1) * SEGMENT)
                events, reached = self._changes.after(cursor, upto, ROUND_BYTES)
                return self._framed(events), reached
            self._cache(number, segment)
        self._segments.move_to_end(number)
        frames, reached = segment
        if frames and frames[0][0] <= cursor:
            frames = [frame for frame in frames if frame[0] > cursor]
        return frames, reached

    def _build(self, number: int, head: int) -> Segment | None:
        """Return the whole segment; None if it is too large, or its beginning has left the watch history."""
        begin, end = number * SEGMENT, (number + 1) * SEGMENT
        try:
            events, reached = self._changes.after(begin, end, ROUND_BYTES)
            if reached < end:
                return None
            if not events:
                reached = self._empty_until(end, head)
            return self._framed(events), reached
        except TooOld:
            return None

    def _empty_until(self, offset: int, head: int) -> int:
        """Return the offset before the next change, to skip the empty segments of a type that seldom changes."""
        events, reached = self._changes.after(offset, head, 1)
        return events[0].offset - 1 if events else reached

    def _cache(self, number: int, segment: Segment) -> None:
        self._segments[number] = segment
        self._bytes += _size(segment)
        while self._bytes > allowance(self._groups()) and len(self._segments) > 1:
            _, dropped = self._segments.popitem(last=False)
            self._bytes -= _size(dropped)


def _size(segment: Segment) -> int:
    # An empty segment counts too, or the cache could hold any number of them.
    return 256 + sum(len(data) for _, data in segment[0])
