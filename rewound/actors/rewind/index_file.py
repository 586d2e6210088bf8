"""A file beside the journal with indexes derived from it, so that the next server need not derive them again.

    blocks       of the timeline's index (`timeline.py`): number, last event and its mark, bytes
    words_N      an FTS5 table per PARTITION offsets: the words of events (`search.py`)
    statuses     by BATCH offsets: which updates changed status only
    coverage     one row: the events after `low` up to `high` have words and statuses
    meta, claim  which journal the file belongs to, and which process writes words now

The file may be deleted at any time. A file that is damaged, of another version, or of another journal is replaced.
SQLite checks only its own structures: blocks and statuses have checksums. A damaged block is read from the journal
again; damaged statuses make the server replace the file.

A mark is the checksum of an event: it reveals that a journal was restored from a backup and now has other events.
Several processes may read and write: a batch of words is stored only if the coverage is still the one that it was
made for.

Methods wait for the disk: call them in a thread. SQLite releases the interpreter lock meanwhile.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from uuid import uuid4
from zlib import crc32

import msgpack
import orjson

try:
    import sqlite3
except ImportError:  # without SQLite, the page works but has no index
    sqlite3 = None  # type: ignore[assignment]

from rewound.actors.certificates.pki import one_process_at_a_time
from rewound.actors.rewind.timeline import BLOCK, Block, event_mark
from rewound.journal.log import Journal
from rewound.journal.recording import Recording

logger = logging.getLogger(__name__)

FILE: Final = "index.sqlite"
_FORMAT: Final = f"3 {sys.byteorder}"  # version of the tables and their contents
# Offsets in one table of words: retention drops whole tables. For a prefix, SQLite collects all matches before it
# returns the first; the table bounds how many there are.
PARTITION: Final = 1 << 16
BATCH: Final = 1 << 12  # offsets per transaction, for one segment of FTS5; PARTITION is a multiple of it
_CLAIM: Final = 5.0  # seconds without a write after which a process counts as ended
_LEAVES: Final = 16 << 20  # bytes of SQLite's log after a checkpoint

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BLOB);
CREATE TABLE IF NOT EXISTS claim (one INTEGER PRIMARY KEY CHECK (one = 1), process TEXT, until REAL);
CREATE TABLE IF NOT EXISTS coverage
    (one INTEGER PRIMARY KEY CHECK (one = 1), low INTEGER, high INTEGER, last INTEGER, mark BLOB);
CREATE TABLE IF NOT EXISTS partitions (number INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS statuses (number INTEGER PRIMARY KEY, change INTEGER, data BLOB);
CREATE INDEX IF NOT EXISTS changed_statuses ON statuses (change);
CREATE TABLE IF NOT EXISTS blocks (number INTEGER PRIMARY KEY, last INTEGER, mark BLOB, data BLOB);
"""
# No contents, which the journal has, and no lengths, which only ranking needs.
_PARTITION: Final = """
CREATE VIRTUAL TABLE IF NOT EXISTS words_{0} USING fts5
    (text, who, scope, content = '', columnsize = 0, tokenize = 'unicode61')
"""
# One statement for a batch, so that the thread takes the interpreter lock once, not for every row.
_INSERT: Final = """
INSERT INTO words_{0} (rowid, text, who, scope)
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'),
           json_extract(value, '$[2]'), json_extract(value, '$[3]') FROM json_each(?)
"""
_RELEASE: Final = "DELETE FROM claim WHERE process = ?"
_FIND: Final = "FROM words_{0} WHERE words_{0} MATCH ? AND rowid > ? AND rowid <= ?"

Scope = bytes  # type and namespace: a state key up to the name
Statuses: TypeAlias = "dict[Scope, array[int]]"  # offsets of updates that changed status only, ascending


class Unavailable(Exception):
    """There is no index: this Python lacks SQLite or FTS5, or the disk refuses it."""


class _NotOfThisJournal(Exception):
    pass


class Covered(NamedTuple):
    """The events after `low` up to `high`."""

    low: int
    high: int


Words = tuple[int, str, str, str]  # of one event: its offset, and the columns text, who and scope


@dataclass(frozen=True, slots=True)
class Batch:
    """The words of some events, with the coverage before it."""

    before: Covered | None
    covered: Covered
    last: int  # the newest event covered after it, and its mark; 0 if that stays the same
    mark: bytes
    number: int  # of the BATCH offsets that contain these events
    words: Sequence[Words]
    statuses: Statuses


