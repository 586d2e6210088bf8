"""The file of the audit log, renamed when it is full; old ones are deleted by age and number.

    audit.log    audit-2026-11-15T09-30-00.000.log    audit-2026-11-14T23-10-07.120.log

Names and order are those of Kubernetes; `Compression` adds .gz. The log backend uses it in one thread at a time. A
file that was moved or deleted is created again, with its folder. A line is written completely or not at all, even if
the disk is full.
"""

from __future__ import annotations

import gzip
import logging
import os
import shutil
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock, Thread

_MODE = 0o600
_FOLDER_MODE = 0o700
_TIME = "%Y-%m-%dT%H-%M-%S"
_DAY = 86400
_ROOM = 64 << 10  # bytes by which lines may be longer than estimated


class NotWritten(Exception):
    """Not all lines could be written, only the first `written` of them."""

    def __init__(self, written: int, why: str) -> None:
        self.written = written
        super().__init__(why)

    @classmethod
    def because(cls, cause: OSError, where: object, written: int = 0) -> NotWritten:
        return cls(written, f"cannot write to {where}: {cause.strerror or cause}")


class RotatedFile:
    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int,
        max_backups: int = 0,
        max_age_days: int = 0,
        compression: Compression | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Number and age are unlimited if 0. Raises OSError if the file cannot be opened."""
        self._path = path
        self._max_bytes = max_bytes
        self._max_backups = max_backups
        self._max_age = max_age_days * _DAY
        self._compression = compression
        self._now = now
        self._file = -1
        self._size = 0
        self._is_regular = False
        self._open()
        self._tidy()

    def is_quick(self, size: int) -> bool:
        """Whether it is a regular file with room: a pipe may wait for its reader, a rotation deletes large files."""
        return self._is_regular and self._size + size + _ROOM <= self._max_bytes

    def write(self, data: bytes) -> None:
        """Append whole lines, each with its newline. Raises NotWritten."""
        written = 0
        try:
            self._follow_path()
            if self._size + len(data) <= self._max_bytes:
                self._append(data)
                return
            for count, portion in self._portions(data):
                self._append(portion)
                written += count
        except OSError as error:
            raise NotWritten.because(error, self._path, written) from error

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _portions(self, data: bytes) -> Sequence[tuple[int, bytes]]:
        """The lines in portions that fit into one file, which is rotated before each but the first."""
        portions: list[list[bytes]] = [[]]
        room = self._max_bytes - self._size
        for line in data.split(b"\n")[:-1]:
            size = len(line) + 1
            if size > room and (portions[-1] or self._size):
                portions.append([])
                room = self._max_bytes
            portions[-1].append(line + b"\n")
            room -= size
        return [(len(portion), b"".join(portion)) for portion in portions if portion]

    def _append(self, data: bytes) -> None:
        if self._size and self._size + len(data) > self._max_bytes:
            self._rotate()
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)  # leave no partial line
            raise
        self._size += len(data)

    def _follow_path(self) -> None:
        """Open the file again if the path is now another file than the open one."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            self._open()
            return
        opened = os.fstat(self._file) if self._file >= 0 else None
        if opened is None or (opened.st_ino, opened.st_dev) != (found.st_ino, found.st_dev):
            self._open()
        else:
            self._size = found.st_size

    def _open(self) -> None:
        self.close()
        self._path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _MODE)
        opened = os.fstat(self._file)
        self._size, self._is_regular = opened.st_size, stat.S_ISREG(opened.st_mode)

    def _rotate(self) -> None:
        self.close()
        os.rename(self._path, self._backup_path())
        self._open()
        self._tidy()

    def _backup_path(self) -> Path:
        """A free name: two files of one millisecond must not replace each other."""
        moment = self._now()
        while True:
            milliseconds = int(moment * 1000)
            stamp = datetime.fromtimestamp(milliseconds // 1000, UTC).strftime(_TIME)
            name = f"{self._path.stem}-{stamp}.{milliseconds % 1000:03d}{self._path.suffix}"
            path = self._path.with_name(name)
            if not path.exists() and not path.with_name(name + SUFFIX).exists():
                return path
            moment += 0.001

    def _tidy(self) -> None:
        """Delete and compress earlier files. What fails is tried again after the next rotation."""
        if not self._max_backups and not self._max_age and self._compression is None:
            return
        kept = []
        with suppress(OSError):
            oldest = self._now() - self._max_age
            for number, (moment, paths) in enumerate(self._backups()):
                too_many = self._max_backups and number >= self._max_backups
                if too_many or (self._max_age and moment < oldest):
                    for path in paths:
                        path.unlink(missing_ok=True)
                else:
                    kept += paths
        if self._compression is not None:
            self._compression.start([path for path in kept if path.suffix != SUFFIX])

    def _backups(self) -> list[tuple[float, list[Path]]]:
        """Earlier files, newest first; if two have the same time, one of them has just been compressed."""
        found: dict[float, list[Path]] = {}
        for path in self._path.parent.iterdir():
            moment = self._moment_of(path.name)
            if moment is not None:
                found.setdefault(moment, []).append(path)
        return sorted(found.items(), reverse=True)

    def _moment_of(self, name: str) -> float | None:
        """When a file was rotated, by its name; None for other files."""
        name = name.removesuffix(SUFFIX)
        start, end = f"{self._path.stem}-", self._path.suffix
        if not name.startswith(start) or not name.endswith(end):
            return None
        text, _, milliseconds = name[len(start) : len(name) - len(end)].rpartition(".")
        if len(milliseconds) != 3 or not milliseconds.isdigit():
            return None
        try:
            moment = datetime.strptime(text, _TIME).replace(tzinfo=UTC).timestamp()
        except ValueError:
            return None
        return moment + int(milliseconds) / 1000


class StandardOutput:
    """Writes lines to standard output, without rotation."""

    def is_quick(self, _size: int) -> bool:
        """False, because whatever reads it may be slow."""
        return False

    def write(self, data: bytes) -> None:
        """Write lines. Raises NotWritten if the other end is closed."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(1, view) :]
        except OSError as error:
            raise NotWritten.because(error, "standard output") from error

    def close(self) -> None:
        """Nothing to do: others use standard output too."""


logger = logging.getLogger(__name__)

SUFFIX = ".gz"
_PART = ".part"  # suffix of an incomplete file


class Compression:
    def __init__(self) -> None:
        self._one_at_a_time = Lock()
        self._last: Thread | None = None

    def start(self, paths: Sequence[Path]) -> None:
        """Replace these files by compressed ones, which have the same name and SUFFIX; never waits."""
        if paths:
            # A daemon, so that a stopping server does not wait. Incomplete files are created again after the next
            # start.
            self._last = Thread(target=self._run, args=(paths,), name="audit log compression", daemon=True)
            self._last.start()

    def wait(self) -> None:
        """Wait until the last compression has ended."""
        if self._last is not None:
            self._last.join()

    def _run(self, paths: Sequence[Path]) -> None:
        with self._one_at_a_time:
            for path in paths:
                try:
                    _compress(path)
                except FileNotFoundError:
                    pass  # deleted, or compressed meanwhile
                except OSError as error:
                    logger.warning("audit: cannot compress %s: %s", path, error.strerror)


def _compress(path: Path) -> None:
    part = path.with_name(path.name + SUFFIX + _PART)
    try:
        with path.open("rb") as source:
            opened = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)
            with os.fdopen(opened, "wb") as raw, gzip.GzipFile(path.name, "wb", 6, raw) as target:
                shutil.copyfileobj(source, target, 1 << 20)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise
    part.rename(path.with_name(path.name + SUFFIX))
    path.unlink(missing_ok=True)
