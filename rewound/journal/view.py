"""Reads of the journal by type, namespace and name, all from one LMDB read transaction.

`Journal.read` returns a `View` as a context manager. `View.at` returns the state at an older offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rewound.journal import history, keys, state
from rewound.journal.environment import Environment
from rewound.journal.errors import Compacted, Unreadable
from rewound.journal.keys import Buffer
from rewound.journal.records import Event, Row, decode_event, decode_events, decode_row
from rewound.journal.replay import PastView, Versions
from rewound.journal.transaction import ReadTransaction


class View(ReadTransaction, state.ScopedReads):
    """The journal at its head, as of the moment the transaction began."""

    __slots__ = ("_cursor", "_versions")

    def __init__(self, environment: Environment, checked: state.CheckedRows, versions: Versions) -> None:
        super().__init__(environment, checked)
        self._versions = versions
        self._cursor: Any = None  # a cursor of `by_object`

    @property
    def is_newest(self) -> bool:
        """Whether the stored state is that of `head`; otherwise reads of many rows may have to rebuild it."""
        return True

    # The latest state.

    def get(self, type_id: int, namespace: str, name: str) -> Row | None:
        """Like `state.get_checked`, but with one cursor for all absent objects: an actor asks for many of them."""
        key = keys.find_object(type_id, namespace, name)
        if key is None:
            return None
        txn, databases = self.txn, self.databases
        value = txn.get(key, None, databases.state)
        if value is not None:
            return Row(*decode_row(key, value))
        cursor = self._cursor
        if cursor is None:
            cursor = self._cursor = txn.cursor(databases.by_object)
        state.check_absent(txn, databases, cursor, key)
        return None

    def count(self, type_id: int, namespace: str | None = None) -> int:
        scope = keys.scope(type_id, namespace)
        return 0 if scope is None else state.checked_count(self.txn, self.databases, scope)

    def at(self, offset: int) -> View | PastView:
        """The state at an offset. Raises Compacted below the floor, FutureVersion above the head."""
        return self if offset == self.head else PastView(self, self._versions, offset)

    def _entries_of(
        self, type_id: int, scope: bytes, start: bytes, wanted: int | None
    ) -> Iterator[list[state.Entry]]:
        return self.entries(scope, start, wanted)

    def _found(self, type_id: int, scope: bytes, start: bytes, find: state.FindKeys) -> Iterator[state.Run]:
        return state.found_rows(self.txn, self.databases, find(scope, start))

    # The log.

    def events(self, after: int, *, type_id: int | None = None, contents: bool = True) -> Iterator[Event]:
        """Events after an offset, ascending; for one type, read by its index. Raises Compacted if some were removed.

        Without `contents`, their facts and bodies are empty. Contents that cannot be read are as `instead` has them.
        """
        if after < self.floor:
            raise Compacted(after, self.floor)
        if type_id is None:
            return self.all_events(after, contents=contents)
        return self._events_of(type_id, after, contents=contents)

    def all_events(self, after: int, *, contents: bool = True) -> Iterator[Event]:
        """The remaining events after an offset, ascending; the one before them is checked too."""
        cursor = self.txn.cursor(self.databases.events)
        found = cursor.set_range(keys.pack_offset(after + 1))
        if not (cursor.prev() if found else cursor.last()):
            cursor.first()
        limit = self.limit
        for key, value in cursor.iternext():
            event = self._decoded(keys.offset_of(key), value, contents=contents)
            if event.offset > limit:
                return
            if event.offset > after:
                yield event

    def newer_events(self, after: int, count: int, size: int) -> list[Event]:
        """Up to so many events after an offset, or until they have `size` bytes: twice as fast as `events`.

        One that cannot be read is left out, or lacks its contents (`ReadTransaction.instead`).
        """
        if after < self.floor:
            raise Compacted(after, self.floor)
        cursor = self.txn.cursor(self.databases.events)
        if not cursor.set_range(keys.pack_offset(after + 1)):
            return []
        return decode_events(cursor.iternext(), self.limit, size, count, self.instead)

    def _events_of(self, type_id: int, after: int, *, contents: bool) -> Iterator[Event]:
        for link in history.links(self, type_id, after, self.head):
            if contents:
                yield self.version_of(link.key, link.offset)
            else:
                yield self.event_of(link.key, link.offset, contents=False)

    def _decoded(self, offset: int, value: Buffer, *, contents: bool) -> Event:
        try:
            return decode_event(offset, value, contents=contents)
        except Unreadable as error:
            event = self.instead(offset, value, error)
            if event is None:
                raise
            return event

    def history(self, type_id: int, namespace: str, name: str, *, contents: bool = True) -> Iterator[Event]:
        """All remaining events of one object, ascending. Without `contents`, their facts and bodies are empty."""
        key = keys.find_object(type_id, namespace, name)
        return iter(()) if key is None else history.history(self, key, contents=contents)

    def offset_at(self, time: int) -> int:
        """The newest offset whose event is not later than `time` (microseconds since 1970); 0 if there is none."""
        return history.offset_at(self, time)
