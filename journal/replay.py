"""The state as it was at an older offset: the one module that rebuilds state.

`View.at` answers a `Past`, which reads like a view. How an object's row at R is found:

    get      the object's first event behind R, by the by_object index, says what was there before it.
    lists    near the head, undo: an object's first event behind R says, as `previous`, what was there at R.
             far back, redo: the nearest snapshot up to R, and forward from there.

Both give a `Version`: the offsets that some objects (undo) or all (redo) had at R; contents are fetched only
for what is served. Versions are kept in a bounded memory, and an undone one takes in only what was appended
since, so paging through an old version costs a page and the new events, never all events since R again.

    events   1 create a   2 create b   3 update a   4 delete b          R = 2
    undo     3: a was at 1   4: b was at 2          {a: 1, b: 2} over the present {a: 3}     ->  a@1, b@2
    redo     1: a is at 1    2: b is at 2           {a: 1, b: 2}                             ->  a@1, b@2
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from journal import history, keys, records, snapshots, state
from journal.errors import Compacted, Damaged, NotYet
from journal.records import Link, Row
from journal.state import Entry, Match, Page

if TYPE_CHECKING:
    from journal.view import View

VERSIONS = (
    16  # lists of old versions under way at once; a further one starts over, at the price of its first page
)
VERSION_KEYS = 400_000  # objects in all of them together: about 60 MB at the very worst
PIECE = 128  # contents fetched at a time: about a page
NEAR = 20_000  # events behind a version that are always undone: some tens of milliseconds, once
FEW = 50  # keys that are put into their places one by one; with more, sorting all is as quick
TYPE_SIZE = 2  # bytes of a scope that is a whole type

_KEY = itemgetter(0)

Offsets = dict[bytes, int]  # state key -> offset of the event that is its row; 0: not there
Reference = tuple[bytes, int]  # one of them


def fold(offsets: Offsets, links: Iterable[Link]) -> Offsets:
    """Play events forward. Every rebuild is this function."""
    for offset, key, _, removed in links:
        if removed:
            offsets.pop(key, None)
        else:
            offsets[key] = offset
    return offsets


def links(view: View, type_id: int, after: int, upto: int) -> Iterator[Link]:
    """What events of one type did, without their contents: behind `after`, up to `upto`, ascending."""
    cursor = view.txn.cursor(view.journal.environment.by_type)
    if not cursor.set_range(keys.by_type(type_id, after + 1)):
        return
    beyond, decode = keys.by_type(type_id, upto), records.decode_link
    for view_of_key, value in cursor.iternext():
        key = bytes(view_of_key)
        if key > beyond:
            return
        yield decode(key, value)


class Undone:
    """The present with all behind an offset taken back. `seen` says up to where it knows the present.

    Never changed once made, because other threads and slower readers may be at it: `extended` makes the next
    one. Only `offsets` is shared between them, and grows; whoever has fewer keys in `_ordered` asks for no others.
    """

    def __init__(
        self, type_id: int, seen: int, offsets: Offsets, ordered: list[bytes], changes: dict[bytes, int]
    ) -> None:
        self.type_id, self.seen, self.offsets = type_id, seen, offsets
        self._ordered = ordered
        self._changes = changes  # scope -> live objects gained since

    def extended(self, view: View) -> Undone:
        """The same version for a later present: takes back only what was appended since."""
        if view.head == self.seen:
            return self
        fresh: list[bytes] = []
        changes = self._changes.copy()
        for _, key, previous, removed in links(view, self.type_id, self.seen, view.head):
            if key not in self.offsets:
                self.offsets[key] = previous
                fresh.append(key)
            if change := (not removed) - (previous != 0):
                for scope in keys.scopes_of(key):
                    changes[scope] = changes.get(scope, 0) + change
        return Undone(self.type_id, view.head, self.offsets, _with(self._ordered, fresh), changes)

    def count(self, view: View, scope: bytes) -> int:
        return state.count(view.txn, view.journal.environment.counts, scope) - self._changes.get(scope, 0)

    def entries(self, view: View, scope: bytes, start: bytes, wanted: int | None) -> Iterator[list[Entry]]:
        """Rows as they were, in key order: the present ones not touched since, and the old ones between."""
        if not self._ordered:
            yield from view.span(scope, start, wanted)
            return
        position, end = bisect_left(self._ordered, start), _end_of(self._ordered, scope)
        for present in view.span(scope, start, wanted):
            upto = bisect_right(self._ordered, present[-1][0], position, end)
            yield from fetched(view, self._merge(present, self._ordered[position:upto]))
            position = upto
        yield from fetched(view, self._merge([], self._ordered[position:end]))

    def references(self, view: View, start: bytes, count: int) -> list[Reference]:
        """At least `count` (key, offset) from `start` on, or all that are left."""
        found: list[Reference] = []
        while True:
            present = view.references(self.type_id, start, count)
            position, last = bisect_left(self._ordered, start), len(present) < count
            end = len(self._ordered) if last else bisect_right(self._ordered, present[-1][0])
            found += self._merge(present, self._ordered[position:end])
            if last or len(found) >= count:
                return found
            start = present[-1][0] + b"\0"

    def _merge(self, present: list[Any], touched: list[bytes]) -> list[Any]:
        """Present rows, and in place of the touched ones what they were: (key, offset) to be fetched."""
        if not touched:
            return present
        replaced = set(touched)
        merged = [row for row in present if row[0] not in replaced]
        merged += [(key, self.offsets[key]) for key in touched if self.offsets[key]]
        merged.sort(key=_KEY)
        return merged


class Redone:
    """The state of one type at an offset, played forward from a snapshot."""

    def __init__(self, view: View, type_id: int, offset: int, base: int) -> None:
        self.seen = 0  # knows nothing of the present, so no view is too old for it
        start = snapshots.load(view, base, type_id) if base else {}
        self.offsets = fold(start, links(view, type_id, base, offset))
        self._ordered = sorted(self.offsets)

    def extended(self, view: View) -> Redone:
        return self

    def count(self, view: View, scope: bytes) -> int:
        return _end_of(self._ordered, scope) - bisect_left(self._ordered, scope)

    def entries(self, view: View, scope: bytes, start: bytes, wanted: int | None) -> Iterator[list[Entry]]:
        begin, end = bisect_left(self._ordered, start), _end_of(self._ordered, scope)
        for position in range(begin, end, PIECE):
            yield from fetched(view, self._between(position, min(position + PIECE, end)))

    def references(self, view: View, start: bytes, count: int) -> list[Reference]:
        begin = bisect_left(self._ordered, start)
        return self._between(begin, begin + count)

    def _between(self, begin: int, end: int) -> list[Reference]:
        return [(key, self.offsets[key]) for key in self._ordered[begin:end]]


Version = Undone | Redone


def _with(ordered: list[bytes], fresh: list[bytes]) -> list[bytes]:
    """A sorted list with some more keys, as a new list unless there are none."""
    if len(fresh) > FEW:
        return sorted(ordered + fresh)
    if fresh:
        ordered = ordered.copy()
        for key in fresh:
            insort(ordered, key)
    return ordered


def fetched(view: View, rows: list[Any]) -> Iterator[list[Entry]]:
    """Rows in pieces, with the contents of those that are only (key, offset)."""
    for position in range(0, len(rows), PIECE):
        yield [row if len(row) > 2 else _fetch(view, *row) for row in rows[position : position + PIECE]]


def _fetch(view: View, key: bytes, offset: int) -> Entry:
    fields = view.fields_of(key, offset)
    if fields[records.REMOVED]:
        raise Damaged(f"event {offset} of {records.printable(key)} removed it; it cannot be what was there")
    return key, offset, fields[records.FACTS], fields[records.BODY]


def _end_of(ordered: list[bytes], scope: bytes) -> int:
    """Where the keys of a scope end in a list of one type's keys."""
    return len(ordered) if len(scope) == TYPE_SIZE else bisect_left(ordered, scope[:-1] + b"\1")


