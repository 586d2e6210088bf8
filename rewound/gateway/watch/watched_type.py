"""One watched resource type: its changes, its counters, and its groups, indexed by what they select.

A commit looks up the groups of its namespace and name, and among them those whose selector may match the object
before or after the change: ten thousand watchers with other selectors cost nothing when an object changes.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from rewound.actors.runtime.turns import Turn
from rewound.actors.selectors.facts import LateField, completed
from rewound.actors.selectors.index import Found, SelectorIndex
from rewound.gateway.watch.changes import Changes
from rewound.gateway.watch.selection import Selection
from rewound.journal.records import Event

# Bytes of an event, as in v1.25.
EVENT_SIZES: Final = tuple(1024.0 * 2**power for power in range(8))
_SMALL: Final = EVENT_SIZES[0]


class SentEvents:
    """Counts the events of one kind that watchers received, by size; all interests in the kind share it."""

    __slots__ = ("_larger", "bytes", "count")

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self._larger = [0] * len(EVENT_SIZES)  # sizes of events above the first bound

    def add(self, frames: Sequence[tuple[int, bytes]], size: int, watchers: int = 1) -> None:
        """Count frames of this total size that so many watchers received."""
        self.count += len(frames) * watchers
        self.bytes += size * watchers
        if size > _SMALL:
            for _, data in frames:
                if len(data) > _SMALL:
                    self._larger[bisect_left(EVENT_SIZES, len(data)) - 1] += watchers

    def distribution(self) -> tuple[float, tuple[int, ...]]:
        return self.bytes, (self.count - sum(self._larger), *self._larger)


class WatchCounters(msgspec.Struct):
    tried: int = 0  # comparisons of an event with the selector of a group
    woken: int = 0  # groups affected by commits
    frames: int = 0  # events filtered, encoded and framed
    deliveries: int = 0  # events accepted completely by a watcher's connection
    lagged: int = 0  # how often a watcher fell behind
    expired: int = 0  # watchers whose cursor left the watch history


class WatchStatistics(msgspec.Struct, frozen=True):
    groups: int
    sweeping: int
    lagging: int
    tried: int
    woken: int
    frames: int
    deliveries: int
    lagged: int
    expired: int


logger = logging.getLogger(__name__)

T = TypeVar("T")
Scope = tuple[str | None, str | None]  # namespace and name; None: any

# Selectors tried between two reads of the clock.
TRIES = 64


class _Followers(Generic[T]):
    """The followers of one namespace and name."""

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
        self._late: dict[str, LateField] = {}  # of all selectors so far
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
            self._late.update((late.name, late) for late in selection.criteria.late)

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
        """Add the followers that an event affects; those that `turn` leaves no time to try count as affected."""
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
        facts, late = event.facts, tuple(self._late.values())
        try:
            before = self.changes.facts_before(event, late)
        except Exception:
            logger.exception("the event before %d could not be read", event.offset)
            # Each sweep fails in the same way, and ends its own watches.
            affected.update(dict.fromkeys(selecting))
            return
        if late:
            facts = completed(facts, event.body, late)
        for found in selecting.find(facts, before):
            self.counters.tried += len(found)
            _try(found, facts, before, affected, turn)


def _try(found: Found[T], facts: bytes, before: bytes | None, affected: dict[T, None], turn: Turn) -> None:
    left = TRIES
    for follower, match in found.items():
        # The facts are complete: nothing is left to read from the object.
        if match is None or match(facts, b"") or (before is not None and match(before, b"")):
            affected[follower] = None
        left -= 1
        if not left:
            if turn.over():
                affected.update(dict.fromkeys(found))
                return
            left = TRIES
