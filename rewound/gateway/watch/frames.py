"""Frames: events encoded for the watchers of one group, each with the offset that a watcher reaches with it.

A group sends them in rounds and keeps the newest, for members that have just fallen behind or reconnected. All groups
share one memory allowance, so one group among thousands keeps next to nothing, and its lagging members read from
`changes`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import takewhile

from rewound.gateway.watch.changes import Changes, TooOld
from rewound.gateway.watch.member import Member
from rewound.journal.records import Event

Frame = tuple[int, bytes]

# Sent in one call: a burst is sent in rounds of this size, about what a socket accepts at once.
ROUND_BYTES = 256 << 10
# Kept by one group, if its share of ALLOWANCE is that large.
RETAINED_FRAMES = 2048
RETAINED_BYTES = 2 << 20
ALLOWANCE = 16 << 20


_NONE: deque[Frame] = deque()


class RecentFrames:
    __slots__ = ("_bytes", "_frames", "_groups", "floor")

    def __init__(self, head: int, groups: Callable[[], int]) -> None:
        # None until there are some: an empty deque is a tenth of an idle group's memory.
        self._frames: deque[Frame] = _NONE
        self._bytes = 0
        self._groups = groups  # returns how many groups share the allowance
        self.floor = head  # every frame after this offset is kept

    def add(self, frames: list[Frame], size: int) -> None:
        """Add frames of so many bytes."""
        if self._frames is _NONE:
            self._frames = deque()
        kept = self._frames
        kept.extend(frames)
        size += self._bytes
        limit, surplus = allowance(self._groups()), len(kept) - RETAINED_FRAMES
        if surplus > 0:
            dropped = [kept.popleft() for _ in range(surplus)]
            size -= sum([len(data) for _, data in dropped])
            self.floor = dropped[-1][0]
        while size > limit:
            self.floor, data = kept.popleft()
            size -= len(data)
        self._bytes = size

    def clear(self, head: int) -> None:
        """Drop all frames; `head` is the offset before the next one."""
        self._frames = _NONE
        self._bytes = 0
        self.floor = head

    def after(self, cursor: int, head: int) -> tuple[list[Frame], int]:
        """The frames after a cursor at or above the floor, one round at most, and the offset that they lead to."""
        frames = list(takewhile(lambda frame: frame[0] > cursor, reversed(self._frames)))
        frames.reverse()
        first, *more = rounds(frames) or [frames]
        return first, first[-1][0] if more else head


def allowance(groups: int) -> int:
    """How many bytes each of this many groups may keep."""
    return min(RETAINED_BYTES, ALLOWANCE // max(groups, 1))


def rounds(frames: list[Frame]) -> list[list[Frame]]:
    parts: list[list[Frame]] = []
    size = ROUND_BYTES + 1  # so that the first frame starts a round, even an empty one
    for frame in frames:
        size += len(frame[1])
        if size > ROUND_BYTES:
            parts.append([])
            size = len(frame[1])
        parts[-1].append(frame)
    return parts


def joined(frames: list[Frame]) -> bytes:
    return frames[0][1] if len(frames) == 1 else b"".join([data for _, data in frames])


def joined_rounds(frames: list[Frame]) -> list[tuple[list[Frame], bytes]]:
    """Rounds, each with its joined bytes."""
    if not frames:
        return []
    data = joined(frames)
    if len(data) <= ROUND_BYTES:
        return [(frames, data)]
    return [(part, joined(part)) for part in rounds(frames)]


def note_sent(member: Member, frames: list[Frame], sent: int) -> int:
    """Advance a cursor over the frames that were sent, return their number, and store the rest of a partly sent one."""
    member.first_pending = member.first_pending and not sent
    for number, (offset, data) in enumerate(frames):
        if sent < len(data):
            if sent:
                member.cursor = offset
                member.rest = memoryview(data)[sent:]
            return number
        sent -= len(data)
        member.cursor = offset
    return len(frames)


# Offsets per segment: some ten kilobytes of small objects, and less than a round of large ones.
SEGMENT = 32

Segment = tuple[list[Frame], int]  # frames, and the offset that a watcher reaches with them


class Backlog:
    """Past events as frames, encoded once for all members that catch up.

    Thousands of watchers that reconnect after a restart, or read again after a stall, need the same events. Offsets
    are divided into segments of equal length, so that watchers with different cursors share the segments after the
    first. The cache is LRU. A segment that is incomplete, or larger than a round of sends, is not cached.
    """

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
        """The frames after a cursor and up to `head`, and the offset that a watcher reaches with them."""
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
        """The whole segment; None if it is too large, or its start has left the watch history."""
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
        """The offset before the next change, to skip the empty segments of a type that rarely changes."""
        events, reached = self._changes.after(offset, head, 1)
        return events[0].offset - 1 if events else reached

    def _cache(self, number: int, segment: Segment) -> None:
        self._segments[number] = segment
        self._bytes += _size(segment)
        while self._bytes > allowance(self._groups()) and len(self._segments) > 1:
            _, dropped = self._segments.popitem(last=False)
            self._bytes -= _size(dropped)


def _size(segment: Segment) -> int:
    # Empty segments count too, or the cache could hold any number of them.
    return 256 + sum(len(data) for _, data in segment[0])
