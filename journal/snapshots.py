"""Snapshots: which event was every object's state at an offset, so that a replay never starts from zero.

The caller decides when (`due`) and drives `take` chunk by chunk, between other work; `replay` uses `nearest`
and `load`; `prune` makes them go. A snapshot holds references, not contents: the events that are the state at
a version stay as long as that version may be asked for, so contents would only be stored twice.

    offset:8 chunk:4      -> check:4 zlib(msgpack[key, offset, key, offset, ...])      in key order, all types
    offset:8 ffffffff     -> check:4 zlib(msgpack[layout, rows, [first key of each chunk]])

The last record makes it a snapshot; chunks without it belong to one that was not finished: nobody reads them
and the next `take` removes them. Each chunk is read and written in short transactions of its own; what is
appended meanwhile is undone by `View.at`, so all of them show the same offset.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgpack

from journal import keys
from journal.errors import Compacted, Damaged, NewerLayout

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.view import View

LAYOUT = 1
# About 20 KiB compressed, and two milliseconds of reading between two moments when others may run.
CHUNK_ROWS = 1000
HEADER = 0xFFFFFFFF
_KEY = struct.Struct(">QI")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The header of a finished snapshot."""

    offset: int
    rows: int
    first_keys: tuple[bytes, ...]  # of each chunk


def take(journal: Journal, *, chunk_rows: int = CHUNK_ROWS) -> Iterator[int]:
    """Take a snapshot of the present, a chunk at each step; yields the rows written so far.

    Ends without a snapshot when retention overtakes it or there is nothing new.
    """
    remove_unfinished(journal)
    with journal.read() as view:
        offset, types = view.head, view.written_types()
        if not offset or newest(view) == offset:
            return
    writing = _Writing(journal, offset, types, chunk_rows)
    try:
        while writing.step():
            yield writing.rows
    except Compacted:
        remove_unfinished(journal)


class _Writing:
    """A snapshot under way: where it is, and what it has written."""

    def __init__(self, journal: Journal, offset: int, types: list[int], chunk_rows: int) -> None:
        self._journal, self._offset, self._chunk_rows = journal, offset, chunk_rows
        self._types = types  # those still to be read, wholly or in part
        self._start = b""
        self._first_keys: list[bytes] = []
        self.rows = 0

    def step(self) -> bool:
        """Write the next chunk, or the header when there is none; False when all is written."""
        rows = self._read()
        if not rows:
            packed = msgpack.packb([LAYOUT, self.rows, self._first_keys])
            _write(self._journal, self._offset, HEADER, packed)
            return False
        packed = msgpack.packb([field for row in rows for field in row])
        _write(self._journal, self._offset, len(self._first_keys), packed)
        self._first_keys.append(rows[0][0])
        self.rows += len(rows)
        return True

    def _read(self) -> list[tuple[bytes, int]]:
        rows: list[tuple[bytes, int]] = []
        with self._journal.read() as view:
            past = view.at(self._offset)
            while self._types and len(rows) < self._chunk_rows:
                start = max(self._start, keys.pack_type(self._types[0]))
                found = past.references(self._types[0], start, self._chunk_rows)
                rows += found
                if len(found) < self._chunk_rows:
                    del self._types[0]
                if found:
                    self._start = found[-1][0] + b"\0"
        return rows


def _write(journal: Journal, offset: int, number: int, packed: bytes) -> None:
    key = _KEY.pack(offset, number)
    squeezed = zlib.compress(packed, 1)
    value = zlib.crc32(squeezed, zlib.crc32(key)).to_bytes(4, "big") + squeezed
    database = journal.environment.snapshots
    journal.environment.write(lambda txn: txn.put(key, value, db=database))


def nearest(view: View, offset: int) -> int:
    """The newest finished snapshot up to an offset that retention has not overtaken; 0 without one."""
    usable = [found for found in finished(view) if view.floor <= found <= offset]
    return usable[-1] if usable else 0


def newest(view: View) -> int:
    return nearest(view, keys.MAX_OFFSET)


def finished(view: View) -> list[int]:
    """Offsets of all finished snapshots, ascending."""
    return [offset for offset, number in _numbers(view.txn, view.journal) if number == HEADER]


def due(view: View, every: int) -> bool:
    """Whether `every` events have come since the newest snapshot."""
    return view.head - max(newest(view), view.floor) >= every


def header(view: View, offset: int) -> Snapshot:
    layout, rows, first_keys = _read(view, offset, HEADER)
    if layout > LAYOUT:
        raise NewerLayout(f"the snapshot at {offset}", layout, LAYOUT)
    return Snapshot(offset, rows, tuple(first_keys))


def load(view: View, offset: int, type_id: int) -> dict[bytes, int]:
    """State key -> event offset of every object of a type."""
    first_keys = header(view, offset).first_keys
    lowest, beyond = keys.pack_type(type_id), keys.pack_type(type_id) + b"\xff"
    begin = max(bisect_right(first_keys, lowest) - 1, 0)
    rows: dict[bytes, int] = {}
    for number in range(begin, bisect_left(first_keys, beyond)):
        rows.update(pair for pair in chunk(view, offset, number) if pair[0].startswith(lowest))
    return rows


def chunk(view: View, offset: int, number: int) -> Iterator[tuple[bytes, int]]:
    fields = iter(_read(view, offset, number))
    return zip(fields, fields, strict=True)


def _read(view: View, offset: int, number: int) -> list[Any]:
    key = _KEY.pack(offset, number)
    value = view.txn.get(key, db=view.journal.environment.snapshots)
    if value is None:
        raise Damaged(f"chunk {number} of the snapshot at {offset} is missing")
    squeezed = bytes(value[4:])
    if zlib.crc32(squeezed, zlib.crc32(key)) != int.from_bytes(value[:4], "big"):
        raise Damaged(f"chunk {number} of the snapshot at {offset} does not match its checksum")
    fields: list[Any] = msgpack.unpackb(zlib.decompress(squeezed))
    return fields


def remove_unfinished(journal: Journal) -> None:
    with journal.read() as view:
        unfinished = {offset for offset, _ in _numbers(view.txn, journal)} - set(finished(view))
    _remove(journal, unfinished)


def prune(journal: Journal, keep: int) -> None:
    """Remove all but the newest `keep` finished snapshots, and those that retention has overtaken."""
    with journal.read() as view:
        usable = [offset for offset in finished(view) if offset >= view.floor]
        surplus = set(finished(view)) - set(usable[-keep:] if keep else [])
    _remove(journal, surplus)


def _remove(journal: Journal, offsets: set[int]) -> None:
    if offsets:
        journal.environment.write(lambda txn: _delete(txn, journal, offsets))


def _delete(txn: Any, journal: Journal, offsets: set[int]) -> None:
    for offset, number in list(_numbers(txn, journal)):
        if offset in offsets:
            txn.delete(_KEY.pack(offset, number), db=journal.environment.snapshots)


def _numbers(txn: Any, journal: Journal) -> Iterator[tuple[int, int]]:
    for key in txn.cursor(journal.environment.snapshots).iternext(values=False):
        offset, number = _KEY.unpack(key)
        yield offset, number
