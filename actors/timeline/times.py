"""Finds the offsets of many times: times never decrease along the log, so each is a binary search.

A search of the whole log reads twenty events. The times of some events are kept in memory, one every `STEP` offsets, so
that a search reads at most the events between two of them. What was found for a time before the newest event cannot
change any more, and is remembered: a timeline that moves asks for the same times again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial
from typing import Final

from actors.rewind.steps import Steps, Work
from journal import history, keys, records
from journal.log import Journal
from journal.view import View

STEP: Final = 512
_SLICE: Final = 16  # marks read, or times found, per transaction
_REMEMBERED: Final = 50_000


class Times:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._offsets, self._times = array("Q"), array("Q")  # of the marks, ascending
        self._found: dict[int, int] = {}
        self.newest = 0  # the time of the newest event that is covered
        self.oldest = 0  # that of the first event that is still there

    def update(self, start: int, head: int) -> Steps[None]:
        """Cover the events after `start` up to `head`."""
        if (gone := bisect_right(self._offsets, start) - 1) > 0:  # one before the first event stays
            del self._offsets[:gone], self._times[:gone]
            self._found.clear()
        following = max(start + 1, self._offsets[-1] + STEP if self._offsets else 0)
        while following <= head:
            yield Work(partial(self._read_marks, following, head))
            following += STEP * _SLICE
        yield Work(partial(self._read_ends, start, head))

    def _read_marks(self, following: int, head: int) -> None:
        with self._journal.read() as view:
            for wanted in range(following, min(following + STEP * _SLICE, head + 1), STEP):
                offset, time = _first_event(view, wanted)
                if offset > (self._offsets[-1] if self._offsets else 0):
                    self._offsets.append(offset)
                    self._times.append(time)

    def _read_ends(self, start: int, head: int) -> None:
        with self._journal.read() as view:
            self.oldest = _first_event(view, start + 1)[1]
            newest = view.event(head)
            self.newest = self.oldest if newest is None else newest.time

    def offsets_before(self, times: Sequence[int], start: int, upto: int) -> Steps[list[int]]:
        """The newest offset before each of these times, from `start` to `upto`."""
        found: list[int] = []
        for at in range(0, len(times), _SLICE):
            found += yield Work(partial(self._find, times[at : at + _SLICE], start, upto))
        return found

    def _find(self, times: Sequence[int], start: int, upto: int) -> list[int]:
        with self._journal.read() as view:
            return [min(max(self._offset_before(view, time), start), upto) for time in times]

    def _offset_before(self, view: View, time: int) -> int:
        known = self._found.get(time)
        if known is not None:
            return known
        if not self._offsets or time <= self._times[0]:
            return 0
        if time > self.newest:
            return keys.MAX_OFFSET
        # The mark before is earlier than the time, that after it is not.
        mark = bisect_left(self._times, time)
        high = self._offsets[mark] if mark < len(self._offsets) else view.head
        found = history.offset_at(view, time - 1, self._offsets[mark - 1], high)
        if len(self._found) >= _REMEMBERED:
            self._found.clear()
        self._found[time] = found
        return found

    def statistics(self) -> dict[str, int]:
        return {"marks": len(self._offsets), "remembered": len(self._found)}


def _first_event(view: View, offset: int) -> tuple[int, int]:
    """Offset and time of the first event at or after an offset; zeros if there is none."""
    cursor = view.txn.cursor(view.databases.events)
    if not cursor.set_range(keys.pack_offset(offset)):
        return 0, 0
    found = keys.offset_of(cursor.key())
    return found, int(records.event_fields(found, cursor.value())[records.TIME])
