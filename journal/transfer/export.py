"""The journal as one portable file: its layout, its writer (`export`) and its reader (`Reader`).

The command line calls `export`; `restore` reads the file into a new journal. Both stream: one record in memory
at a time, no seeking.

    magic    16 bytes, "rewound journal\\n"
    frame    length:4 check:4 payload            check = crc32(payload, check of the frame before)
             big-endian; the check before the first frame is crc32(magic)

    frames   header   msgpack {version, dialect, types {name: number}, floor, head, events, time}
             event    offset:8, then the event's bytes as the journal stores them (`records`), ascending
             ...
             end      00:8, events:8

Checks are chained, so a lost, moved or repeated frame is found like a flipped bit; a file without the end frame
was truncated. Events keep their stored layout, so whatever reads an old journal reads an old export. Snapshots
and indexes are left out, because an import builds them again. SQL or JSON was rejected: it would need a second
layout of every record.
"""

from __future__ import annotations

import gzip
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import BinaryIO
from zlib import crc32

import msgpack

from journal import keys, records
from journal.errors import Damaged, DamagedFile, NewerLayout
from journal.records import Event
from journal.transaction import ReadTransaction

MAGIC = b"rewound journal\n"
VERSION = 1
MAX_FRAME = 64 << 20  # a larger length is damage: objects are limited to a twentieth of it
STEP = 1000  # events between two calls of the progress callback

_LEAD = struct.Struct(">II")
_END = keys.pack_offset(0)

Progress = Callable[[int], None]  # how many events were written


@dataclass(frozen=True, slots=True)
class Header:
    version: int
    dialect: str
    types: dict[str, int]
    floor: int  # events up to it are the state at it, one for each object
    head: int
    events: int
    time: int  # of the export, in microseconds since 1970


def export(reading: ReadTransaction, stream: BinaryIO, progress: Progress | None = None) -> Header:
    """Write all events of a transaction, each checked before it is written."""
    header = _header_of(reading)
    frames = _Frames(stream)
    frames.write(msgpack.packb(asdict(header)))
    written = 0
    for key, value in reading.txn.cursor(reading.databases.events):
        records.event_fields(keys.offset_of(key), value)
        frames.write(b"%b%b" % (key, value))
        written += 1
        if progress is not None and written % STEP == 0:
            progress(written)
    frames.write(_END + keys.pack_offset(written))
    stream.flush()
    return header


def _header_of(reading: ReadTransaction) -> Header:
    return Header(
        VERSION,
        reading.dialect,
        reading.types(),
        reading.floor,
        reading.head,
        events=reading.txn.stat(reading.databases.events)["entries"],
        time=time.time_ns() // 1000,
    )


class _Frames:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._check = crc32(MAGIC)
        stream.write(MAGIC)

    def write(self, payload: bytes) -> None:
        self._check = crc32(payload, self._check)
        self._stream.write(_LEAD.pack(len(payload), self._check))
        self._stream.write(payload)


class Reader:
    """Reads an export once, from its beginning. It checks every record before it returns it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._check = crc32(MAGIC)
        self.position = 0  # of the next byte, after decompression
        if self._read(len(MAGIC), "it does not begin like an export") != MAGIC:
            raise DamagedFile(0, "it does not begin like an export")
        self.header = self._header()

    def _header(self) -> Header:
        start = self.position
        try:
            fields = msgpack.unpackb(self._frame())
            version = int(fields["version"])
            if version > VERSION:
                raise NewerLayout("the export", version, VERSION)
            return Header(**{name: fields[name] for name in Header.__slots__})
        except (KeyError, TypeError, ValueError) as wrong:
            raise DamagedFile(start, "its header cannot be read") from wrong

    def events(self) -> Iterator[Event]:
        """All events, ascending; DamagedFile when the file ends before its end frame or goes on after it."""
        count = 0
        while True:
            start = self.position
            payload = self._frame()
            if payload[:8] == _END:
                break
            count += 1
            yield _event(start, payload)
        if payload[8:] != keys.pack_offset(count):
            raise DamagedFile(start, f"it has {count} events, but its end frame says another number")
        if self._read_up_to(1):
            raise DamagedFile(self.position - 1, "it goes on after its end")

    def _frame(self) -> bytes:
        start = self.position
        length, check = _LEAD.unpack(self._read(_LEAD.size, "it was cut off"))
        if not 8 <= length <= MAX_FRAME:
            raise DamagedFile(start, f"no record has {length} bytes")
        payload = self._read(length, "it was cut off")
        self._check = crc32(payload, self._check)
        if self._check != check:
            raise DamagedFile(start, "a record does not match its checksum")
        return payload

    def _read(self, size: int, why: str) -> bytes:
        found = self._read_up_to(size)
        if len(found) < size:
            raise DamagedFile(self.position, why)
        return found

    def _read_up_to(self, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end. One read of a pipe may return fewer than asked for."""
        parts: list[bytes] = []
        while size:
            try:
                part = self._stream.read(size)
            except (EOFError, zlib.error, gzip.BadGzipFile) as wrong:
                raise DamagedFile(self.position, f"it cannot be decompressed: {wrong}") from wrong
            if not part:
                break
            parts.append(part)
            size -= len(part)
            self.position += len(part)
        return b"".join(parts)


def _event(start: int, payload: bytes) -> Event:
    try:
        return records.decode_event(keys.offset_of(payload[:8]), payload[8:])
    except Damaged as damage:
        raise DamagedFile(start, damage.what) from damage
