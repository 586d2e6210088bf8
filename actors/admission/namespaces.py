"""Caches which namespaces exist and which are terminating, because every create needs it.

The feed keeps it up to date; an unknown name is looked up in the journal once. Admission reads it without waiting, so a
create may be admitted while its namespace gets a deletionTimestamp: the namespace controller deletes that object too,
because it continues until the namespace is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.store.document import is_being_deleted
from actors.store.feed import Feed
from journal.log import Journal
from journal.records import Event


class Namespaces:
    def __init__(self, journal: Journal, feed: Feed) -> None:
        self._journal = journal
        self._type_id = journal.type_id("namespaces")
        self._terminating: dict[str, bool] = {}
        self._active: set[str] = set()  # those that are known not to be terminating
        self.is_known_active = self._active.__contains__
        feed.follow(self._committed, frozenset({self._type_id}))

    def terminating(self, name: str) -> bool | None:
        """None if there is no such namespace."""
        known = self._terminating.get(name)
        return known if known is not None else self._look_up(name)

    def _look_up(self, name: str) -> bool | None:
        with self._journal.read() as view:
            row = view.get(self._type_id, "", name)
        if row is None:
            return None
        return self._remember(name, row.body)

    def _committed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id != self._type_id:
                continue
            if event.removed:
                self._terminating.pop(event.name, None)
                self._active.discard(event.name)
            else:
                self._remember(event.name, event.body)

    def _remember(self, name: str, body: bytes) -> bool:
        terminating = self._terminating[name] = is_being_deleted(body)
        if terminating:
            self._active.discard(name)
        else:
            self._active.add(name)
        return terminating
