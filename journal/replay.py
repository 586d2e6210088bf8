"""The state at an older offset: the one module that rebuilds state from events.

`View.at` returns a `PastView`, which has the same reads as a view. How it finds the row of an object at offset R:

    get      the by_object index gives the object's first event after R; its `previous` is the row's event at R.
    lists    R near the head: undo. An object's first event after R names, as `previous`, its event at R.
             R far from the head: replay. The nearest snapshot at or below R, and the events from there to R.

Both give a `Version`: the offsets that some objects (undo) or all objects (replay) had at R. Contents are read
only for the rows that are returned. `Versions` caches a bounded number of them, and an undone one is extended
with the events appended since, so that paging through an old version never reads all events since R again.

    events   1 create a   2 create b   3 update a   4 delete b          R = 2
    undo     3: a was at 1   4: b was at 2          {a: 1, b: 2} over the present {a: 3}     ->  a@1, b@2
    replay   1: a is at 1    2: b is at 2           {a: 1, b: 2}                             ->  a@1, b@2
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from journal import history, keys, records, snapshots, state
from journal.errors import Compacted, Damaged, FutureVersion
from journal.records import Link, Row
from journal.state import Entry, Match, Page
from journal.transaction import ReadTransaction

# Cached versions: as many lists of old versions may page at once; one more rebuilds its version for each page.
VERSIONS = 16
VERSION_KEYS = 400_000  # objects in all cached versions together: about 60 MB at most
CHUNK_ROWS = 128  # contents read at a time: about a page
UNDO_EVENTS = 20_000  # up to this many events are always undone: some tens of milliseconds, once
INSERT_KEYS = 50  # up to this many keys are inserted one by one; with more, sorting the list is as fast
TYPE_SIZE = 2  # bytes of a scope that is a whole type

_KEY = itemgetter(0)

Offsets = dict[bytes, int]  # state key -> offset of the event that is its row; 0: not there
Reference = tuple[bytes, int]  # one of them


def fold(offsets: Offsets, links: Iterable[Link]) -> Offsets:
    """Apply events in order. Every rebuild is this function."""
    for offset, key, _, removed in links:
        if removed:
            offsets.pop(key, None)
        else:
            offsets[key] = offset
    return offsets


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

    def extended(self, reading: ReadTransaction) -> Undone:
        """The same version for a later transaction: undoes only the events appended since."""
        if reading.head == self.seen:
            return self
        fresh: list[bytes] = []
        changes = self._changes.copy()
        for _, key, previous, removed in history.links(reading, self.type_id, self.seen, reading.head):
            if key not in self.offsets:
                self.offsets[key] = previous
                fresh.append(key)
            if change := (not removed) - (previous != 0):
                for scope in keys.scopes_of(key):
                    changes[scope] = changes.get(scope, 0) + change
        return Undone(self.type_id, reading.head, self.offsets, _sorted_with(self._ordered, fresh), changes)

    def count(self, reading: ReadTransaction, scope: bytes) -> int:
        return state.count(reading.txn, reading.databases.counts, scope) - self._changes.get(scope, 0)

    def entries(
        self, reading: ReadTransaction, scope: bytes, start: bytes, wanted: int | None
    ) -> Iterator[list[Entry]]:
        """Rows at the offset, in key order: latest rows that did not change since, merged with old rows."""
        if not self._ordered:
            yield from reading.entries(scope, start, wanted)
            return
        position, end = bisect_left(self._ordered, start), _end_of(self._ordered, scope)
        for present in reading.entries(scope, start, wanted):
            upto = bisect_right(self._ordered, present[-1][0], position, end)
            yield from with_contents(reading, self._merge(present, self._ordered[position:upto]))
            position = upto
        yield from with_contents(reading, self._merge([], self._ordered[position:end]))

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


class Replayed:
    """One type's state at an offset, replayed from a snapshot."""

    def __init__(self, reading: ReadTransaction, type_id: int, offset: int, base: int) -> None:
        self.seen = 0  # does not depend on the latest state, so it fits every transaction
        start = snapshots.load(reading, base, type_id) if base else {}
        self.offsets = fold(start, history.links(reading, type_id, base, offset))
        self._ordered = sorted(self.offsets)

    def extended(self, reading: ReadTransaction) -> Replayed:
        return self

    def count(self, reading: ReadTransaction, scope: bytes) -> int:
        return _end_of(self._ordered, scope) - bisect_left(self._ordered, scope)

    def entries(
        self, reading: ReadTransaction, scope: bytes, start: bytes, wanted: int | None
    ) -> Iterator[list[Entry]]:
        begin, end = bisect_left(self._ordered, start), _end_of(self._ordered, scope)
        for position in range(begin, end, CHUNK_ROWS):
            yield from with_contents(reading, self._between(position, min(position + CHUNK_ROWS, end)))

    def references(self, reading: ReadTransaction, start: bytes, count: int) -> list[Reference]:
        begin = bisect_left(self._ordered, start)
        return self._between(begin, begin + count)

    def _between(self, begin: int, end: int) -> list[Reference]:
        return [(key, self.offsets[key]) for key in self._ordered[begin:end]]


Version = Undone | Replayed


