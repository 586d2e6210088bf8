"""The journal: opened once, appended to by one writer, read through views.

`append` is the only way to add events: one durable LMDB transaction writes the events, the state after them,
both indexes and the counts, so no reader ever sees one without the others. Offsets come from the caller and
ascend; gaps are allowed (a batch that failed). The journal never interprets a body or facts.

LMDB releases the GIL at every put, so a thread that appends beside a busy one waits for it again and again: append in
the thread that reads, or let that one wait for `on_put` (docs/decisions/0002-committer.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rewound.journal import failpoints, keys, records
from rewound.journal.batch import Batch
from rewound.journal.columns import Columns
from rewound.journal.environment import MAP_SIZE, Environment, NewJournal
from rewound.journal.errors import (
    Damaged,
    IncompleteFolder,
    LostCommits,
    NewerLayout,
    StandbyFolder,
    TooManyTypes,
    WrongDialect,
    WrongIdentity,
)
from rewound.journal.files import identity
from rewound.journal.files.identity import Identity
from rewound.journal.records import Event, decode_row
from rewound.journal.replay import Versions
from rewound.journal.state import CheckedRows
from rewound.journal.tail import check_tail
from rewound.journal.unreadable import UnreadableEvents
from rewound.journal.view import View

OnPut = Callable[[], None]
LAYOUT = 1  # version of the databases and their keys

_failpoint = failpoints.from_environment("journal.append")

# More than the free pages that LMDB may have left in its file.
PROBE_BYTES = 256 << 10


class Journal:
    """The journal of one data folder. `Journal.open` creates or opens it."""

    # Whether new events are those of another journal, whose writer may have stored any bytes as objects.
    is_copy = False

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.checked = CheckedRows()
        self.versions = Versions()
        self.columns = Columns()
        self._types: dict[str, int] = {}
        self._meta_writer = records.MetaWriter()
        self._head = self._time = 0
        self._appended = self._batches = 0
        # Called with the newest offset of a batch right before LMDB makes it durable and visible to other processes.
        self.before_commit: Callable[[int], None] | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        dialect: str = "cluster",
        kubernetes: str = "",
        readonly: bool = False,
        map_size: int = MAP_SIZE,
        check_tail: bool = True,
        cluster_id: bytes | None = None,
        durable: bool = True,
        follows: bool = False,
    ) -> Journal:
        """Open the journal in a folder, or create it. A read-only journal uses the dialect that it finds.

        A new journal stores `kubernetes`, the version whose form its objects will have; empty: 1.25.

        The newest events are checked first, unless the caller verifies the whole journal or reads only its dialect.
        A new journal gets a random cluster id unless `cluster_id` continues that of another folder. Only a process
        that `follows` another server may write to the folder of a standby. A journal that is not `durable` is a copy
        of data stored elsewhere: it may be damaged if the machine crashes before the journal is closed.
        """
        new = (
            None
            if readonly
            else _new_journal(dialect, kubernetes, cluster_id or identity.new_cluster_id(), follows=follows)
        )
        environment = Environment(path, new=new, map_size=map_size, durable=durable)
        journal = cls(environment)
        try:
            stored = journal._load_meta()
            journal._check_identity(stored)
            if keys.FOLLOWS in stored and not (readonly or follows):
                raise StandbyFolder(path)
            if not readonly and journal.dialect != dialect:
                raise WrongDialect(path, journal.dialect, dialect)
            if check_tail:
                journal._check_tail()
            if not readonly:
                journal._complete_identity(stored)
        except BaseException:
            environment.close()
            raise
        return journal

    def _load_meta(self) -> dict[bytes, bytes]:
        stored = self._meta()
        if problem := records.meta_problem(stored, earlier_release=self.environment.identity_was_behind):
            raise IncompleteFolder(self.path, f"its database meta {problem}")
        layout = int.from_bytes(stored[keys.LAYOUT], "big")
        if layout > LAYOUT:
            raise NewerLayout(f"the journal in {self.path}", layout, LAYOUT)
        self.dialect = stored[keys.DIALECT].decode()
        self.kubernetes = stored.get(keys.KUBERNETES, b"").decode()
        self._migrated = int.from_bytes(stored.get(keys.MIGRATED, b""), "big")
        self._types = keys.types_in(stored)
        with self.read() as view:
            self._head = self.environment.head = view.head
        return stored

    def _check_identity(self, stored: dict[bytes, bytes]) -> None:
        """Check that the databases belong to the cluster in the identity file, and are not older than it says."""
        recorded, cluster_id = self.environment.identity, stored.get(keys.CLUSTER_ID)
        if recorded is None:
            if cluster_id is not None:
                raise IncompleteFolder(self.path, f"the file {identity.FILE} is missing")
            return  # a folder written by an earlier release
        if cluster_id not in (None, recorded.cluster_id):
            raise WrongIdentity(self.path, f"the file {identity.FILE} is of another cluster, {recorded.uuid}")
        if (recorded.layout, recorded.dialect) != (int.from_bytes(stored[keys.LAYOUT], "big"), self.dialect):
            why = f"the file {identity.FILE} says layout {recorded.layout} and dialect {recorded.dialect}"
            raise WrongIdentity(self.path, why)
        if recorded.head > self._head:
            why = f"the file {identity.FILE} says {recorded.head}, the newest event is {self._head}"
            raise LostCommits(self.path, why)

    def _complete_identity(self, stored: dict[bytes, bytes]) -> None:
        """Give a folder of an earlier release its cluster id: first in the identity file, then in `meta`.

        Also correct the checksum of `meta` if an earlier release has written the folder since.
        """
        if keys.CLUSTER_ID in stored and stored.get(keys.CHECK) == records.meta_check(stored):
            return
        if self.environment.identity is None:
            layout = int.from_bytes(stored[keys.LAYOUT], "big")
            self.environment.adopt(Identity(layout, identity.new_cluster_id(), self.dialect, 0, 0, 0, 0))
        recorded = self.environment.identity
        assert recorded is not None
        meta = self.environment.databases.meta
        self.environment.write(
            lambda txn: records.put_meta(txn, meta, {keys.CLUSTER_ID: recorded.cluster_id})
        )

    def _check_tail(self) -> None:
        with self.read() as view:
            for offset, problem in check_tail(view, self.path):
                self.unreadable.note(offset, problem)
            self._time = newest.time if (newest := view.event(view.head, contents=False)) is not None else 0

    def _meta(self) -> dict[bytes, bytes]:
        with self.read() as view:
            return view.meta()

    @property
    def path(self) -> Path:
        return self.environment.path

    @property
    def unreadable(self) -> UnreadableEvents:
        """The events that this process could not read: those of the tail, and what readers of many left out."""
        return self.environment.unreadable

    @property
    def readonly(self) -> bool:
        return self.environment.readonly

    @property
    def head(self) -> int:
        """The newest durable offset; 0 if nothing was ever written."""
        if self.readonly:
            with self.read() as view:
                return view.head
        return self._head

    @property
    def time(self) -> int:
        """The time of the newest event. The writer needs it: no later event may have an earlier time."""
        return self._time

    # Types.

    def type_id(self, name: str) -> int:
        """The number of a type in keys; 0, under which nothing is stored, if it has none.

        This never writes: `register_types` gives types their numbers.
        """
        known = self._types.get(name)
        if known is not None:
            return known
        if self.readonly:
            self._types = keys.types_in(self._meta())
        return self._types.get(name, 0)

    def register_type(self, name: str) -> int:
        self.register_types([name])
        return self._types[name]

    def register_types(self, names: Iterable[str]) -> None:
        """Give a number to every type that has none, in one transaction; durable when this returns."""
        fresh: dict[str, int] = {}
        newest = max(self._types.values(), default=0)
        for name in names:
            if name not in self._types and name not in fresh:
                fresh[name] = newest = newest + 1
        if newest > keys.MAX_TYPES:
            raise TooManyTypes(keys.MAX_TYPES)
        if fresh:
            self.environment.write(lambda txn: self._put_types(txn, fresh))
            # A new dict, because this may run in a thread while others read the old one.
            self._types = {**self._types, **fresh}

    def adopt_types(self, types: Mapping[str, int]) -> None:
        """Give types the numbers that they have in another journal. Raises ValueError if one differs here."""
        for name, number in types.items():
            if self._types.get(name, number) != number:
                raise ValueError(
                    f"the type {name} has the number {self._types[name]} here and {number} there"
                )
        taken = {number: name for name, number in self._types.items()}
        fresh = {name: number for name, number in types.items() if name not in self._types}
        for name, number in fresh.items():
            if not 0 < number <= keys.MAX_TYPES:
                raise ValueError(f"the type {name} cannot have the number {number}")
            if taken.setdefault(number, name) != name:
                raise ValueError(
                    f"the type {name} cannot have the number {number}, which {taken[number]} has"
                )
        if fresh:
            self.environment.write(lambda txn: self._put_types(txn, fresh))
            self._types = {**self._types, **fresh}

    def _put_types(self, txn: Any, types: dict[str, int]) -> None:
        numbers = {keys.TYPE_PREFIX + name.encode(): keys.pack_type(types[name]) for name in types}
        self._meta_writer.put(txn, self.environment.databases.meta, numbers)

    def types(self) -> dict[str, int]:
        if self.readonly:
            self._types = keys.types_in(self._meta())
        return dict(self._types)

    # Reading and writing.

    def read(self) -> View:
        """A view, to be used briefly, as a context manager."""
        return View(self.environment, self.checked, self.versions)

    def body(self, type_id: int, namespace: str, name: str) -> bytes | None:
        """The latest body of one object: like `read` and `get`, but cheaper, because most requests need just this."""
        key = keys.find_object(type_id, namespace, name)
        if key is None:
            return None
        environment = self.environment
        value = environment.get(key, environment.databases.state)
        try:
            if value is not None:
                return decode_row(key, value)[2]
        except Damaged as damage:
            environment.note_damage(damage)
            raise
        with self.read() as view:  # which finds out whether the row is lost, or cannot be read
            row = view.get(type_id, namespace, name)
            return None if row is None else row.body

    def append(self, events: Sequence[Event], on_put: OnPut | None = None, *, restored: bool = False) -> None:
        """Make a batch durable as a whole. If it raises StorageFull or StorageFailed, nothing of it is stored.

        Calls `on_put` when only LMDB's commit, which waits for the disk, is left; again if the map had to grow.
        `restored` events are the state at a retention floor, whose earlier events are gone.
        """
        if events:
            self.write(self.encode(events, restored=restored), on_put)

    def encode(
        self, events: Sequence[Event], *, restored: bool = False, stored: Sequence[bytes] | None = None
    ) -> Batch:
        """The first half of `append`, which needs no transaction. No other events may be written before these.

        `stored` are their bytes, if another journal has them already.
        """
        return Batch(events, self._head, restored=restored, stored=stored)

    def write(self, batch: Batch, on_put: OnPut | None = None) -> None:
        """The second half of `append`, with hardly any Python code, so that it can run in another thread."""
        newest = batch.newest
        self.environment.write(lambda txn: self._put(txn, batch, on_put), newest.offset)
        self._head, self._time = newest.offset, newest.time
        self._appended += batch.size
        self._batches += 1
        if _failpoint is not None:
            _failpoint("after-commit")

    def probe(self) -> None:
        """Check whether the disk accepts writes again. Raises StorageFull or StorageFailed if not."""
        meta = self.environment.databases.meta
        self.environment.write(lambda txn: txn.put(keys.PROBE, bytes(PROBE_BYTES), db=meta))
        self.environment.write(lambda txn: txn.delete(keys.PROBE, db=meta))

    def _put(self, txn: Any, batch: Batch, on_put: OnPut | None) -> None:
        databases = self.environment.databases
        if _failpoint is not None:
            _failpoint("begun")
        batch.put_events(txn, databases)
        if _failpoint is not None:
            _failpoint("events-written")
        batch.put_rows(txn, databases.state)
        batch.put_counts(txn, databases.counts)
        if _failpoint is not None:
            _failpoint("state-written")
            _failpoint("before-commit")
        if self.before_commit is not None:
            self.before_commit(batch.newest.offset)
        if on_put is not None:
            on_put()

    def put_meta(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Store, or delete (None), records of the database meta in one durable transaction."""
        meta = self.environment.databases.meta
        self.environment.write(lambda txn: records.put_meta(txn, meta, changes))

    def begin_migration(self, kubernetes: str) -> None:
        """Store the version that the journal will have; until `end_migration`, objects may have an earlier form."""
        self._put_version(kubernetes, keys.LARGEST_OFFSET)

    def end_migration(self) -> None:
        self._put_version(self.kubernetes, self.head)

    @property
    def is_migrating(self) -> bool:
        """Whether objects may have the form of an earlier version: a migration was interrupted, or this is a copy of
        a journal as it was before the end of one.
        """
        return self.head < self._migrated

    def set_version(self, kubernetes: str) -> None:
        """Store the version of a journal whose objects another server wrote, in the form that they should have."""
        if kubernetes != self.kubernetes:
            self._put_version(kubernetes, 0)

    def _put_version(self, kubernetes: str, migrated: int) -> None:
        self.put_meta(version_records(kubernetes, migrated))
        self.kubernetes, self._migrated = kubernetes, migrated

    def check(self) -> str:
        """Check the files; return the problem as a sentence, or an empty string. Writes may be refused after one."""
        return self.environment.check()

    @property
    def unsynced(self) -> bool:
        """Whether commits are recorded that `sync` would make durable."""
        return self.environment.unsynced

    def sync(self) -> None:
        """Make the identity file durable; until then it may lag behind the newest commit on the disk."""
        self.environment.sync()

    def forget_dead_readers(self) -> None:
        """Release the read transactions of killed processes: LMDB cannot reuse the pages that they hold."""
        self.environment.forget_dead_readers()

    def close(self) -> None:
        self.environment.close()

    def statistics(self) -> dict[str, int]:
        return {
            "head": self._head,
            "appended": self._appended,
            "batches": self._batches,
            "unreadable_events": len(self.unreadable),
            **self.environment.statistics(),
            **self.checked.statistics(),
            **self.versions.statistics(),
            **self.columns.statistics(),
        }


def version_records(kubernetes: str, migrated: int) -> dict[bytes, bytes | None]:
    """The records of meta about the version of Kubernetes; None: there is none."""
    return {
        keys.KUBERNETES: kubernetes.encode() or None,
        keys.MIGRATED: keys.pack_offset(migrated) if migrated else None,
    }


def _new_journal(dialect: str, kubernetes: str, cluster_id: bytes, *, follows: bool) -> NewJournal:
    meta = {
        keys.DIALECT: dialect.encode(),
        keys.FLOOR: keys.pack_offset(0),
        keys.LAYOUT: LAYOUT.to_bytes(2, "big"),
        keys.CLUSTER_ID: cluster_id,
    }
    if kubernetes:
        meta[keys.KUBERNETES] = kubernetes.encode()
    if follows:
        meta[keys.FOLLOWS] = b"1"
    meta[keys.CHECK] = records.meta_check(meta)
    return NewJournal(meta, Identity(LAYOUT, cluster_id, dialect, 0, 0, 0, 0))
