"""Follows a configuration file: calls a function with its contents whenever they change.

    tasks.append(("authorization config", partial(follow_file, path, contents, reload, failed)))

Only a `stat` each second, by trio's clock, unless the file changes: notifications of the kernel would save little, and
are not there for files of other machines. A file that changes, in place or by another file that takes its name, is read
when it has stayed the same for a second, so that one that is being written is not read half-way. While it is missing or
cannot be read, its contents count as before; `failed` is called once each time that this begins. Whether new contents
are right is the caller's matter: a wrong file is passed on once, and again only when it changes.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

import trio

CHECK_SECONDS: Final = 1.0

_Stamp = tuple[int, int, int, int] | str  # of a file; if there is none, why


@dataclass(slots=True)
class Reloads:
    """How often the file was read again, with what result, and what is in force."""

    hash: str = ""
    counts: dict[str, int] = field(default_factory=dict)  # by success or failure
    times: dict[str, float] = field(default_factory=dict)  # of the last one, in seconds since 1970

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
    read: _Stamp | None = None  # the stamp of what was read last
    before: _Stamp | None = None
    while True:
        stamp = _stamp(path)
        if stamp != read and (stamp == before or read is None):
            read = stamp
            try:
                contents = path.read_bytes()
            except OSError as error:
                failed(error)
            else:
                if contents != known:
                    known = contents
                    await changed(contents)
        before = stamp
        await trio.sleep(CHECK_SECONDS)


def _stamp(path: Path) -> _Stamp:
    try:
        found = os.stat(path)
    except OSError as error:
        return str(error)
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
