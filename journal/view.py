"""One consistent reading of the journal: every question answered from the same LMDB snapshot.

`Journal.read` hands it out as a context manager. It is short-lived and synchronous: an open view keeps old
pages from being reused and the map from growing. Everything it answers is a copy that outlives it.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from journal import keys, state
from journal.errors import Damaged
from journal.records import Event, Row, decode_event
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
        return state.page(self.entries(type_id, namespace, after, limit), limit, match)

    def rows(
        self, type_id: int, namespace: str | None = None, after: tuple[str, str] | None = None
    ) -> Iterator[tuple[str, str, Row]]:
        for entries in self.entries(type_id, namespace, after, None):
            for key, offset, facts, body in entries:
                yield *keys.names_of(key), Row(offset, facts, body)

    def entries(
        self, type_id: int, namespace: str | None, after: tuple[str, str] | None, wanted: int | None
    ) -> Iterator[list[state.Entry]]:
        """Rows of a scope in key order, in chunks; `wanted` sizes the first one."""
        scope = keys.scope(type_id, namespace)
        if scope is None:
            return iter(())
        if after is None:
            span = state.Span(scope, scope, state.count(self._txn, self._environment.counts, scope))
        else:
            span = state.Span(scope, max(scope, keys.after(type_id, after)), None)
        cursor = self._txn.cursor(self._environment.state)
        return state.chunks(cursor, self.journal.checked, span, wanted)

    # The log.

    def event(self, offset: int) -> Event | None:
        if not 0 < offset <= keys.MAX_OFFSET:
            return None
        value = self._txn.get(keys.pack_offset(offset), db=self._environment.events)
        return None if value is None else decode_event(offset, value)

    def events(self, after: int, *, type_id: int | None = None) -> Iterator[Event]:
        """Events behind an offset, ascending; of one type by its index."""
        if type_id is None:
            return self._all_events(after)
        return self._events_of(type_id, after)

    def _all_events(self, after: int) -> Iterator[Event]:
        cursor = self._txn.cursor(self._environment.events)
        if cursor.set_range(keys.pack_offset(after + 1)):
            for key, value in cursor.iternext():
                yield decode_event(keys.offset_of(key), value)

    def _events_of(self, type_id: int, after: int) -> Iterator[Event]:
        for offset in self.offsets_of(type_id, after):
            yield self.required_event(offset)

    def offsets_of(self, type_id: int, after: int) -> Iterator[int]:
        """Offsets of one type's events behind an offset, ascending."""
        cursor = self._txn.cursor(self._environment.by_type)
        prefix = keys.pack_type(type_id)
        if cursor.set_range(keys.by_type(type_id, after + 1)):
            for key in cursor.iternext(values=False):
                if key[:2] != prefix:
                    return
                yield keys.offset_of(key)

    def required_event(self, offset: int) -> Event:
        """An event that an index or another event points at."""
        event = self.event(offset)
        if event is None:
            raise Damaged(f"event {offset} is missing")
        return event
