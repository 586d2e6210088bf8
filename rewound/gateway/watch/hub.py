"""All watch groups of a server: watchers that need the same bytes share a group, and a commit wakes those it may
affect.

The hub follows the feed with a callback that only records changes, finds the groups whose selection a change matches
before or after, and wakes them; each group sweeps in its own task, so that a group of ten thousand does not delay one
of ten. A group ends with its last member.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol
from weakref import WeakValueDictionary

import trio

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.runtime.turns import SharedTurns, Turn, next_turn
from rewound.actors.store.feed import Feed
from rewound.gateway.memory.budget import NO_LIMIT, MemoryBudget
from rewound.gateway.message import EndReason
from rewound.gateway.watch.broadcast import Broadcast
from rewound.gateway.watch.changes import Changes
from rewound.gateway.watch.framing import Framing
from rewound.gateway.watch.group import TURN, Group, Sweeper, Wakeups
from rewound.gateway.watch.interest import Interest
from rewound.gateway.watch.member import CLOSE_TIMEOUT, Member
from rewound.gateway.watch.watched_type import SentEvents, WatchCounters, WatchedType, WatchStatistics
from rewound.journal.log import Journal
from rewound.journal.records import Event


class Floor(Protocol):
    def __call__(self, type_name: str = "") -> int:
        """The offset at which the watch history begins, for new watches of a type."""


Key = tuple[tuple[Any, ...], Framing, Broadcast]


class Hub:
    def __init__(
        self,
        journal: Journal,
        feed: Feed,
        floor: Floor,
        nursery: trio.Nursery,
        serves: Callable[[Any], bool] = lambda _: True,
        memory: MemoryBudget | None = None,
    ) -> None:
        """`serves(definition)` returns whether the server still serves that kind."""
        self._journal = journal
        self._head = feed.head
        self.floor = floor
        self.nursery = nursery
        self.closing = False
        self.expired = False  # every watch ends with 410
        self._sweepers: dict[Key, Sweeper] = {}
        self._watched_types: dict[int, WatchedType[Sweeper]] = {}
        self._interests: WeakValueDictionary[tuple[Any, ...], Interest] = WeakValueDictionary()
        self._counters: dict[str, WatchCounters] = {}
        self._sent: dict[tuple[str, str, str], SentEvents] = {}
        self._running: set[tuple[str, ...]] = set()  # labels of watches that were ever reported
        self._members: dict[Member, Interest] = {}
        self._serves = serves
        self._memory = memory or MemoryBudget(NO_LIMIT)
        self._awaited: dict[Member, int] = {}
        self._wakeups = Wakeups(nursery)
        self._starts = SharedTurns()
        self._starts.begin()
        self._deliverable = feed.head
        self._affected: dict[Sweeper, None] = {}  # sweepers affected by commits that are not delivered yet
        feed.follow(self._committed)
        feed.on_delivery(self._deliver)

    def newest(self) -> int:
        """The offset up to which the hub has recorded every commit."""
        return self._head

    def deliverable(self) -> int:
        """The offset up to which watchers may receive events: their writers have been sent the responses."""
        return self._deliverable

    def watchers(self) -> int:
        return len(self._members)

    def members(self) -> list[Member]:
        return list(self._members)

    def groups(self) -> int:
        return len(self._sweepers)

    def interest(self, key: tuple[Any, ...], make: Callable[[], Interest]) -> Interest:
        """The interest with this key, shared by all its watchers for as long as there are any."""
        interest = self._interests.get(key)
        if interest is None:
            interest = self._interests[key] = make()
        return interest

    def check_room(self, interest: Interest) -> None:
        """Raise TooManyRequests if there is no memory for another group; an existing one accepts any watcher."""
        if not interest.account.watchers:
            self._memory.check_room(interest.account, interest.account.size)

    # Watchers.

    async def wait_to_start(self) -> None:
        """Wait, before a watch sends anything, for its turn: thousands may start at the same time. Users take turns."""
        if self._starts.over():
            await next_turn()

    def started(self) -> None:
        """Called when a watch has sent its first events, or as many of them as its client accepts."""
        self._starts.worked()

    def enter(self, member: Member, interest: Interest) -> None:
        """Register a member: its watch ends when the server stops, or when its kind is no longer served."""
        self._members[member] = interest
        account = interest.account
        account.watchers += 1
        if account.watchers == 1:
            # Fails only if others took the memory since `check_room`, when it is too late to refuse the watch.
            self._memory.try_take(account, account.size)
        if not self._serves(interest.definition):
            member.end()

    def join(self, interest: Interest, framing: Framing, member: Member) -> Group:
        """Add a member to the group of its interest, framing and class of connection; the first member creates it."""
        key = (interest.key, framing, member.pipe.broadcast)
        sweeper = self._sweepers.get(key)
        if sweeper is None:
            sweeper = self._create_group(key, interest)
        sweeper.group.join(member)
        return sweeper.group

    def leave(self, interest: Interest, framing: Framing, member: Member) -> None:
        if self._members.pop(member, None) is not None:
            interest.account.watchers -= 1
            if not interest.account.watchers:
                self._memory.release(interest.account)
        self._awaited.pop(member, None)
        key = (interest.key, framing, member.pipe.broadcast)
        sweeper = self._sweepers.get(key)
        if sweeper is not None:
            sweeper.group.leave(member)
            if sweeper.group.empty:
                self._remove_group(key, sweeper)

    def wake_at(self, member: Member, version: int) -> None:
        """Interrupt a member's connection once a future version has been committed."""
        self._awaited[member] = version

    async def close(self) -> None:
        """End every watch gracefully: each watcher's own task sends the end of its stream."""
        self.closing = True
        members = list(self._members)
        for first in range(0, len(members), TURN):
            for member in members[first : first + TURN]:
                member.pipe.interrupt()
            await trio.lowlevel.checkpoint()

    def expire(self) -> None:
        """End every watch, including later ones, with 410: a replay went back, and clients must list again."""
        self.expired = True
        for sweeper in list(self._sweepers.values()):
            sweeper.group.remove_all(EndReason.TOO_OLD)
        for member in [one for one in self._members if not one.ended]:
            member.end_reason = EndReason.TOO_OLD
            member.end()

    @property
    def is_delivered(self) -> bool:
        return all(_is_delivered(sweeper.group) for sweeper in self._sweepers.values())

    async def wait_delivered(self) -> None:
        """Wait until every watcher that reads has been sent everything that was committed."""
        for sweeper in list(self._sweepers.values()):
            await sweeper.group.wait_until(partial(_is_delivered, sweeper.group))

    def end(self, definition: object, type_name: str) -> None:
        """End every watch of a kind that is no longer served; in a separate task, because there may be thousands."""
        self.nursery.start_soon(self._end, definition, type_name)

    async def _end(self, definition: object, type_name: str) -> None:
        """Let each watcher receive what was committed before, then the end of its stream.

        Watches of a custom kind may have started with an earlier definition of it.
        """

        def ends(interest: Interest) -> bool:
            if interest.definition is definition:
                return True
            return interest.type_name == type_name and not self._serves(interest.definition)

        with trio.move_on_after(CLOSE_TIMEOUT):
            for sweeper in [one for one in self._sweepers.values() if ends(one.interest)]:
                await sweeper.group.wait_until(partial(_is_swept, sweeper.group))
        members = [one for one, interest in self._members.items() if ends(interest)]
        for first in range(0, len(members), TURN):
            for member in members[first : first + TURN]:
                member.end()
            await trio.lowlevel.checkpoint()
        if all(sweeper.interest.type_name != type_name for sweeper in self._sweepers.values()):
            self._counters.pop(type_name, None)
        if isinstance(definition, Definition) and not self._serves(definition):
            self._sent.pop((definition.group, definition.version, definition.kind), None)
            which = definition.group, definition.version, definition.plural
            self._running = {one for one in self._running if one[1:4] != which}

    # Groups.

    def _create_group(self, key: Key, interest: Interest) -> Sweeper:
        _, framing, broadcast = key
        watched = self._watched_types.get(interest.type_id)
        if watched is None:
            counters = self._counters.setdefault(interest.type_name, WatchCounters())
            watched = WatchedType(Changes(self._journal, interest.type_id, self._head), counters)
            self._watched_types[interest.type_id] = watched
        sweeper = Sweeper(Group(interest, framing, broadcast, watched, self), interest, framing)
        self._sweepers[key] = sweeper
        watched.follow(interest.selection, sweeper)
        self.nursery.start_soon(self._run, key, sweeper)
        return sweeper

    async def _run(self, key: Key, sweeper: Sweeper) -> None:
        await sweeper.run()
        if self._sweepers.get(key) is sweeper:
            self._remove_group(key, sweeper)

    def _remove_group(self, key: Key, sweeper: Sweeper) -> None:
        sweeper.cancel()
        del self._sweepers[key]
        type_id = sweeper.interest.type_id
        watched = self._watched_types[type_id]
        watched.unfollow(sweeper.interest.selection, sweeper)
        if not watched:
            del self._watched_types[type_id]
            if not self._serves(sweeper.interest.definition):
                del self._counters[sweeper.interest.type_name]

    def _committed(self, events: Sequence[Event]) -> None:
        """Record a batch and find its groups; after an error, the feed repeats the whole batch.

        Groups that there was no time to check in this turn count as affected, and check the changes in their own
        tasks.
        """
        before = self._head
        affected: dict[Sweeper, None] = {}
        if len(events) == 1:
            watched = self._watched_types.get(events[0].type_id)
            if watched is not None:
                watched.changes.add(events)
                watched.collect(events[0], affected, Turn())
        else:
            self._collect(events, affected)
        for sweeper in affected:
            sweeper.mark_dirty(before)
        if self._affected:
            self._affected.update(affected)
        else:
            self._affected = affected
        self._head = events[-1].offset

    def _deliver(self) -> None:
        """Wake the groups affected by recorded commits, and the watches waiting for these; repeated after an error."""
        self._deliverable = self._head
        self._wakeups.wake(self._affected)
        self._affected = {}
        if self._awaited:
            self._wake_awaiting()

    def _collect(self, events: Sequence[Event], affected: dict[Sweeper, None]) -> None:
        """Record a batch, and add the groups that it affects, each once."""
        turn = Turn()
        tried = False  # at least one event is always checked
        for watched, some in self._watched(events):
            watched.changes.add(some)
            found: dict[Sweeper, None] = {}
            for event in some:
                if len(found) == watched.followers:
                    break  # so that a batch of many events records each of them only once
                if tried and turn.over():
                    found.update(dict.fromkeys(watched))
                    break
                watched.collect(event, found, turn)
                tried = True
            affected.update(found)

    def _watched(self, events: Sequence[Event]) -> list[tuple[WatchedType[Sweeper], Sequence[Event]]]:
        """The events of each watched type."""
        types = {event.type_id for event in events}
        by_type: dict[int, Sequence[Event]] = {}
        if len(types) == 1:
            by_type[events[0].type_id] = events
        else:
            lists: dict[int, list[Event]] = {one: [] for one in types if one in self._watched_types}
            for event in events:
                if event.type_id in lists:
                    lists[event.type_id].append(event)
            by_type.update(lists)
        return [
            (self._watched_types[one], some) for one, some in by_type.items() if one in self._watched_types
        ]

    def _wake_awaiting(self) -> None:
        for member in [one for one, version in self._awaited.items() if version <= self._head]:
            del self._awaited[member]
            member.pipe.interrupt()

    def sent_events(self, definition: Definition) -> SentEvents:
        """The counter of the events of a kind that watchers receive."""
        kind = definition.group, definition.version, definition.kind
        return self._sent.get(kind) or self._sent.setdefault(kind, SentEvents())

    def sent(self) -> dict[tuple[str, ...], tuple[float, tuple[int, ...]]]:
        """Bytes and sizes of events by group, version and kind; a kind stays until it is no longer served."""
        return {kind: one.distribution() for kind, one in self._sent.items()}

    def running(self) -> dict[tuple[str, ...], int]:
        """Watches by the labels that Kubernetes uses for long-running requests; once reported, labels stay, with 0."""
        found = dict.fromkeys(self._running, 0)
        for interest in self._interests.values():
            definition = interest.definition
            if not isinstance(definition, Definition) or not interest.account.watchers:
                continue
            scope = "namespace" if interest.selection.namespace else "cluster"
            if interest.selection.name:
                scope = "resource"
            which = definition.group, definition.version, definition.plural
            labels = ("WATCH", *which, "", scope, "apiserver")
            found[labels] = found.get(labels, 0) + interest.account.watchers
        self._running.update(found)
        return found

    def statistics(self) -> dict[str, WatchStatistics]:
        """Statistics by type; a type that was ever watched stays until it is no longer served."""
        groups: dict[str, list[Group]] = {name: [] for name in self._counters}
        for sweeper in self._sweepers.values():
            groups[sweeper.interest.type_name].append(sweeper.group)
        return {name: _statistics(groups[name], counters) for name, counters in self._counters.items()}


def _is_swept(group: Group) -> bool:
    """Whether every sweeping member has been sent everything that was committed."""
    return group.idle or group.empty


def _is_delivered(group: Group) -> bool:
    """Whether every member has been sent everything that was committed, or all that it may receive if held."""
    if group.empty:
        return True
    return group.idle and all(group.has_all(member) for member in group.lagging)


def _statistics(groups: list[Group], counters: WatchCounters) -> WatchStatistics:
    return WatchStatistics(
        groups=len(groups),
        sweeping=sum(len(group.sweeping) for group in groups),
        lagging=sum(len(group.lagging) for group in groups),
        tried=counters.tried,
        woken=counters.woken,
        frames=counters.frames,
        deliveries=counters.deliveries,
        lagged=counters.lagged,
        expired=counters.expired,
    )
