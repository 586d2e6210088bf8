"""The latest state: one row per live object, read as JSON bytes in the order of lists.

`log` writes it, `View` reads it. Only rows whose checksum matches are returned. Checking costs more than reading (0.8
us per kB), so a bounded cache holds copies of checked rows that lists read, keyed by the first twelve bytes of the
stored row (its checksum and offset). A returned row was either checked now or copied after its check, so bytes that
change in the file later are never returned.

LMDB does not notice if two of its pages are exchanged in the file: each row then is what was written, but at another
place. So every chunk must have its keys in order, and a search for its first and last key must find them
(`_in_place`); a list that continues must find the row after which it continues; and a scope without a count must have
no rows.

A list that is repeated while nothing of its type was written needs no lookups of rows: the cache also holds runs of
rows, with a mark of their type's state. Both are keyed by content, so writes need not invalidate them and they cannot
be stale. Rejected: a cache of whole responses, which would hold every body twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any

import msgspec

from rewound.journal import keys
from rewound.journal.environment import Databases
from rewound.journal.errors import Damaged
from rewound.journal.records import (
    Row,
    decode_count,
    decode_link,
    decode_row,
    printable,
    row_identity,
    row_offset,
)
from rewound.journal.search import Match

Find = Callable[[bytes], Any]  # looks up the row of a key from the root of its tree
Stop = Callable[[], bool]  # returns whether a scan has used its share of time and should stop
Entry = tuple[bytes, int, bytes, bytes]  # state key, offset, facts, body
# The last key compared, and what was found up to it, in order: keys, or rows.
Slice = tuple[bytes, list[bytes]]
Run = tuple[bytes, list[Entry]]
FindKeys = Callable[[bytes, bytes], Iterator[Slice]]  # finds keys in a scope, from a start on
# The offset of a type's newest event, and its number of objects. Retention keeps the events of live objects, so if
# the offset is the same, no live object was written since; if retention removed the event of a removal, the number
# differs.
Mark = tuple[int, int]

# Size of each of two generations: 5,000 objects of 1 kB, so the cache holds at most 16 MiB.
GENERATION_BYTES = 8 << 20
ENTRY_OVERHEAD = 400  # overhead of Python's objects for each entry
# Longer scans are not cached: they would evict everything else.
CACHEABLE_ROWS = 4096
# How many rows, and about how many bytes, a scan reads at a time: a millisecond, after which it may stop.
FIRST_CHUNK, LAST_CHUNK = 128, 512
CHUNK_BYTES = 512 << 10
CONTENTS = 32  # rows that are looked up one by one between two calls of `stop`: each takes some tens of us
RUNS = 256  # rows in all runs, at most; runs hold only references to cached rows
# Start keys of recent scans in each of two sets: more than there are types and pages of their lists.
STARTS = 512


class Page(msgspec.Struct, frozen=True):
    """A part of a list. `more`: at least one more matching object follows `last`.

    `stopped`: the scan ended before its limit. Then `last` is the last object compared, and `more` only means
    "maybe".
    """

    bodies: list[bytes]
    last: tuple[str, str] | None
    more: bool
    stopped: bool = False


class CheckedRows:
    """A cache of checked rows, by row identity, in two generations; the older one is evicted as a whole."""

    def __init__(self, generation_bytes: int = GENERATION_BYTES) -> None:
        self._generation_bytes = generation_bytes
        self._young: dict[tuple[Any, ...], Entry] = {}
        self._old: dict[tuple[Any, ...], Entry] = {}
        self._bytes = 0
        self._runs: dict[tuple[bytes, int], tuple[Mark, list[Entry]]] = {}
        self._starts: set[bytes] = set()
        self._old_starts: set[bytes] = set()

    def scanned_before(self, start: bytes) -> bool:
        """Whether a recent scan started at this key.

        Caching rows costs half as much as checking them, so it pays only for scans that repeat, such as whole lists,
        and not for pages at random keys.
        """
        known = start in self._starts or start in self._old_starts
        if len(self._starts) >= STARTS:
            self._old_starts, self._starts = self._starts, set()
        self._starts.add(start)
        return known

    def load(self, cursor: Any, find: Find, start: bytes, count: int, mark: Mark) -> list[Entry]:
        """Up to `count` entries starting at `start`; checks and copies only rows that are not cached."""
        runs = self._runs
        run = runs.get((start, count))
        if run is not None and run[0] == mark:
            return run[1]
        entries = _in_place(self._rows(cursor, start, count), find, start)
        # Only if all rows are in the younger generation; otherwise runs would hold rows that were evicted.
        if self._runs is runs:
            if len(runs) >= RUNS:
                runs.clear()
            runs[start, count] = mark, entries
        return entries

    def _rows(self, cursor: Any, start: bytes, count: int) -> list[Entry]:
        if not cursor.set_range(start):
            return []
        # Neighbours are read together: if the first is not cached, the rest usually is not either.
        if row_identity(cursor.value()) not in self._young:
            return _bounded(cursor, count, self._entry)
        identities = map(row_identity, islice(cursor.iternext(keys=False), count))
        entries: list[Any] = list(map(self._young.get, identities))
        if not all(entries):
            self._fill(cursor, entries)
        return entries

    def _fill(self, cursor: Any, entries: list[Any]) -> None:
        """Read the rows missing between cached entries, up to a chunk; the first row is always cached."""
        size = 0
        for position, entry in enumerate(entries):
            if entry is None:
                before = entries[position - 1][0]
                if not (cursor.set_key(before) and cursor.next()):
                    raise misplaced(before)
                value = cursor.value()
                entries[position] = self._entry(cursor.key(), value)
                size += len(value)
                if size > CHUNK_BYTES:
                    del entries[position + 1 :]
                    return

    def _entry(self, view_of_key: Any, value: Any) -> Entry:
        identity, key = row_identity(value), view_of_key.tobytes()
        entry = self._young.get(identity) or self._old.get(identity)
        if entry is None or entry[0] != key:
            entry = (key, *decode_row(key, value))
        self._keep(identity, entry)
        return entry

    def _keep(self, identity: tuple[Any, ...], entry: Entry) -> None:
        if self._bytes > self._generation_bytes:
            self._old, self._young, self._bytes = self._young, {}, 0
            self._runs = {}
        self._young[identity] = entry
        self._bytes += len(entry[2]) + len(entry[3]) + ENTRY_OVERHEAD

    def statistics(self) -> dict[str, int]:
        rows = len(self._young) + len(self._old)
        return {"checked_rows": rows, "checked_bytes": self._bytes, "checked_runs": len(self._runs)}


def load_uncached(cursor: Any, find: Find, start: bytes, count: int, _mark: Mark) -> list[Entry]:
    """Up to `count` entries starting at `start`, each checked now."""
    if not cursor.set_range(start):
        return []
    return _in_place(_bounded(cursor, count, _checked_entry), find, start)


_key_of: Callable[[Entry], bytes] = itemgetter(0)


def _in_place(entries: list[Entry], find: Find, start: bytes) -> list[Entry]:
    """Raise Damaged if rows are not where their keys belong."""
    if entries:
        order = list(map(_key_of, entries))
        if order[0] < start or order != sorted(order):  # faster than comparing neighbours here
            raise misplaced(order[0])
        for key in (order[0], order[-1]):
            if find(key) is None:
                raise misplaced(key)
    return entries


def misplaced(key: bytes) -> Damaged:
    return Damaged(f"the rows around {printable(key)} are not in their places")


def check_continued(txn: Any, databases: Databases, cursor: Any, last: bytes) -> None:
    """Raise Damaged if the row after which a list continues is not before the cursor, unless it was removed."""
    if (cursor.prev() if cursor.key() else cursor.last()) and bytes(cursor.key()) == last:
        return
    if get_checked(txn, databases, last) is not None:
        raise misplaced(last)


def _checked_entry(view_of_key: Any, value: Any) -> Entry:
    key = view_of_key.tobytes()
    return key, *decode_row(key, value)


def _bounded(cursor: Any, count: int, entry: Callable[[Any, Any], Entry]) -> list[Entry]:
    """Up to `count` entries from the cursor on: fewer if they are large, but at least one."""
    entries: list[Entry] = []
    size = 0
    for view_of_key, value in islice(cursor.iternext(), count):
        entries.append(entry(view_of_key, value))
        size += len(value)
        if size > CHUNK_BYTES:
            break
    return entries


def get(txn: Any, database: Any, key: bytes) -> Row | None:
    value = txn.get(key, None, database)
    return None if value is None else Row(*decode_row(key, value))


def get_checked(txn: Any, databases: Databases, key: bytes) -> Row | None:
    """The row of an object; None only if it certainly does not exist."""
    value = txn.get(key, None, databases.state)
    if value is not None:
        return Row(*decode_row(key, value))
    check_absent(txn, databases, txn.cursor(databases.by_object), key)
    return None


def check_absent(txn: Any, databases: Databases, cursor: Any, key: bytes) -> None:
    """Raise Damaged if an object without a row was not removed: the row, or its key, is not what was written.

    `cursor` is a cursor of `by_object`.
    """
    prefix = key + b"\0"
    # Usually there is none, for a create.
    if cursor.set_range(prefix) and cursor.key().tobytes().startswith(prefix):
        _check_removed(txn, databases, cursor, key)


def _check_removed(txn: Any, databases: Databases, cursor: Any, key: bytes) -> None:
    """Raise Damaged if the newest event of an object is not its removal."""
    beyond = cursor.set_range(keys.by_object(key, keys.MAX_OFFSET))
    if not (cursor.prev() if beyond else cursor.last()):
        return
    newest = bytes(cursor.key())
    if newest[:-9] != key:
        return
    type_key = key[:2] + newest[-8:]
    link = txn.get(type_key, None, databases.by_type)
    if link is None or not decode_link(type_key, link).removed:
        raise Damaged(f"the state of {printable(key)} is missing")


def count(txn: Any, database: Any, scope: bytes) -> int:
    value = txn.get(scope, None, database)
    return 0 if value is None else decode_count(scope, value)


def checked_count(txn: Any, databases: Databases, scope: bytes) -> int:
    """The number of objects in a scope. Raises Damaged if the scope has rows but no count."""
    value = txn.get(scope, None, databases.counts)
    if value is not None:
        return decode_count(scope, value)
    cursor = txn.cursor(databases.state)
    if cursor.set_range(scope) and bytes(cursor.key()).startswith(scope):
        raise Damaged(f"the count of {printable(scope)} is missing")
    return 0


class Scan(msgspec.Struct, frozen=True):
    """The keys with the prefix `scope`, starting at `start`; `known` is their number, if not None."""

    scope: bytes
    start: bytes
    known: int | None
    mark: Mark


def chunks(
    cursor: Any, find: Find, checked: CheckedRows, scan: Scan, wanted: int | None
) -> Iterator[list[Entry]]:
    """The rows of a scan; the first chunk has room for `wanted` rows and one more, to find out whether more follow."""
    size = FIRST_CHUNK if wanted is None else wanted + 1
    if wanted is None and scan.known is not None:
        size = scan.known
    load = checked.load if size <= CACHEABLE_ROWS and checked.scanned_before(scan.start) else load_uncached
    start, left, read = scan.start, scan.known, 0
    while left != 0:
        size = min(size, LAST_CHUNK if left is None else left)
        entries = load(cursor, find, start, size, scan.mark)
        inside = _in_scope(entries, scan.scope)
        read += len(inside)
        if inside:
            yield inside
        if not inside or len(inside) < len(entries):
            break
        left = None if left is None else left - len(inside)
        start, size = inside[-1][0] + b"\0", max(2 * size, FIRST_CHUNK)
        if read > CACHEABLE_ROWS:
            load = load_uncached
    if scan.known is not None:
        _check_count(cursor, scan, read, start)


def _in_scope(entries: list[Entry], scope: bytes) -> list[Entry]:
    # Keys ascend, so when the last one is in the scope all are.
    if not entries or entries[-1][0].startswith(scope):
        return entries
    return [entry for entry in entries if entry[0].startswith(scope)]


def _check_count(cursor: Any, scan: Scan, read: int, start: bytes) -> None:
    """Raise Damaged if the number of rows differs from the count: a list that relied on it would leave out objects."""
    follows = cursor.set_range(start) and bytes(cursor.key()).startswith(scan.scope)
    if read != scan.known or follows:
        raise Damaged(
            f"the count of {printable(scan.scope)} says {scan.known} objects, but the state has another number"
        )


def chunk_for(limit: int | None, match: Match | None) -> int | None:
    """How many rows to read first for so many matching ones: a slow selector may stop the scan after a few."""
    return limit if match is None or (limit is not None and limit < FIRST_CHUNK) else FIRST_CHUNK - 1


def page(
    runs: Iterator[Run],
    limit: int | None,
    match: Match | None,
    stop: Stop | None = None,
    size: int | None = None,
) -> Page:
    """Collect up to `limit` bodies (None: all) of about `size` bytes that match, and whether one more matches.

    Calls `stop` after each chunk and, with a selector, after 1, 2, 4, ... rows: the next step takes about as long as
    all before it, so the scan overruns its share of time at most once. At least one row is always read.
    """
    bodies: list[bytes] = []
    last: bytes | None = None
    more = stopped = False
    compared = 0
    for scanned, entries in runs:
        size_of_run = len(entries)
        if match is not None and entries:
            if stop is None:
                entries = [entry for entry in entries if match(entry[2], entry[3])]
            else:
                entries, scanned, stopped = _matching(entries, match, stop, compared)
        if limit is not None and len(bodies) + len(entries) > limit:
            entries, more, stopped = entries[: limit - len(bodies)], True, False
        if size is not None and entries:
            kept = _first_of_size(entries, size)
            size -= sum(len(entry[3]) for entry in kept)
            if len(kept) < len(entries):
                entries, scanned, more, stopped = kept, kept[-1][0], False, True
        if entries:
            bodies += [entry[3] for entry in entries]
            last = entries[-1][0]
        if more:
            break
        compared += size_of_run
        if stopped or (stop is not None and stop()) or (size is not None and size <= 0):
            return Page(bodies, keys.names_of(scanned), more=True, stopped=True)
    return Page(bodies, None if last is None else keys.names_of(last), more)


def _first_of_size(entries: list[Entry], size: int) -> list[Entry]:
    """The first entries, up to the one that brings them to `size` bytes."""
    for position, entry in enumerate(entries, 1):
        size -= len(entry[3])
        if size <= 0:
            return entries[:position]
    return entries


def _matching(
    entries: list[Entry], match: Match, stop: Stop, compared: int
) -> tuple[list[Entry], bytes, bool]:
    """The matching entries, the last key compared, and whether `stop` ended the comparison before the last entry."""
    found: list[Entry] = []
    position = 0
    while True:
        step = position + compared + 1
        found += [entry for entry in entries[position : position + step] if match(entry[2], entry[3])]
        position += step
        if position >= len(entries):
            return found, entries[-1][0], False
        if stop():
            return found, entries[position - 1][0], True


def rows(runs: Iterator[list[Entry]]) -> Iterator[tuple[str, str, Row]]:
    for entries in runs:
        for key, offset, facts, body in entries:
            yield *keys.names_of(key), Row(offset, facts, body)


class ScopedReads:
    """Lists of a type or one of its namespaces, for views of the latest and of an older state."""

    __slots__ = ()

    def page(
        self,
        type_id: int,
        namespace: str | None = None,
        *,
        after: tuple[str, str] | None = None,
        limit: int | None = None,
        match: Match | None = None,
        stop: Stop | None = None,
        size: int | None = None,
        find: FindKeys | None = None,
    ) -> Page:
        """`find` returns the keys of all rows that may match, and maybe others; without it, all rows are compared."""
        where = self._scope_and_start(type_id, namespace, after)
        if where is None:
            return Page([], None, more=False)
        if find is not None:
            runs = self._found(type_id, *where, find)
        else:
            chunks_of_rows = self._entries_of(type_id, *where, chunk_for(limit, match))
            runs = ((entries[-1][0], entries) for entries in chunks_of_rows)
        return page(runs, limit, match, stop, size)

    def rows(
        self,
        type_id: int,
        namespace: str | None = None,
        after: tuple[str, str] | None = None,
        wanted: int | None = None,
    ) -> Iterator[tuple[str, str, Row]]:
        """All rows after a position, read in chunks; `wanted` is for callers that need only a few."""
        where = self._scope_and_start(type_id, namespace, after)
        return iter(()) if where is None else rows(self._entries_of(type_id, *where, wanted))

    def _scope_and_start(
        self, type_id: int, namespace: str | None, after: tuple[str, str] | None
    ) -> tuple[bytes, bytes] | None:
        scope = keys.scope(type_id, namespace)
        if scope is None:
            return None
        return scope, scope if after is None else max(scope, keys.after(type_id, after))

    def _entries_of(
        self, type_id: int, scope: bytes, start: bytes, wanted: int | None
    ) -> Iterator[list[Entry]]:
        """The rows of a scope in chunks, starting at the key `start`."""
        raise NotImplementedError

    def _found(self, type_id: int, scope: bytes, start: bytes, find: FindKeys) -> Iterator[Run]:
        """The rows whose keys are found in a scope, starting at the key `start`."""
        raise NotImplementedError


def found_rows(txn: Any, databases: Databases, slices: Iterator[Slice]) -> Iterator[Run]:
    """The latest rows of keys that were found in this transaction."""
    for compared, found in slices:
        for first in range(0, len(found), CONTENTS):
            entries: list[Entry] = []
            for key in found[first : first + CONTENTS]:
                row = get_checked(txn, databases, key)
                if row is not None:
                    entries.append((key, *row))
            if entries:
                yield entries[-1][0], entries
        yield compared, []


def references(cursor: Any, scope: bytes, start: bytes, count: int) -> list[tuple[bytes, int]]:
    """(key, offset) of up to `count` checked rows."""
    found: list[tuple[bytes, int]] = []
    if cursor.set_range(start):
        for key, value in islice(cursor.iternext(), count):
            if key[: len(scope)] != scope:
                break
            copied = key.tobytes()
            if found and copied <= found[-1][0]:
                raise misplaced(copied)
            found.append((copied, row_offset(copied, value)))
    return found
