"""The state at an older offset. No other module rebuilds state from events.

`View.at` returns a `PastView`, which has the same reads as a view. It finds the row of an object at offset R like
this:

    get      the by_object index gives the object's first event after R; its `previous` is the row's event at R.
    lists    R near the head: undo. An object's first event after R names, as `previous`, its event at R.
             R far from the head: replay. The closest snapshot, or a closer version that was replayed before, and the
             events between it and R: applied if it is before R, undone if it is after R.

All give a `Version`: the offsets that some objects (`Undone`) or all objects (`Replayed`) had at R. Contents are read
only for the rows that are returned. `Versions` caches a bounded number of them and extends an undone one with the
events appended since, so that paging through an old version does not read all events since R again. Because
rebuilding one may take long, `PastView.prepare` does it in steps, each in its own transaction.

    events   1 create a   2 create b   3 update a   4 delete b          R = 2
    undo     3: a was at 1   4: b was at 2          {a: 1, b: 2} over the present {a: 3}     ->  a@1, b@2
    replay   1: a is at 1    2: b is at 2           {a: 1, b: 2}                             ->  a@1, b@2
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from rewound.journal import history, keys, records, snapshots, state
from rewound.journal.errors import Compacted, Damaged, FutureVersion
from rewound.journal.records import Link, Row
from rewound.journal.state import CONTENTS, Entry, FindKeys, Run, ScopedReads, Stop
from rewound.journal.transaction import ReadTransaction


class PastView(ScopedReads):
    """The reads of a view at an older offset. Ends with the transaction that it was made from."""

    __slots__ = ("_prepared", "_reading", "_versions", "head")

    def __init__(self, reading: ReadTransaction, versions: Versions, offset: int) -> None:
        if offset > reading.head:
            raise FutureVersion(offset, reading.head)
        if offset < reading.floor:
            raise Compacted(offset, reading.floor)
        self._reading, self._versions, self.head = reading, versions, offset
        self._prepared: dict[int, Version] = {}  # by type

    def prepare(self, type_id: int, stop: Stop) -> bool:
        """Rebuild the state of a type for `count`, `page` and `rows`, until `stop`; return whether it is complete.

        Call it in new transactions until it returns True. Otherwise those methods rebuild the state themselves,
        however long that takes.
        """
        version = self._versions.step(self._reading, type_id, self.head, stop)
        if version is not None:
            self._prepared[type_id] = version
        return version is not None

    def get(self, type_id: int, namespace: str, name: str) -> Row | None:
        key = keys.find_object(type_id, namespace, name)
        if key is None:
            return None
        reading = self._reading
        later = history.first_event_after(reading, key, self.head)
        if not later:
            return self._checked(key, state.get_checked(reading.txn, reading.databases, key))
        previous = reading.event_of(key, later, contents=False).previous
        return self._checked(key, Row(*row_of(reading, key, previous)[1:]) if previous else None)

    def _checked(self, key: bytes, row: Row | None) -> Row | None:
        """Raise Damaged for a row that is newer than this view: the index has lost an event."""
        if row is not None and row.offset > self.head:
            raise Damaged(f"the index by object has lost an event of {records.printable(key)}")
        return row

    def count(self, type_id: int, namespace: str | None = None) -> int:
        scope = keys.scope(type_id, namespace)
        return 0 if scope is None else self._version(type_id).count(self._reading, scope)

    def _entries_of(
        self, type_id: int, scope: bytes, start: bytes, wanted: int | None
    ) -> Iterator[list[Entry]]:
        return self._version(type_id).entries(self._reading, scope, start, wanted)

    def _found(self, type_id: int, scope: bytes, start: bytes, find: FindKeys) -> Iterator[Run]:
        return self._version(type_id).found(self._reading, scope, start, find)

    def references(self, type_id: int, start: bytes, count: int) -> list[Reference]:
        """(key, offset) of a type's rows, starting at the key `start`: at least `count`, or all that are left."""
        return self._version(type_id).references(self._reading, start, count)

    def _version(self, type_id: int) -> Version:
        if type_id in self._prepared:
            return self._prepared[type_id]
        return self._versions.version(self._reading, type_id, self.head)


MERGED_KEYS = 1024  # changed keys merged at a time
FRESH_KEYS = 1000  # keys collected before they are merged into a sorted list, because that copies the list

_KEY = itemgetter(0)