class IndexFile:
    def __init__(self, journal: Journal) -> None:
        """Open or create the file. Raises Unavailable if that is impossible."""
        if sqlite3 is None:
            raise Unavailable("this Python has no sqlite3 module: install a Python that has it, with FTS5")
        self._process = uuid4().hex
        self._writing = threading.Lock()
        self._idle: list[sqlite3.Connection] = []  # connections for reading
        self._own_folder: str | None = None
        self._ended = False  # closed, or found damaged
        with journal.read() as view:
            self._identity = view.cluster_id
        try:
            self._path = self._place(journal)
            # Two processes that create it would find it locked, and one that replaces it could remove what the other
            # made.
            with one_process_at_a_time(self._path.parent):
                self._writer = self._open_or_replace(journal)
                self._opened = _identity_of(self._path)
        except (sqlite3.Error, OSError) as error:
            self._remove_own_folder()
            raise Unavailable(_reason(error)) from None

    def _place(self, journal: Journal) -> Path:
        """Return its path: beside the journal, or elsewhere for a replay, or if that folder is not writable."""
        path = journal.path / FILE
        if not isinstance(journal, Recording) and os.access(journal.path, os.W_OK):
            return path
        self._own_folder = tempfile.mkdtemp(prefix="rewound-index-")
        own = Path(self._own_folder) / FILE
        # While a server has the file open, or after it was killed, part of it is in SQLite's log.
        if path.exists() and not path.with_name(f"{FILE}-wal").exists():
            with suppress(OSError):
                shutil.copyfile(path, own)
        return own

    def _open_or_replace(self, journal: Journal) -> sqlite3.Connection:
        try:
            return self._open(journal)
        except sqlite3.Error as error:
            if not _is_damage(error):
                raise
            logger.warning("the index %s is damaged and will be rebuilt: %s", self._path, error)
        except _NotOfThisJournal:
            logger.info("the index %s is of another version or journal and will be rebuilt", self._path)
        self._remove()
        return self._open(journal)

    def _open(self, journal: Journal) -> sqlite3.Connection:
        with suppress(FileExistsError):  # it contains values of objects: nobody else may read it
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = self._connect()
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            # A power failure may lose the newest transactions, but does not damage the file.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA journal_size_limit = {_LEAVES}")
            with _transaction(connection):
                self._prepare(connection, journal)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection, journal: Journal) -> None:
        new = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not new:
            self._check(connection, journal)
            return
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")  # fails without FTS5
        connection.execute("DROP TABLE words")
        meta = [("format", _FORMAT.encode()), ("journal", self._identity)]
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta)

    def _check(self, connection: sqlite3.Connection, journal: Journal) -> None:
        try:
            found = dict(connection.execute("SELECT name, value FROM meta").fetchall())
        except sqlite3.OperationalError:  # no such table
            raise _NotOfThisJournal from None
        if found.get("format") != _FORMAT.encode() or found.get("journal") != self._identity:
            raise _NotOfThisJournal
        row = connection.execute("SELECT last, mark FROM coverage").fetchone()
        with journal.read() as view:
            if row is not None and row[1] != event_mark(view, row[0]) and row[0] > view.floor:
                raise _NotOfThisJournal

    def _connect(self) -> sqlite3.Connection:
        address = f"{self._path.absolute().as_uri()}?mode=rw"  # a deleted file is not created again
        return sqlite3.connect(address, timeout=5, isolation_level=None, check_same_thread=False, uri=True)

    def _remove(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(FILE + suffix).unlink(missing_ok=True)

    def _remove_own_folder(self) -> None:
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)

    @property
    def broken(self) -> bool:
        """Whether to open another one, because this is closed, damaged, deleted, or replaced by another process."""
        return self._ended or _identity_of(self._path) != self._opened

    def close(self) -> None:
        with self._writing:
            self._ended = True
            while self._idle:
                self._idle.pop().close()
            with suppress(sqlite3.Error):
                self._writer.execute(_RELEASE, (self._process,))
            self._writer.close()
            self._remove_own_folder()

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction on this thread's own read connection. Raises Unavailable if the file cannot be used."""
        if self.broken:
            raise Unavailable("the index is being rebuilt")
        try:
            connection = self._idle.pop() if self._idle else self._connect()
            try:
                with _transaction(connection, "BEGIN"):
                    yield connection
            finally:
                self._keep(connection)
        except sqlite3.Error as error:
            raise self._failed(error) from None

    def _keep(self, connection: sqlite3.Connection) -> None:
        if self.broken:
            connection.close()
        else:
            self._idle.append(connection)

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """Open a write transaction. Raises Unavailable if the file cannot be used."""
        with self._writing:
            if self.broken:
                raise Unavailable("the index is being rebuilt")
            try:
                with _transaction(self._writer):
                    yield self._writer
            except sqlite3.Error as error:
                raise self._failed(error) from None

    def _failed(self, error: sqlite3.Error) -> Unavailable:
        if _is_damage(error) and not self._ended:
            self._ended = True
            logger.warning("the index %s is damaged and removed: %s", self._path, error)
            with suppress(OSError), one_process_at_a_time(self._path.parent):
                if _identity_of(self._path) == self._opened:  # otherwise another process has replaced it
                    self._remove()
        return Unavailable(_reason(error))

    # The timeline's index.

    def load_blocks(self, first: int, last: int) -> dict[int, Block]:
        """Return the stored, undamaged blocks; the caller compares their marks."""
        found: dict[int, Block] = {}
        with suppress(Unavailable), self._read() as connection:
            sql = "SELECT number, last, mark, data FROM blocks WHERE number BETWEEN ? AND ?"
            for number, last_offset, mark, checked in connection.execute(sql, (first, last)):
                if (data := _unchecked(number, checked)) is not None:
                    found[number] = Block(last_offset, mark, data)
        return found

    def save_block(self, number: int, block: Block) -> None:
        with suppress(Unavailable), self._write() as connection:
            row = number, block.last, block.mark, _checked(number, block.data)
            connection.execute("INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?)", row)

    # Words and statuses.

    def claim(self, start: int) -> bool:
        """Whether this process may write words: no other one has just written some.

        Drops everything about events up to `start`, which the journal no longer has.
        """
        with self._write() as connection:
            row = connection.execute("SELECT process, until FROM claim").fetchone()
            if row is not None and row[0] != self._process and row[1] > time.time():
                return False
            self._put_claim(connection)
            _drop(connection, start)
        return True

    def release(self) -> None:
        """Let another process write words at once."""
        with self._write() as connection:
            connection.execute(_RELEASE, (self._process,))

    def _put_claim(self, connection: sqlite3.Connection) -> None:
        until = time.time() + _CLAIM
        connection.execute("INSERT OR REPLACE INTO claim VALUES (1, ?, ?)", (self._process, until))

    def covered(self) -> Covered | None:
        with self._read() as connection:
            return _covered(connection)

    def add(self, batch: Batch) -> bool:
        """Store a batch; return False if another process has stored one meanwhile."""
        with self._write() as connection:
            if _covered(connection) != batch.before:
                return False
            partition = batch.number * BATCH // PARTITION
            connection.execute(_PARTITION.format(partition))
            connection.execute("INSERT OR IGNORE INTO partitions VALUES (?)", (partition,))
            connection.execute(_INSERT.format(partition), (orjson.dumps(batch.words).decode(),))
            _put_statuses(connection, batch.number, batch.statuses)
            _put_coverage(connection, batch)
            self._put_claim(connection)
        return True

    def statuses(self, change: int) -> tuple[int, list[Statuses]]:
        """Return the newest change, and the statuses stored after `change` (0 at first), in any order."""
        with self._read() as connection:
            rows = connection.execute(
                "SELECT change, number, data FROM statuses WHERE change > ? ORDER BY number", (change,)
            ).fetchall()
            found = [_unpacked(number, data) for _, number, data in rows]
        return max((row[0] for row in rows), default=change), found

    def find(
        self, expression: str, after: int, upto: int, limit: int, seconds: float, *, descending: bool
    ) -> tuple[list[int], int]:
        """Return the offsets of the first matching events in the range, in order, and 0.

        It stops after some seconds, between two partitions, and then returns the offset to continue at instead of 0.
        """
        found: list[int] = []
        until = time.monotonic() + seconds
        order = "DESC" if descending else "ASC"
        with self._read() as connection:
            for number in _partitions(connection, after, upto, order):
                if time.monotonic() > until:
                    return found, number * PARTITION + PARTITION if descending else number * PARTITION + 1
                sql = f"SELECT rowid {_FIND.format(number)} ORDER BY rowid {order} LIMIT ?"
                rows = connection.execute(sql, (expression, after, upto, limit - len(found)))
                found += [row[0] for row in rows]
                if len(found) >= limit:
                    break
        return found, 0

    def partitions(self, after: int, upto: int) -> list[int]:
        """Return the partitions with events in the range, newest first."""
        with self._read() as connection:
            return _partitions(connection, after, upto, "DESC")

    def find_all(self, expression: str, after: int, upto: int, partition: int) -> list[int]:
        """Return the offsets of all matching events of one partition in the range, ascending; none if retention
        removed it.
        """
        with self._read() as connection:
            if not _partitions(connection, partition * PARTITION, partition * PARTITION + 1, "ASC"):
                return []
            sql = f"SELECT group_concat(rowid) FROM (SELECT rowid {_FIND.format(partition)} ORDER BY rowid)"
            (found,) = connection.execute(sql, (expression, after, upto)).fetchone()
        offsets: list[int] = orjson.loads(f"[{found or ''}]")
        return offsets


