"""Frames: events as the bytes that one group's watchers get, each with the offset that it brings a watcher to.

A group sends them in rounds and keeps the newest, for members who have just fallen behind or come back. What all
groups keep together is bounded, so a group among thousands keeps next to nothing: its laggards read the changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import takewhile

from gateway.watch.member import Member

Frame = tuple[int, bytes]

# Offered in one call: a burst travels in rounds of this size, about what a socket takes at once.
ROUND_BYTES = 256 << 10
# Kept by one group, if the allowance of all groups gives it that much.
KEPT_FRAMES = 2048
KEPT_BYTES = 2 << 20
ALLOWANCE = 16 << 20


class KeptFrames:
    def __init__(self, head: int, groups: Callable[[], int]) -> None:
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._groups = groups  # how many share the allowance
        self.floor = head  # frames behind it are all kept

    def add(self, frames: list[Frame]) -> None:
        self._frames.extend(frames)
        self._bytes += sum(len(data) for _, data in frames)
        most = allowance(self._groups())
        while len(self._frames) > KEPT_FRAMES or self._bytes > most:
            self.floor, data = self._frames.popleft()
            self._bytes -= len(data)

    def forget(self, head: int) -> None:
        """Keep nothing up to an offset."""
        self._frames.clear()
        self._bytes = 0
        self.floor = head

    def after(self, cursor: int, head: int) -> tuple[list[Frame], int]:
        """Those behind a cursor that is not below the floor, no more than a round takes, and where they lead."""
        behind = list(takewhile(lambda frame: frame[0] > cursor, reversed(self._frames)))
        behind.reverse()
        first, *more = rounds(behind) or [behind]
        return first, first[-1][0] if more else head


def allowance(groups: int) -> int:
    """Bytes that one of so many groups may keep."""
    return min(KEPT_BYTES, ALLOWANCE // max(groups, 1))


def rounds(frames: list[Frame]) -> list[list[Frame]]:
    parts: list[list[Frame]] = []
    size = ROUND_BYTES
    for frame in frames:
        size += len(frame[1])
        if size > ROUND_BYTES:
            parts.append([])
            size = len(frame[1])
        parts[-1].append(frame)
    return parts


def joined(frames: list[Frame]) -> bytes:
    return frames[0][1] if len(frames) == 1 else b"".join([data for _, data in frames])


def note_sent(member: Member, frames: list[Frame], sent: int) -> int:
    """Move a cursor over the frames that were taken whole, and tell how many; keep the rest of the one that was not."""
    member.fresh = member.fresh and not sent
    for number, (offset, data) in enumerate(frames):
        if sent < len(data):
            if sent:
                member.cursor = offset
                member.rest = memoryview(data)[sent:]
            return number
        sent -= len(data)
        member.cursor = offset
    return len(frames)
