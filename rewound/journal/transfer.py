"""The journal as one portable file: its layout, its writer (`export`) and its reader (`Reader`); and creating a
journal from such a file (`restore`) or from another journal up to an offset (`fork`).

All of them stream: one record in memory at a time, no seeking.

    magic    16 bytes, "rewound journal\n"
    frames   (`frames`) whose payloads are
             header   msgpack {version, dialect, types {name: number}, floor, head, events, time,
                              kubernetes, migrated, thinned}
             event    offset:8, then the event's bytes as the journal stores them (`records`), ascending
             ...
             end      00:8, events:8

Checksums are chained, so a lost, moved or repeated frame is detected like a flipped bit; a file without the end frame
was truncated. Events keep their stored layout, so whatever reads an old journal reads an old export. Snapshots and
indexes are left out, because an import builds them again. Rejected: SQL or JSON, which would need a second layout of
every record.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

import msgpack

from rewound.journal import fields, keys, records
from rewound.journal.batching import event_batches, in_batches, size_of
from rewound.journal.errors import (
    BadName,
    Compacted,
    Damaged,
    DamagedFile,
    JournalExists,
    NameTooLong,
    NewerLayout,
)
from rewound.journal.frames import LEAD, MAX_FRAME, FrameChain
from rewound.journal.log import Journal, version_records
from rewound.journal.records import Event
from rewound.journal.transaction import ReadTransaction
from rewound.journal.view import View

MAGIC = b"rewound journal\n"
VERSION = 1
STEP = 1000  # events between two calls of the progress callback

_END = keys.pack_offset(0)

Progress = Callable[[int], None]  # number of events written


@dataclass(frozen=True, slots=True)
class Header:
    version: int
    dialect: str
    types: dict[str, int]
    floor: int  # the events up to it are the state at it, one for each object
    head: int
    events: int
    time: int  # time of the export, in microseconds since 1970
    # The version of Kubernetes whose form objects have, and since when. Earlier releases do not write them.
    kubernetes: str = ""
    migrated: int = 0
    thinned: bytes = b""  # the record of meta: what was dropped because it changed only times
    cuts: bytes = b""  # the record of meta: whose oldest events were dropped because they took too much room


def export(reading: ReadTransaction, stream: BinaryIO, progress: Progress | None = None) -> Header:
    """Write all events of a transaction, each checked before; contents that cannot be read are left out."""
    header = _header_of(reading)
    frames = _Frames(stream)
    frames.write(msgpack.packb(asdict(header)))
    written = 0
    for key, value in reading.txn.cursor(reading.databases.events):
        _, copied = reading.copied(keys.offset_of(key), value)
        frames.write(bytes(key) + bytes(copied))
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
        kubernetes=reading.kubernetes,
        migrated=reading.migrated,
        thinned=records.encode_thinned(reading.thinned),
        cuts=records.encode_cuts(reading.cuts),
    )


class _Frames:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._chain = FrameChain(MAGIC)
        stream.write(MAGIC)

    def write(self, payload: bytes) -> None:
        self._stream.write(self._chain.frame(payload))


class Reader:
    """Reads an export once, from its start, and checks every record before returning it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._check = crc32(MAGIC)
        self.position = 0  # position of the next byte, after decompression
        if self._read(len(MAGIC), "it does not begin like an export") != MAGIC:
            raise DamagedFile(0, "it does not begin like an export")
        self.header = self._header()

    def _header(self) -> Header:
        start = self.position
        try:
            found = fields.mapping("the header", msgpack.unpackb(self._frame()))
            version = fields.number("version", found["version"], 0, 1 << 32)
            if version > VERSION:
                raise NewerLayout("the export", version, VERSION)
            return _checked_header({"kubernetes": "", "migrated": 0, "thinned": b"", "cuts": b"", **found})
        except KeyError as missing:
            raise DamagedFile(start, f"its header has no field {missing}") from missing
        except (TypeError, ValueError) as wrong:
            raise DamagedFile(start, f"its header cannot be read: {wrong}") from wrong

    def events(self) -> Iterator[Event]:
        """All events, ascending. Raises DamagedFile if the file stops before its end frame or continues after it."""
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
            raise DamagedFile(self.position - 1, "it continues after its end")

    def _frame(self) -> bytes:
        start = self.position
        length, check = LEAD.unpack(self._read(LEAD.size, "it was cut off"))
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
        """Up to `size` bytes; fewer only at the end, although one read of a pipe may return less."""
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


def _checked_header(found: dict[str, Any]) -> Header:
    """Raises ValueError naming the wrong field."""
    for name in ("floor", "head", "events", "time", "migrated"):
        fields.number(name, found[name], 0, keys.LARGEST_OFFSET)
    fields.text("dialect", found["dialect"], keys.MAX_DIALECT)
    keys.check_kubernetes("kubernetes", found["kubernetes"])
    keys.check_types("types", found["types"])
    records.decode_thinned(fields.octets("thinned", found["thinned"]))
    records.decode_cuts(fields.octets("cuts", found["cuts"]))
    return Header(**{name: found[name] for name in Header.__slots__})


def _event(start: int, payload: bytes) -> Event:
    try:
        return records.checked_event(keys.offset_of(payload[:8]), payload[8:])
    except Damaged as damage:
        raise DamagedFile(start, damage.what) from damage


RestoreProgress = Callable[[int, int], None]  # durable events, all events


