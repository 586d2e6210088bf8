"""The reads of a view at an older offset."""

from __future__ import annotations

from collections.abc import Iterator

from journal import history, keys, records, state
from journal.errors import Compacted, Damaged, FutureVersion
from journal.records import Row
from journal.replay.rows import Reference, row_of
from journal.replay.versions import Version, Versions
from journal.state import Entry, ScopedReads, Stop
from journal.transaction import ReadTransaction


class PastView(ScopedReads):
    """The reads of a view at an older offset. Ends with the transaction it was made from."""

    __slots__ = ("_prepared", "_reading", "_versions", "head")

    def __init__(self, reading: ReadTransaction, versions: Versions, offset: int) -> None:
        if offset > reading.head:
            raise FutureVersion(offset, reading.head)
        if offset < reading.floor:
            raise Compacted(offset, reading.floor)
        self._reading, self._versions, self.head = reading, versions, offset
        self._prepared: dict[int, Version] = {}  # by type

    def prepare(self, type_id: int, stop: Stop) -> bool:
        """Rebuild the state of a type for `count`, `page` and `rows`, until `stop`; whether it is complete.

        Without it they rebuild it themselves, however long it takes. Call it in a new transaction until it is True.
        """
        version = self._versions.step(self._reading, type_id, self.head, stop)
        if version is not None:
            self._prepared[type_id] = version
        return version is not None

    def get(self, type_id: int, namespace: str, name: str) -> Row | None:
        key = keys.find_object(type_id, namespace, name)
        if key is None:
            return None
        reading = self._reading
        later = history.first_event_after(reading, key, self.head)
        if not later:
            return self._checked(key, state.get_checked(reading.txn, reading.databases, key))
        previous = reading.fields_of(key, later)[records.PREVIOUS]
        return self._checked(key, Row(*row_of(reading, key, previous)[1:]) if previous else None)

    def _checked(self, key: bytes, row: Row | None) -> Row | None:
        """Raise Damaged for a row that is newer than this view: then the index has lost an event."""
        if row is not None and row.offset > self.head:
            raise Damaged(f"the index by object has lost an event of {records.printable(key)}")
        return row

    def count(self, type_id: int, namespace: str | None = None) -> int:
        scope = keys.scope(type_id, namespace)
        return 0 if scope is None else self._version(type_id).count(self._reading, scope)

    def _entries_of(
        self, type_id: int, scope: bytes, start: bytes, wanted: int | None
    ) -> Iterator[list[Entry]]:
        return self._version(type_id).entries(self._reading, scope, start, wanted)

    def references(self, type_id: int, start: bytes, count: int) -> list[Reference]:
        """(key, offset) of a type's rows from the key `start` on: at least `count`, or all that are left."""
        return self._version(type_id).references(self._reading, start, count)

    def _version(self, type_id: int) -> Version:
        if type_id in self._prepared:
            return self._prepared[type_id]
        return self._versions.version(self._reading, type_id, self.head)
