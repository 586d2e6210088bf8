"""The LMDB environment: its files, its map, its two kinds of transaction, its errors.

`log` opens it; nothing else touches lmdb's environment. It owns three promises:

- The map grows by itself. LMDB may not be remapped while this process has a read transaction open, so reads
  are counted (`enter`, `leave`), and `write` grows the map at a moment when none is open. Growing never holds
  new reads back, so a read inside a read cannot deadlock with it.
- One writing process: an flock on a file of our own. LMDB's lock would make the second one wait for ever.
- A write happens whole or not at all, and its failure is told as `StorageFull` or `StorageFailed`.

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

PageError = lmdb.Error  # what LMDB raises, while reading, for pages that make no sense

DATA = "data.mdb"  # as LMDB names it
DRAFT = "founding.mdb"

MAP_SIZE = 64 << 20  # address space, not disk; small enough that every busy journal proves that growing works
MAP_STEP = 1 << 30  # the map doubles up to this, then grows by it
MAX_READERS = 512  # processes x threads that read at once: workers, verify, a debugger; 64 bytes each

FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
PROBE = 1 << 20
PATIENCE = 30.0  # reads are short; one this long is a caller that writes while it reads


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
        self._quiet = threading.Condition(self._counting)
        self._writing = threading.Lock()
        self._writer_lock = None if readonly else _lock_for_writing(path)
        try:
            self._env = _open(path, readonly, map_size)
            _complete(self._env, path, alone=not readonly)
            self.databases = _open_databases(self._env, path, readonly)
        except BaseException:
            self._release_writer_lock()
            raise
        self._begin = self._env.begin

    # Reads.

    def enter(self) -> Any:
        """Begin a read transaction whose values are memoryviews. Every `enter` needs its `leave`."""
        with self._counting:
            self._reads += 1
        try:
            return self._begin(None, None, False, True)  # keywords would cost a third of it
        except lmdb.MapResizedError:
            self._uncount()
            return self._enter_resized()
        except BaseException:
            self._uncount()
            raise

    def leave(self, txn: Any) -> None:
        txn.abort()
        self._uncount()

    def damaged(self, error: Exception) -> Damaged:
        return Damaged(f"the file in {self.path} is damaged ({error})")

    def _uncount(self) -> None:
        with self._counting:
            self._reads -= 1
            if self.resizing:
                self._quiet.notify_all()

    def _enter_resized(self) -> Any:
        """Another process grew the map: take over its size, once no read of ours uses the old one."""
        self._resize(0)
        return self.enter()

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
                    raise self._refusal(error) from error

    def _grow(self) -> None:
        size = self._env.info()["map_size"]
        self._resize(size + min(size, MAP_STEP))
        self.grown += 1

    def _resize(self, size: int) -> None:
        with self._quiet:
            self.resizing += 1
            try:
                if not self._quiet.wait_for(lambda: not self._reads, timeout=PATIENCE):
                    raise StorageFailed(self.path, f"a read was left open for {PATIENCE} s")
                self._env.set_mapsize(size)
            except lmdb.Error as error:
                raise StorageFailed(self.path, str(error)) from error
            finally:
                self.resizing -= 1

    def _refusal(self, error: lmdb.Error) -> StorageFull | StorageFailed:
        code = _code_of(error)
        if code == errno.EIO:
            # LMDB says EIO for a short write, which is what a disk does that fills up halfway.
            code = self._why_short()
        if code in FULL:
            return StorageFull(self.path, os.strerror(code))
        return StorageFailed(self.path, str(error))

    def _why_short(self) -> int:
        """Ask the file system for room behind the file: errno of its refusal, or EIO when it has room.

        Room that it grants stays: LMDB writes into it with the next commit.
        """
        try:
            with (self.path / DATA).open("r+b") as data:
                os.posix_fallocate(data.fileno(), data.seek(0, os.SEEK_END), PROBE)
        except OSError as refused:
            return refused.errno or errno.EIO
        return errno.EIO

    # The rest.

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


def _code_of(error: lmdb.Error) -> int:
    """The errno inside an lmdb error; older releases only spell it out."""
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
        _found(path)
    if not data.stat().st_size:
        # LMDB would take it for a new one, and all that was in it would be gone without a word.
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
            # A list reads ahead by itself; a get of one object should not pull in its neighbours' pages.
            readahead=False,
        )
    except lmdb.Error as error:
        raise NotAJournal(path, str(error)) from error


def _found(path: Path) -> None:
    """Make an empty LMDB file under another name and move it to its place.

    LMDB makes it in two steps, and whoever is killed between them leaves one that looks like a journal that was
    emptied.
    """
    draft = path / DRAFT
    draft.unlink(missing_ok=True)
    try:
        lmdb.open(str(draft), subdir=False, lock=False, mode=0o600).close()
    except lmdb.Error as error:
        raise NotAJournal(path, str(error)) from error
    draft.replace(path / DATA)
    for folder in (path, path.parent):  # the names must be as durable as what is written under them
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _complete(env: Any, path: Path, *, alone: bool) -> None:
    """Give a file that ends before its last page the missing bytes, as zeros.

    Pages that a commit allocated and gave back may never have been written: that is sound. A file cut off by
    accident looks the same from outside, but reading it would kill the process; zeros fail their checks.
    A reader beside a living writer leaves the file to it.
    """
    size = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    if (path / DATA).stat().st_size >= size:
        return
    try:
        handle = None if alone else _lock_for_writing(path)
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
