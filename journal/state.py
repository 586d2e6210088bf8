"""The latest state: one row per live object, read as ready bytes in the order of lists.

`log` writes it, `View` reads it. Nothing is served whose checksum did not hold. Checking costs more than
reading (0.8 us a kB), so rows that pages read are kept, once checked, as copies in a bounded cache, and known
again by the first twelve bytes of the stored row (its checksum and offset). What is served is always either
checked now or a copy made when it was: bytes that change in the file later are never served either way.

A list that is read again while nothing of its type was written is not even looked up row by row: runs of rows are
kept too, with a mark of their type's state. Neither needs to follow writes, so neither can be stale. Rejected: a cache
of whole answers, which would hold every body twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from journal import keys
from journal.errors import Damaged
from journal.records import Row, decode_count, decode_row, printable, row_identity

Match = Callable[[bytes], bool]
Entry = tuple[bytes, int, bytes, bytes]  # state key, offset, facts, body
# The offset of a type's newest event, and how many objects it has. The events of live objects are never forgotten, so
# where the first is the same nothing that lives was written since; retention may have forgotten a removal, but not
# that there is one object less.
Mark = tuple[int, int]

# What each of two generations keeps: 5,000 objects of 1 kB, so a server that lists holds at most 16 MiB here.
GENERATION_BYTES = 8 << 20
ENTRY_OVERHEAD = 400  # Python's own bytes around an entry
# Longer scans would only push everything else out.
CACHEABLE_ROWS = 4096
FIRST_CHUNK, LAST_CHUNK = 128, 4096
RUNS = 64  # of rows, at most; they hold nothing but references to what is kept anyway
STARTS = 512  # remembered beginnings of scans, twice: more than there are types and pages of their lists


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list. `more`: at least one further matching object follows `last`."""

    bodies: list[bytes]
    last: tuple[str, str] | None
    more: bool


class Checked:
    """Copies of rows whose checksum held, by row identity. Of two generations the older is dropped whole."""

    def __init__(self, generation_bytes: int = GENERATION_BYTES) -> None:
        self._generation_bytes = generation_bytes
        self._young: dict[tuple[Any, ...], Entry] = {}
        self._old: dict[tuple[Any, ...], Entry] = {}
        self._bytes = 0
        self._runs: dict[tuple[bytes, int], tuple[Mark, list[Entry]]] = {}
        self._starts: set[bytes] = set()
        self._old_starts: set[bytes] = set()

    def asked_before(self, start: bytes) -> bool:
        """Whether a scan began here lately. Keeping rows costs half as much as checking them: only what is
        read again is worth it, like a whole list, or page by page; not pages at random places."""
        known = start in self._starts or start in self._old_starts
        if len(self._starts) >= STARTS:
            self._old_starts, self._starts = self._starts, set()
        self._starts.add(start)
        return known

    def load(self, cursor: Any, start: bytes, count: int, mark: Mark) -> list[Entry]:
        """Up to `count` entries from `start` on; only those not kept yet are checked and copied."""
        runs = self._runs
        run = runs.get((start, count))
        if run is not None and run[0] == mark:
            return run[1]
        entries = self._rows(cursor, start, count)
        # Only what is all in the younger generation, or runs would hold what no generation does.
        if self._runs is runs:
            if len(runs) >= RUNS:
                runs.clear()
            runs[start, count] = mark, entries
        return entries

    def _rows(self, cursor: Any, start: bytes, count: int) -> list[Entry]:
        if not cursor.set_range(start):
            return []
        # Neighbours are read together: where the first is not kept, the rest is not either, as a rule.
        if row_identity(cursor.value()) not in self._young:
            return [self._entry(key, value) for key, value in islice(cursor.iternext(), count)]
        identities = map(row_identity, islice(cursor.iternext(keys=False), count))
        entries: list[Any] = list(map(self._young.get, identities))
        if not all(entries):
            self._fill(cursor, entries)
        return entries

    def _fill(self, cursor: Any, entries: list[Any]) -> None:
        """Read what is missing between entries that were kept; the first always was."""
        for position, entry in enumerate(entries):
            if entry is None:
                cursor.set_key(entries[position - 1][0])
                cursor.next()
                entries[position] = self._entry(*cursor.item())

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


