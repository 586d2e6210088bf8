"""The journal as one portable file: its layout, how it is written and how it is read.

Called by the command line through `export`, and by `restore`, which makes a journal of it. A stream from the
first byte to the last, both ways: one record in memory at a time, no seeking.

    magic    16 bytes, "rewound journal\\n"
    frame    length:4 check:4 payload            check = crc32(payload, check of the frame in front)
             big-endian; the check in front of the first frame is crc32(magic)

    frames   header   msgpack {version, dialect, types {name: number}, floor, head, events, time}
             event    offset:8, then the event's bytes as the journal stores them (`records`), ascending
             ...
             end      00:8, events:8

Checks are chained, so a frame that is lost, moved or doubled is damage like a flipped bit; without the end the
file was cut off. Events keep their stored layout: what reads an old journal reads an old export. Snapshots and
indexes stay behind, because an import makes them again. A file of SQL or JSON was rejected: it would have to
invent a second form of every record.
"""

from __future__ import annotations

import gzip
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, BinaryIO
from zlib import crc32

import msgpack

from journal import keys, records
from journal.errors import Damaged, DamagedFile, NewerLayout
from journal.records import Event

if TYPE_CHECKING:
    from journal.view import View

MAGIC = b"rewound journal\n"
VERSION = 1
LONGEST = 64 << 20  # a length beyond it is damage, not a record: objects are limited to a twentieth of it
STEP = 1000  # events between two calls of the progress callback

_LEAD = struct.Struct(">II")
_END = keys.pack_offset(0)

Told = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Header:
    version: int
    dialect: str
    types: dict[str, int]
    floor: int  # events up to it are the state at it, one for each object
    head: int
    events: int
    time: int  # of the export, in microseconds since 1970


def export(view: View, stream: BinaryIO, told: Told | None = None) -> Header:
    """Write all that a view shows. Every record is checked on its way out."""
    header = _header_of(view)
    frames = _Frames(stream)
    frames.write(msgpack.packb(asdict(header)))
    written = 0
    for key, value in view.txn.cursor(view.journal.environment.events):
        records.event_fields(keys.offset_of(key), value)
        frames.write(b"%b%b" % (key, value))
        written += 1
        if told is not None and written % STEP == 0:
            told(written)
    frames.write(_END + keys.pack_offset(written))
    stream.flush()
    return header


def _header_of(view: View) -> Header:
    environment = view.journal.environment
    events = view.txn.stat(environment.events)["entries"]
    now = time.time_ns() // 1000
    return Header(VERSION, view.journal.dialect, view.journal.types(), view.floor, view.head, events, now)


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
    """An export, read once from its beginning. Everything is checked before it is handed out."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._check = crc32(MAGIC)
        self.position = 0  # of the next byte, behind any decompression
        if self._read(len(MAGIC), "no export begins so") != MAGIC:
            raise DamagedFile(0, "no export begins so")
        self.header = self._header()

    def _header(self) -> Header:
        begun = self.position
        try:
            fields = msgpack.unpackb(self._frame())
            version = int(fields["version"])
            if version > VERSION:
                raise NewerLayout("the export", version, VERSION)
            return Header(**{name: fields[name] for name in Header.__slots__})
        except (KeyError, TypeError, ValueError) as wrong:
            raise DamagedFile(begun, "its header makes no sense") from wrong

    def events(self) -> Iterator[Event]:
        """All of them, ascending. Ends only where the file does, and says so if that is too early."""
        count = 0
        while True:
            begun = self.position
            payload = self._frame()
            if payload[:8] == _END:
                break
            count += 1
            yield _event(begun, payload)
        if payload[8:] != keys.pack_offset(count):
            raise DamagedFile(begun, f"{count} events came before its end, which knows another number")
        if self._some(1):
            raise DamagedFile(self.position - 1, "it goes on behind its end")

    def _frame(self) -> bytes:
        begun = self.position
        length, check = _LEAD.unpack(self._read(_LEAD.size, "it was cut off"))
        if not 8 <= length <= LONGEST:
            raise DamagedFile(begun, f"no record has {length} bytes")
        payload = self._read(length, "it was cut off")
        self._check = crc32(payload, self._check)
        if self._check != check:
            raise DamagedFile(begun, "a record does not match its checksum")
        return payload

    def _read(self, size: int, why: str) -> bytes:
        found = self._some(size)
        if len(found) < size:
            raise DamagedFile(self.position, why)
        return found

    def _some(self, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end. Pipes hand out less than they are asked for."""
        parts: list[bytes] = []
        while size:
            try:
                part = self._stream.read(size)
            except (EOFError, zlib.error, gzip.BadGzipFile) as wrong:
                raise DamagedFile(self.position, f"its compression does not hold: {wrong}") from wrong
            if not part:
                break
            parts.append(part)
            size -= len(part)
            self.position += len(part)
        return b"".join(parts)


def _event(begun: int, payload: bytes) -> Event:
    try:
        return records.decode_event(keys.offset_of(payload[:8]), payload[8:])
    except Damaged as damage:
        raise DamagedFile(begun, damage.what) from damage
