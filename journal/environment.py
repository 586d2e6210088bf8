"""The LMDB environment: its files, its map, its read and write transactions, its errors.

`log` opens it; no other module uses lmdb's environment. It guarantees:

- The map grows by itself. LMDB must not be remapped while this process has a read transaction open, so reads
  are counted (`begin_read`, `end_read`), and `write` grows the map when none is open. Growing never blocks new
  reads, so a read inside a read cannot deadlock with it.
- One writing process: an flock on a separate file. LMDB's own lock would make the second one wait forever.
- A write is atomic, and raises `StorageFull` or `StorageFailed` when it fails.

A pool of renewed read transactions was rejected: lmdb begins one in under a microsecond.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import lmdb

from journal.errors import AlreadyOpen, Damaged, NoJournal, NotAJournal, StorageFailed, StorageFull

Result = TypeVar("Result")

PageError = lmdb.Error  # what LMDB raises when it reads an invalid page

DATA = "data.mdb"  # LMDB's name for it
DRAFT = "founding.mdb"  # the new file until it is complete; the name is part of the folder's layout

MAP_SIZE = 64 << 20  # address space, not disk; small enough that every busy journal grows its map
MAP_STEP = 1 << 30  # the map doubles up to this, then grows by it
MAX_READERS = 512  # processes x threads that read at once: workers, verify, a debugger; 64 bytes each

FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
PROBE = 1 << 20
RESIZE_TIMEOUT = 30.0  # seconds; reads are short, a longer one is a caller that writes while it reads


class Databases(NamedTuple):
    """Handles of the named databases; the field names are the names in the file. Keys: `journal/keys.py`."""

    events: Any
    state: Any
    by_type: Any
    by_object: Any
    counts: Any
    snapshots: Any
    meta: Any


class Environment:
    """One open folder of LMDB files."""

    def __init__(self, path: Path, *, readonly: bool, map_size: int) -> None:
        self.path, self.readonly = path, readonly
        self.grown = 0
        self._reads = self.resizing = 0
        self._counting = threading.Lock()
        self._no_reads = threading.Condition(self._counting)
        self._writing = threading.Lock()
        self._writer_lock = None if readonly else _lock_for_writing(path)
        try:
            self._env = _open(path, readonly, map_size)
            _extend_to_last_page(self._env, path, writer=not readonly)
            self.databases = _open_databases(self._env, path, readonly)
        except BaseException:
            self._release_writer_lock()
            raise
        self._begin = self._env.begin

    # Reads.

    def begin_read(self) -> Any:
        """Begin a read transaction whose values are memoryviews. Every `begin_read` needs an `end_read`."""
        with self._counting:
            self._reads += 1
        try:
            return self._begin(None, None, False, True)  # keywords would cost a third of it
        except lmdb.MapResizedError:
            self._uncount()
            return self._begin_read_resized()
        except BaseException:
            self._uncount()
            raise

    def end_read(self, txn: Any) -> None:
        txn.abort()
        self._uncount()

    def damaged(self, error: Exception) -> Damaged:
        return Damaged(f"the file in {self.path} is damaged ({error})")

    def _uncount(self) -> None:
        with self._counting:
            self._reads -= 1
            if self.resizing:
                self._no_reads.notify_all()

    def _begin_read_resized(self) -> Any:
        """Another process grew the map: use its size, once no read of this process uses the old one."""
        self._resize(0)
        return self.begin_read()

    # Writes.

    def write(self, change: Callable[[Any], Result]) -> Result:
        """Run `change` in one durable transaction; it may run again when the map had to grow."""
        with self._writing:
            while True:
                try:
                    with self._env.begin(write=True, buffers=True) as txn:
                        return change(txn)
                except lmdb.MapFullError:
                    self._grow()
                except lmdb.MapResizedError:
                    self._resize(0)
                except lmdb.Error as error:
                    raise self._storage_error(error) from error

    def _grow(self) -> None:
        size = self._env.info()["map_size"]
        self._resize(size + min(size, MAP_STEP))
        self.grown += 1

    def _resize(self, size: int) -> None:
        with self._no_reads:
            self.resizing += 1
            try:
                if not self._no_reads.wait_for(lambda: not self._reads, timeout=RESIZE_TIMEOUT):
                    raise StorageFailed(self.path, f"a read was left open for {RESIZE_TIMEOUT} s")
                self._env.set_mapsize(size)
            except lmdb.Error as error:
                raise StorageFailed(self.path, str(error)) from error
            finally:
                self.resizing -= 1

    def _storage_error(self, error: lmdb.Error) -> StorageFull | StorageFailed:
        code = _errno_of(error)
        if code == errno.EIO:
            # LMDB reports EIO for a short write, which happens when the disk fills up.
            code = self._short_write_cause()
        if code in FULL:
            return StorageFull(self.path, os.strerror(code))
        return StorageFailed(self.path, str(error))

    def _short_write_cause(self) -> int:
        """Allocate space at the end of the file: the errno if that fails, otherwise EIO.

        The allocated space stays: LMDB writes into it with the next commit.
        """
        try:
            with (self.path / DATA).open("r+b") as data:
                os.posix_fallocate(data.fileno(), data.seek(0, os.SEEK_END), PROBE)
        except OSError as refused:
            return refused.errno or errno.EIO
        return errno.EIO

    # Closing and statistics.

    def close(self) -> None:
        self._env.close()
        self._release_writer_lock()

    def _release_writer_lock(self) -> None:
        if self._writer_lock is not None:
            os.close(self._writer_lock)
            self._writer_lock = None

    def statistics(self) -> dict[str, int]:
        info = self._env.info()
        page = self._env.stat()["psize"]
        return {
            "map_bytes": info["map_size"],
            "used_bytes": (info["last_pgno"] + 1) * page,
            "readers": info["num_readers"],
            "grown": self.grown,
            "transactions": info["last_txnid"],  # write transactions since the journal was made
        }


def _errno_of(error: lmdb.Error) -> int:
    """The errno of an lmdb error; older releases only have its text."""
    code = getattr(error, "code", 0)
    return int(code or next((known for known in (*FULL, errno.EIO) if os.strerror(known) in str(error)), 0))


def _lock_for_writing(path: Path) -> int:
    path.mkdir(parents=True, exist_ok=True)
    handle = os.open(path / "writer.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
        os.close(handle)
        raise AlreadyOpen(path, holder) from None
    os.ftruncate(handle, 0)
    os.pwrite(handle, b"%d\n" % os.getpid(), 0)
    return handle


def _open(path: Path, readonly: bool, map_size: int) -> Any:
    data = path / DATA
    if not data.exists():
        if readonly:
            raise NoJournal(path)
        _create(path)
    if not data.stat().st_size:
        # LMDB would initialise it as a new file, and the loss of its contents would go unnoticed.
        raise NotAJournal(path, f"{DATA} is empty")
    try:
        return lmdb.open(
            str(path),
            map_size=map_size,
            readonly=readonly,
            create=not readonly,
            max_dbs=len(Databases._fields) + 1,
            max_readers=MAX_READERS,
            mode=0o600,
            # Lists scan sequentially anyway; a get of one object should not read its neighbours' pages.
            readahead=False,
        )
    except lmdb.Error as error:
        raise NotAJournal(path, str(error)) from error


def _create(path: Path) -> None:
    """Create an empty LMDB file under another name and rename it.

    LMDB creates it in two steps; a process killed between them leaves a file that looks like an emptied journal.
    """
    draft = path / DRAFT
    draft.unlink(missing_ok=True)
    try:
        lmdb.open(str(draft), subdir=False, lock=False, mode=0o600).close()
    except lmdb.Error as error:
        raise NotAJournal(path, str(error)) from error
    draft.replace(path / DATA)
    for folder in (path, path.parent):  # the directory entries must be as durable as the files
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _extend_to_last_page(env: Any, path: Path, *, writer: bool) -> None:
    """Extend a file that ends before its last page with zeros.

    Pages that a commit allocated and freed may never have been written: such a file is sound. A truncated file
    looks the same, but reading beyond its end would kill the process with SIGBUS; zeros fail their checks.
    A reader does not change the file of a running writer.
    """
    size = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    if (path / DATA).stat().st_size >= size:
        return
    try:
        handle = None if writer else _lock_for_writing(path)
        os.truncate(path / DATA, size)
        if handle is not None:
            os.close(handle)
    except (AlreadyOpen, OSError):
        return


def _open_databases(env: Any, path: Path, readonly: bool) -> Databases:
    try:
        return Databases(*(env.open_db(name.encode(), create=not readonly) for name in Databases._fields))
    except lmdb.NotFoundError as error:
        env.close()
        raise NoJournal(path) from error
    except lmdb.Error as error:
        env.close()
        raise NotAJournal(path, str(error)) from error
