"""One watched resource type: its changes, its counters, and its groups by what they select.

A commit looks up the groups of its namespace and name, and among them those whose selector may match the object before
or after the change: ten thousand watchers with other selectors cost nothing when an object changes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Generic, TypeVar

from actors.selectors.index import Found, SelectorIndex
from actors.turns import Turn
from gateway.watch.changes import Changes
from gateway.watch.selection import Selection
from gateway.watch.statistics import WatchCounters
from journal.records import Event

logger = logging.getLogger(__name__)

T = TypeVar("T")
Scope = tuple[str | None, str | None]  # namespace and name; None: any

# Selectors tried between two looks at the clock.
TRIES = 64


class _Followers(Generic[T]):
    """Those of one namespace and name."""

    __slots__ = ("selecting", "unconditional")

    def __init__(self) -> None:
        self.unconditional: dict[T, None] = {}
        self.selecting: SelectorIndex[T] = SelectorIndex()

    def __bool__(self) -> bool:
        return bool(self.unconditional or self.selecting)

    def __iter__(self) -> Iterator[T]:
        yield from self.unconditional
        yield from self.selecting


class WatchedType(Generic[T]):
    """`T` is the type of its followers: the hub's sweepers."""

    def __init__(self, changes: Changes, counters: WatchCounters) -> None:
        self.changes = changes
        self.counters = counters
        self._followers: dict[Scope, _Followers[T]] = {}
        self.followers = 0

    def __iter__(self) -> Iterator[T]:
        for followers in self._followers.values():
            yield from followers

    def __bool__(self) -> bool:
        return bool(self._followers)

    def follow(self, selection: Selection, follower: T) -> None:
        scope = selection.namespace, selection.name
        self.followers += 1
        followers = self._followers.get(scope)
        if followers is None:
            followers = self._followers[scope] = _Followers()
        if selection.match is None:
            followers.unconditional[follower] = None
        else:
            followers.selecting.add(follower, selection.criteria, selection.match)

    def unfollow(self, selection: Selection, follower: T) -> None:
        scope = selection.namespace, selection.name
        self.followers -= 1
        followers = self._followers[scope]
        if selection.match is None:
            del followers.unconditional[follower]
        else:
            followers.selecting.remove(follower)
        if not followers:
            del self._followers[scope]

    def collect(self, event: Event, affected: dict[T, None], turn: Turn) -> None:
        """Add the followers that an event affects; those not tried in `turn` count as affected."""
        namespace, name = event.namespace, event.name
        for scope in ((None, None), (namespace, None), (namespace, name), (None, name)):
            followers = self._followers.get(scope)
            if followers is None:
                continue
            affected.update(followers.unconditional)
            if followers.selecting:
                self._collect_selecting(event, followers.selecting, affected, turn)

    def _collect_selecting(
        self, event: Event, selecting: SelectorIndex[T], affected: dict[T, None], turn: Turn
    ) -> None:
        facts = event.facts
        try:
            before = self.changes.facts_before(event)
        except Exception:
            logger.exception("the event before %d could not be read", event.offset)
            affected.update(
                dict.fromkeys(selecting)
            )  # each sweep fails in the same way, and ends its own watches
            return
        for found in selecting.find(facts, before):
            self.counters.tried += len(found)
            _try(found, facts, before, affected, turn)


def _try(found: Found[T], facts: bytes, before: bytes | None, affected: dict[T, None], turn: Turn) -> None:
    left = TRIES
    for follower, match in found.items():
        if match is None or match(facts) or (before is not None and match(before)):
            affected[follower] = None
        left -= 1
        if not left:
            if turn.over():
                affected.update(dict.fromkeys(found))
                return
            left = TRIES