def _sorted_with(ordered: list[bytes], fresh: list[bytes]) -> list[bytes]:
    """A sorted list with more keys; a new list unless there are none."""
    if len(fresh) > INSERT_KEYS:
        return sorted(ordered + fresh)
    if fresh:
        ordered = ordered.copy()
        for key in fresh:
            insort(ordered, key)
    return ordered


def with_contents(reading: ReadTransaction, rows: list[Any]) -> Iterator[list[Entry]]:
    """Rows in chunks; those that are only (key, offset) get their contents."""
    for position in range(0, len(rows), CHUNK_ROWS):
        yield [
            row if len(row) > 2 else _row_of(reading, *row) for row in rows[position : position + CHUNK_ROWS]
        ]


def _row_of(reading: ReadTransaction, key: bytes, offset: int) -> Entry:
    fields = reading.fields_of(key, offset)
    if fields[records.REMOVED]:
        raise Damaged(f"event {offset} of {records.printable(key)} removed it; it cannot be its state")
    return key, offset, fields[records.FACTS], fields[records.BODY]


def _end_of(ordered: list[bytes], scope: bytes) -> int:
    """The position after the last key of a scope in a sorted list of one type's keys."""
    return len(ordered) if len(scope) == TYPE_SIZE else bisect_left(ordered, scope[:-1] + b"\1")


class Versions:
    """A cache of old versions that evicts the least recently used."""

    def __init__(self) -> None:
        self._cached: OrderedDict[tuple[int, int], Version] = OrderedDict()
        self._lock = threading.Lock()  # housekeeping reads old versions in another thread

    def version(self, reading: ReadTransaction, type_id: int, offset: int) -> Version:
        """The version of a type at an offset, extended to the head of the transaction."""
        with self._lock:
            version = self._cached.get((type_id, offset))
            if version is None or version.seen > reading.head:
                version = self._create(reading, type_id, offset)
            version = version.extended(reading)
            self._cache((type_id, offset), version)
        return version

    def _create(self, reading: ReadTransaction, type_id: int, offset: int) -> Version:
        undo_events = reading.head - offset
        base = 0 if undo_events <= UNDO_EVENTS else snapshots.nearest(reading, offset)
        if undo_events <= UNDO_EVENTS or undo_events <= offset - base:
            return Undone(type_id, offset, {}, [], {})
        return Replayed(reading, type_id, offset, base)

    def _cache(self, name: tuple[int, int], version: Version) -> None:
        self._cached[name] = version
        self._cached.move_to_end(name)
        while len(self._cached) > VERSIONS or (len(self._cached) > 1 and self._keys() > VERSION_KEYS):
            self._cached.popitem(last=False)

    def _keys(self) -> int:
        return sum(len(version.offsets) for version in self._cached.values())

    def statistics(self) -> dict[str, int]:
        return {"old_versions": len(self._cached), "old_version_keys": self._keys()}


class PastView:
    """The reads of a view at an older offset. Ends with the transaction it was made from."""

    __slots__ = ("_reading", "_versions", "head")

    def __init__(self, reading: ReadTransaction, versions: Versions, offset: int) -> None:
        if offset > reading.head:
            raise FutureVersion(offset, reading.head)
        if offset < reading.floor:
            raise Compacted(offset, reading.floor)
        self._reading, self._versions, self.head = reading, versions, offset

    def get(self, type_id: int, namespace: str, name: str) -> Row | None:
        key = keys.find_object(type_id, namespace, name)
        if key is None:
            return None
        reading = self._reading
        later = history.first_event_after(reading, key, self.head)
        if not later:
            return self._checked(key, state.get(reading.txn, reading.databases.state, key))
        previous = reading.fields_of(key, later)[records.PREVIOUS]
        return self._checked(key, Row(*_row_of(reading, key, previous)[1:]) if previous else None)

    def _checked(self, key: bytes, row: Row | None) -> Row | None:
        """Raise Damaged for a row that is newer than this view: then the index has lost an event."""
        if row is not None and row.offset > self.head:
            raise Damaged(f"the index by object has lost an event of {records.printable(key)}")
        return row

    def count(self, type_id: int, namespace: str | None = None) -> int:
        scope = keys.scope(type_id, namespace)
        return 0 if scope is None else self._version(type_id).count(self._reading, scope)

    def page(
        self,
        type_id: int,
        namespace: str | None = None,
        *,
        after: tuple[str, str] | None = None,
        limit: int | None = None,
        match: Match | None = None,
    ) -> Page:
        return state.page(self._entries(type_id, namespace, after, limit), limit, match)

    def rows(
        self, type_id: int, namespace: str | None = None, after: tuple[str, str] | None = None
    ) -> Iterator[tuple[str, str, Row]]:
        return state.rows(self._entries(type_id, namespace, after, None))

    def _entries(
        self, type_id: int, namespace: str | None, after: tuple[str, str] | None, wanted: int | None
    ) -> Iterator[list[Entry]]:
        scope = keys.scope(type_id, namespace)
        if scope is None:
            return iter(())
        start = scope if after is None else max(scope, keys.after(type_id, after))
        return self._version(type_id).entries(self._reading, scope, start, wanted)

    def references(self, type_id: int, start: bytes, count: int) -> list[Reference]:
        """(key, offset) of a type's rows from the key `start` on: at least `count`, or all that are left."""
        return self._version(type_id).references(self._reading, start, count)

    def _version(self, type_id: int) -> Version:
        return self._versions.version(self._reading, type_id, self.head)
