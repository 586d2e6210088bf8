"""Follows an audit log: a file that grows and is rotated, as `tail -F` does, or stdin.

A file is read from the first line that is not older than a time, found by bisection, because it may have gigabytes of
older lines. When the file at the path is a new one, or shorter than before, the rest of the old one is read first.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import trio

from rewound.recording.record.requests import LONGEST_LINE, first_time

logger = logging.getLogger(__name__)

PAUSE: Final = 0.1  # seconds between two looks at the file
CHUNK: Final = 256 << 10  # bytes
MOST_AT_END: Final = 400  # chunks that are read when the recording ends
STDIN: Final = "-"


class AuditLog:
    """Calls `take` with each line that is not older than a time in microseconds."""

    def __init__(self, name: str, since: int, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._followed = None if name == STDIN else _Followed(Path(name), since)

    async def run(self) -> None:
        """Follow the log until cancelled, or until the end of stdin. Reads of a file are short: they need no thread."""
        if self._followed is None:
            await self._run_stdin()
        else:
            await self._run_file(self._followed)

    def read_rest(self) -> None:
        """Read what was appended to a file since the last look, when the recording ends."""
        if self._followed is not None:
            self._read(self._followed)
            self._followed.close()

    async def _run_stdin(self) -> None:
        lines = _Lines()
        while data := await trio.to_thread.run_sync(os.read, 0, CHUNK, abandon_on_cancel=True):
            for line in lines.take(data):
                self._take(line)
        for line in lines.take(b"\n"):  # the last one may have no end
            self._take(line)
        logger.warning("the audit log on stdin has ended; later changes have no user")

    async def _run_file(self, followed: _Followed) -> None:
        while True:
            for line in followed.lines():
                self._take(line)
            await trio.sleep(PAUSE if followed.at_end else 0)

    def _read(self, followed: _Followed) -> None:
        for _ in range(MOST_AT_END):
            for line in followed.lines():
                self._take(line)
            if followed.at_end:
                return
        logger.warning(
            "the audit log is longer than what was read at the end; the last changes may lack their user"
        )


class _Lines:
    """Cuts bytes into lines; one that is too long is left out."""

    def __init__(self) -> None:
        self._rest = b""
        self._skips = False

    def take(self, data: bytes) -> Iterator[bytes]:
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            if not self._skips and line.strip():
                yield line
            self._skips = False
        if len(self._rest) > LONGEST_LINE:
            if not self._skips:
                logger.warning("a line of the audit log has more than %s bytes and is left out", LONGEST_LINE)
            self._rest, self._skips = b"", True


class _Followed:
    def __init__(self, path: Path, since: int) -> None:
        self._path = path
        self._since = since
        self._stream: BinaryIO | None = None
        self._cut = _Lines()
        self._missing = False  # it was reported that the file is missing
        self.at_end = False

    def lines(self) -> Iterator[bytes]:
        """The lines of the next chunk."""
        self.at_end = False
        if self._stream is None:
            self._open()
        data = self._stream.read(CHUNK) if self._stream is not None else b""
        if data:
            yield from self._cut.take(data)
            return
        self.at_end = True
        if self._stream is not None and self._is_replaced(self._stream):
            self.close()
            self._since, self.at_end = 0, False  # all of the next one is new
            self._cut = _Lines()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _open(self) -> None:
        try:
            self._stream = self._path.open("rb", buffering=0)
        except FileNotFoundError:
            if not self._missing:
                logger.warning("%s does not exist yet; waiting for it", self._path)
            self._missing, self._since = True, 0
            return
        self._missing = False
        self._stream.seek(first_line(self._stream, self._since) if self._since else 0)

    def _is_replaced(self, stream: BinaryIO) -> bool:
        read, opened = stream.tell(), os.fstat(stream.fileno())
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False  # between two files
        another = (found.st_dev, found.st_ino) != (opened.st_dev, opened.st_ino)
        if another and opened.st_size > read:
            return False  # the last lines of the old one have just been written
        return another or found.st_size < read


def first_line(stream: BinaryIO, since: int) -> int:
    """The position of the first line that is not older than a time."""
    low, high = 0, os.fstat(stream.fileno()).st_size
    while low < high:
        middle = (low + high) // 2
        stream.seek(middle)
        skipped = _line(stream) if middle else b""
        line = _line(stream)
        time = first_time(line)
        if not line or (time and time >= since):
            high = middle
        else:
            low = middle + len(skipped) + (len(line) or 1)
    return low


def _line(stream: BinaryIO) -> bytes:
    """Read a line, with its end."""
    found = b""
    while len(found) <= LONGEST_LINE:
        data = stream.read(CHUNK)
        end = data.find(b"\n")
        if end >= 0 or not data:
            found += data[: end + 1]
            stream.seek(end + 1 - len(data), os.SEEK_CUR)
            return found
        found += data
    return found