def _identity_of(path: Path) -> tuple[int, int] | None:
    """Return an identity that changes when another file replaces this one, or None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _covered(connection: sqlite3.Connection) -> Covered | None:
    row = connection.execute("SELECT low, high FROM coverage").fetchone()
    return None if row is None else Covered(*row)


def _partitions(connection: sqlite3.Connection, after: int, upto: int, order: str) -> list[int]:
    sql = f"SELECT number FROM partitions WHERE number BETWEEN ? AND ? ORDER BY number {order}"
    ends = after // PARTITION, (upto - 1) // PARTITION
    return [row[0] for row in connection.execute(sql, ends)]


def _put_coverage(connection: sqlite3.Connection, batch: Batch) -> None:
    connection.execute("INSERT OR IGNORE INTO coverage VALUES (1, 0, 0, 0, x'')")
    connection.execute("UPDATE coverage SET low = ?, high = ?", batch.covered)
    if batch.last:
        connection.execute("UPDATE coverage SET last = ?, mark = ?", (batch.last, batch.mark))


def _put_statuses(connection: sqlite3.Connection, number: int, statuses: Statuses) -> None:
    if not statuses:
        return
    row = connection.execute("SELECT data FROM statuses WHERE number = ?", (number,)).fetchone()
    merged = _unpacked(number, row[0]) if row is not None else {}
    for scope, offsets in statuses.items():
        merged[scope] = array("Q", sorted({*merged.get(scope, ()), *offsets}))
    (change,) = connection.execute("SELECT coalesce(max(change), 0) + 1 FROM statuses").fetchone()
    packed = msgpack.packb({scope: offsets.tobytes() for scope, offsets in merged.items()})
    values = number, change, _checked(number, packed)
    connection.execute("INSERT OR REPLACE INTO statuses VALUES (?, ?, ?)", values)


def _unpacked(number: int, stored: object) -> Statuses:
    """Unpack a row of statuses. Raises sqlite3.DatabaseError if it is damaged."""
    if (data := _unchecked(number, stored)) is None:
        error = sqlite3.DatabaseError("a checksum differs")
        error.sqlite_errorcode = _CORRUPT
        raise error
    return {scope: array("Q", offsets) for scope, offsets in msgpack.unpackb(data).items()}


_CHECKSUM: Final = 4  # bytes


def _checked(number: int, data: bytes) -> bytes:
    """Prefix the data of a row with a checksum, which also covers the number of the row."""
    return crc32(data, number & 0xFFFFFFFF).to_bytes(_CHECKSUM, "big") + data


def _unchecked(number: int, stored: object) -> bytes | None:
    """Return the data without their checksum, or None if they are damaged: SQLite may then return something other
    than bytes.
    """
    if not isinstance(stored, bytes):
        return None
    data = stored[_CHECKSUM:]
    return data if _checked(number, data) == stored else None


def _drop(connection: sqlite3.Connection, start: int) -> None:
    """Drop everything that is only about events up to `start`."""
    for (number,) in connection.execute(
        "SELECT number FROM partitions WHERE number < ?", (start // PARTITION,)
    ).fetchall():
        connection.execute(f"DROP TABLE words_{number}")
        connection.execute("DELETE FROM partitions WHERE number = ?", (number,))
    connection.execute("DELETE FROM statuses WHERE number < ?", (start // BATCH,))
    connection.execute("DELETE FROM blocks WHERE number < ?", (start // BLOCK,))
    covered = _covered(connection)
    if covered is not None and covered.high <= start:
        connection.execute("DELETE FROM coverage")


_CORRUPT, _NO_DATABASE = 11, 26  # SQLITE_CORRUPT, SQLITE_NOTADB


def _is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (_CORRUPT, _NO_DATABASE)


def _reason(error: Exception) -> str:
    if "no such module: fts5" in str(error):
        return "the SQLite of this Python has no FTS5: install a Python whose sqlite3 module has it"
    return str(error)
