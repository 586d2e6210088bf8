"""The journal: opened once, appended to by one writer, read through views.

`append` is the only way events come in: one durable LMDB transaction for the event, the state it leads to,
both indexes and the counts, so no reader ever sees one without the others. Offsets come from the caller and
ascend; gaps are allowed (a batch that failed). The journal never interprets a body or facts.

LMDB releases the interpreter lock at every put, so a thread that appends beside a busy one waits for it again
and again: append in the thread that reads, unless its disk is slow (docs/decisions/0001-journal.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from journal import failpoints, keys, records, state, verify
from journal.environment import MAP_SIZE, Environment, PageError
from journal.errors import NewerLayout, NoJournal, TooManyTypes, WrongDialect
from journal.records import Event, decode_row
from journal.replay import Versions
from journal.state import Checked
from journal.view import View

LAYOUT = 1  # of the databases and their keys

_passage = failpoints.from_environment("journal.append")


# More than the free room that LMDB may have kept in its file for itself.
PROBE_KEY, PROBE_BYTES = b"probe", 256 << 10


class Journal:
    """One data folder's journal. `Journal.open` makes or opens it."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.checked = Checked()
        self.versions = Versions()
        self._types: dict[str, int] = {}
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
        proved: bool = True,
    ) -> Journal:
        """Open or make the journal in a folder. A reader takes the dialect it finds.

        Its tail is proved first; only who is going to verify all of it says `proved=False`.
        """
        environment = Environment(path, readonly=readonly, map_size=map_size)
        journal = cls(environment)
        try:
            journal._begin(dialect)
            if proved:
                journal._check_tail()
        except BaseException:
            environment.close()
            raise
        return journal

    def _begin(self, dialect: str) -> None:
        stored = self._meta()
        if keys.LAYOUT not in stored:
            if self.readonly:
                raise NoJournal(self.path)
            self.environment.write(lambda txn: self._found(txn, dialect))
            stored = self._meta()
        layout = int.from_bytes(stored[keys.LAYOUT], "big")
        if layout > LAYOUT:
            raise NewerLayout(f"the journal in {self.path}", layout, LAYOUT)
        self.dialect = stored[keys.DIALECT].decode()
        if not self.readonly and self.dialect != dialect:
            raise WrongDialect(self.path, self.dialect, dialect)
        self._types = keys.types_in(stored)
        with self.read() as view:
            self._head = view.head

    def _check_tail(self) -> None:
        with self.read() as view:
            verify.check_tail(view, self.path)
            newest = view.event(view.head)
            self._time = newest.time if newest is not None else 0

    def _found(self, txn: Any, dialect: str) -> None:
        meta = self.environment.databases.meta
        txn.put(keys.DIALECT, dialect.encode(), db=meta)
        txn.put(keys.FLOOR, keys.pack_offset(0), db=meta)
        txn.put(keys.LAYOUT, LAYOUT.to_bytes(2, "big"), db=meta)

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
        """When the newest event was, for the writer: whoever goes on from here must not go back behind it."""
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
        for name, number in types.items():
            txn.put(
                keys.TYPE_PREFIX + name.encode(), keys.pack_type(number), db=self.environment.databases.meta
            )

    def types(self) -> dict[str, int]:
        if self.readonly:
            self._types = keys.types_in(self._meta())
        return dict(self._types)

    # Reading and writing.

    def read(self) -> View:
        """A view, to be used as a context manager and left soon."""
        return View(self.environment, self.checked, self.versions)

    def body(self, type_id: int, namespace: str, name: str) -> bytes | None:
        """The newest content of one object: `read` and `get` in one, as it is what most requests want."""
        key = keys.find_object(type_id, namespace, name)
        if key is None:
            return None
        environment = self.environment
        txn = environment.enter()
        try:
            value = txn.get(key, None, environment.databases.state)
            return None if value is None else decode_row(key, value)[2]
        except PageError as error:
            raise environment.damaged(error) from error
        finally:
            environment.leave(txn)

    def append(self, events: Sequence[Event]) -> None:
        """Make a batch durable, whole or not at all. StorageFull and StorageFailed leave no trace of it."""
        if events:
            self._append(events, [_Prepared(event, event.previous) for event in events])

    def probe(self) -> None:
        """Find out whether the disk takes writes again: StorageFull or StorageFailed if not."""
        meta = self.environment.databases.meta
        self.environment.write(lambda txn: txn.put(PROBE_KEY, bytes(PROBE_BYTES), db=meta))
        self.environment.write(lambda txn: txn.delete(PROBE_KEY, db=meta))

    def restore(self, events: Sequence[Event]) -> None:
        """Append events that are the state at a retention floor: what each followed is gone."""
        if events:
            self._append(events, [_Prepared(event, 0) for event in events])

    def _append(self, events: Sequence[Event], batch: list[_Prepared]) -> None:
        self._prove_ascending(events)
        self.environment.write(lambda txn: self._put(txn, batch))
        self._head, self._time = events[-1].offset, events[-1].time
        self._appended += len(events)
        self._batches += 1
        if _passage is not None:
            _passage("after-commit")

    def _prove_ascending(self, events: Sequence[Event]) -> None:
        newest = self._head
        for event in events:
            if event.offset <= newest:
                raise ValueError(f"offset {event.offset} does not ascend: the one before it is {newest}")
            newest = event.offset

    def _put(self, txn: Any, batch: list[_Prepared]) -> None:
        databases = self.environment.databases
        if _passage is not None:
            _passage("begun")
        for one in batch:
            txn.put(one.offset_key, one.event_value, append=True, db=databases.events)
            txn.put(one.type_key, one.link_value, db=databases.by_type)
            txn.put(one.object_key, b"", db=databases.by_object)
        if _passage is not None:
            _passage("events-written")
        for one in batch:
            _prove_previous(txn.get(one.state_key, db=databases.state), one)
            if one.row_value is None:
                txn.delete(one.state_key, db=databases.state)
            else:
                txn.put(one.state_key, one.row_value, db=databases.state)
        _put_counts(txn, databases.counts, batch)
        if _passage is not None:
            _passage("state-written")
            _passage("before-commit")

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


class _Prepared:
    """An event as keys and values, made before the write transaction begins."""

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

    def __init__(self, event: Event, follows: int) -> None:
        self.state_key = keys.of_object(event.type_id, event.namespace, event.name)
        self.offset_key = keys.pack_offset(event.offset)
        self.type_key = keys.by_type(event.type_id, event.offset)
        self.object_key = keys.by_object(self.state_key, event.offset)
        self.event_value = records.encode_event(event)
        link = records.Link(event.offset, self.state_key, event.previous, event.removed)
        self.link_value = records.encode_link(self.type_key, link)
        self.row_value = (
            None
            if event.removed
            else records.encode_row(self.state_key, event.offset, event.facts, event.body)
        )
        self.previous = follows
        # What the event does to the number of live objects.
        self.change = (not event.removed) - (follows != 0)


def _prove_previous(row: Any, one: _Prepared) -> None:
    """Old versions and retention follow `previous`; one wrong link would lose an object there for good."""
    there = 0 if row is None else records.row_identity(row)[1]
    if there != one.previous:
        where = records.printable(one.state_key)
        raise ValueError(f"an event of {where} follows {one.previous}, but its state is of {there}")


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
