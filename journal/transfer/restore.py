"""Creates a new journal from an export, with the same offsets, times, users and state.

The command line calls it. It builds the journal in a temporary folder beside the target and renames it when the
last byte was checked, so a damaged file leaves nothing. It always creates a new journal: merging two logs would
need new offsets.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from journal import keys, records
from journal.errors import BadName, DamagedFile, JournalExists, NameTooLong
from journal.log import Journal
from journal.records import Event
from journal.transfer.export import Header, Reader

# One durable transaction each: large enough that the fsync costs little, small enough for any memory.
BATCH, BATCH_BYTES = 1000, 4 << 20

Progress = Callable[[int, int], None]  # durable events, all events


def restore(stream: BinaryIO, path: Path, progress: Progress | None = None) -> Header:
    """Create the journal in `path` from an export."""
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
    """A folder that is renamed to `path` on success and removed on failure, with the parents created for it."""
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


def _fill(journal: Journal, reader: Reader, progress: Progress | None) -> None:
    header, written = reader.header, 0
    _intern(journal, header.types)
    meta, floor = journal.environment.databases.meta, {keys.FLOOR: keys.pack_offset(header.floor)}
    journal.environment.write(lambda txn: records.put_meta(txn, meta, floor))
    for batch in _batches(reader, header.floor):
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


def _append(journal: Journal, header: Header, position: int, batch: list[Event]) -> None:
    numbers = header.types.values()
    for event in batch:
        if event.type_id not in numbers:
            raise DamagedFile(position, f"event {event.offset} is of a type without a name")
    try:
        journal.append(batch, restored=batch[-1].offset <= header.floor)
    except (ValueError, NameTooLong, BadName) as wrong:
        raise DamagedFile(position, str(wrong)) from wrong
