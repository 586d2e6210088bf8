"""Watches that lag behind: by a `Hold`, which a test releases event by event, or by a rule (`lagWatch`).

Nothing is buffered for them. A watch that lags has a limit, a version after which it is sent no event
(`Watch.limit_to`), and reads from the journal when the limit moves, as a watch of a slow client does. If a watch has
several limits, the lowest applies.

A hold has one version for all its watches: they all see the same older state. `release(n)` moves it past the next n
changes that are events of at least one of them, or that are missing in a list of that state whose client has not
watched yet. A lag in seconds has one version for all watches with the same lag; a lag in events has one for each watch.
One task moves all lags of rules, in the order of commits and then in the order in which the watches began, so the order
does not depend on which task runs first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, Protocol

import trio

from rewound.actors.store.feed import Feed
from rewound.gateway.watch.changes import Changes, TooOld
from rewound.gateway.watch.hub import Hub
from rewound.gateway.watch.interest import Interest
from rewound.gateway.watch.selection import Selection
from rewound.gateway.watch.watch import Watch
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.testing.faults.older_versions import OlderVersions
from rewound.testing.faults.rules import FaultRequest, Faults, LagWatch, Match

# Ended watches and lists whose versions a hold remembers: bounded, because clients choose their names.
MAX_ENDED: Final = 1000
MOST_PENDING: Final = 1000  # events that are counted for a report
_TOGETHER: Final = 1000  # microseconds: clocks of deadlines and of events differ by less
_AT_ONCE: Final = 500  # commits that a lag passes before other tasks run
_FROM_THE_JOURNAL: Final = 1 << 62  # the head of `Changes` that keeps no events in memory


class Limit(Protocol):
    """A limit of a watch: the version up to which it is sent events."""

    @property
    def version(self) -> int: ...


@dataclass(slots=True, eq=False)
class Hold:
    name: str
    match: Match
    document: Any  # the match as it was given
    version: int  # the version that its watches see

    def has(self, request: FaultRequest) -> bool:
        return self.match.has(request._replace(verb="watch"))


@dataclass(slots=True, eq=False)
class TimeLag:
    microseconds: int
    version: int


@dataclass(slots=True, eq=False)
class EventLag:
    count: int
    version: int
    scanned: int  # the versions of the last events up to here are in `waiting`
    waiting: deque[int] = field(default_factory=deque)

    def add(self, offset: int) -> None:
        self.waiting.append(offset)
        if len(self.waiting) > self.count:
            self.version = self.waiting.popleft()


class Scope(Protocol):
    """The objects that a watch or a list is about."""

    @property
    def key(self) -> tuple[Any, ...]: ...
    @property
    def type_name(self) -> str: ...
    @property
    def selection(self) -> Selection: ...


@dataclass(frozen=True, slots=True)
class ListScope:
    """The objects of a list."""

    key: tuple[Any, ...]
    type_name: str
    selection: Selection


@dataclass(frozen=True, slots=True)
class Seen:
    """The version that a client has reached, by a list or a watch that has ended, and will probably watch from."""

    request: FaultRequest
    interest: Scope
    reached: int


class FollowedWatch:
    """A watch, its client, and its limits."""

    def __init__(self, held: HeldWatches, request: FaultRequest, watch: Watch) -> None:
        self._held = held
        self.request, self.watch = request, watch
        self.lag: LagWatch | None = None
        self.limits: list[Limit] = []
        self._limit: int | None = None

    @property
    def interest(self) -> Interest:
        return self.watch.interest

    @property
    def reached(self) -> int | None:
        return self.watch.reached

    def started(self) -> None:
        self._held.add(self)

    def left(self) -> None:
        self._held.remove(self)

    def apply(self) -> None:
        """Send the events that all limits allow."""
        limit = min((one.version for one in self.limits), default=None)
        if limit != self._limit:
            self._limit = limit
            self.watch.limit_to(limit)


class HeldWatches:
    def __init__(
        self, hub: Hub, journal: Journal, feed: Feed, older: OlderVersions, now: Callable[[], int]
    ) -> None:
        """`now()` in microseconds."""
        self._hub, self._journal, self._older, self._now = hub, journal, older, now
        self._open: dict[FollowedWatch, None] = {}
        self._ended: dict[tuple[Any, ...], Seen] = {}
        self._listed: dict[tuple[Any, ...], Seen] = {}  # lists of clients that have not watched since
        self._holds: dict[str, Hold] = {}
        self._names = 0
        self._lags: list[EventLag | TimeLag] = []  # the lags of rules that watches have
        self._commits = trio.Event()
        self._releasing = trio.Lock()
        self._runs = False
        feed.follow(self._committed)

    # Watches start and end.

    def follow(self, request: FaultRequest, watch: Watch) -> None:
        """Follow a watch that is about to start."""
        watch.follow(FollowedWatch(self, request, watch))

    def lag(self, watch: Watch, fault: LagWatch) -> None:
        """Make a watch lag by a rule, before it starts."""
        followed = watch.follower
        assert isinstance(followed, FollowedWatch)
        followed.lag = fault

    def add(self, followed: FollowedWatch) -> None:
        self._ended.pop(_key(followed.request, followed.interest), None)
        self._forget_lists(followed.request, followed.interest)
        self._open[followed] = None
        followed.limits = [one for one in self._holds.values() if one.has(followed.request)]
        if followed.lag is not None:
            followed.limits.append(self._limit_by(followed, followed.lag))
        followed.apply()

    def remove(self, followed: FollowedWatch) -> None:
        self._open.pop(followed, None)
        reached = followed.reached
        if reached is not None and any(isinstance(one, Hold) for one in followed.limits):
            _remember(self._ended, Seen(followed.request, followed.interest, reached))
        self._forget_lags()

    def listed(self, request: FaultRequest, scope: ListScope, version: int) -> None:
        """Note that a client got a list of this version, which may lack changes that a hold keeps back."""
        self._forget_lists(request, scope)
        _remember(self._listed, Seen(request, scope, version))

    def _forget_lists(self, request: FaultRequest, scope: Scope) -> None:
        """Forget the lists of a client that watches now."""
        where = (scope.type_name, scope.selection.namespace)
        for key, one in list(self._listed.items()):
            its = (one.interest.type_name, one.interest.selection.namespace)
            if its == where and _client(one.request) == _client(request):
                del self._listed[key]

    # Holds.

    @property
    def holds(self) -> Sequence[Hold]:
        return list(self._holds.values())

    def find(self, name: str) -> Hold | None:
        return self._holds.get(name)

    def hold(self, match: Match, document: Any, name: str = "") -> Hold:
        """Keep the watches of a match, open ones and later ones, at the current state."""
        while not name or name in self._holds:
            self._names += 1
            name = f"hold-{self._names}"
        hold = self._holds[name] = Hold(name, match, document, self._hub.newest())
        for followed in self._open:
            if hold.has(followed.request):
                followed.limits.append(hold)
                followed.apply()
        return hold

    async def release(self, hold: Hold, count: int) -> int:
        """Let the next changes of the hold's watches through; returns how many there were."""
        async with self._releasing:
            versions = await self.pending(hold, count)
            for version in versions:
                hold.version = version
                self._apply(hold)
            return len(versions)

    def end(self, hold: Hold) -> None:
        """End a hold: its watches get everything again."""
        if self._holds.pop(hold.name, None) is None:
            return
        for followed in self._open:
            if hold in followed.limits:
                followed.limits.remove(hold)
                followed.apply()
        if not self._holds:
            self._ended.clear()
            self._listed.clear()

    async def pending(self, hold: Hold, count: int = MOST_PENDING) -> list[int]:
        """The versions of the next changes, at most `count`, that watches and lists of a hold do not have."""
        wanted = {
            (interest.key, max(reached, hold.version)): interest for interest, reached in self._waiting(hold)
        }
        found: set[int] = set()
        for (_, after), interest in wanted.items():
            found.update(await self._events_after(interest, after, count))
        return sorted(found)[:count]

    def watches_of(self, hold: Hold) -> Iterator[tuple[FaultRequest, int | None, bool]]:
        """The watches of a hold: the client, the version that it has reached, and whether the watch is open."""
        for followed in self._open:
            if hold in followed.limits:
                yield followed.request, followed.reached, True
        for ended in self._ended.values():
            if hold.has(ended.request):
                yield ended.request, ended.reached, False

    def lists_of(self, hold: Hold) -> Iterator[tuple[FaultRequest, int]]:
        """The clients of a hold that have listed and not watched since, and the versions of the lists."""
        for one in self._listed.values():
            if hold.has(one.request):
                yield one.request, one.reached

    def list_version(self, request: FaultRequest, type_name: str) -> tuple[str, int] | None:
        """The hold of a client that lists, and the oldest version that it may get: no client goes back."""
        holds = [one for one in self._holds.values() if one.has(request)]
        if not holds:
            return None
        oldest = min(holds, key=lambda one: one.version)
        version = oldest.version
        known: list[FollowedWatch | Seen] = [*self._open, *self._ended.values()]
        for one in known:
            if one.interest.type_name == type_name and _client(one.request) == _client(request):
                version = max(version, one.reached or 0)
        return oldest.name, version

    def _waiting(self, hold: Hold) -> Iterator[tuple[Scope, int]]:
        for followed in self._open:
            if hold in followed.limits:
                yield followed.interest, followed.reached or 0
        for seen in (*self._ended.values(), *self._listed.values()):
            if hold.has(seen.request):
                yield seen.interest, seen.reached

    def _apply(self, limit: Limit) -> None:
        for followed in list(self._open):
            if limit in followed.limits:
                followed.apply()

    async def _events_after(self, interest: Scope, after: int, count: int) -> list[int]:
        """The versions of the next events of an interest; reads in steps."""
        found: list[int] = []
        changes = Changes(self._journal, self._journal.type_id(interest.type_name), _FROM_THE_JOURNAL)
        while after < (newest := self._hub.newest()) and len(found) < count:
            try:
                events, after = changes.after(after, newest)
                found += [one.offset for one in events if interest.selection.select(one, changes) is not None]
            except TooOld:
                break  # the watch finds that out when it is released
            await trio.lowlevel.checkpoint()
        return found[:count]

    # Lags of rules.

    def set_rules(self, faults: Faults | None) -> None:
        """Replace the rules: their lags apply to open watches too, and those of earlier rules end."""
        for followed in self._open:
            followed.lag = None
            followed.limits = [one for one in followed.limits if isinstance(one, Hold)]
        self._lags.clear()
        for followed in list(self._open):
            decision = None if faults is None else faults.decide_lag(followed.request)
            if decision is not None:
                assert isinstance(decision.rule.fault, LagWatch)
                followed.lag = decision.rule.fault
                followed.limits.append(self._limit_by(followed, followed.lag))
            followed.apply()

    def _limit_by(self, followed: FollowedWatch, fault: LagWatch) -> Limit:
        if not self._runs:
            self._runs = True
            self._hub.nursery.start_soon(self._run)
        self._commits.set()
        if fault.events:
            start = followed.reached
            if start is None:
                interest = followed.interest
                start = self._older.start_of_repeat(interest.type_name, self._hub.newest(), fault.events)
            lag: EventLag | TimeLag = EventLag(fault.events, start, start)
        else:
            lag = self._time_lag(round(fault.seconds * 1_000_000))
        if lag not in self._lags:
            self._lags.append(lag)
        return lag

    def _time_lag(self, microseconds: int) -> TimeLag:
        for one in self._lags:
            if isinstance(one, TimeLag) and one.microseconds == microseconds:
                return one
        with self._journal.read() as view:
            return TimeLag(microseconds, view.offset_at(self._now() - microseconds))

    def _forget_lags(self) -> None:
        if self._lags:
            used = {id(limit) for one in self._open for limit in one.limits}
            self._lags = [one for one in self._lags if id(one) in used]

    def _committed(self, _: Sequence[Event]) -> None:
        if self._lags:
            self._commits.set()

    async def _run(self) -> None:
        while True:
            self._commits = trio.Event()
            for followed in list(self._open):
                for limit in followed.limits:
                    if isinstance(limit, EventLag):
                        await self._pass_events(followed, limit)
            seconds = min(
                [await self._pass_due(one) for one in self._lags if isinstance(one, TimeLag)] or [inf]
            )
            with trio.move_on_after(seconds):
                await self._commits.wait()

    async def _pass_events(self, followed: FollowedWatch, lag: EventLag) -> None:
        newest, interest = self._hub.newest(), followed.interest
        for offset in await self._events_after(interest, lag.scanned, newest):
            lag.add(offset)
            lag.scanned = offset
            followed.apply()
        lag.scanned = max(lag.scanned, newest)

    async def _pass_due(self, lag: TimeLag) -> float:
        """Move a lag past the commits that are due, one by one; returns the seconds until the next is due."""
        while True:
            versions, seconds = self._due(lag)
            for version in versions:
                lag.version = version
                self._apply(lag)
            if seconds > 0:
                return seconds
            await trio.lowlevel.checkpoint()

    def _due(self, lag: TimeLag) -> tuple[list[int], float]:
        now, found = self._now(), list[int]()
        with self._journal.read() as view:
            for event in view.all_events(lag.version, contents=False):
                due = event.time + lag.microseconds
                if due > now + _TOGETHER:
                    return found, (due - now) / 1_000_000
                found.append(event.offset)
                if len(found) == _AT_ONCE:
                    return found, 0.0
        return found, inf


def _client(request: FaultRequest) -> tuple[str, str]:
    return request.user, request.user_agent


def _key(request: FaultRequest, interest: Scope) -> tuple[Any, ...]:
    return (*_client(request), interest.key)


def _remember(known: dict[tuple[Any, ...], Seen], seen: Seen) -> None:
    if len(known) >= MAX_ENDED:
        del known[next(iter(known))]
    known[_key(seen.request, seen.interest)] = seen
