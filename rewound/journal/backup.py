"""A backup: the stream of a journal in a file that grows, from which any of its offsets can be restored.

    magic    16 bytes, "rewound backup 1"
    frames   (`frames`) whose payloads are the messages of the stream (`stream`): a header at the beginning and after
             every connection that brought another one, types, events, and commits that have events

`BackupFile` appends: what a commit brought is durable before the next one is taken. Opened again it checks all of the
file, cuts off what follows the last commit, and goes on there. `restore_backup` makes a journal of it, up to any event:
with the same cluster id, offsets and bytes, and on a timeline of its own, because the server that wrote the backup may
have gone on.

One file, not a chain of them: each file can be restored by itself, and to begin anew is to name another.
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
from rewound.journal.files.identity import sync_folder
from rewound.journal.frames import BadFrame, FrameChain, FrameParser
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.journal.stream import Commit, Header, Message, Stored, Types, decode_message, encode_message
from rewound.journal.timelines import Timelines, branch, encode_timelines
from rewound.journal.transfer import temporary_folder

MAGIC = b"rewound backup 1"
READ = 1 << 20
BATCH, BATCH_BYTES = 1000, 4 << 20  # of a durable transaction while it is restored

Progress = Callable[[int, int], None]  # bytes read, all bytes


class BadBackup(JournalError):
    """The file is no backup, is damaged, or cannot be used as it is wanted."""


@dataclass(frozen=True, slots=True)
class _Sound:
    """What a file has up to a position from which it can go on."""

    position: int = 0
    check: int = crc32(MAGIC)
    header: Header | None = None
    types: int = 0  # how many
    head: int = 0
    newest: int | None = None  # the checksum of the event at the head
    in_state: bool = False  # it has a part of the state at the base


class BackupFile:
    """A backup that is being written, by one process."""

    def __init__(self, path: Path) -> None:
        """BadBackup, OSError."""
        self.path = path
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._lock()
            self._go_back()
        except BaseException:
            os.close(self._handle)
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadBackup(f"{self.path} is being written by another process: name another file") from None

    def _go_back(self) -> None:
        """Cut off what follows the last position from which the file can go on."""
        os.lseek(self._handle, 0, os.SEEK_SET)
        self._sound = _Sound()
        with os.fdopen(os.dup(self._handle), "rb") as file:
            size = os.fstat(self._handle).st_size
            for found in _sound_parts(file, self.path, size):
                self._sound = found
        os.ftruncate(self._handle, self._sound.position)
        os.lseek(self._handle, self._sound.position, os.SEEK_SET)
        self._chain = FrameChain(MAGIC)
        self._chain.check = self._sound.check
        self._unwritten: list[bytes] = []

    @property
    def is_new(self) -> bool:
        return self._sound.header is None

    @property
    def head(self) -> int:
        return self._sound.head

    @property
    def base(self) -> int:
        return 0 if self._sound.header is None else self._sound.header.base

    @property
    def after(self) -> tuple[int | None, int]:
        """After which offset the stream has to go on, and the base whose state is not complete; None: it is new."""
        if not self.head:
            return None, 0
        return self.head, self.base if self._sound.in_state else 0

    def begin(self, header: Header, leader: str) -> None:
        """CannotFollow."""
        before = self._sound.header
        if before is None or not self.head:
            self._restart(header)
            return
        own = Position(before.cluster, before.dialect, before.timelines, self.head, self._sound.newest)
        check_header(header, own, leader, f"the backup {self.path}")
        if header.timelines != before.timelines or len(header.types) != self._sound.types:
            self._append(replace(header, base=before.base))
            self._sound = replace(
                self._sound, header=replace(header, base=before.base), types=len(header.types)
            )

    def _restart(self, header: Header) -> None:
        """Of a file without an event."""
        os.ftruncate(self._handle, 0)
        os.lseek(self._handle, 0, os.SEEK_SET)
        self._chain = FrameChain(MAGIC)
        self._unwritten = [MAGIC]
        self._append(header)
        self._sound = _Sound(header=header, types=len(header.types), in_state=bool(header.base))

    def add_types(self, types: dict[str, int]) -> None:
        self._append(Types(types))
        self._sound = replace(self._sound, types=self._sound.types + len(types))

    def store(self, stored: list[Stored]) -> None:
        """Events, durable when this returns. StorageFailed: nothing of them is in the file."""
        for one in stored:
            if one.event is None:
                records.checked_event(one.offset, one.value)
            self._append(one)
        newest = stored[-1]
        in_state = newest.offset < self.base and self._sound.in_state
        if not in_state:
            self._append(Commit(newest.offset, newest.offset, self.base))
        self._write(sync=not in_state)
        self._sound = replace(self._sound, head=newest.offset, newest=crc32(newest.value), in_state=in_state)

    def _append(self, message: Message) -> None:
        self._unwritten.append(self._chain.frame(encode_message(message)))

    def _write(self, *, sync: bool) -> None:
        data = b"".join(self._unwritten)
        try:
            while data:
                data = data[os.write(self._handle, data) :]
            if sync:
                os.fdatasync(self._handle)
        except OSError as error:
            self._go_back()
            raise StorageFailed(self.path, error.strerror or str(error)) from error
        self._unwritten = []

    def close(self) -> None:
        os.close(self._handle)
        with suppress(OSError):
            if self.is_new:
                self.path.unlink()
            sync_folder(self.path.parent)


def _sound_parts(file: BinaryIO, path: Path, size: int) -> Iterator[_Sound]:
    """Where a file could go on, ascending. BadBackup."""
    found = _Sound()
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
    """The messages of a file, where each ends, and the checksum there. A cut last one is left out. BadBackup."""
    parser = FrameParser(MAGIC)
    try:
        while data := file.read(READ):
            for payload in parser.payloads(data):
                if (message := decode_message(payload)) is not None:
                    yield message, parser.position, parser.check
    except (BadFrame, ValueError) as wrong:
        position = parser.position
        if not position:
            raise BadBackup(f"{path} is no backup: name a file that `rewound backup` has written") from wrong
        file.seek(position)
        if any(any(data) for data in iter(lambda: file.read(READ), b"")):
            raise BadBackup(
                f"{path} is damaged at byte {position} of {size} ({wrong}): restore what is before it with --at, or "
                "use another copy; a backup has to go on in a new file"
            ) from wrong


@dataclass(frozen=True, slots=True)
class Restored:
    events: int
    base: int  # from here on the restored journal has every version
    head: int
    time: int  # of the newest event, in microseconds since 1970


def restore_backup(
    path: Path,
    folder: Path,
    *,
    offset: int | None = None,
    time: int | None = None,
    progress: Progress | None = None,
) -> Restored:
    """Create the journal in `folder` from a backup, up to an offset or a time, or all of it. BadBackup, CannotOpen.

    It is built beside the target, which gets its name when it is complete.
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
        self._base = self._count = self._last_time = 0
        self._in_state = False
        self._run: list[tuple[Event, bytes]] = []  # since the last commit
        self._batch: list[tuple[Event, bytes]] = []  # whole commits that are not written yet
        self._size = 0
        self._reached = False  # the offset or the time
        self._numbers: set[int] = set()  # of the types

    def take(self, message: Message) -> bool:
        """False if what was asked for is complete."""
        match message:
            case Header():
                self._begin(message)
            case Types(types):
                self._adopt_types(types)
            case Stored():
                return self._add(message)
            case Commit():
                self._in_state = False
                self._keep()
        return True

    def _begin(self, header: Header) -> None:
        if self._journal is None:
            self._journal = Journal.open(self._building, dialect=header.dialect, cluster_id=header.cluster)
            self._base, self._in_state = header.base, bool(header.base)
            self._journal.put_meta({keys.FLOOR: keys.pack_offset(header.base)})
        self._adopt_types(header.types)
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
            self._keep()
            return False
        if self._run and self._run[-1][0].offset <= self._base < event.offset:
            self._keep()
        self._run.append((event, stored.value))
        if self._in_state:
            self._keep()
        return True

    def _keep(self) -> None:
        """What has come belongs to the journal."""
        for event, value in self._run:
            if self._batch and self._batch[-1][0].offset <= self._base < event.offset:
                self._write()
            self._batch.append((event, value))
            self._size += len(value)
            if len(self._batch) >= BATCH or self._size >= BATCH_BYTES:
                self._write()
        self._run = []

    def _write(self) -> None:
        batch, self._batch, self._size = self._batch, [], 0
        if not batch:
            return
        events = [event for event, _ in batch]
        restored = events[-1].offset <= self._base
        try:
            journal = self._opened
            journal.write(journal.encode(events, restored=restored, stored=[value for _, value in batch]))
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
                    f"{self._path} begins with the state at offset {self._base}: give that offset or a later moment"
                )
            raise BadBackup(
                f"{self._path} has not got all of the state that it begins with: use another backup"
            )
        if self._offset is not None and head < self._offset and not self._reached:
            raise BadBackup(f"{self._path} ends at offset {head}: give that or a lower one")
        timelines = branch(self._timelines, head)
        self._journal.put_meta({keys.TIMELINES: encode_timelines(timelines)})
        return Restored(self._count, self._base, head, self._last_time)

    @property
    def _opened(self) -> Journal:
        if self._journal is None:
            raise BadBackup(f"{self._path} has no header: use another backup")
        return self._journal

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