def load_fresh(cursor: Any, start: bytes, count: int, _mark: Mark) -> list[Entry]:
    """Up to `count` entries from `start` on, each checked now."""
    if not cursor.set_range(start):
        return []
    items = islice(cursor.iternext(), count)
    return [(key := view_of_key.tobytes(), *decode_row(key, value)) for view_of_key, value in items]


def get(txn: Any, database: Any, key: bytes) -> Row | None:
    value = txn.get(key, None, database)
    return None if value is None else Row(*decode_row(key, value))


def count(txn: Any, database: Any, scope: bytes) -> int:
    value = txn.get(scope, None, database)
    return 0 if value is None else decode_count(scope, value)


@dataclass(frozen=True, slots=True)
class Span:
    """Where a scan runs: the keys from `start` on that begin with `scope`; `known` of them if not None."""

    scope: bytes
    start: bytes
    known: int | None
    mark: Mark


def chunks(cursor: Any, checked: Checked, span: Span, wanted: int | None) -> Iterator[list[Entry]]:
    """The rows of a span; the first chunk is sized for `wanted` and one more, to know whether more follow."""
    size = FIRST_CHUNK if wanted is None else wanted + 1
    if wanted is None and span.known is not None:
        size = span.known
    load = checked.load if size <= CACHEABLE_ROWS and checked.asked_before(span.start) else load_fresh
    start, left, read = span.start, span.known, 0
    while left != 0:
        size = min(size, LAST_CHUNK if left is None else left)
        entries = load(cursor, start, size, span.mark)
        inside = _inside(entries, span.scope)
        read += len(inside)
        if inside:
            yield inside
        if len(inside) < size:
            break
        left = None if left is None else left - size
        start, size = inside[-1][0] + b"\0", max(2 * size, FIRST_CHUNK)
        if read > CACHEABLE_ROWS:
            load = load_fresh
    if span.known is not None:
        _prove_count(cursor, span, read, start)


def _inside(entries: list[Entry], scope: bytes) -> list[Entry]:
    # Keys ascend, so when the last one is in the scope all are.
    if not entries or entries[-1][0].startswith(scope):
        return entries
    return [entry for entry in entries if entry[0].startswith(scope)]


def _prove_count(cursor: Any, span: Span, read: int, start: bytes) -> None:
    """A list that trusted a wrong count would leave objects out in silence."""
    follows = cursor.set_range(start) and bytes(cursor.key()).startswith(span.scope)
    if read != span.known or follows:
        raise Damaged(
            f"the count of {printable(span.scope)} says {span.known} objects, which is not what is there"
        )


def page(runs: Iterator[list[Entry]], limit: int | None, match: Match | None) -> Page:
    """Collect up to `limit` bodies (None: all) whose facts match, and whether one more would."""
    bodies: list[bytes] = []
    last: bytes | None = None
    more = False
    for entries in runs:
        if match is not None:
            entries = [entry for entry in entries if match(entry[2])]
        if limit is not None and len(bodies) + len(entries) > limit:
            entries, more = entries[: limit - len(bodies)], True
        if entries:
            bodies += [entry[3] for entry in entries]
            last = entries[-1][0]
        if more:
            break
    return Page(bodies, None if last is None else keys.names_of(last), more)


def rows(runs: Iterator[list[Entry]]) -> Iterator[tuple[str, str, Row]]:
    for entries in runs:
        for key, offset, facts, body in entries:
            yield *keys.names_of(key), Row(offset, facts, body)


def references(cursor: Any, scope: bytes, start: bytes, count: int) -> list[tuple[bytes, int]]:
    """(key, offset) of up to `count` checked rows."""
    found: list[tuple[bytes, int]] = []
    if cursor.set_range(start):
        for key, value in islice(cursor.iternext(), count):
            if key[: len(scope)] != scope:
                break
            copied = key.tobytes()
            found.append((copied, decode_row(copied, value)[0]))
    return found
