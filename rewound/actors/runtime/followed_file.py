"""Follows configuration files: calls a function with their contents whenever they change.

    tasks.append(("authorization config", partial(follow_file, path, contents, reload, failed)))
    followed = FollowedFiles("--token-auth-file", [path], read)
    tasks.append(("token file", followed.run))

Only a `stat` each second, by trio's clock, unless the file changes: notifications of the kernel would save little, and
are not there for files of other machines. A file that changes, in place or by another file that takes its name, is read
when it has stayed the same for a second, so that one that is being written is not read half-way. While it is missing or
cannot be read, its contents count as before; `failed` is called once each time that this begins. Whether new contents
are right is the caller's matter: a wrong file is passed on once, and again only when it changes. Files that belong
together, like a certificate and its key, are followed together, and read when none of them has changed for a second.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
import trio

from rewound.actors.runtime.threads import run_in_thread

logger = logging.getLogger(__name__)

CHECK_SECONDS: Final = 1.0
SUCCESS, FAILURE = "success", "failure"

_Stamp = tuple[int, int, int, int] | str  # of a file; if there is none, why


class Reloads(msgspec.Struct):
    """How often the file was read again, with what result, and what is in force."""

    hash: str = ""
    counts: dict[str, int] = msgspec.field(default_factory=dict)  # by success or failure
    times: dict[str, float] = msgspec.field(default_factory=dict)  # of the last one, in seconds since 1970

    def applied(self, contents: bytes) -> None:
        self.hash = f"sha256:{sha256(contents).hexdigest()}" if contents else ""

    def count(self, result: str, now: float) -> None:
        self.counts[result] = self.counts.get(result, 0) + 1
        self.times[result] = now


async def follow_file(
    path: Path,
    known: bytes,
    changed: Callable[[bytes], Awaitable[None]],
    failed: Callable[[OSError], None],
) -> None:
    """Call `changed` with the contents of the file each time that they differ from those before, `known` at first."""
    await _follow([path], [known], lambda contents: changed(contents[0]), failed)


async def _follow(
    paths: Sequence[Path],
    known: Sequence[bytes],
    changed: Callable[[Sequence[bytes]], Awaitable[None]],
    failed: Callable[[OSError], None],
) -> None:
    read: list[_Stamp] | None = None  # the stamps of what was read last
    before: list[_Stamp] | None = None
    while True:
        stamps = [_stamp(path) for path in paths]
        if stamps != read and (stamps == before or read is None):
            read = stamps
            try:
                contents = [path.read_bytes() for path in paths]
            except OSError as error:
                failed(error)
            else:
                if contents != known:
                    known = contents
                    await changed(contents)
        before = stamps
        await trio.sleep(CHECK_SECONDS)


class FollowedFiles:
    """Files of a flag that are put in force again when they change; wrong ones leave those before in force."""

    def __init__(
        self, flag: str, paths: Sequence[Path], read: Callable[[Sequence[bytes]], Callable[[], None]]
    ) -> None:
        """`read` checks new contents in a thread, and returns what puts them in force. It raises ValueError or OSError.

        Create it before the files are read for the first time: what changes after that counts.
        """
        self.flag = flag
        self.counts = {SUCCESS: 0, FAILURE: 0}
        self.is_outdated = False  # what is in force is not what the files say
        self._paths, self._read = paths, read
        self._known = [path.read_bytes() if path.is_file() else b"" for path in paths]

    async def run(self) -> None:
        await _follow(self._paths, self._known, self._changed, self._failed)

    async def _changed(self, contents: Sequence[bytes]) -> None:
        try:
            put_in_force = await run_in_thread(self._read, contents)
        except (ValueError, OSError) as error:
            self._failed(error)
            return
        put_in_force()
        self.counts[SUCCESS] += 1
        self.is_outdated = False
        logger.info("%s: %s was read again, and is in force", self.flag, self._names())

    def _failed(self, error: Exception) -> None:
        self.counts[FAILURE] += 1
        self.is_outdated = True
        logger.error(
            "%s: %s has changed and is not used, what was read before is: %s", self.flag, self._names(), error
        )

    def _names(self) -> str:
        return ", ".join(map(str, self._paths))


def _stamp(path: Path) -> _Stamp:
    try:
        found = os.stat(path)
    except OSError as error:
        return str(error)
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
