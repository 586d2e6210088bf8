"""The journal: opened once, appended to by one writer, read through views.

`append` is the only way to add events: one durable LMDB transaction writes the events, the state after them,
both indexes and the counts, so no reader ever sees one without the others. Offsets come from the caller and
ascend; gaps are allowed (a batch that failed). The journal never interprets a body or facts.

LMDB releases the interpreter lock at every put, so a thread that appends beside a busy one waits for the lock
again and again: append in the thread that reads, unless the disk is slow (docs/decisions/0001-journal.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from journal import failpoints, keys, records, state, verify
from journal.environment import MAP_SIZE, Databases, Environment, NewJournal, PageError
from journal.errors import (
    Damaged,
    IncompleteFolder,
    LostCommits,
    NewerLayout,
    TooManyTypes,
    WrongDialect,
    WrongIdentity,
)
from journal.files import identity
from journal.files.identity import Identity
from journal.records import Event, decode_row
from journal.replay.versions import Versions
from journal.state import CheckedRows
from journal.view import View

LAYOUT = 1  # of the databases and their keys

_failpoint = failpoints.from_environment("journal.append")

# More than the free pages that LMDB may have left in its file.
PROBE_BYTES = 256 << 10


class Journal:
    """The journal of one data folder. `Journal.open` creates or opens it."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.checked = CheckedRows()
        self.versions = Versions()
        self._types: dict[str, int] = {}
        self._meta_writer = records.MetaWriter()
        self._head = self._time = 0
        self._appended = self._batches = 0

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        dialect: str = "cluster",
        readonly: bool = False,
        map_size: int = MAP_SIZE,
        check_tail: bool = True,
        cluster_id: bytes | None = None,
    ) -> Journal:
        """Open the journal in a folder, or create it. A read-only journal takes the dialect it finds.

        The newest events are checked first, unless the caller verifies the whole journal or reads only its dialect.
        A new journal gets a new `cluster_id`, unless it goes on with that of another folder.
        """
        new = None if readonly else _new_journal(dialect, cluster_id)
        environment = Environment(path, new=new, map_size=map_size)
        journal = cls(environment)
        try:
            stored = journal._load_meta()
            journal._check_identity(stored)
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
        self._types = keys.types_in(stored)
        with self.read() as view:
            self._head = self.environment.head = view.head
        return stored

    def _check_identity(self, stored: dict[bytes, bytes]) -> None:
        """The databases must be those of the cluster in the identity file, and not older than it says."""
        who, cluster_id = self.environment.identity, stored.get(keys.CLUSTER_ID)
        if who is None:
            if cluster_id is not None:
                raise IncompleteFolder(self.path, f"the file {identity.FILE} is missing")
            return  # a folder of an earlier release
        if cluster_id not in (None, who.cluster_id):
            raise WrongIdentity(self.path, f"the file {identity.FILE} is of another cluster, {who.uuid}")
        if (who.layout, who.dialect) != (int.from_bytes(stored[keys.LAYOUT], "big"), self.dialect):
            why = f"the file {identity.FILE} says layout {who.layout} and dialect {who.dialect}"
            raise WrongIdentity(self.path, why)
        if who.head > self._head:
            why = f"the file {identity.FILE} says {who.head}, the newest event is {self._head}"
            raise LostCommits(self.path, why)

    def _complete_identity(self, stored: dict[bytes, bytes]) -> None:
        """Give a folder of an earlier release its cluster id: first in the identity file, then in `meta`.

        One that an earlier release has written since gets the right checksum of `meta`.
        """
        if keys.CLUSTER_ID in stored and stored.get(keys.CHECK) == records.meta_check(stored):
            return
        if self.environment.identity is None:
            layout = int.from_bytes(stored[keys.LAYOUT], "big")
            self.environment.adopt(Identity(layout, identity.new_cluster_id(), self.dialect, 0, 0, 0, 0))
        who = self.environment.identity
        assert who is not None
        meta = self.environment.databases.meta
        self.environment.write(lambda txn: records.put_meta(txn, meta, {keys.CLUSTER_ID: who.cluster_id}))

    def _check_tail(self) -> None:
        with self.read() as view:
            verify.check_tail(view, self.path)
            newest = view.event(view.head)
            self._time = newest.time if newest is not None else 0

    def _meta(self) -> dict[bytes, bytes]:
        with self.read() as view:
            return view.meta()

    @property
    def path(self) -> Path:
        return self.environment.path

    @property
    def readonly(self) -> bool:
        return self.environment.readonly

    @property
    def head(self) -> int:
        """The newest durable offset; 0 when nothing was ever written."""
        if self.readonly:
            with self.read() as view:
                return view.head
        return self._head

    @property
    def time(self) -> int:
        """The time of the newest event, for the writer: no later event may have an earlier time."""
        return self._time

    # Types.

    def type_id(self, name: str) -> int:
        """The number that stands for a type in keys; 0, under which nothing is stored, for one without a number.

        Never writes: a type gets its number from `register_types`.
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
        """Give every type that has none a number, durable when this returns; one transaction for all of them."""
        fresh: dict[str, int] = {}
        newest = max(self._types.values(), default=0)
        for name in names:
            if name not in self._types and name not in fresh:
                fresh[name] = newest = newest + 1
        if newest > keys.MAX_TYPES:
            raise TooManyTypes(keys.MAX_TYPES)
        if fresh:
            self.environment.write(lambda txn: self._put_types(txn, fresh))
            # A new dict, because this may run in a thread beside readers of the old one.
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
        """A view, to be used as a context manager for a short time."""
        return View(self.environment, self.checked, self.versions)

    def body(self, type_id: int, namespace: str, name: str) -> bytes | None:
        """The latest content of one object: `read` and `get` in one call, because most requests need this."""
        key = keys.find_object(type_id, namespace, name)
        if key is None:
            return None
        environment = self.environment
        txn = environment.begin_read()
        try:
            value = txn.get(key, None, environment.databases.state)
            if value is not None:
                return decode_row(key, value)[2]
            state.check_absent(txn, environment.databases, key)
            return None
        except Damaged as damage:
            environment.note_damage(damage)
            raise
        except PageError as error:
            raise environment.damaged(error) from error
        finally:
            environment.end_read(txn)

    def append(self, events: Sequence[Event]) -> None:
        """Make a batch durable as a whole. After StorageFull or StorageFailed nothing of it is stored."""
        if events:
            self._append(events, [_Prepared(event, event.previous) for event in events])

    def probe(self) -> None:
        """Check whether the disk accepts writes again: StorageFull or StorageFailed if not."""
        meta = self.environment.databases.meta
        self.environment.write(lambda txn: txn.put(keys.PROBE, bytes(PROBE_BYTES), db=meta))
        self.environment.write(lambda txn: txn.delete(keys.PROBE, db=meta))

    def restore(self, events: Sequence[Event]) -> None:
        """Append events that are the state at a retention floor: the event before each is gone."""
        if events:
            self._append(events, [_Prepared(event, 0) for event in events])

    def _append(self, events: Sequence[Event], batch: list[_Prepared]) -> None:
        self._check_ascending(events)
        self.environment.write(lambda txn: self._put(txn, batch), events[-1].offset)
        self._head, self._time = events[-1].offset, events[-1].time
        self._appended += len(events)
        self._batches += 1
        if _failpoint is not None:
            _failpoint("after-commit")

    def _check_ascending(self, events: Sequence[Event]) -> None:
        newest = self._head
        for event in events:
            if event.offset <= newest:
                raise ValueError(f"offset {event.offset} does not ascend: the one before it is {newest}")
            newest = event.offset

    def _put(self, txn: Any, batch: list[_Prepared]) -> None:
        databases = self.environment.databases
        if _failpoint is not None:
            _failpoint("begun")
        if len(batch) == 1:
            _put_event(txn, databases, batch[0])
        else:
            # One call for a batch takes half the time of one for each event.
            events = [(one.offset_key, one.event_value) for one in batch]
            txn.cursor(databases.events).putmulti(events, append=True)
            txn.cursor(databases.by_type).putmulti([(one.type_key, one.link_value) for one in batch])
            txn.cursor(databases.by_object).putmulti([(one.object_key, b"") for one in batch])
        if _failpoint is not None:
            _failpoint("events-written")
        for one in batch:
            _put_row(txn, databases.state, one)
        _put_counts(txn, databases.counts, batch)
        if _failpoint is not None:
            _failpoint("state-written")
            _failpoint("before-commit")

    def check(self) -> str:
        """Check the files: the problem in a sentence, after which writes may be refused; empty without one."""
        return self.environment.check()

    @property
    def unsynced(self) -> bool:
        """Whether `sync` has something to do."""
        return self.environment.unsynced

    def sync(self) -> None:
        """Make the identity file durable: it may be behind the newest commit by what was written since."""
        self.environment.sync()

    def close(self) -> None:
        self.environment.close()

    def statistics(self) -> dict[str, int]:
        return {
            "head": self._head,
            "appended": self._appended,
            "batches": self._batches,
            **self.environment.statistics(),
            **self.checked.statistics(),
            **self.versions.statistics(),
        }


def _new_journal(dialect: str, cluster_id: bytes | None) -> NewJournal:
    cluster_id = cluster_id or identity.new_cluster_id()
    meta = {
        keys.DIALECT: dialect.encode(),
        keys.FLOOR: keys.pack_offset(0),
        keys.LAYOUT: LAYOUT.to_bytes(2, "big"),
        keys.CLUSTER_ID: cluster_id,
    }
    meta[keys.CHECK] = records.meta_check(meta)
    return NewJournal(meta, Identity(LAYOUT, cluster_id, dialect, 0, 0, 0, 0))


class _Prepared:
    """An event as keys and values, encoded before the write transaction begins."""

    __slots__ = (
        "change",
        "event_value",
        "link_value",
        "object_key",
        "offset_key",
        "previous",
        "row_value",
        "state_key",
        "type_key",
    )

    def __init__(self, event: Event, previous: int) -> None:
        self.state_key = keys.of_object(event.type_id, event.namespace, event.name)
        self.offset_key = keys.pack_offset(event.offset)
        self.type_key = keys.by_type(event.type_id, event.offset)
        self.object_key = keys.by_object(self.state_key, event.offset)
        self.event_value = records.encode_event(event)
        self.link_value = records.encode_link(self.type_key, self.state_key, event.previous, event.removed)
        self.row_value = (
            None
            if event.removed
            else records.encode_row(self.state_key, event.offset, event.facts, event.body)
        )
        self.previous = previous
        # By how much the event changes the number of live objects.
        self.change = (not event.removed) - (previous != 0)


def _put_event(txn: Any, databases: Databases, one: _Prepared) -> None:
    """One event and its index entries, without cursors: half the time. Positional: dupdata, overwrite, append."""
    put = txn.put
    put(one.offset_key, one.event_value, True, True, True, databases.events)
    put(one.type_key, one.link_value, True, True, False, databases.by_type)
    put(one.object_key, b"", True, True, False, databases.by_object)


def _put_row(txn: Any, database: Any, one: _Prepared) -> None:
    """Store or delete the state of an object, whose event before this one must be `previous`."""
    row = one.row_value
    if row is not None and not one.previous and txn.put(one.state_key, row, True, False, False, database):
        return  # there was none, as expected
    _check_previous(txn.get(one.state_key, db=database), one)
    if row is None:
        txn.delete(one.state_key, db=database)
    else:
        txn.put(one.state_key, row, db=database)


def _check_previous(row: Any, one: _Prepared) -> None:
    """Old versions and retention follow `previous`; one wrong link would lose an object."""
    stored = 0 if row is None else records.row_identity(row)[1]
    if stored != one.previous:
        where = records.printable(one.state_key)
        raise ValueError(f"an event of {where} follows {one.previous}, but its state is that of {stored}")


def _put_counts(txn: Any, database: Any, batch: list[_Prepared]) -> None:
    changes: dict[bytes, int] = {}
    for one in batch:
        if one.change:
            for scope in keys.scopes_of(one.state_key):
                changes[scope] = changes.get(scope, 0) + one.change
    for scope, change in changes.items():
        live = change + state.count(txn, database, scope)
        if live:
            txn.put(scope, records.encode_count(scope, live), db=database)
        else:
            txn.delete(scope, db=database)
