"""Snapshots: the event that is every object's state at an offset, so that a replay never starts from zero.

This module has their layout and reads them; `snapshot_writer` takes and removes them. A snapshot holds references,
not contents: the events that are the state at a version are retained as long as that version can be read, so contents
would be stored twice.

    offset:8 chunk:4      -> check:4 zlib(msgpack[key, offset, key, offset, ...])      in key order, all types
    offset:8 ffffffff     -> check:4 zlib(msgpack[layout, rows, [first key of each chunk]])

The writer puts the second record, the header, last: chunks without a header belong to a snapshot that was not
finished. They are never read, and the next snapshot removes them.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import msgpack
import msgspec

from rewound.journal import fields, keys
from rewound.journal.environment import Databases
from rewound.journal.errors import Damaged, NewerLayout
from rewound.journal.transaction import ReadTransaction

LAYOUT = 1
HEADER = 0xFFFFFFFF
# Of a chunk or header that is read: the header of a snapshot of a hundred million objects has 100,000 keys.
LARGEST, LONGEST = 64 << 20, 1 << 17  # bytes when it is decompressed, and fields
_KEY = struct.Struct(">QI")
chunk_key = _KEY.pack  # offset, chunk number


class Snapshot(msgspec.Struct, frozen=True):
    """The header of a finished snapshot."""

    offset: int
    rows: int
    first_keys: tuple[bytes, ...]  # first key of each chunk


def nearest(reading: ReadTransaction, offset: int) -> int:
    """The newest finished snapshot at or below an offset and not below the retention floor; 0 if there is none."""
    usable = [found for found in finished(reading) if reading.floor <= found <= offset]
    return usable[-1] if usable else 0


def closest(reading: ReadTransaction, offset: int) -> tuple[int, int]:
    """The finished snapshot closest to an offset, before or after it, and the number of events in between.

    0 if none is closer: up to the retention floor, the log has only the events that are the state there.
    """
    floor = reading.floor
    usable = ((found, abs(found - offset)) for found in finished(reading) if found >= floor)
    return min(((0, offset - floor), *usable), key=lambda found: found[1])


def newest(reading: ReadTransaction) -> int:
    return nearest(reading, keys.MAX_OFFSET)


def finished(reading: ReadTransaction) -> list[int]:
    """Offsets of all finished snapshots, ascending."""
    chunks = chunks_in(reading.txn, reading.databases)
    return [offset for offset, number in chunks if number == HEADER]


def due(reading: ReadTransaction, every: int) -> bool:
    """Whether `every` events were appended since the newest snapshot, and half as many as there are objects.

    A snapshot reads every object: with a million of them, one per 50,000 events would cost as much as the writes.
    """
    objects: int = reading.txn.stat(reading.databases.state)["entries"]
    events: int = reading.txn.stat(reading.databases.events)["entries"]
    head, floor = reading.head, reading.floor
    since = head - max(newest(reading), floor)
    # Where etcd orders the journal, most offsets are those of no event.
    return since * min(1.0, events / max(1, head - floor)) >= max(every, objects // 2)


def header(reading: ReadTransaction, offset: int) -> Snapshot:
    layout, rows, first_keys = _read(reading, offset, HEADER)
    if layout > LAYOUT:
        raise NewerLayout(f"the snapshot at {offset}", layout, LAYOUT)
    return Snapshot(offset, rows, tuple(first_keys))


def chunks_of(reading: ReadTransaction, offset: int, type_id: int) -> range:
    """The numbers of the chunks that have rows of a type."""
    first_keys = header(reading, offset).first_keys
    lowest, beyond = keys.pack_type(type_id), keys.pack_type(type_id) + b"\xff"
    return range(max(bisect_right(first_keys, lowest) - 1, 0), bisect_left(first_keys, beyond))


def rows_of(reading: ReadTransaction, offset: int, number: int, type_id: int) -> dict[bytes, int]:
    """State key -> event offset of every object of a type in one chunk."""
    lowest = keys.pack_type(type_id)
    return {key: row for key, row in chunk(reading, offset, number) if key.startswith(lowest)}


def load(reading: ReadTransaction, offset: int, type_id: int) -> dict[bytes, int]:
    """State key -> event offset of every object of a type."""
    rows: dict[bytes, int] = {}
    for number in chunks_of(reading, offset, type_id):
        rows.update(rows_of(reading, offset, number, type_id))
    return rows


def chunk(reading: ReadTransaction, offset: int, number: int) -> Iterator[tuple[bytes, int]]:
    fields = iter(_read(reading, offset, number))
    return zip(fields, fields, strict=True)


def _read(reading: ReadTransaction, offset: int, number: int) -> list[Any]:
    key = chunk_key(offset, number)
    value = reading.txn.get(key, db=reading.databases.snapshots)
    if value is None:
        raise Damaged(f"chunk {number} of the snapshot at {offset} is missing")
    compressed = bytes(value[4:])
    if zlib.crc32(compressed, zlib.crc32(key)) != int.from_bytes(value[:4], "big"):
        raise Damaged(f"chunk {number} of the snapshot at {offset} does not match its checksum")
    try:
        return _unpacked(compressed)
    except (ValueError, zlib.error) as wrong:
        raise Damaged(f"chunk {number} of the snapshot at {offset} cannot be read ({wrong})") from wrong


def _unpacked(compressed: bytes) -> list[Any]:
    """Raises ValueError and zlib.error."""
    inflating = zlib.decompressobj()
    packed = inflating.decompress(compressed, LARGEST)
    if not inflating.eof:
        raise ValueError(f"it is cut short, or has more than {LARGEST:,} bytes")
    return fields.sequence("its fields", msgpack.unpackb(packed, max_array_len=LONGEST, max_map_len=0))


def encode(key: bytes, fields: Sequence[Any]) -> bytes:
    """The stored value of a chunk or header."""
    compressed = zlib.compress(msgpack.packb(fields), 1)
    return zlib.crc32(compressed, zlib.crc32(key)).to_bytes(4, "big") + compressed


def chunks_in(txn: Any, databases: Databases) -> Iterator[tuple[int, int]]:
    """(offset, chunk number) of every stored chunk and header, ascending."""
    for key in txn.cursor(databases.snapshots).iternext(values=False):
        offset, number = _KEY.unpack(key)
        yield offset, number
