"""An old version far from the head: replayed from a snapshot near it, or from a version that was replayed before."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

from journal import history, snapshots
from journal.records import Link
from journal.replay import rows
from journal.replay.rows import CHUNK_ROWS, Offsets, Reference, end_of, fold, undo, with_contents
from journal.state import Entry, Stop
from journal.transaction import ReadTransaction

RUN_KEYS = 2000  # sorted at a time: about a millisecond


class Replayed:
    """One type's state at an offset: that of a base near it, with the events in between applied or undone.

    Nobody reads it until it is complete.
    """

    def __init__(self, reading: ReadTransaction, type_id: int, offset: int, base: int) -> None:
        """`base` is the offset of a snapshot, before or after this offset, or 0."""
        self.seen = 0  # does not depend on the latest state, so it fits every transaction
        self.type_id, self.offset = type_id, offset
        # Up to this floor, retention removes nothing that the rest of the replay needs.
        self.highest_floor = max(min(base, offset), reading.floor)
        self.offsets: Offsets = {}
        # The events after the first, up to the second, are left to apply or to undo.
        self._replayed, self._upto = sorted((base, offset))
        self._undone: set[bytes] | None = set() if base > offset else None  # keys, if events are undone
        self._base = base
        self._chunks: Iterator[int] | None = iter(()) if not base else None  # of the snapshot, not loaded yet
        self._unsorted: list[bytes] | None = None  # keys, once all events are applied
        self._runs: list[list[bytes]] = []  # sorted keys
        self._ordered: list[bytes] = []
        self._complete = False

    @classmethod
    def beside(cls, reading: ReadTransaction, other: Replayed, offset: int) -> Replayed:
        """With a complete version of the same type as its base."""
        made = cls(reading, other.type_id, offset, other.offset)
        made.offsets, made._chunks = other.offsets.copy(), iter(())
        return made

    def complete(self, _reading: ReadTransaction) -> bool:
        return self._complete

    def extended(self, reading: ReadTransaction, stop: Stop | None = None) -> Replayed:
        """Continue the replay until it is complete, or until `stop`."""
        if (
            not self._complete
            and self._load(reading, stop)
            and self._replay(reading, stop)
            and self._sort(stop)
        ):
            self._complete = True
        return self

    def _load(self, reading: ReadTransaction, stop: Stop | None) -> bool:
        """Load the snapshot, a chunk at a time; whether all of it is loaded."""
        if self._chunks is None:
            self._chunks = iter(snapshots.chunks_of(reading, self._base, self.type_id))
        for number in self._chunks:
            self.offsets.update(snapshots.rows_of(reading, self._base, number, self.type_id))
            if stop is not None and stop():
                return False
        return True

    def _replay(self, reading: ReadTransaction, stop: Stop | None) -> bool:
        """Apply or undo the events in between; whether all are."""
        links = history.links(reading, self.type_id, self._replayed, self._upto)
        while some := list(islice(links, rows.STEP_EVENTS)):
            self._apply(some)
            self._replayed = some[-1].offset
            if stop is not None and stop():
                return False
        return True

    def _sort(self, stop: Stop | None) -> bool:
        """Sort the keys in short runs, which are merged in pairs; whether all are sorted."""
        if self._unsorted is None:
            self._unsorted = list(self.offsets)
        while self._unsorted or len(self._runs) > 1:
            if self._unsorted:
                self._runs.append(sorted(self._unsorted[-RUN_KEYS:]))
                del self._unsorted[-RUN_KEYS:]
            else:
                one, other = self._runs.pop(0), self._runs.pop(0)
                self._runs.append(sorted(one + other))  # linear: it finds the two runs
            if stop is not None and stop():
                return False
        self._ordered = self._runs[0] if self._runs else []
        return True

    def _apply(self, links: list[Link]) -> None:
        if self._undone is None:
            fold(self.offsets, links)
        else:
            undo(self.offsets, links, self._undone)

    def count(self, reading: ReadTransaction, scope: bytes) -> int:
        return end_of(self._ordered, scope) - bisect_left(self._ordered, scope)

    def entries(
        self, reading: ReadTransaction, scope: bytes, start: bytes, wanted: int | None
    ) -> Iterator[list[Entry]]:
        begin, end = bisect_left(self._ordered, start), end_of(self._ordered, scope)
        for position in range(begin, end, CHUNK_ROWS):
            yield from with_contents(reading, self._between(position, min(position + CHUNK_ROWS, end)))

    def references(self, reading: ReadTransaction, start: bytes, count: int) -> list[Reference]:
        begin = bisect_left(self._ordered, start)
        return self._between(begin, begin + count)

    def _between(self, begin: int, end: int) -> list[Reference]:
        return [(key, self.offsets[key]) for key in self._ordered[begin:end]]
