"""Stretches of the past as one group's frames, made once for all members who pass through them.

Thousands who come back after a restart, or read again after a stall, want the same events. Offsets are cut into
stretches of one length, so that those who begin at different places meet in the next stretch; the least recently used
are forgotten first. A stretch that is not over, or holds more than a round of sends, is made for its member alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from gateway.watch.changes import Change, Changes, TooOld
from gateway.watch.frames import ROUND_BYTES, Frame, allowance

# Offsets of one stretch: some ten kilobytes of small objects, and not yet a round of large ones.
STRETCH = 32

Stretch = tuple[list[Frame], int]  # frames, and the offset that they bring a watcher to


class Backlog:
    def __init__(
        self, changes: Changes, framed: Callable[[list[Change]], list[Frame]], groups: Callable[[], int]
    ) -> None:
        self._changes = changes
        self._framed = framed
        self._groups = groups
        self._stretches: OrderedDict[int, Stretch] = OrderedDict()
        self._bytes = 0

    def after(self, cursor: int, head: int) -> Stretch:
        """Some frames behind a cursor and not beyond `head`, and where they lead."""
        number = cursor // STRETCH
        known = self._stretches.get(number)
        if known is None:
            known = self._make(number, head) if (number + 1) * STRETCH <= head else None
            if known is None:
                changes, reached = self._changes.after(cursor, head, ROUND_BYTES)
                return self._framed(changes), reached
            self._keep(number, known)
        self._stretches.move_to_end(number)
        frames, reached = known
        if frames and frames[0][0] <= cursor:
            frames = [frame for frame in frames if frame[0] > cursor]
        return frames, reached

    def _make(self, number: int, head: int) -> Stretch | None:
        """The whole stretch; None if it is too large, or its beginning has left the history."""
        begin, end = number * STRETCH, (number + 1) * STRETCH
        try:
            changes, reached = self._changes.after(begin, end, ROUND_BYTES)
            if reached < end:
                return None
            if not changes:
                reached = self._silence_after(end, head)
            return self._framed(changes), reached
        except TooOld:
            return None

    def _silence_after(self, offset: int, head: int) -> int:
        """How far on nothing happens: a type that seldom changes is not walked through step by step."""
        changes, reached = self._changes.after(offset, head, 1)
        return changes[0].event.offset - 1 if changes else reached

    def _keep(self, number: int, stretch: Stretch) -> None:
        self._stretches[number] = stretch
        self._bytes += _size(stretch)
        while self._bytes > allowance(self._groups()) and len(self._stretches) > 1:
            _, forgotten = self._stretches.popitem(last=False)
            self._bytes -= _size(forgotten)


def _size(stretch: Stretch) -> int:
    # What an empty one takes counts too, or there could be any number of them.
    return 256 + sum(len(data) for _, data in stretch[0])
