"""An old version near the head: the latest state with all later events undone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from journal import history, keys, state
from journal.replay import rows
from journal.replay.rows import CHUNK_ROWS, Offsets, Reference, end_of, sorted_with, with_contents
from journal.state import Entry, Stop
from journal.transaction import ReadTransaction

MERGED_KEYS = 1024  # changed keys merged at a time
FRESH_KEYS = 1000  # wait before they are merged into a sorted list, because that copies the list

_KEY = itemgetter(0)


class Undone:
    """One type's state at an offset, as the latest state with all later events undone.

    It has undone the events up to `seen`. It is immutable, because other threads and slower readers may use it:
    `extended` returns the next one. They share only `offsets`, which grows; each reads only the keys in its own
    `_ordered`.
    """

    def __init__(
        self, type_id: int, seen: int, offsets: Offsets, ordered: list[bytes], changes: dict[bytes, int]
    ) -> None:
        self.type_id, self.seen, self.offsets = type_id, seen, offsets
        self._ordered = ordered
        self._changes = changes  # scope -> live objects gained since
        self._fresh: list[bytes] = []  # keys that are not in `_ordered` yet; none when it is complete

    def complete(self, reading: ReadTransaction) -> bool:
        return self.seen == reading.head and not self._fresh

    def extended(self, reading: ReadTransaction, stop: Stop | None = None) -> Undone:
        """The same version for a later transaction: undoes only the events appended since, until `stop`."""
        if self.complete(reading):
            return self
        fresh: list[bytes] = []
        changes = self._changes.copy()
        seen = reading.head
        links = history.links(reading, self.type_id, self.seen, reading.head)
        for number, (offset, key, previous, removed) in enumerate(links, 1):
            if key not in self.offsets:
                self.offsets[key] = previous
                fresh.append(key)
            if change := (not removed) - (previous != 0):
                for scope in keys.scopes_of(key):
                    changes[scope] = changes.get(scope, 0) + change
            if stop is not None and number % rows.STEP_EVENTS == 0 and stop():
                seen = offset
                break
        return self._with(seen, fresh, changes, complete=seen == reading.head)

    def _with(self, seen: int, fresh: list[bytes], changes: dict[bytes, int], *, complete: bool) -> Undone:
        fresh = self._fresh + fresh
        wait = not complete and len(fresh) < FRESH_KEYS
        ordered = self._ordered if wait else sorted_with(self._ordered, fresh)
        extended = Undone(self.type_id, seen, self.offsets, ordered, changes)
        extended._fresh = fresh if wait else []
        return extended

    def count(self, reading: ReadTransaction, scope: bytes) -> int:
        return state.count(reading.txn, reading.databases.counts, scope) - self._changes.get(scope, 0)

    def entries(
        self, reading: ReadTransaction, scope: bytes, start: bytes, wanted: int | None
    ) -> Iterator[list[Entry]]:
        """Rows at the offset, in key order: latest rows that did not change since, merged with old rows."""
        if not self._ordered:
            yield from reading.entries(scope, start, wanted)
            return
        position, end = bisect_left(self._ordered, start), end_of(self._ordered, scope)
        for present in reading.entries(scope, start, min(wanted or CHUNK_ROWS, CHUNK_ROWS)):
            upto = bisect_right(self._ordered, present[-1][0], position, end)
            yield from self._merged_entries(reading, present, position, upto)
            position = upto
        yield from self._merged_entries(reading, [], position, end)

    def _merged_entries(
        self, reading: ReadTransaction, present: list[Entry], position: int, upto: int
    ) -> Iterator[list[Entry]]:
        """Latest rows merged with the changed ones at some positions; many that were removed since, bit by bit."""
        while upto - position > MERGED_KEYS:
            beyond = position + MERGED_KEYS
            split = bisect_left(present, self._ordered[beyond], key=_KEY)
            yield from with_contents(reading, self._merge(present[:split], self._ordered[position:beyond]))
            present, position = present[split:], beyond
        yield from with_contents(reading, self._merge(present, self._ordered[position:upto]))

    def references(self, reading: ReadTransaction, start: bytes, count: int) -> list[Reference]:
        """At least `count` (key, offset) from `start` on, or all that are left."""
        found: list[Reference] = []
        while True:
            present = reading.references(self.type_id, start, count)
            position, last = bisect_left(self._ordered, start), len(present) < count
            end = len(self._ordered) if last else bisect_right(self._ordered, present[-1][0])
            found += self._merge(present, self._ordered[position:end])
            if last or len(found) >= count:
                return found
            start = present[-1][0] + b"\0"

    def _merge(self, present: list[Any], changed: list[bytes]) -> list[Any]:
        """Latest rows, where changed objects are replaced by (key, offset) of their old row."""
        if not changed:
            return present
        replaced = set(changed)
        merged = [row for row in present if row[0] not in replaced]
        merged += [(key, self.offsets[key]) for key in changed if self.offsets[key]]
        merged.sort(key=_KEY)
        return merged
