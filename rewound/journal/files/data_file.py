"""The file `data.mdb` of the writing process: its lock, its meta pages, and whether it is still the same file.

The lock is an flock on the data file itself, so that deleting `writer.lock` does not let a second server in. It
belongs to the open file description, not to the process: LMDB may open and close the same file, which would drop an
fcntl lock. `writer.lock` is still needed: it keeps two starting servers from creating the same folder, and names the
process that writes.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path

from rewound.journal.errors import AlreadyOpen
from rewound.journal.files import meta_pages
from rewound.journal.files.meta_pages import MetaPages
from rewound.journal.files.private import private_folder

DATA = "data.mdb"  # the name that LMDB uses
LOCK = "writer.lock"


def lock_folder(path: Path) -> int:
    """Create a folder and lock its `writer.lock`; return the handle. Raises AlreadyOpen if another process has it."""
    private_folder(path)
    handle = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
        os.close(handle)
        raise AlreadyOpen(path, holder) from None
    os.ftruncate(handle, 0)
    os.pwrite(handle, b"%d\n" % os.getpid(), 0)
    return handle


def has_writer(path: Path) -> bool:
    """Whether a process has the journal in a folder open for writing. Raises OSError if that cannot be tried."""
    for name in (LOCK, DATA):
        try:
            if _is_locked(path / name):
                return True
        except FileNotFoundError:
            continue
    return False


def _is_locked(file: Path) -> bool:
    """Whether somebody has the exclusive lock on a file, through whichever handle."""
    handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


class DataFile:
    """`data.mdb`, locked until `close`. Raises AlreadyOpen if another process has it locked."""

    def __init__(self, path: Path) -> None:
        self._path = path / DATA
        self._size = 0  # largest size seen so far
        self._map: mmap.mmap | None = None
        self._page_size = 0
        self.handle = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.handle)
            raise AlreadyOpen(path, "") from None
        # On some network file systems the lock belongs to the process, so it cannot be checked.
        self._lock_can_be_checked = self._locked()

    def map_meta_pages(self, pages: MetaPages) -> None:
        """Map the meta pages, so that `meta_page` needs no system call."""
        self._page_size = pages.newest.page_size
        self._map = mmap.mmap(self.handle, 2 * self._page_size, prot=mmap.PROT_READ)

    def meta_page(self, transaction: int) -> bytes:
        """The part that LMDB uses of the meta page that a transaction writes, as it is now."""
        assert self._map is not None
        start = self._page_size if transaction & 1 else 0
        return self._map[start : start + meta_pages.SIZE]

    def problem(self) -> str:
        """Why this file must not be written any more, as a sentence; empty if nothing is wrong."""
        try:
            found, own = os.stat(self._path), os.fstat(self.handle)
        except FileNotFoundError:
            return f"{DATA} was removed while the server ran"
        except OSError as error:
            return f"{DATA} cannot be examined: {error.strerror}"
        if (found.st_dev, found.st_ino) != (own.st_dev, own.st_ino):
            return f"{DATA} was replaced by another file while the server ran"
        if own.st_size < self._size:
            return f"{DATA} was cut from {self._size} to {own.st_size} bytes while the server ran"
        self._size = own.st_size
        return (
            ""
            if not self._lock_can_be_checked or self._locked()
            else f"the lock on {DATA} was lost while the server ran"
        )

    def _locked(self) -> bool:
        """Whether the lock is still held: another open of the path must not get it. True if that cannot be
        tried now.
        """
        try:
            return _is_locked(self._path)
        except OSError:
            return True  # for example too many open files, which is no reason to refuse a write

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
        os.close(self.handle)
