"""A new journal from an export: the same offsets, times, users and state, or nothing at all.

Called by the command line. The journal is built in a folder beside its place and renamed into it when the last
byte has proved right, so a file that turns out damaged at its end leaves no trace. Only ever a new journal:
merging two logs would have to invent offsets.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from journal import keys
from journal.errors import BadName, DamagedFile, JournalExists, NameTooLong
from journal.log import Journal
from journal.records import Event
from journal.transfer.export import Header, Reader

# One durable transaction each: large enough that the fsync costs little, small enough for any memory.
BATCH, BATCH_BYTES = 1000, 4 << 20

Told = Callable[[int, int], None]


def restore(stream: BinaryIO, path: Path, told: Told | None = None) -> Header:
    """Make the journal in `path` from an export. `told` hears how many events are durable, and of how many."""
    if path.exists() and any(path.iterdir()):
        raise JournalExists(path)
    reader = Reader(stream)
    with _beside(path) as building:
        journal = Journal.open(building, dialect=reader.header.dialect)
        try:
            _fill(journal, reader, told)
        finally:
            journal.close()
    return reader.header


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A folder that takes its place when all went well and is gone otherwise, with all that was made for it."""
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


def _fill(journal: Journal, reader: Reader, told: Told | None) -> None:
    header, written = reader.header, 0
    _intern(journal, header.types)
    meta = journal.environment.databases.meta
    journal.environment.write(lambda txn: txn.put(keys.FLOOR, keys.pack_offset(header.floor), db=meta))
    for batch in _batches(reader, header.floor):
        _take(journal, header, reader.position, batch)
        written += len(batch)
        if told is not None:
            told(written, header.events)
    if journal.head != header.head:
        raise DamagedFile(reader.position, f"it ends at {journal.head}, its header says {header.head}")


def _intern(journal: Journal, types: dict[str, int]) -> None:
    for name, number in sorted(types.items(), key=lambda item: item[1]):
        if journal.register_type(name) != number:
            raise DamagedFile(0, f"its header numbers the type {name} as {number}")


def _batches(reader: Reader, floor: int) -> Iterator[list[Event]]:
    """Events in runs of bounded size, all of each on one side of the floor."""
    batch: list[Event] = []
    size = time = 0
    for event in reader.events():
        if event.time < time:
            raise DamagedFile(reader.position, f"event {event.offset} is earlier than the one before it")
        time = event.time
        if len(batch) == BATCH or size > BATCH_BYTES or (batch and batch[-1].offset <= floor < event.offset):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += len(event.body) + len(event.facts)
    if batch:
        yield batch


def _take(journal: Journal, header: Header, position: int, batch: list[Event]) -> None:
    numbers = header.types.values()
    for event in batch:
        if event.type_id not in numbers:
            raise DamagedFile(position, f"event {event.offset} is of a type without a name")
    try:
        if batch[-1].offset <= header.floor:
            journal.restore(batch)
        else:
            journal.append(batch)
    except (ValueError, NameTooLong, BadName) as wrong:
        raise DamagedFile(position, str(wrong)) from wrong
