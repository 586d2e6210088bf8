"""One watched resource type: its changes, its counters, and its groups by the namespace and name they select.

A commit looks up the groups of its namespace and name: ten thousand watchers of one object each cost nothing when
another object changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from gateway.watch.changes import Changes
from gateway.watch.selection import Selection
from gateway.watch.statistics import WatchCounters
from journal.records import Event

T = TypeVar("T")
Scope = tuple[str | None, str | None]  # namespace and name; None: any


class WatchedType(Generic[T]):
    """`T` is the type of its followers: the hub's sweepers."""

    def __init__(self, changes: Changes, counters: WatchCounters) -> None:
        self.changes = changes
        self.counters = counters
        self._followers: dict[Scope, dict[T, None]] = {}

    def __iter__(self) -> Iterator[T]:
        for followers in self._followers.values():
            yield from followers

    def __bool__(self) -> bool:
        return bool(self._followers)

    def follow(self, selection: Selection, follower: T) -> None:
        self._followers.setdefault((selection.namespace, selection.name), {})[follower] = None

    def unfollow(self, selection: Selection, follower: T) -> None:
        scope = selection.namespace, selection.name
        followers = self._followers[scope]
        del followers[follower]
        if not followers:
            del self._followers[scope]

    def followers_of(self, event: Event) -> Iterator[dict[T, None]]:
        """Yield the followers whose namespace and name select an event; their labels and fields may not."""
        namespace, name = event.namespace, event.name
        for scope in ((None, None), (namespace, None), (namespace, name), (None, name)):
            followers = self._followers.get(scope)
            if followers is not None:
                yield followers
