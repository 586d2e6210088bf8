"""One type that somebody watches: its changes, what was counted, and its groups by how narrow their interest is.

A commit is looked up, not handed around: ten thousand watchers of one object each cost nothing when another object
changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from gateway.watch.changes import Changes
from gateway.watch.selection import Selection
from gateway.watch.tally import Tally
from journal.records import Event

T = TypeVar("T")
Narrow = tuple[str | None, str | None]  # namespace and name; None: any


class Topic(Generic[T]):
    """`T` is what follows the type: the hub's sweepers."""

    def __init__(self, changes: Changes, tally: Tally) -> None:
        self.changes = changes
        self.tally = tally
        self._followers: dict[Narrow, dict[T, None]] = {}

    def __iter__(self) -> Iterator[T]:
        for followers in self._followers.values():
            yield from followers

    def __bool__(self) -> bool:
        return bool(self._followers)

    def follow(self, selection: Selection, follower: T) -> None:
        self._followers.setdefault((selection.namespace, selection.name), {})[follower] = None

    def unfollow(self, selection: Selection, follower: T) -> None:
        narrow = selection.namespace, selection.name
        followers = self._followers[narrow]
        del followers[follower]
        if not followers:
            del self._followers[narrow]

    def concerned(self, event: Event) -> Iterator[dict[T, None]]:
        """Those who may show an event, by their namespace and name alone."""
        namespace, name = event.namespace, event.name
        for narrow in ((None, None), (namespace, None), (namespace, name), (None, name)):
            followers = self._followers.get(narrow)
            if followers is not None:
                yield followers