class Versions:
    """Old versions under way, the least recently used forgotten first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, int], Version] = OrderedDict()
        self._making = threading.Lock()  # housekeeping reads old versions in a thread of its own

    def version(self, view: View, type_id: int, offset: int) -> Version:
        """What a type was at an offset, up to date with the view."""
        with self._making:
            version = self._kept.get((type_id, offset))
            if version is None or version.seen > view.head:
                version = self._made(view, type_id, offset)
            version = version.extended(view)
            self._keep((type_id, offset), version)
        return version

    def _made(self, view: View, type_id: int, offset: int) -> Version:
        behind = view.head - offset
        base = 0 if behind <= NEAR else snapshots.nearest(view, offset)
        if behind <= NEAR or behind <= offset - base:
            return Undone(type_id, offset, {}, [], {})
        return Redone(view, type_id, offset, base)

    def _keep(self, name: tuple[int, int], version: Version) -> None:
        self._kept[name] = version
        self._kept.move_to_end(name)
        while len(self._kept) > VERSIONS or (len(self._kept) > 1 and self._keys() > VERSION_KEYS):
            self._kept.popitem(last=False)

    def _keys(self) -> int:
        return sum(len(version.offsets) for version in self._kept.values())

    def statistics(self) -> dict[str, int]:
        return {"old_versions": len(self._kept), "old_version_keys": self._keys()}


class Past:
    """A view of the journal as it was at an offset. Lives as long as the view it came from."""

    __slots__ = ("_view", "head")

    def __init__(self, view: View, offset: int) -> None:
        if offset > view.head:
            raise NotYet(offset, view.head)
        if offset < view.floor:
            raise Compacted(offset, view.floor)
        self._view, self.head = view, offset

    def get(self, type_id: int, namespace: str, name: str) -> Row | None:
        key = keys.find_object(type_id, namespace, name)
        if key is None:
            return None
        behind = history.first_behind(self._view, key, self.head)
        if not behind:
            return self._proved(key, self._view.get(type_id, namespace, name))
        previous = self._view.fields_of(key, behind)[records.PREVIOUS]
        return self._proved(key, Row(*_fetch(self._view, key, previous)[1:]) if previous else None)

    def _proved(self, key: bytes, row: Row | None) -> Row | None:
        """A row of a later event than asked for means that the index has lost one."""
        if row is not None and row.offset > self.head:
            raise Damaged(f"the index by object has lost an event of {records.printable(key)}")
        return row

    def count(self, type_id: int, namespace: str | None = None) -> int:
        scope = keys.scope(type_id, namespace)
        return 0 if scope is None else self._version(type_id).count(self._view, scope)

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
        return self._version(type_id).entries(self._view, scope, start, wanted)

    def references(self, type_id: int, start: bytes, count: int) -> list[Reference]:
        """(key, offset) of a type's rows from a key on: at least `count`, or all that are left."""
        return self._version(type_id).references(self._view, start, count)

    def _version(self, type_id: int) -> Version:
        return self._view.journal.versions.version(self._view, type_id, self.head)