class Undone:
    """One type's state at an offset near the head: the latest state with all later events undone.

    The events up to `seen` are undone. It is immutable, because other threads and slower readers may use it:
    `extended` returns the next one. They share only `offsets`, which grows; each reads only the keys in its own
    `_ordered`.
    """

    def __init__(
        self, type_id: int, seen: int, offsets: Offsets, ordered: list[bytes], changes: dict[bytes, int]
    ) -> None:
        self.type_id, self.seen, self.offsets = type_id, seen, offsets
        self._ordered = ordered
        self._changes = changes  # scope -> live objects gained since
        self._fresh: list[bytes] = []  # keys that are not in `_ordered` yet; empty once it is complete

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
            if stop is not None and number % STEP_EVENTS == 0 and stop():
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
        return state.checked_count(reading.txn, reading.databases, scope) - self._changes.get(scope, 0)

    def entries(
        self, reading: ReadTransaction, scope: bytes, start: bytes, wanted: int | None
    ) -> Iterator[list[Entry]]:
        """Rows at the offset, in key order: latest rows that have not changed since, merged with old rows."""
        if not self._ordered:
            yield from reading.entries(scope, start, wanted)
            return
        position, end = bisect_left(self._ordered, start), end_of(self._ordered, scope)
        for present in reading.entries(scope, start, min(wanted or CHUNK_ROWS, CHUNK_ROWS)):
            upto = bisect_right(self._ordered, present[-1][0], position, end)
            yield from self._merged_entries(reading, present, position, upto)
            position = upto
        yield from self._merged_entries(reading, [], position, end)

    def found(self, reading: ReadTransaction, scope: bytes, start: bytes, find: FindKeys) -> Iterator[Run]:
        """The rows whose keys are found now, merged with all rows that have changed since."""
        position, end = bisect_left(self._ordered, start), end_of(self._ordered, scope)
        for compared, present in state.found_rows(reading.txn, reading.databases, find(scope, start)):
            upto = bisect_right(self._ordered, compared, position, end)
            for chunk in self._merged_entries(reading, present, position, upto):
                yield chunk[-1][0], chunk
            yield compared, []
            position = upto
        for chunk in self._merged_entries(reading, [], position, end):
            yield chunk[-1][0], chunk

    def _merged_entries(
        self, reading: ReadTransaction, present: list[Entry], position: int, upto: int
    ) -> Iterator[list[Entry]]:
        """Latest rows merged with the changed ones at these positions, in steps: many may have been removed since."""
        while upto - position > MERGED_KEYS:
            beyond = position + MERGED_KEYS
            split = bisect_left(present, self._ordered[beyond], key=_KEY)
            yield from with_contents(reading, self._merge(present[:split], self._ordered[position:beyond]))
            present, position = present[split:], beyond
        yield from with_contents(reading, self._merge(present, self._ordered[position:upto]))

    def references(self, reading: ReadTransaction, start: bytes, count: int) -> list[Reference]:
        """At least `count` (key, offset) starting at `start`, or all that are left."""
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
        """Latest rows, with those of changed objects replaced by (key, offset) of the old row."""
        if not changed:
            return present
        replaced = set(changed)
        merged = [row for row in present if row[0] not in replaced]
        merged += [(key, self.offsets[key]) for key in changed if self.offsets[key]]
        merged.sort(key=_KEY)
        return merged


RUN_KEYS = 2000  # keys sorted at a time: about a millisecond


