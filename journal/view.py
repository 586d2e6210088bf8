"""One consistent reading of the journal: every question answered from the same LMDB snapshot.

`Journal.read` hands it out as a context manager. It is short-lived and synchronous: an open view keeps old
pages from being reused and the map from growing. Everything it answers is a copy that outlives it.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from journal import history, keys, replay, state
from journal.environment import PageError
from journal.errors import Compacted, Damaged
from journal.records import (
    NAME,
    NAMESPACE,
    TYPE_ID,
    Event,
    Fields,
    Row,
    decode_event,
    event_fields,
    printable,
)
from journal.replay import Past
from journal.state import Match, Page

if TYPE_CHECKING:
    from journal.log import Journal


class View:
    __slots__ = ("_environment", "_head", "_txn", "journal")

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._environment = journal.environment
        self._txn: Any = None
        self._head: int | None = None

    def __enter__(self) -> View:
        self._txn = self._environment.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        txn, self._txn = self._txn, None
        self._environment.leave(txn)
        if isinstance(error, PageError):
            raise self._environment.damaged(error) from error

    @property
    def txn(self) -> Any:
        """The LMDB transaction, for the other modules of this package."""
        return self._txn

    @property
    def head(self) -> int:
        """The newest offset in this view; 0 when the journal is empty."""
        if self._head is None:
            cursor = self._txn.cursor(self._environment.events)
            self._head = keys.offset_of(cursor.key()) if cursor.last() else 0
        return self._head

    @property
    def floor(self) -> int:
        """The oldest offset that `at` can still answer for."""
        value = self._txn.get(keys.FLOOR, db=self._environment.meta)
        return 0 if value is None else int.from_bytes(value, "big")

    # The latest state.

    def get(self, type_id: int, namespace: str, name: str) -> Row | None:
        key = keys.find_object(type_id, namespace, name)
        return None if key is None else state.get(self._txn, self._environment.state, key)

    def count(self, type_id: int, namespace: str | None = None) -> int:
        scope = keys.scope(type_id, namespace)
        return 0 if scope is None else state.count(self._txn, self._environment.counts, scope)

    def page(
        self,
        type_id: int,
        namespace: str | None = None,
        *,
        after: tuple[str, str] | None = None,
        limit: int | None = None,
        match: Match | None = None,
    ) -> Page:
        return state.page(self._entries(type_id, namespace, after, limit), limit, match)

    def rows(
        self, type_id: int, namespace: str | None = None, after: tuple[str, str] | None = None
    ) -> Iterator[tuple[str, str, Row]]:
        return state.rows(self._entries(type_id, namespace, after, None))

    def at(self, offset: int) -> View | Past:
        """The journal as it was at an offset: Compacted below the floor, NotYet ahead of the head."""
        return self if offset == self.head else Past(self, offset)

    def _entries(
        self, type_id: int, namespace: str | None, after: tuple[str, str] | None, wanted: int | None
    ) -> Iterator[list[state.Entry]]:
        scope = keys.scope(type_id, namespace)
        if scope is None:
            return iter(())
        return self.span(scope, scope if after is None else max(scope, keys.after(type_id, after)), wanted)

    def span(self, scope: bytes, start: bytes, wanted: int | None) -> Iterator[list[state.Entry]]:
        """Rows of a scope from a key on, in chunks; `wanted` sizes the first one."""
        known = state.count(self._txn, self._environment.counts, scope) if start == scope else None
        span = state.Span(scope, start, known, self._mark(scope[:2]))
        return state.chunks(self._txn.cursor(self._environment.state), self.journal.checked, span, wanted)

    def _mark(self, packed_type: bytes) -> state.Mark:
        """What tells whether a type's state is the same as before."""
        cursor = self._txn.cursor(self._environment.by_type)
        beyond = cursor.set_range(packed_type + b"\xff" * 8)
        if not (cursor.prev() if beyond else cursor.last()) or cursor.key()[:2] != packed_type:
            return 0, 0
        return keys.offset_of(cursor.key()), state.count(self._txn, self._environment.counts, packed_type)

    def references(self, type_id: int, start: bytes, count: int) -> list[tuple[bytes, int]]:
        """(key, offset) of up to `count` rows of a type from a key on."""
        cursor = self._txn.cursor(self._environment.state)
        return state.references(cursor, keys.pack_type(type_id), start, count)

    # The log.

    def event(self, offset: int) -> Event | None:
        if not 0 < offset <= keys.MAX_OFFSET:
            return None
        value = self._txn.get(keys.pack_offset(offset), db=self._environment.events)
        return None if value is None else decode_event(offset, value)

    def events(self, after: int, *, type_id: int | None = None) -> Iterator[Event]:
        """Events behind an offset, ascending; of one type by its index. Compacted when some are gone."""
        if after < self.floor:
            raise Compacted(after, self.floor)
        if type_id is None:
            return self.all_events(after)
        return self._events_of(type_id, after)

    def all_events(self, after: int) -> Iterator[Event]:
        """What is left of the log behind an offset, with the gaps that retention made."""
        cursor = self._txn.cursor(self._environment.events)
        if cursor.set_range(keys.pack_offset(after + 1)):
            for key, value in cursor.iternext():
                yield decode_event(keys.offset_of(key), value)

    def _events_of(self, type_id: int, after: int) -> Iterator[Event]:
        for link in replay.links(self, type_id, after, self.head):
            yield self.event_of(link.key, link.offset)

    def history(self, type_id: int, namespace: str, name: str) -> Iterator[Event]:
        """All events of one object that are still there, ascending."""
        key = keys.find_object(type_id, namespace, name)
        return iter(()) if key is None else history.history(self, key)

    def offset_at(self, time: int) -> int:
        """The newest offset whose event is not later than `time` (microseconds since 1970); 0 without one."""
        return history.offset_at(self, time)

    def written_types(self) -> list[int]:
        """Numbers of the types that have events, ascending."""
        cursor = self._txn.cursor(self._environment.by_type)
        found: list[int] = []
        while cursor.set_range(keys.by_type(found[-1] if found else 0, keys.MAX_OFFSET)):
            found.append(int.from_bytes(cursor.key()[:2], "big"))
        return found

    def event_of(self, key: bytes, offset: int) -> Event:
        """The event of an object that an index or another event points at."""
        return Event(offset, *self.fields_of(key, offset))

    def fields_of(self, key: bytes, offset: int) -> Fields:
        """The same as bare fields, for who needs a few of them of many events."""
        value = self._txn.get(keys.pack_offset(offset), None, self._environment.events)
        if value is None:
            raise Damaged(f"event {offset} of {printable(key)} is missing")
        fields = event_fields(offset, value)
        if keys.find_object(fields[TYPE_ID], fields[NAMESPACE], fields[NAME]) != key:
            raise Damaged(f"event {offset} is not the one that {printable(key)} had")
        return fields
