"""Caches what plugins need of all objects of a cluster-scoped type: parsed once, and kept up to date by the feed.

For types with few objects that many writes need, such as storage classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from actors.errors import Resource
from actors.messages import Object
from actors.store.document import decode
from actors.store.feed import Feed
from journal.log import Journal
from journal.records import Event

T = TypeVar("T")


class CachedObjects(Generic[T]):
    def __init__(
        self, resource: Resource, journal: Journal, feed: Feed, parse: Callable[[Object], T | None]
    ) -> None:
        """`parse` returns what is kept of an object; None: nothing."""
        self._journal, self._feed = journal, feed
        self._parse = parse
        self._type_id = journal.type_id(str(resource))
        self._parsed: dict[str, T] | None = None  # until somebody needs it

    def all(self) -> Mapping[str, T]:
        """By name, of those objects of which something is kept."""
        if self._parsed is None:
            self._parsed = self._read()
            self._feed.follow(self._committed, frozenset({self._type_id}))
        return self._parsed

    def _read(self) -> dict[str, T]:
        """The journal may be ahead of the feed, which then passes events that are in the result already."""
        parsed: dict[str, T] = {}
        with self._journal.read() as view:
            for _, name, row in view.rows(self._type_id, None):
                self._keep(parsed, name, decode(row.body))
        return parsed

    def _keep(self, parsed: dict[str, T], name: str, stored: Object) -> None:
        kept = self._parse(stored)
        if kept is None:
            parsed.pop(name, None)
        else:
            parsed[name] = kept

    def _committed(self, events: Sequence[Event]) -> None:
        assert self._parsed is not None
        for event in events:
            if event.type_id == self._type_id and event.removed:
                self._parsed.pop(event.name, None)
            elif event.type_id == self._type_id:
                self._keep(self._parsed, event.name, decode(event.body))