class Replayed:
    """One type's state at an offset far from the head: a nearby base, with the events in between applied or undone.

    The base is a snapshot, or a version that was replayed before. The state must not be read before it is complete.
    """

    def __init__(self, reading: ReadTransaction, type_id: int, offset: int, base: int) -> None:
        """`base` is the offset of a snapshot, before or after `offset`, or 0."""
        self.seen = 0  # independent of the latest state, so it is valid in every transaction
        self.type_id, self.offset = type_id, offset
        # Retention up to this floor removes nothing that the rest of the replay needs.
        self.highest_floor = max(min(base, offset), reading.floor)
        self._thinned = reading.thinned.get(type_id)
        self.offsets: Offsets = {}
        # The events in between that are still to be applied or undone.
        self._replayed, self._upto = sorted((base, offset))
        # Keys whose events are undone; None if events are applied.
        self._undone: set[bytes] | None = set() if base > offset else None
        self._base = base
        # Chunks of the snapshot that are not loaded yet.
        self._chunks: Iterator[int] | None = iter(()) if not base else None
        self._unsorted: list[bytes] | None = None  # keys to sort, once all events are applied
        self._runs: list[list[bytes]] = []  # runs of sorted keys
        self._ordered: list[bytes] = []
        self._complete = False

    @classmethod
    def based_on(cls, reading: ReadTransaction, other: Replayed, offset: int) -> Replayed:
        """A version with a complete version of the same type as its base."""
        made = cls(reading, other.type_id, offset, other.offset)
        made.offsets, made._chunks = other.offsets.copy(), iter(())
        return made

    def complete(self, _reading: ReadTransaction) -> bool:
        return self._complete

    def can_continue(self, reading: ReadTransaction) -> bool:
        """Whether the events and the snapshot that it has begun with are still there."""
        return reading.floor <= self.highest_floor and reading.thinned.get(self.type_id) == self._thinned

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
        """Load the snapshot chunk by chunk; return whether all of it is loaded."""
        if self._chunks is None:
            self._chunks = iter(snapshots.chunks_of(reading, self._base, self.type_id))
        for number in self._chunks:
            self.offsets.update(snapshots.rows_of(reading, self._base, number, self.type_id))
            if stop is not None and stop():
                return False
        return True

    def _replay(self, reading: ReadTransaction, stop: Stop | None) -> bool:
        """Apply or undo the events in between; return whether all are done."""
        links = history.links(reading, self.type_id, self._replayed, self._upto)
        while some := list(islice(links, STEP_EVENTS)):
            self._apply(some)
            self._replayed = some[-1].offset
            if stop is not None and stop():
                return False
        return True

    def _sort(self, stop: Stop | None) -> bool:
        """Sort the keys in short runs and merge these in pairs; return whether all are sorted."""
        if self._unsorted is None:
            self._unsorted = list(self.offsets)
        while self._unsorted or len(self._runs) > 1:
            if self._unsorted:
                self._runs.append(sorted(self._unsorted[-RUN_KEYS:]))
                del self._unsorted[-RUN_KEYS:]
            else:
                one, other = self._runs.pop(0), self._runs.pop(0)
                self._runs.append(sorted(one + other))  # linear, because sort detects the two runs
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

    def found(self, reading: ReadTransaction, scope: bytes, start: bytes, _find: FindKeys) -> Iterator[Run]:
        """All rows: what is found now says nothing about a state far from the head."""
        return ((chunk[-1][0], chunk) for chunk in self.entries(reading, scope, start, None))

    def references(self, reading: ReadTransaction, start: bytes, count: int) -> list[Reference]:
        begin = bisect_left(self._ordered, start)
        return self._between(begin, begin + count)

    def _between(self, begin: int, end: int) -> list[Reference]:
        return [(key, self.offsets[key]) for key in self._ordered[begin:end]]


# Cached versions: how many lists of old versions may page at the same time. One more, and each rebuilds its version
# for every page.
VERSIONS = 16
VERSION_KEYS = 400_000  # objects in all cached versions together, at most: about 60 MB
UNDO_EVENTS = 20_000  # up to this many events are always undone: some tens of milliseconds, once

Version = Undone | Replayed


class _Name(NamedTuple):
    """What a cached version was made from."""

    type_id: int
    offset: int
    dropped: int  # events that thinning had dropped, if the version is below where the type is thinned; otherwise 0


def _dropped(reading: ReadTransaction, type_id: int, offset: int) -> int:
    thinned = reading.thinned.get(type_id)
    return thinned.dropped if thinned is not None and offset < thinned.upto else 0


