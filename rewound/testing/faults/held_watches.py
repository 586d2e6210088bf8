"""Watches that lag behind: by a `Hold`, which a test releases event by event, or by a rule (`lagWatch`).

Nothing is buffered for them. A watch that lags has a limit, a version after which it is sent no event
(`Watch.limit_to`), and reads from the journal when the limit moves, as a watch of a slow client does. Several limits of
one watch all hold: it is sent an event when the last of them has passed it.

A hold has one version for all its watches: they see one older world, and `release(n)` moves it over the next n changes
that are events of at least one of them, or that a list of that world lacks whose client has not watched yet. The lag
in seconds has one version for all watches with the same lag; the lag in events has one for each watch. One task moves
all lags of rules, in the order of commits and then in the order in which the watches began, so that the order does not
depend on which task runs first.
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

# Watches that have ended, and lists, whose versions a hold remembers: clients choose their names.
MAX_ENDED: Final = 1000
MOST_PENDING: Final = 1000  # events that are counted for a report
_TOGETHER: Final = 1000  # microseconds: clocks of deadlines and of events differ by less
_AT_ONCE: Final = 500  # commits that a lag passes before other tasks run
_FROM_THE_JOURNAL: Final = 1 << 62  # the head of `Changes` that keeps no events in memory


class Pace(Protocol):
    """How far a watch may get."""

    @property
    def version(self) -> int: ...


@dataclass(slots=True, eq=False)
class Hold:
    name: str
    match: Match
    document: Any  # the match as it was given
    version: int  # the world that its watches see

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
    """Whose changes a watch or a list is about."""

    @property
    def key(self) -> tuple[Any, ...]: ...
    @property
    def type_name(self) -> str: ...
    @property
    def selection(self) -> Selection: ...


@dataclass(frozen=True, slots=True)
class ListScope:
    """Of a list."""

    key: tuple[Any, ...]
    type_name: str
    selection: Selection


@dataclass(frozen=True, slots=True)
class Seen:
    """How far a client got that will probably watch next, by a watch that has ended or by a list."""

    request: FaultRequest
    interest: Scope
    reached: int


class FollowedWatch:
    """A watch, who asked for it, and what it lags behind by."""

    def __init__(self, held: HeldWatches, request: FaultRequest, watch: Watch) -> None:
        self._held = held
        self.request, self.watch = request, watch
        self.lag: LagWatch | None = None
        self.paces: list[Pace] = []
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
        """Send what the paces allow by now."""
        limit = min((one.version for one in self.paces), default=None)
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
        self._listed: dict[tuple[Any, ...], Seen] = {}  # by clients that have not watched since
        self._holds: dict[str, Hold] = {}
        self._names = 0
        self._lags: list[EventLag | TimeLag] = []  # of rules, which watches have
        self._commits = trio.Event()
        self._releasing = trio.Lock()
        self._runs = False
        feed.follow(self._committed)

    # Watches come and go.

    def follow(self, request: FaultRequest, watch: Watch) -> None:
        """A watch is about to start."""
        watch.follow(FollowedWatch(self, request, watch))

    def lag(self, watch: Watch, fault: LagWatch) -> None:
        """Before it starts."""
        followed = watch.follower
        assert isinstance(followed, FollowedWatch)
        followed.lag = fault

    def add(self, followed: FollowedWatch) -> None:
        self._ended.pop(_key(followed.request, followed.interest), None)
        self._forget_lists(followed.request, followed.interest)
        self._open[followed] = None
        followed.paces = [one for one in self._holds.values() if one.has(followed.request)]
        if followed.lag is not None:
            followed.paces.append(self._pace(followed, followed.lag))
        followed.apply()

    def remove(self, followed: FollowedWatch) -> None:
        self._open.pop(followed, None)
        reached = followed.reached
        if reached is not None and any(isinstance(one, Hold) for one in followed.paces):
            _remember(self._ended, Seen(followed.request, followed.interest, reached))
        self._forget_lags()

    def listed(self, request: FaultRequest, scope: ListScope, version: int) -> None:
        """A client got a list of this version, which may lack changes that a hold keeps from it."""
        self._forget_lists(request, scope)
        _remember(self._listed, Seen(request, scope, version))

    def _forget_lists(self, request: FaultRequest, scope: Scope) -> None:
        """The client goes on from there."""
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
        """Have the watches of a match, those that run and those that begin later, see the world of now."""
        while not name or name in self._holds:
            self._names += 1
            name = f"hold-{self._names}"
        hold = self._holds[name] = Hold(name, match, document, self._hub.newest())
        for followed in self._open:
            if hold.has(followed.request):
                followed.paces.append(hold)
                followed.apply()
        return hold

    async def release(self, hold: Hold, count: int) -> int:
        """Let the next changes through that are events of watches of the hold; returns how many there were."""
        async with self._releasing:
            versions = await self.pending(hold, count)
            for version in versions:
                hold.version = version
                self._apply(hold)
            return len(versions)

    def end(self, hold: Hold) -> None:
        """Let everything through, from now on."""
        if self._holds.pop(hold.name, None) is None:
            return
        for followed in self._open:
            if hold in followed.paces:
                followed.paces.remove(hold)
                followed.apply()
        if not self._holds:
            self._ended.clear()
            self._listed.clear()

    async def pending(self, hold: Hold, count: int = MOST_PENDING) -> list[int]:
        """The versions of the next changes, at most so many, that watches and lists of a hold do not have."""
        wanted = {
            (interest.key, max(reached, hold.version)): interest for interest, reached in self._waiting(hold)
        }
        found: set[int] = set()
        for (_, after), interest in wanted.items():
            found.update(await self._events_after(interest, after, count))
        return sorted(found)[:count]

    def watches_of(self, hold: Hold) -> Iterator[tuple[FaultRequest, int | None, bool]]:
        """Who watches, how far each got, and whether the watch is open."""
        for followed in self._open:
            if hold in followed.paces:
                yield followed.request, followed.reached, True
        for ended in self._ended.values():
            if hold.has(ended.request):
                yield ended.request, ended.reached, False

    def lists_of(self, hold: Hold) -> Iterator[tuple[FaultRequest, int]]:
        """Who has listed and not watched since, and the version of the list."""
        for one in self._listed.values():
            if hold.has(one.request):
                yield one.request, one.reached

    def list_version(self, request: FaultRequest, type_name: str) -> tuple[str, int] | None:
        """The hold of a client that lists, and the oldest version that the client may be sent: it never goes back."""
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
            if hold in followed.paces:
                yield followed.interest, followed.reached or 0
        for seen in (*self._ended.values(), *self._listed.values()):
            if hold.has(seen.request):
                yield seen.interest, seen.reached

    def _apply(self, pace: Pace) -> None:
        for followed in list(self._open):
            if pace in followed.paces:
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
                break  # when it is released, the watch finds that too
            await trio.lowlevel.checkpoint()
        return found[:count]

    # Lags of rules.

    def set_rules(self, faults: Faults | None) -> None:
        """The lags of other rules end; watches that run lag by these from now on."""
        for followed in self._open:
            followed.lag = None
            followed.paces = [one for one in followed.paces if isinstance(one, Hold)]
        self._lags.clear()
        for followed in list(self._open):
            decision = None if faults is None else faults.decide_lag(followed.request)
            if decision is not None:
                assert isinstance(decision.rule.fault, LagWatch)
                followed.lag = decision.rule.fault
                followed.paces.append(self._pace(followed, followed.lag))
            followed.apply()

    def _pace(self, followed: FollowedWatch, fault: LagWatch) -> Pace:
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
            used = {id(pace) for one in self._open for pace in one.paces}
            self._lags = [one for one in self._lags if id(one) in used]

    def _committed(self, _: Sequence[Event]) -> None:
        if self._lags:
            self._commits.set()

    async def _run(self) -> None:
        while True:
            self._commits = trio.Event()
            for followed in list(self._open):
                for pace in followed.paces:
                    if isinstance(pace, EventLag):
                        await self._pass_events(followed, pace)
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
        """Move a lag over the commits that are due, one by one; returns the seconds until the next is."""
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
            for event in view.all_events(lag.version):
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
