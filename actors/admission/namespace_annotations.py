"""Caches what a plugin reads from the annotations of namespaces: parsed once, and again when a namespace changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from actors.errors import NotFound, Resource
from actors.store.document import decode
from actors.store.feed import Feed
from journal.log import Journal
from journal.records import Event

T = TypeVar("T")
NAMESPACES = Resource("", "namespaces")


class NamespaceAnnotations(Generic[T]):
    def __init__(self, journal: Journal, feed: Feed, parse: Callable[[Mapping[str, str]], T]) -> None:
        self._journal, self._feed = journal, feed
        self._parse = parse
        self._type_id = journal.type_id("namespaces")
        self._parsed: dict[str, T] = {}  # of namespaces in which somebody wrote
        self._follows = False

    def of(self, name: str) -> T:
        """NotFound if there is no such namespace; otherwise raises what `parse` raises."""
        if not self._follows:
            self._follows = True
            self._feed.follow(self._committed, frozenset({self._type_id}))
        parsed = self._parsed.get(name)
        if parsed is None:
            with self._journal.read() as view:
                row = view.get(self._type_id, "", name)
            if row is None:
                raise NotFound(NAMESPACES, name)
            annotations = decode(row.body)["metadata"].get("annotations", {})
            parsed = self._parsed[name] = self._parse(annotations)
        return parsed

    def _committed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id:
                self._parsed.pop(event.name, None)
