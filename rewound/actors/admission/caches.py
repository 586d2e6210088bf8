"""Data of stored objects that plugins cache, so that a write needs no read; the feed updates it.

`Namespaces`: which exist and which are terminating. `NamespaceAnnotations`: what a plugin reads from them.
`CachedObjects`: all objects of a cluster-scoped type with few objects, such as storage classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from rewound.actors.errors import NotFound, Resource
from rewound.actors.messages import Object
from rewound.actors.store.document import decode, is_being_deleted
from rewound.actors.store.feed import Feed
from rewound.actors.store.misfits import each_usable
from rewound.journal.log import Journal
from rewound.journal.records import Event


class Namespaces:
    """Caches which namespaces exist and which are terminating, because every create needs it.

    The feed keeps it up to date; an unknown name is looked up in the journal once. Admission reads it without waiting,
    so a create may be admitted while its namespace gets a deletionTimestamp: the namespace controller deletes that
    object too, because it continues until the namespace is empty.
    """

    def __init__(self, journal: Journal, feed: Feed) -> None:
        self._journal = journal
        self._type_id = journal.type_id("namespaces")
        self._terminating: dict[str, bool] = {}
        self._active: set[str] = set()  # known not to be terminating
        self.is_known_active = self._active.__contains__
        feed.follow(self._committed, frozenset({self._type_id}))

    def terminating(self, name: str) -> bool | None:
        """Whether the namespace is terminating; None if it does not exist."""
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


T = TypeVar("T")
NAMESPACES = Resource("", "namespaces")


class NamespaceAnnotations(Generic[T]):
    """Caches what a plugin reads from the annotations of namespaces: parsed once, and again after a change."""

    def __init__(self, journal: Journal, feed: Feed, parse: Callable[[Mapping[str, str]], T]) -> None:
        self._journal, self._feed = journal, feed
        self._parse = parse
        self._type_id = journal.type_id("namespaces")
        self._parsed: dict[str, T] = {}  # of namespaces in which objects were written
        self._follows = False

    def of(self, name: str) -> T:
        """Raises NotFound if there is no such namespace, or what `parse` raises."""
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


class CachedObjects(Generic[T]):
    """Caches what plugins need of all objects of a cluster-scoped type: parsed once, and updated by the feed.

    For types with few objects that many writes need, such as storage classes.
    """

    def __init__(
        self, resource: Resource, journal: Journal, feed: Feed, parse: Callable[[Object], T | None]
    ) -> None:
        """`parse` returns what is cached of an object; None: nothing."""
        self._journal, self._feed = journal, feed
        self._parse = parse
        self._type_id, self._what = journal.type_id(str(resource)), resource.plural
        self._parsed: dict[str, T] | None = None  # until first use

    def all(self) -> Mapping[str, T]:
        """By name, without objects of which nothing is cached."""
        if self._parsed is None:
            self._parsed = self._read()
            self._feed.follow(self._committed, frozenset({self._type_id}))
        return self._parsed

    def _read(self) -> dict[str, T]:
        """The journal may be ahead of the feed, which then passes events that are already in the result."""
        parsed: dict[str, T] = {}
        with self._journal.read() as view:
            rows = view.rows(self._type_id, None)
            each_usable(self._what, rows, lambda _, name, body: self._keep(parsed, name, decode(body)))
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
