"""The facts of a type's objects in memory, so that a list with a selector reads only the rows that match.

`Journal.columns` has them; a list gets one from `Columns.step` and passes it to `page`. A column is made when the
first list with a selector needs it, by one scan in steps, and follows the log after that: `advance` reads the rows of
objects that have events since. So writes do nothing for it, a folder of any release can have it, and each process that
serves reads has its own. It finds keys only; `page` reads their rows, checked as always, and compares them again.

    facts      key -> facts, for selectors of any kind: compared without a read
    indexes    what a term reads -> value -> keys, for the terms that lists have named: `spec.nodeName` -> n1 -> 30 keys

An older version has the same candidates, and the objects changed since (`replay.Undone`). The journal never interprets
facts: the selector brings the functions that read them.

Rejected (docs/decisions/0089-columns.md): an index in LMDB, which every write pays for and which a release that does
not know it would leave behind; a column of facts in LMDB, for the same reasons.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from rewound.journal import history, keys, state
from rewound.journal.records import decode_row, row_facts
from rewound.journal.search import Complete, Search, Term, ValueOf
from rewound.journal.state import FindKeys, Slice, Stop
from rewound.journal.transaction import ReadTransaction

LEAST = 256  # objects: fewer are scanned as fast
# All columns together, at most: 150,000 pods, which is what Kubernetes supports. A larger type is scanned.
COLUMN_BYTES = 96 << 20
ENTRY_OVERHEAD = 180  # of Python's objects for each entry: key, facts, dict and list
INDEX_OVERHEAD = 40  # the same for each key in an index
LEAST_BYTES = ENTRY_OVERHEAD + 70  # of an entry
# A column is made for a list of a namespace only if that has this part of the type's objects.
NAMESPACE_PART = 4
# Keys that a value may have in an index. More need sorting for a millisecond, so the column is searched in order.
MOST_KEYS = 2000
STEP_ROWS = 16  # rows, or events, read between two calls of `stop`
STEP_KEYS = 512  # facts indexed between two calls of `stop`
# Facts compared between two calls of `stop`, at first and at most; doubled as long as the selector is fast enough.
FIRST_SLICE, LAST_SLICE = 16, 1024
FEW = 16  # new keys that are inserted one by one; more are merged


class _Index:
    """The keys of the objects that have a value, for each value; None if they are more than MOST_KEYS."""

    __slots__ = ("_value_of", "upto", "values")

    def __init__(self, value_of: ValueOf) -> None:
        self._value_of = value_of
        self.values: dict[bytes, list[bytes] | None] = {}
        self.upto: bytes | None = b""  # keys after this one are not indexed yet; None: all are

    def add(self, key: bytes, facts: bytes) -> None:
        if value := self._value_of(facts):
            found = self.values.setdefault(value, [])
            if found is not None:
                if len(found) < MOST_KEYS:
                    found.append(key)
                else:
                    self.values[value] = None

    def change(self, key: bytes, before: bytes | None, after: bytes | None) -> None:
        if self.upto is not None and key > self.upto:
            return
        if before is not None and (value := self._value_of(before)):
            found = self.values[value]
            if found is not None:
                found.remove(key)
                if not found:
                    del self.values[value]
        if after is not None:
            self.add(key, after)


class Column:
    """The facts of one type. `advance` brings it to the state of a transaction; then `found` searches it."""

    __slots__ = (
        "_complete",
        "_facts",
        "_gone",
        "_indexes",
        "_links",
        "_ordered",
        "_size",
        "_upto",
        "seen",
        "type_id",
    )

    def __init__(self, type_id: int, complete: Complete | None) -> None:
        self.type_id, self._complete = type_id, complete
        self._begin(0)

    def _begin(self, head: int) -> None:
        self.seen = head  # what later events change is not in the column
        self._upto: bytes | None = keys.pack_type(self.type_id)  # the last row read; None: all have been
        self._facts: dict[bytes, bytes] = {}
        self._ordered: list[bytes] = []  # the keys of `_facts`, and those in `_gone`
        self._gone: set[bytes] = set()
        self._indexes: dict[ValueOf, _Index] = {}
        self._links = 0  # events followed since it was complete
        self._size = 0

    def __len__(self) -> int:
        return len(self._facts)

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return self._size + INDEX_OVERHEAD * len(self._indexes) * len(self._facts)

    def advance(self, reading: ReadTransaction, search: Search, stop: Stop) -> bool:
        """Read rows and events until `stop`; return whether this is the state of the transaction, ready to search."""
        if not self._ordered or self.seen < reading.floor or self._links > 4 * len(self._facts) + 1000:
            # Retention may have removed events after `seen`; and so many cost more than a scan.
            self._begin(reading.head)
        return self._scan(reading, stop) and self._follow(reading, stop) and self._index(search, stop)

    def _scan(self, reading: ReadTransaction, stop: Stop) -> bool:
        """Read rows from the last one read. Their later changes are followed: a row may be newer than `seen`."""
        if self._upto is None:
            return True
        cursor = reading.txn.cursor(reading.databases.state)
        rows = cursor.iternext() if cursor.set_range(self._upto + b"\0") else iter(())
        packed_type = self._upto[:2]
        while some := list(islice(rows, STEP_ROWS)):
            for view_of_key, value in some:
                if view_of_key[:2] != packed_type:
                    self._upto = None
                    return True
                key = view_of_key.tobytes()
                if key <= self._upto:
                    raise state.misplaced(key)
                self._facts[key] = facts = self._facts_of(key, value)
                self._ordered.append(key)
                self._size += len(key) + len(facts) + ENTRY_OVERHEAD
                self._upto = key
            if stop():
                return False
        self._upto = None
        return True

    def _facts_of(self, key: bytes, value: Any) -> bytes:
        if self._complete is None:
            return row_facts(key, value)
        _, facts, body = decode_row(key, value)
        return self._complete(facts, body)

    def _follow(self, reading: ReadTransaction, stop: Stop) -> bool:
        """Read the rows of the objects that have events since."""
        links = history.links(reading, self.type_id, self.seen, reading.head)
        while some := list(islice(links, STEP_ROWS)):
            self._renew(reading, {link.key for link in some})
            self.seen = some[-1].offset
            self._links += len(some)
            if stop() and self.seen < reading.head:
                return False
        self.seen, self._links = reading.head, 0
        return True

    def _renew(self, reading: ReadTransaction, changed: set[bytes]) -> None:
        txn, database = reading.txn, reading.databases.state
        fresh: list[bytes] = []
        for key in changed:
            value = txn.get(key, None, database)
            before = self._facts.get(key)
            after = None if value is None else self._facts_of(key, value)
            if before == after:
                continue
            if before is None:
                if key in self._gone:
                    self._gone.remove(key)
                else:
                    fresh.append(key)
                self._size += len(key) + ENTRY_OVERHEAD
            if after is None:
                del self._facts[key]
                self._gone.add(key)
                self._size -= len(key) + ENTRY_OVERHEAD
            else:
                self._facts[key] = after
            self._size += len(after or b"") - len(before or b"")
            for index in self._indexes.values():
                index.change(key, before, after)
        self._put_in_order(fresh)

    def _put_in_order(self, fresh: list[bytes]) -> None:
        if len(fresh) <= FEW:
            for key in fresh:
                insort(self._ordered, key)
        else:
            self._ordered += sorted(fresh)
            self._ordered.sort()  # linear, because sort detects the two runs
        if len(self._gone) > max(1000, len(self._facts) // 4):
            self._ordered = [key for key in self._ordered if key in self._facts]
            self._gone = set()

    def _index(self, search: Search, stop: Stop) -> bool:
        """Make the indexes that the terms of a search need."""
        for value_of, _ in search.terms:
            index = self._indexes.get(value_of)
            if index is None:
                index = self._indexes[value_of] = _Index(value_of)
            while index.upto is not None:
                position = bisect_right(self._ordered, index.upto)
                some = self._ordered[position : position + STEP_KEYS]
                for key in some:
                    if (facts := self._facts.get(key)) is not None:
                        index.add(key, facts)
                index.upto = some[-1] if some else None
                if index.upto is not None and stop():
                    return False
        return True

    def found(self, search: Search, scope: bytes, start: bytes) -> Iterator[Slice]:
        """The keys from `start` on whose facts match, ascending, in slices."""
        facts, match = self._facts, search.match
        few = self._fewest(search.terms)
        if few is not None:
            some = sorted(key for key in few if key >= start and key.startswith(scope))
            for first in range(0, len(some), LAST_SLICE):
                part = some[first : first + LAST_SLICE]
                yield part[-1], [key for key in part if match(facts[key], b"")]
            return
        position, size = bisect_left(self._ordered, start), FIRST_SLICE
        end = len(self._ordered) if len(scope) == 2 else bisect_left(self._ordered, scope[:-1] + b"\1")
        while position < end:
            part = self._ordered[position : min(position + size, end)]
            yield part[-1], [key for key in part if key in facts and match(facts[key], b"")]
            position, size = position + size, min(2 * size, LAST_SLICE)

    def _fewest(self, terms: tuple[Term, ...]) -> list[bytes] | None:
        """The keys under one of the terms, all of which hold; None if no term has few enough."""
        lists = [self._indexes[value_of].values.get(value, []) for value_of, value in terms]
        return min((found for found in lists if found is not None), key=len, default=None)


_Name = tuple[int, Complete | None]  # of a column: its type, and what completes its facts


class Columns:
    """A bounded LRU cache of columns. Used by the thread that serves reads."""

    def __init__(self, most_bytes: int = COLUMN_BYTES) -> None:
        self._most_bytes = most_bytes
        self._columns: OrderedDict[_Name, Column] = OrderedDict()
        self._too_large: dict[int, int] = {}  # type -> objects that it had

    def step(
        self, reading: ReadTransaction, type_id: int, namespace: str | None, search: Search, stop: Stop
    ) -> tuple[bool, FindKeys | None]:
        """Whether a list can be read now, and what finds the keys of its rows in this transaction; None: scan.

        If not, call it again in a new transaction: it makes a column until `stop`.
        """
        name = type_id, search.complete
        column = self._columns.get(name)
        if column is None:
            if not self._is_worthwhile(reading, type_id, namespace):
                return True, None
            column = self._columns[name] = Column(type_id, search.complete)
        elif column.seen > reading.head:
            return True, None  # a transaction that began before another one advanced the column
        self._columns.move_to_end(name)
        ready = column.advance(reading, search, stop)
        if not self._make_room(name):
            return True, None
        if not ready:
            return False, None
        if len(column) != state.checked_count(reading.txn, reading.databases, keys.pack_type(type_id)):
            del self._columns[name]  # a scan, which checks every row, finds out what is damaged
            return True, None
        return True, partial(column.found, search)

    def _is_worthwhile(self, reading: ReadTransaction, type_id: int, namespace: str | None) -> bool:
        if reading.limit < keys.MAX_OFFSET:
            return False  # the stored state is of a later offset
        txn, databases = reading.txn, reading.databases
        objects = state.checked_count(txn, databases, keys.pack_type(type_id))
        if objects < LEAST or objects * LEAST_BYTES > self._most_bytes:
            return False
        if 2 * objects > self._too_large.get(type_id, 2 * objects + 1):
            return False
        scope = keys.scope(type_id, namespace)
        return scope is not None and NAMESPACE_PART * state.checked_count(txn, databases, scope) >= objects

    def _make_room(self, newest: _Name) -> bool:
        """Drop the columns that were used least recently; return False if the newest one is too large by itself."""
        while sum(column.size for column in self._columns.values()) > self._most_bytes:
            name, column = self._columns.popitem(last=False)
            if name == newest:
                self._too_large[name[0]] = len(column)
                return False
        return True

    def statistics(self) -> dict[str, int]:
        size = sum(column.size for column in self._columns.values())
        return {"columns": len(self._columns), "column_bytes": size}
