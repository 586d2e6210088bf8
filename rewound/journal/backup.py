"""A backup: the stream of a journal appended to one file, from which any of its offsets can be restored.

    magic    16 bytes, "rewound backup 1"
    frames   (`frames`) whose payloads are the messages of the stream (`stream`): a header at the start, and again
             when a connection brings a different one; types; events; and commits that have events

`BackupFile` appends: the events of a commit are durable before it takes the next one. When it opens an existing file
it checks all of it, truncates it after the last commit, and continues there. `restore_backup` creates a journal from
it, up to any event, with the same cluster id, offsets and bytes. That journal gets a timeline of its own, because the
server that wrote the backup may have written more events since.

A backup is one file, not a chain: each file can be restored by itself, and a new backup is a new file.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from rewound.journal import keys, records
from rewound.journal.batching import MOST, MOST_BYTES, size_of
from rewound.journal.copy import Position, check_header
from rewound.journal.errors import (
    BadName,
    Damaged,
    JournalError,
    JournalExists,
    NameTooLong,
    NewerLayout,
    StorageFailed,
)
from rewound.journal.files import sync_data
from rewound.journal.files.identity import sync_folder
from rewound.journal.frames import BadFrame, FrameChain, FrameParser
from rewound.journal.log import Journal, version_records
from rewound.journal.records import Event
from rewound.journal.stream import Commit, Header, Message, Stored, Types, decode_message, encode_message
from rewound.journal.thinning import relinked
from rewound.journal.timelines import Timelines, branch, encode_timelines
from rewound.journal.transfer import temporary_folder

MAGIC = b"rewound backup 1"
READ = 1 << 20
LONGEST_COMMIT = (
    64 << 20
)  # bytes of events that are held until their commit is complete; a longer one is divided

Progress = Callable[[int, int], None]  # bytes read, size of the file


class BadBackup(JournalError):
    """The file is not a backup, is damaged, or cannot be used in the requested way."""


@dataclass(frozen=True, slots=True)
class _ResumePoint:
    """A position from which a backup can be continued, and what the file contains up to it."""

    position: int = 0
    check: int = crc32(MAGIC)
    header: Header | None = None
    types: int = 0  # number of types
    head: int = 0
    newest: int | None = None  # the checksum of the event at the head
    in_state: bool = False  # the state at the base is not complete yet


class BackupFile:
    """A backup file open for writing, by one process at a time."""

    def __init__(self, path: Path) -> None:
        """Raises BadBackup if the file is damaged, is not a backup, or is being written; OSError if it cannot be
        opened.
        """
        self.path = path
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._lock()
            self._truncate_to_resume_point()
        except BaseException:
            os.close(self._handle)
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadBackup(f"{self.path} is being written by another process: name another file") from None

    def _truncate_to_resume_point(self) -> None:
        """Truncate the file to the last position from which it can be continued."""
        os.lseek(self._handle, 0, os.SEEK_SET)
        self._resume_point = _ResumePoint()
        with os.fdopen(os.dup(self._handle), "rb") as file:
            size = os.fstat(self._handle).st_size
            for found in _resume_points(file, self.path, size):
                self._resume_point = found
        os.ftruncate(self._handle, self._resume_point.position)
        os.lseek(self._handle, self._resume_point.position, os.SEEK_SET)
        self._chain = FrameChain(MAGIC)
        self._chain.check = self._resume_point.check
        self._unwritten: list[bytes] = []

    @property
    def is_new(self) -> bool:
        return self._resume_point.header is None

    @property
    def head(self) -> int:
        return self._resume_point.head

    @property
    def base(self) -> int:
        return 0 if self._resume_point.header is None else self._resume_point.header.base

    @property
    def after(self) -> tuple[int | None, int]:
        """The offset after which the stream must continue (None: a new file), and the base if its state is
        incomplete.
        """
        if not self.head:
            return None, 0
        return self.head, self.base if self._resume_point.in_state else 0

    def begin(self, header: Header, leader: str) -> None:
        """Write or check the header of a connection; raises CannotFollow if the stream does not continue this file."""
        before = self._resume_point.header
        if before is None or not self.head:
            self._restart(header)
            return
        own = Position(before.cluster, before.dialect, before.timelines, self.head, self._resume_point.newest)
        check_header(header, own, leader, f"the backup {self.path}")
        same = (header.timelines, header.kubernetes, header.thinned) == (
            *(before.timelines, before.kubernetes, before.thinned),
        )
        if not same or len(header.types) != self._resume_point.types:
            self._append(replace(header, base=before.base))
            self._resume_point = replace(
                self._resume_point, header=replace(header, base=before.base), types=len(header.types)
            )

    def _restart(self, header: Header) -> None:
        """Write the header of a file that has no events yet."""
        os.ftruncate(self._handle, 0)
        os.lseek(self._handle, 0, os.SEEK_SET)
        self._chain = FrameChain(MAGIC)
        self._unwritten = [MAGIC]
        self._append(header)
        self._resume_point = _ResumePoint(header=header, types=len(header.types), in_state=bool(header.base))

    def add_types(self, types: dict[str, int]) -> None:
        self._append(Types(types))
        self._resume_point = replace(self._resume_point, types=self._resume_point.types + len(types))

    def store(self, stored: list[Stored]) -> None:
        """Append events; they are durable when this returns. If it raises StorageFailed, none of them is in
        the file.
        """
        for one in stored:
            if one.event is None:
                records.checked_event(one.offset, one.value)
            self._append(one)
        newest = stored[-1]
        in_state = newest.offset < self.base and self._resume_point.in_state
        if not in_state:
            self._append(Commit(newest.offset, newest.offset, self.base))
        self._write(sync=not in_state)
        self._resume_point = replace(
            self._resume_point, head=newest.offset, newest=crc32(newest.value), in_state=in_state
        )

    def _append(self, message: Message) -> None:
        self._unwritten.append(self._chain.frame(encode_message(message)))

    def _write(self, *, sync: bool) -> None:
        data = b"".join(self._unwritten)
        try:
            while data:
                data = data[os.write(self._handle, data) :]
            if sync:
                sync_data(self._handle)
        except OSError as error:
            self._truncate_to_resume_point()
            raise StorageFailed(self.path, error.strerror or str(error)) from error
        self._unwritten = []

    def close(self) -> None:
        os.close(self._handle)
        with suppress(OSError):
            if self.is_new:
                self.path.unlink()
            sync_folder(self.path.parent)


def _resume_points(file: BinaryIO, path: Path, size: int) -> Iterator[_ResumePoint]:
    """The positions from which a file can be continued, ascending. Raises BadBackup if the file is damaged."""
    found = _ResumePoint()
    for message, position, check in _messages(file, path, size):
        match message:
            case Header():
                in_state = bool(message.base) if found.header is None else found.in_state
                found = replace(found, header=message, types=len(message.types), in_state=in_state)
            case Types(types):
                found = replace(found, types=found.types + len(types))
            case Stored(offset=offset, value=value):
                in_state = found.in_state and found.header is not None and offset <= found.header.base
                found = replace(found, head=offset, newest=crc32(value), in_state=in_state)
            case Commit():
                found = replace(found, in_state=False)
        if isinstance(message, Commit) or found.in_state:
            found = replace(found, position=position, check=check)
            yield found


def _messages(file: BinaryIO, path: Path, size: int) -> Iterator[tuple[Message, int, int]]:
    """The messages of a file, each with its end position and the checksum there, without a truncated last one.

    Raises BadBackup if the file is damaged.
    """
    parser = FrameParser(MAGIC)
    try:
        while data := file.read(READ):
            for payload in parser.payloads(data):
                if (message := decode_message(payload)) is not None:
                    yield message, parser.position, parser.check
    except (BadFrame, ValueError) as wrong:
        position = parser.position
        if not position:
            raise BadBackup(
                f"{path} is not a backup: name a file that `rewound backup` has written"
            ) from wrong
        file.seek(position)
        if any(any(data) for data in iter(lambda: file.read(READ), b"")):
            raise BadBackup(
                f"{path} is damaged at byte {position} of {size} ({wrong}): restore what is before it with --at, or "
                "use another copy; continue the backup in a new file"
            ) from wrong


@dataclass(frozen=True, slots=True)
class Restored:
    events: int
    base: int  # the restored journal has every version after this one
    head: int
    time: int  # time of the newest event, in microseconds since 1970


def restore_backup(
    path: Path,
    folder: Path,
    *,
    offset: int | None = None,
    time: int | None = None,
    progress: Progress | None = None,
) -> Restored:
    """Create the journal in `folder` from a backup: up to an offset, up to a time, or all of it.

    It is built beside `folder` and renamed when it is complete. Raises BadBackup or CannotOpen.
    """
    if folder.exists() and any(folder.iterdir()):
        raise JournalExists(folder)
    with path.open("rb") as file, temporary_folder(folder) as building:
        restoring = _Restoring(path, building, offset, time)
        try:
            size = os.fstat(file.fileno()).st_size
            for message, position, _ in _messages(file, path, size):
                if not restoring.take(message):
                    break
                if progress is not None:
                    progress(position, size)
            return restoring.finish()
        finally:
            restoring.close()


class _Restoring:
    def __init__(self, path: Path, building: Path, offset: int | None, time: int | None) -> None:
        self._path, self._building = path, building
        self._offset, self._time = offset, time
        self._journal: Journal | None = None
        self._timelines: Timelines = ()
        self._thinned = b""
        self._base = self._count = self._last_time = 0
        self._in_state = False
        self._run: list[tuple[Event, bytes]] = []  # events since the last commit
        self._run_size = self._size = 0
        self._batch: list[tuple[Event, bytes]] = []  # events of whole commits that are not written yet
        self._reached = False  # the requested offset or time was reached
        self._numbers: set[int] = set()  # numbers of the known types
        self._version = self._sent_version = "", 0  # of Kubernetes, and since when objects have its form

    def take(self, message: Message) -> bool:
        """Apply a message; return False once the requested offset or time is reached."""
        match message:
            case Header():
                self._begin(message)
            case Types(types):
                self._adopt_types(types)
            case Stored():
                return self._add(message)
            case Commit():
                self._in_state = False
                self._accept_run()
        return True

    def _begin(self, header: Header) -> None:
        if self._journal is None:
            self._journal = Journal.open(self._building, dialect=header.dialect, cluster_id=header.cluster)
            self._base, self._in_state = header.base, bool(header.base)
            self._journal.put_meta({keys.FLOOR: keys.pack_offset(header.base)})
        self._adopt_types(header.types)
        self._sent_version = header.kubernetes, header.migrated
        self._thinned = header.thinned
        self._timelines = header.timelines

    def _adopt_types(self, types: dict[str, int]) -> None:
        try:
            self._opened.adopt_types(types)
            self._numbers.update(types.values())
        except ValueError as wrong:
            raise BadBackup(f"{self._path} cannot be restored: {wrong}") from wrong

    def _add(self, stored: Stored) -> bool:
        try:
            event = records.checked_event(stored.offset, stored.value)
        except (Damaged, NewerLayout) as damage:
            raise BadBackup(f"{self._path} cannot be restored: {damage}") from damage
        if event.type_id not in self._numbers:
            raise BadBackup(
                f"{self._path} cannot be restored: event {event.offset} is of a type without a name"
            )
        self._in_state = self._in_state and event.offset <= self._base
        later_time = self._time is not None and event.time > self._time
        if later_time or (self._offset is not None and event.offset > self._offset):
            self._reached = True
            self._accept_run()
            return False
        self._version = self._sent_version  # that of the last header before an event that is restored
        if self._run and self._run[-1][0].offset <= self._base < event.offset:
            self._accept_run()
        self._run.append((event, stored.value))
        self._run_size += len(stored.value) + size_of(event)
        if self._in_state or self._run_size > LONGEST_COMMIT:
            self._accept_run()
        return True

    def _accept_run(self) -> None:
        """Move the events of the current run into the batch, and write full batches."""
        for event, value in self._run:
            if self._batch and self._batch[-1][0].offset <= self._base < event.offset:
                self._write()
            self._batch.append((event, value))
            self._size += len(value) + size_of(event)
            if len(self._batch) >= MOST or self._size >= MOST_BYTES:
                self._write()
        self._run, self._run_size = [], 0

    def _write(self) -> None:
        batch, self._batch, self._size = self._batch, [], 0
        if not batch:
            return
        events, values = [event for event, _ in batch], [value for _, value in batch]
        restored = events[-1].offset <= self._base
        try:
            journal = self._opened
            if not restored:
                with journal.read() as view:
                    events, values = relinked(view, events, values)
            journal.write(journal.encode(events, restored=restored, stored=values))
        except (ValueError, NameTooLong, BadName) as wrong:
            raise BadBackup(f"{self._path} cannot be restored: {wrong}") from wrong
        self._count += len(events)
        self._last_time = events[-1].time

    def finish(self) -> Restored:
        self._write()
        if self._journal is None or not self._journal.head:
            raise BadBackup(
                f"{self._path} has no event{' up to then' if self._reached else ''}: give a later moment"
            )
        head = self._journal.head
        if self._in_state:
            if self._reached:
                raise BadBackup(
                    f"{self._path} begins with the state at version {self._base}: give that version or a later moment"
                )
            raise BadBackup(
                f"{self._path} does not have all of the state that it begins with: use another backup"
            )
        if self._offset is not None and head < self._offset and not self._reached:
            raise BadBackup(f"{self._path} ends at version {head}: give that or a lower one")
        timelines = branch(self._timelines, head)
        thinned = records.thinned_before(records.decode_thinned(self._thinned), head)
        self._journal.put_meta(
            {
                keys.TIMELINES: encode_timelines(timelines),
                keys.THINNED: records.encode_thinned(thinned) or None,
            }
            | version_records(*self._version)
        )
        return Restored(self._count, self._base, head, self._last_time)

    @property
    def _opened(self) -> Journal:
        if self._journal is None:
            raise BadBackup(f"{self._path} has no header: use another backup")
        return self._journal

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