class Versions:
    """A bounded LRU cache of old versions, which also decides how each is rebuilt."""

    def __init__(self) -> None:
        self._cached: OrderedDict[_Name, Version] = OrderedDict()
        self._lock = threading.Lock()  # because housekeeping reads old versions in another thread

    def version(self, reading: ReadTransaction, type_id: int, offset: int) -> Version:
        """The version of a type at an offset, extended to the head of the transaction."""
        with self._lock:
            return self._extend(reading, type_id, offset, None)

    def step(self, reading: ReadTransaction, type_id: int, offset: int, stop: Stop) -> Version | None:
        """The same if it can be completed before `stop`; else None, and the next call continues. Waits for no
        thread.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            version = self._extend(reading, type_id, offset, stop)
        finally:
            self._lock.release()
        return version if version.complete(reading) else None

    def _extend(self, reading: ReadTransaction, type_id: int, offset: int, stop: Stop | None) -> Version:
        name = _Name(type_id, offset, _dropped(reading, type_id, offset))
        version = self._cached.pop(name, None)  # removed from the cache, in case this fails
        if version is None or not _usable(version, reading):
            version = self._create(reading, type_id, offset)
        version = version.extended(reading, stop)
        self._cache(name, version)
        return version

    def _create(self, reading: ReadTransaction, type_id: int, offset: int) -> Version:
        """Create a version in the way that needs the fewest events: from the latest state, a snapshot or the cache."""
        undo_events = reading.head - offset
        if undo_events <= UNDO_EVENTS:
            return Undone(type_id, offset, {}, [], {})
        base, distance = snapshots.closest(reading, offset)
        near = self._nearest(reading, type_id, offset)
        if near is not None and abs(near.offset - offset) < min(undo_events, distance):
            return Replayed.based_on(reading, near, offset)
        if undo_events <= distance:
            return Undone(type_id, offset, {}, [], {})
        return Replayed(reading, type_id, offset, base)

    def _nearest(self, reading: ReadTransaction, type_id: int, offset: int) -> Replayed | None:
        """The cached version of a type nearest to an offset, if the journal still has all events in between."""
        floor = reading.floor
        usable = (
            one
            for (cached_type, at, dropped), one in self._cached.items()
            if cached_type == type_id
            and at >= floor
            and dropped == _dropped(reading, type_id, at)
            and isinstance(one, Replayed)
            and one.complete(reading)
        )
        return min(usable, key=lambda one: abs(one.offset - offset), default=None)

    def _cache(self, name: _Name, version: Version) -> None:
        self._cached[name] = version
        while len(self._cached) > VERSIONS or (len(self._cached) > 1 and self._keys() > VERSION_KEYS):
            self._cached.popitem(last=False)

    def _keys(self) -> int:
        return sum(len(version.offsets) for version in self._cached.values())

    def clear(self) -> None:
        with self._lock:
            self._cached.clear()

    def statistics(self) -> dict[str, int]:
        return {"old_versions": len(self._cached), "old_version_keys": self._keys()}


def _usable(version: Version, reading: ReadTransaction) -> bool:
    """Whether a version can be used in a transaction: it may be newer, or retention may have removed its snapshot."""
    if isinstance(version, Undone):
        return version.seen <= reading.head
    return version.complete(reading) or version.can_continue(reading)


CHUNK_ROWS = 128  # latest rows read at a time
STEP_EVENTS = 32  # events between two calls of `stop`: less than half a millisecond
TYPE_SIZE = 2  # length of a scope that is a whole type

Offsets = dict[bytes, int]  # state key -> offset of the event that is its row; 0 if the object did not exist
Reference = tuple[bytes, int]


def fold(offsets: Offsets, links: Iterable[Link]) -> Offsets:
    """Apply events in order."""
    for offset, key, _, removed in links:
        if removed:
            offsets.pop(key, None)
        else:
            offsets[key] = offset
    return offsets


def undo(offsets: Offsets, links: Iterable[Link], undone: set[bytes]) -> None:
    """Undo events in order: the first event of an object names the row before it. `undone` collects the keys done."""
    for _, key, previous, _ in links:
        if key not in undone:
            undone.add(key)
            if previous:
                offsets[key] = previous
            else:
                offsets.pop(key, None)


def sorted_with(ordered: list[bytes], fresh: list[bytes]) -> list[bytes]:
    """A sorted list merged with more keys: a new list, unless there are none."""
    if not fresh:
        return ordered
    merged: list[bytes] = []
    position = 0
    for key in sorted(fresh):
        following = bisect_left(ordered, key, position)
        merged += ordered[position:following]
        merged.append(key)
        position = following
    return merged + ordered[position:]


def with_contents(reading: ReadTransaction, rows: list[Any]) -> Iterator[list[Entry]]:
    """Rows in chunks; those given as (key, offset) get their contents."""
    chunk: list[Entry] = []
    size = 0
    left = CONTENTS
    for row in rows:
        if len(row) == 2:
            row = row_of(reading, *row)
            size += len(row[3])
            left -= 1
        chunk.append(row)
        if not left or size > state.CHUNK_BYTES:
            yield chunk
            chunk, size, left = [], 0, CONTENTS
    if chunk:
        yield chunk


def row_of(reading: ReadTransaction, key: bytes, offset: int) -> Entry:
    event = reading.version_of(key, offset)
    if event.removed:
        raise Damaged(f"event {offset} of {records.printable(key)} removed it; it cannot be its state")
    return key, offset, event.facts, event.body


def end_of(ordered: list[bytes], scope: bytes) -> int:
    """The position after the last key of a scope, in a sorted list of one type's keys."""
    return len(ordered) if len(scope) == TYPE_SIZE else bisect_left(ordered, scope[:-1] + b"\1")
