"""The LMDB environment: its files, its map, its read and write transactions, its errors.

`log` opens it; no other module has lmdb's environment. It guarantees:

- The map grows by itself. LMDB must not be remapped while this process has a read transaction open, so reads
  are counted (`begin_read`, `end_read`), and `write` grows the map when none is open. Waiting for that never blocks
  new reads, so a read inside a read cannot deadlock with it. `get`, which reads one value, holds the lock of the
  count instead: nothing is read inside it.
- One writing process: `journal.files.data_file` locks the file; LMDB's own lock would make the second one wait
  forever. Every write transaction checks that it follows the previous one of this process, so that a second writer,
  however it got in, is found before this one writes.
- The files are checked before LMDB opens them (`journal.files.opening`), and databases are created only in a new
  folder (`journal.files.opening`).
- A write is atomic, and raises `StorageFull` or `StorageFailed` when it fails. Each is recorded in the identity file.

Rejected: a pool of renewed read transactions. lmdb begins one in under a microsecond.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

import lmdb

from rewound.journal.errors import (
    AlreadyOpen,
    CannotGrow,
    CannotRead,
    Damaged,
    IncompleteFolder,
    NoJournal,
    NotAJournal,
    StorageFailed,
    StorageFull,
    WritesStopped,
)
from rewound.journal.files import identity
from rewound.journal.files.data_file import DATA, DataFile, lock_folder
from rewound.journal.files.identity import Identity, IdentityFile
from rewound.journal.files.meta_pages import MetaPages, is_of_transaction
from rewound.journal.files.opening import check, check_beside_writer, create_journal, is_new
from rewound.journal.files.structure import check_structure
from rewound.journal.unreadable import UnreadableEvents

Result = TypeVar("Result")

# LMDB errors that mean that the file is damaged or LMDB's own state is inconsistent.
STRUCTURE = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.PanicError, lmdb.InvalidError)
PageError = lmdb.Error  # what LMDB raises when it reads an invalid page

MAP_SIZE = 64 << 20  # address space, not disk; small, so that every busy journal grows its map
MAP_STEP = 1 << 30  # the map doubles up to this, then grows by it

_NOT_OPEN: Any = None

FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
PROBE = 1 << 20
CHECK_INTERVAL = 1.0  # seconds between two checks of the files by writes; a check takes some microseconds
# Seconds; reads are short, so a longer one belongs to a caller that writes while it reads.
RESIZE_TIMEOUT = 30.0


class Databases(NamedTuple):
    """Handles of the named databases; the field names are the names in the file. Keys: `journal/keys.py`."""

    events: Any
    state: Any
    by_type: Any
    by_object: Any
    counts: Any
    snapshots: Any
    meta: Any


class NewJournal(NamedTuple):
    """The contents of a new folder: the records of its database `meta`, and its identity."""

    meta: Mapping[bytes, bytes]
    identity: Identity


class Environment:
    """One open LMDB folder; read-only without `new`."""

    def __init__(self, path: Path, *, new: NewJournal | None, map_size: int, durable: bool = True) -> None:
        """If not `durable`, commits survive the end of the process but not a machine crash, until it is closed."""
        self.path, self.readonly = path, new is None
        self._durable = durable
        self.grown = 0
        self.identity: Identity | None = None  # as it was when the folder was opened
        self.identity_was_behind = False  # after a kill, a power failure, or writes of an earlier release
        # For a reader: reports damage to the writing process.
        self.report_damage: Callable[[str], None] | None = None
        self.unreadable = UnreadableEvents()
        self.stopped = ""  # why writes are refused until a restart; empty while they are accepted
        # Used by the writer: the newest offset, the newest transaction, and the checksum of its meta page.
        self.head = self._transaction = self._page_checksum = 0
        self._check_at = 0.0  # when the next write checks the files
        self._reads = self.resizing = 0
        self._counting = threading.Lock()
        self._no_reads = threading.Condition(self._counting)
        self._writing = threading.Lock()
        self._folder_lock: int | None = None
        self._data: DataFile | None = None
        self._identity_file: IdentityFile | None = None
        self._env = _NOT_OPEN
        try:
            if new is None:
                self._open_to_read(map_size)
            else:
                self._open_to_write(new, map_size)
        except BaseException:
            self.close()
            raise
        self._begin = self._env.begin

    def _open_to_read(self, map_size: int) -> None:
        if not self.path.exists() or is_new(self.path):
            raise NoJournal(self.path)
        self._found(*check_beside_writer(self.path))
        self._env = open_files(self.path, map_size, len(Databases._fields), readonly=True)
        extend_to_last_page(self._env, self.path, writer=False)
        self.databases = _open_databases(self._env, self.path)

    def _open_to_write(self, new: NewJournal, map_size: int) -> None:
        self._folder_lock = lock_folder(self.path)
        if is_new(self.path):
            create_journal(self.path, Databases._fields, new.meta, new.identity)
        self._data = DataFile(self.path)
        pages = self._found(*check(self.path, self._data.handle))
        self._data.map_meta_pages(pages)
        self._transaction = pages.newest.transaction
        self._page_checksum = pages.checksum(self._transaction)
        self._env = open_files(
            self.path, map_size, len(Databases._fields), readonly=False, sync=self._durable
        )
        extend_to_last_page(self._env, self.path, writer=True)
        self.databases = _open_databases(self._env, self.path)
        if problem := self._data.problem():
            raise IncompleteFolder(self.path, problem)
        if self.identity is not None:
            self._identity_file = IdentityFile(self.path, self.identity)

    def _found(self, recorded: Identity | None, pages: MetaPages) -> MetaPages:
        self.identity = recorded
        self.identity_was_behind = recorded is not None and recorded.transaction < pages.newest.transaction
        return pages

    # Reads.

    def get(self, key: bytes, database: Any) -> bytes | None:
        """One value, in a read transaction of its own; None if there is none, or if a longer read has to tell why."""
        try:
            with self._counting, self._begin(None, None, False, False) as txn:
                value: bytes | None = txn.get(key, None, database)
                return value
        except lmdb.Error:
            return None

    def begin_read(self) -> Any:
        """Begin a read transaction whose values are memoryviews. Every `begin_read` needs an `end_read`."""
        with self._counting:
            self._reads += 1
        try:
            return self._begin(None, None, False, True)  # keyword arguments would take a third of the time
        except lmdb.MapResizedError:
            self._note_read_end()
            self._resize(0)  # another process has grown the map
            return self.begin_read()
        except lmdb.Error as error:
            self._note_read_end()
            raise CannotRead(self.path, str(error)) from error
        except BaseException:
            self._note_read_end()
            raise

    def end_read(self, txn: Any) -> None:
        txn.abort()
        self._note_read_end()

    def damaged(self, error: Exception) -> Damaged:
        """The error to raise when LMDB found an invalid page."""
        damage = Damaged(f"the file in {self.path} is damaged ({error})", self.path)
        self.note_damage(damage)
        return damage

    def note_damage(self, damage: Damaged) -> None:
        """Refuse further writes because a read found damage, which writes could spread."""
        what = damage.what.replace(f" in {self.path}", "")
        if not self.readonly:
            self._stop(what)
        elif self.report_damage is not None:
            self.report_damage(what)

    def stop_writes(self, damage: str) -> None:
        """Refuse further writes because another process found damage."""
        self._stop(damage)

    def _note_read_end(self) -> None:
        with self._counting:
            self._reads -= 1
            if self.resizing:
                self._no_reads.notify_all()

    # Writes.

    def write(self, change: Callable[[Any], Result], head: int = 0) -> Result:
        """Run `change` in one durable transaction. It runs again if the map had to grow.

        `head` is the newest offset after it, if it changes.
        """
        with self._writing:
            if time.monotonic() >= self._check_at:
                self.check()
            while True:
                if self.stopped:
                    raise WritesStopped(self.path, self.stopped)
                try:
                    with self._env.begin(None, None, True, True) as txn:
                        transaction: int = txn.id()
                        if transaction != self._transaction + 1:
                            raise self._stop("another process wrote to the same file")
                        result = change(txn)
                except lmdb.MapFullError:
                    self._grow()
                except lmdb.MapResizedError:
                    self._resize(0)
                except lmdb.Error as error:
                    raise self._storage_error(error) from error
                else:
                    self._record(transaction, head)
                    return result

    def _record(self, transaction: int, head: int) -> None:
        """Record a commit in the identity file. A transaction without changes writes no meta page."""
        assert self._data is not None
        if head:
            self.head = head
        page = self._data.meta_page(transaction)
        if not is_of_transaction(page, transaction):
            return
        before = self._page_checksum
        self._page_checksum = checksum = crc32(page)
        self._transaction = transaction
        if self._identity_file is not None:
            self._identity_file.record(transaction, self.head, checksum, before)

    def adopt(self, recorded: Identity) -> None:
        """Give a folder of an earlier release its identity file."""
        assert self._data is not None
        self.identity = recorded._replace(
            transaction=self._transaction,
            head=self.head,
            newest_page=self._page_checksum,
            older_page=crc32(self._data.meta_page(self._transaction + 1)),
        )
        identity.create(self.path, self.identity)
        self._identity_file = IdentityFile(self.path, self.identity)

    def _stop(self, why: str) -> WritesStopped:
        self.stopped = self.stopped or why
        return WritesStopped(self.path, self.stopped)

    def _grow(self) -> None:
        size = self._env.info()["map_size"]
        step = min(size, MAP_STEP)
        if not _address_space_for(step):
            raise CannotGrow(self.path, size + step)
        self._resize(size + step)
        self.grown += 1

    def _resize(self, size: int) -> None:
        with self._no_reads:
            self.resizing += 1
            try:
                if not self._no_reads.wait_for(lambda: not self._reads, timeout=RESIZE_TIMEOUT):
                    raise StorageFailed(self.path, f"a read was left open for {RESIZE_TIMEOUT} s")
                self._env.set_mapsize(size)
            except lmdb.Error as error:
                # LMDB has unmapped the file and cannot map it again.
                raise self._stop(f"the file could not be mapped with {size} bytes: {error}") from error
            finally:
                self.resizing -= 1

    def _storage_error(self, error: lmdb.Error) -> StorageFull | StorageFailed:
        code = _errno_of(error)
        if code == errno.EIO:
            # LMDB reports EIO for a short write, which happens when the disk fills up.
            code = self._short_write_cause()
        if code in FULL:
            return StorageFull(self.path, os.strerror(code))
        if isinstance(error, STRUCTURE):
            return self._stop(str(error))
        return StorageFailed(self.path, str(error))

    def _short_write_cause(self) -> int:
        """Find out why a write was short: try to allocate space at the end of the file, and return the errno, or EIO.

        The allocated space stays: LMDB uses it for the next commit.
        """
        if not hasattr(os, "posix_fallocate"):
            return errno.EIO  # macOS: the log says that the write failed, not that the disk is full
        try:
            with (self.path / DATA).open("r+b") as data:
                os.posix_fallocate(data.fileno(), data.seek(0, os.SEEK_END), PROBE)
        except OSError as refused:
            return refused.errno or errno.EIO
        return errno.EIO

    # Checks while running, closing and statistics.

    def check(self) -> str:
        """Check that the files are still those that were opened; return the problem as a sentence, or an empty
        string.

        Writes call it once a second. After a problem with the data file, all further writes are refused.
        """
        self._check_at = time.monotonic() + CHECK_INTERVAL
        if self._data is not None and not self.stopped and (problem := self._data.problem()):
            self._stop(problem)
        return self.stopped or (self._identity_file.check() if self._identity_file is not None else "")

    @property
    def unsynced(self) -> bool:
        """Whether commits were recorded in the identity file that are not synced to disk yet."""
        return self._identity_file is not None and self._identity_file.unsynced

    def sync(self) -> None:
        """Make the identity file durable. May take as long as the disk does."""
        if self._identity_file is not None:
            self._identity_file.sync()

    def forget_dead_readers(self) -> None:
        """Clear the reader slots of processes that have ended."""
        self._env.reader_check()

    def close(self) -> None:
        """Close everything; the lock on the data file is released last."""
        if self._env is not _NOT_OPEN:
            if not self._durable:
                self._env.sync(True)
            self._env.close()
        if self._identity_file is not None:
            self._identity_file.close(put_back=not self.stopped)
            self._identity_file = None
        if self._data is not None:
            self._data.close()
            self._data = None
        if self._folder_lock is not None:
            os.close(self._folder_lock)
            self._folder_lock = None

    def statistics(self) -> dict[str, int]:
        info = self._env.info()
        page = self._env.stat()["psize"]
        return {
            "map_bytes": info["map_size"],
            "used_bytes": (info["last_pgno"] + 1) * page,
            "readers": info["num_readers"],
            "grown": self.grown,
            "transactions": info["last_txnid"],  # write transactions since the journal was created
        }


def _errno_of(error: lmdb.Error) -> int:
    """The errno of an lmdb error; older releases of lmdb have it only in the text."""
    code = getattr(error, "code", 0)
    return int(code or next((known for known in (*FULL, errno.EIO) if os.strerror(known) in str(error)), 0))


def _address_space_for(size: int) -> bool:
    """Whether this process may map this many more bytes. LMDB itself finds out only after it has unmapped its file."""
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ).close()
    except OSError:
        return False
    return True


def _open_databases(env: Any, path: Path) -> Databases:
    """Open all databases; a missing one is damage, because `create_journal` creates them all."""
    check_structure(env, path / DATA, Databases._fields)
    try:
        return Databases(*(_open_database(env, path, name) for name in Databases._fields))
    except lmdb.Error as error:
        raise NotAJournal(path, str(error)) from error


def _open_database(env: Any, path: Path, name: str) -> Any:
    try:
        return env.open_db(name.encode(), create=False)
    except lmdb.NotFoundError as error:
        raise IncompleteFolder(path, f"its database {name} is missing") from error


# Processes x threads that read at the same time (workers, verify, a debugger); 64 bytes each.
MAX_READERS = 512


def open_files(path: Path, map_size: int, databases: int, *, readonly: bool, sync: bool = True) -> Any:
    """Open LMDB's environment for a folder with `data.mdb`, with room for this many named databases."""
    try:
        return lmdb.open(
            str(path),
            map_size=map_size,
            readonly=readonly,
            sync=sync,
            create=False,
            max_dbs=databases + 1,
            max_readers=MAX_READERS,
            mode=0o600,
            # Lists scan sequentially anyway; a get of one object should not read its neighbours' pages.
            readahead=False,
        )
    except lmdb.Error as error:
        raise NotAJournal(path, str(error)) from error


def extend_to_last_page(env: Any, path: Path, *, writer: bool) -> None:
    """Extend a file that ends before its last page with zeros.

    Pages that a commit allocated and freed may never have been written: such a file is sound. A truncated file
    looks the same, but reading beyond its end would kill the process with SIGBUS; zeros fail their checks.
    A reader does not change the file of a running writer.
    """
    size = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    if (path / DATA).stat().st_size >= size:
        return
    try:
        if writer:
            os.truncate(path / DATA, size)
        else:
            _extend_as_writer(path, size)
    except (AlreadyOpen, OSError):
        return


def _extend_as_writer(path: Path, size: int) -> None:
    lock = lock_folder(path)
    try:
        data = DataFile(path)
        try:
            os.ftruncate(data.handle, size)
        finally:
            data.close()
    finally:
        os.close(lock)
