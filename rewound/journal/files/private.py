"""Folders that hold keys, tokens and journals, and files in them that another program may have put there.

A folder is 0700 with every parent that has to be created, whatever the umask: `Path.mkdir(parents=True)` creates
parents that everybody may write to when the umask is 000. A file is read only if it is a regular one: to open a FIFO
would wait for its writer for ever.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

LARGEST: Final = 16 << 20  # bytes of a file that is read whole
PRIVATE: Final = 0o700


def private_folder(path: Path) -> None:
    """Create a folder, and its parents as far as they are missing, for this user only."""
    for missing in reversed([one for one in (path, *path.parents) if not one.exists()]):
        missing.mkdir(mode=PRIVATE, exist_ok=True)
    path.mkdir(mode=PRIVATE, exist_ok=True)  # raises FileExistsError if it is no folder


def open_regular(path: Path) -> int:
    """Open a file for reading without ever waiting. Raises OSError, also for what is no regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return descriptor


def read_regular(path: Path) -> bytes:
    """The contents of a regular file of at most LARGEST bytes. Raises OSError."""
    with open(open_regular(path), "rb") as file:
        contents = file.read(LARGEST + 1)
    if len(contents) > LARGEST:
        raise OSError(errno.EFBIG, f"has more than {LARGEST >> 20} MiB", str(path))
    return contents
