"""A batch of events as LMDB stores it: encoded before the write transaction begins, then put in one go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rewound.journal import keys, records, state
from rewound.journal.environment import Databases
from rewound.journal.records import Event


class Batch:
    """Events as keys and values of each database, encoded before the write transaction begins."""

    __slots__ = (
        "_by_object",
        "_by_type",
        "_changes",
        "_events",
        "_only_new",
        "_previous",
        "_rows",
        "newest",
        "size",
    )

    def __init__(
        self,
        events: Sequence[Event],
        newest: int,
        *,
        restored: bool = False,
        stored: Sequence[bytes] | None = None,
    ) -> None:
        """`newest` is the offset before the batch. `restored` events have lost the events before them to retention.

        `stored` are the bytes that the events have in another journal; their layout may be older.
        """
        events = list(map(records.with_escapes, events))
        self.newest, self.size = events[-1], len(events)
        self._events: list[tuple[bytes, bytes]] = []
        self._by_type: list[tuple[bytes, bytes]] = []
        self._by_object: list[tuple[bytes, bytes]] = []
        self._rows: list[tuple[bytes, bytes]] = []  # an empty value deletes the row
        # For each of `_rows`, the offset of the object's event before this one.
        self._previous: list[int] = []
        # Change of the number of objects, by type and namespace.
        self._changes: dict[tuple[int, str], int] = {}
        self._only_new = True  # every row is of a new object
        for event in events:
            offset, type_id, namespace, previous = (
                event.offset,
                event.type_id,
                event.namespace,
                event.previous,
            )
            removed = event.removed
            if offset <= newest:
                raise ValueError(f"offset {offset} does not ascend: the one before it is {newest}")
            if offset > keys.LARGEST_OFFSET:
                raise ValueError(f"offset {offset} is more than {keys.LARGEST_OFFSET}, and could not be read")
            newest = offset
            key, offset_key = keys.of_object(type_id, namespace, event.name), keys.pack_offset(offset)
            type_key = key[:2] + offset_key
            self._events.append((offset_key, records.encode_event(offset_key, event)))
            self._by_type.append((type_key, records.encode_link(type_key, key, previous, removed)))
            self._by_object.append((key + b"\0" + offset_key, b""))
            row = b"" if removed else records.encode_row(key, offset, event.facts, event.body)
            self._rows.append((key, row))
            if restored:
                previous = 0
            self._previous.append(previous)
            if previous or removed:
                self._only_new = False
            if removed == (previous != 0):  # otherwise the event changes an existing object
                scope = type_id, namespace
                self._changes[scope] = self._changes.get(scope, 0) + (-1 if removed else 1)
        if stored is not None:
            self._events = [(key, value) for (key, _), value in zip(self._events, stored, strict=True)]

    def put_events(self, txn: Any, databases: Databases) -> None:
        if len(self._events) > 1:
            # One putmulti takes half the time of a put for each event.
            txn.cursor(databases.events).putmulti(self._events, append=True)
            txn.cursor(databases.by_type).putmulti(self._by_type)
            txn.cursor(databases.by_object).putmulti(self._by_object)
            return
        # A put without a cursor takes half the time. Positional arguments: dupdata, overwrite, append.
        [event], [by_type], [by_object] = self._events, self._by_type, self._by_object
        txn.put(*event, True, True, True, databases.events)
        txn.put(*by_type, True, True, False, databases.by_type)
        txn.put(*by_object, True, True, False, databases.by_object)

    def put_rows(self, txn: Any, database: Any) -> None:
        """Store or delete the state of each object, after checking that its row is the event named as `previous`."""
        if self._only_new and len(self._rows) > 1:
            consumed, added = txn.cursor(database).putmulti(self._rows, overwrite=False)
            if added < consumed:
                self._check_new(txn, database)
            return
        for (key, row), previous in zip(self._rows, self._previous, strict=True):
            _put_row(txn, database, key, row, previous)

    def _check_new(self, txn: Any, database: Any) -> None:
        """Raise ValueError for the object that existed before this batch."""
        for key, row in self._rows:
            stored = txn.get(key, db=database)
            if records.row_identity(stored) != records.row_identity(row):
                _check_previous(stored, key, 0)

    def put_counts(self, txn: Any, database: Any) -> None:
        changes: dict[bytes, int] = {}
        for (type_id, namespace), change in self._changes.items():
            for scope in (keys.pack_type(type_id), keys.pack_namespace(type_id, namespace)):
                changes[scope] = changes.get(scope, 0) + change
        for scope, change in changes.items():
            live = change + state.count(txn, database, scope)
            if live:
                txn.put(scope, records.encode_count(scope, live), db=database)
            else:
                txn.delete(scope, db=database)


def _put_row(txn: Any, database: Any, key: bytes, row: bytes, previous: int) -> None:
    if row and not previous and txn.put(key, row, True, False, False, database):
        return  # there was no row, as expected
    _check_previous(txn.get(key, db=database), key, previous)
    if row:
        txn.put(key, row, db=database)
    else:
        txn.delete(key, db=database)


def _check_previous(row: Any, key: bytes, previous: int) -> None:
    """Raise ValueError unless an object's row is the event that the new event names as `previous`.

    Old versions and retention follow `previous`: one wrong link would lose an object.
    """
    stored = 0 if row is None else records.row_identity(row)[1]
    if stored != previous:
        what = f"an event of {records.printable(key)} follows {previous}"
        raise ValueError(f"{what}, but its state is that of {stored}")