def restore(stream: BinaryIO, path: Path, progress: RestoreProgress | None = None) -> Header:
    """Create the journal in `path` from an export, with the same offsets, times, users and state.

    It is built in a temporary folder beside the target and renamed when the last byte was checked, so that a damaged
    file leaves nothing behind. It is always a new journal: merging two logs would need new offsets.
    """
    if path.exists() and any(path.iterdir()):
        raise JournalExists(path)
    reader = Reader(stream)
    with temporary_folder(path) as building:
        journal = Journal.open(building, dialect=reader.header.dialect)
        try:
            _fill(journal, reader, progress)
        finally:
            journal.close()
    return reader.header


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """A folder that is renamed to `path` on success, and removed with the parents created for it on failure."""
    missing = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        building = Path(tempfile.mkdtemp(prefix=f".{path.name}-import-", dir=path.parent))
        try:
            yield building
            _move(building, path)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
    except BaseException:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise


def _move(building: Path, path: Path) -> None:
    try:
        building.rename(path)
    except OSError as taken:
        if path.exists():
            raise JournalExists(path) from taken
        raise
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _fill(journal: Journal, reader: Reader, progress: RestoreProgress | None) -> None:
    header, written = reader.header, 0
    _intern(journal, header.types)
    dropped = {
        keys.FLOOR: keys.pack_offset(header.floor),
        keys.THINNED: header.thinned or None,
        keys.CUTS: header.cuts or None,
    }
    journal.put_meta(dropped | version_records(header.kubernetes, header.migrated))
    for batch in event_batches(_in_order(reader), header.floor):
        _append(journal, header, reader.position, batch)
        written += len(batch)
        if progress is not None:
            progress(written, header.events)
    if journal.head != header.head:
        raise DamagedFile(reader.position, f"it ends at {journal.head}, its header says {header.head}")


def _intern(journal: Journal, types: dict[str, int]) -> None:
    for name, number in sorted(types.items(), key=lambda item: item[1]):
        if journal.register_type(name) != number:
            raise DamagedFile(0, f"its header numbers the type {name} as {number}")


def _in_order(reader: Reader) -> Iterator[Event]:
    time = 0
    for event in reader.events():
        if event.time < time:
            raise DamagedFile(reader.position, f"event {event.offset} is earlier than the one before it")
        time = event.time
        yield event


def _append(journal: Journal, header: Header, position: int, batch: list[Event]) -> None:
    numbers = header.types.values()
    for event in batch:
        if event.type_id not in numbers:
            raise DamagedFile(position, f"event {event.offset} is of a type without a name")
    try:
        journal.append(batch, restored=batch[-1].offset <= header.floor)
    except (ValueError, NameTooLong, BadName) as wrong:
        raise DamagedFile(position, str(wrong)) from wrong


def restore_state(
    path: Path,
    events: Iterable[tuple[str, Event]],
    *,
    dialect: str,
    kubernetes: str,
    cluster_id: bytes,
    floor: int,
) -> None:
    """Create the journal in `path` from the state at a floor: the event that wrote each object, ascending.

    Each event comes with the name of its type, and gets the number that the type has in the new journal.
    """
    with temporary_folder(path) as building:
        journal = Journal.open(building, dialect=dialect, kubernetes=kubernetes, cluster_id=cluster_id)
        try:
            meta = journal.environment.databases.meta
            journal.environment.write(
                lambda txn: records.put_meta(txn, meta, {keys.FLOOR: keys.pack_offset(floor)})
            )
            for batch in in_batches(events, lambda named: size_of(named[1])):
                journal.register_types(type_name for type_name, _ in batch)
                numbers = journal.types()
                journal.append([one._replace(type_id=numbers[name]) for name, one in batch], restored=True)
        finally:
            journal.close()


ForkProgress = Callable[[int], None]  # the offset reached so far


def fork(view: View, path: Path, version: int, progress: ForkProgress | None = None) -> None:
    """Create the journal in `path` from another one up to a version; from there it has a history of its own.

    `rewound replay --writable` calls it. Offsets, times, users, contents, type numbers and the retention floor are
    the same; indexes and state are built again. The other journal is only read, in one transaction. Raises Compacted
    if the version is below the retention floor.
    """
    if path.exists() and any(path.iterdir()):
        raise JournalExists(path)
    if version < view.floor:
        raise Compacted(version, view.floor)
    journal = Journal.open(path, dialect=view.dialect)
    try:
        _copy(view, journal, version, progress)
    finally:
        journal.close()


def _copy(view: View, journal: Journal, version: int, progress: ForkProgress | None) -> None:
    types = sorted(view.types().items(), key=lambda item: item[1])
    journal.register_types(name for name, _ in types)
    assert journal.types() == dict(types), "types are numbered in the order of their names here"
    floor = view.floor
    thinned = records.thinned_before(view.thinned, version)
    cuts = {scope: one._replace(upto=min(one.upto, version)) for scope, one in view.cuts.items()}
    dropped = {
        keys.FLOOR: keys.pack_offset(floor),
        keys.THINNED: records.encode_thinned(thinned) or None,
        keys.CUTS: records.encode_cuts(cuts) or None,
    }
    journal.put_meta(dropped | version_records(view.kubernetes, view.migrated))
    upto = takewhile(lambda event: event.offset <= version, view.all_events(0))
    for batch in event_batches(upto, floor):
        journal.append(batch, restored=batch[-1].offset <= floor)
        if progress is not None:
            progress(batch[-1].offset)
