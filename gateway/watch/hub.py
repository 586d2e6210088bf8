"""All watch groups of a server: who asks for the same bytes shares one, and every commit wakes those it concerns.

The hub follows the feed with a callback that only notes and wakes; each group sweeps in a task of its own, so a
group of ten thousand does not hold up one of ten. A group without members goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import trio

from actors.store.feed import Feed
from gateway.watch.changes import Changes
from gateway.watch.framing import Framing
from gateway.watch.group import TURN, Group
from gateway.watch.interest import Interest
from gateway.watch.member import FAREWELL, Member
from gateway.watch.sweeper import Sweeper
from gateway.watch.tally import Tally, WatchStatistics
from gateway.watch.topic import Topic
from gateway.watch.volley import Volley
from journal.log import Journal
from journal.records import Event

Key = tuple[tuple[Any, ...], Framing, Volley]


class Hub:
    def __init__(
        self,
        journal: Journal,
        feed: Feed,
        floor: Callable[[], int],
        nursery: trio.Nursery,
        serves: Callable[[Any], bool] = lambda _: True,
    ) -> None:
        """`serves(definition)`: whether clients are still served what an interest is in."""
        self._journal = journal
        self._head = feed.head
        self.floor = floor
        self.nursery = nursery
        self.closing = False
        self._sweepers: dict[Key, Sweeper] = {}
        self._topics: dict[int, Topic[Sweeper]] = {}
        self._interests: WeakValueDictionary[tuple[Any, ...], Interest] = WeakValueDictionary()
        self._tallies: dict[str, Tally] = {}
        self._members: dict[Member, Interest] = {}
        self._serves = serves
        self._expecting: dict[Member, int] = {}
        feed.follow(self._committed)

    def newest(self) -> int:
        """The offset up to which watchers can be shown everything."""
        return self._head

    def watchers(self) -> int:
        return len(self._members)

    def groups(self) -> int:
        return len(self._sweepers)

    def interest(self, key: tuple[Any, ...], make: Callable[[], Interest]) -> Interest:
        """The one interest with this key, as long as anybody has it: ten thousand watchers share it too."""
        known = self._interests.get(key)
        if known is None:
            known = self._interests[key] = make()
        return known

    # Watchers.

    def enter(self, member: Member, interest: Interest) -> None:
        """From now on the member ends when the server stops, or when its kind is no longer served."""
        self._members[member] = interest
        if not self._serves(interest.definition):
            member.end()

    def join(self, interest: Interest, framing: Framing, member: Member) -> Group:
        """Into the group for an interest over a transport; it lasts while it has members."""
        key = (interest.key, framing, member.pipe.volley)
        sweeper = self._sweepers.get(key)
        if sweeper is None:
            sweeper = self._make(key, interest)
        sweeper.group.join(member)
        return sweeper.group

    def leave(self, interest: Interest, framing: Framing, member: Member) -> None:
        self._members.pop(member, None)
        self._expecting.pop(member, None)
        key = (interest.key, framing, member.pipe.volley)
        sweeper = self._sweepers.get(key)
        if sweeper is not None:
            sweeper.group.leave(member)
            if sweeper.group.empty:
                self._drop(key, sweeper)

    def expect(self, member: Member, version: int) -> None:
        """Interrupt a member's connection when a version that is ahead has come."""
        self._expecting[member] = version

    async def close(self) -> None:
        """End every watch in good order: each watcher's own task says goodbye."""
        self.closing = True
        members = list(self._members)
        for first in range(0, len(members), TURN):
            for member in members[first : first + TURN]:
                member.pipe.interrupt()
            await trio.lowlevel.checkpoint()

    def end(self, definition: object, type_name: str) -> None:
        """End every watch of a kind that is no longer served; a task of its own, as there may be thousands."""
        self.nursery.start_soon(self._end, definition, type_name)

    async def _end(self, definition: object, type_name: str) -> None:
        """Each watcher gets what was committed before, then the end of its stream."""
        with trio.move_on_after(FAREWELL):
            for sweeper in [one for one in self._sweepers.values() if one.interest.definition is definition]:
                await sweeper.group.rested()
        members = [one for one, interest in self._members.items() if interest.definition is definition]
        for first in range(0, len(members), TURN):
            for member in members[first : first + TURN]:
                member.end()
            await trio.lowlevel.checkpoint()
        if all(sweeper.interest.type_name != type_name for sweeper in self._sweepers.values()):
            self._tallies.pop(type_name, None)

    # Groups.

    def _make(self, key: Key, interest: Interest) -> Sweeper:
        _, framing, volley = key
        topic = self._topics.get(interest.type_id)
        if topic is None:
            tally = self._tallies.setdefault(interest.type_name, Tally())
            topic = Topic(Changes(self._journal, interest.type_id, self._head), tally)
            self._topics[interest.type_id] = topic
        sweeper = Sweeper(Group(interest, framing, volley, topic, self), interest, framing)
        self._sweepers[key] = sweeper
        topic.follow(interest.selection, sweeper)
        self.nursery.start_soon(self._run, key, sweeper)
        return sweeper

    async def _run(self, key: Key, sweeper: Sweeper) -> None:
        await sweeper.run()
        if self._sweepers.get(key) is sweeper:
            self._drop(key, sweeper)

    def _drop(self, key: Key, sweeper: Sweeper) -> None:
        sweeper.cancel()
        del self._sweepers[key]
        type_id = sweeper.interest.type_id
        topic = self._topics[type_id]
        topic.unfollow(sweeper.interest.selection, sweeper)
        if not topic:
            del self._topics[type_id]
            if not self._serves(sweeper.interest.definition):
                del self._tallies[sweeper.interest.type_name]

    def _committed(self, events: Sequence[Event]) -> None:
        """Take over a batch, all of it or, after an error, the whole batch again."""
        before = self._head
        concerned: dict[Sweeper, None] = {}
        for event in events:
            topic = self._topics.get(event.type_id)
            if topic is not None:
                topic.changes.add(event)
                for sweepers in topic.concerned(event):
                    concerned.update(sweepers)
        for sweeper in concerned:
            sweeper.wake(before)
        self._head = events[-1].offset
        if self._expecting:
            self._fulfil()

    def _fulfil(self) -> None:
        for member in [one for one, version in self._expecting.items() if version <= self._head]:
            del self._expecting[member]
            member.pipe.interrupt()

    def statistics(self) -> dict[str, WatchStatistics]:
        """By type; a type that was ever watched stays until it is no longer served."""
        groups: dict[str, list[Group]] = {name: [] for name in self._tallies}
        for sweeper in self._sweepers.values():
            groups[sweeper.interest.type_name].append(sweeper.group)
        return {name: _statistics(groups[name], tally) for name, tally in self._tallies.items()}


def _statistics(groups: list[Group], tally: Tally) -> WatchStatistics:
    return WatchStatistics(
        groups=len(groups),
        sweeping=sum(len(group.sweeping) for group in groups),
        lagging=sum(len(group.lagging) for group in groups),
        frames=tally.frames,
        deliveries=tally.deliveries,
        lagged=tally.lagged,
        expired=tally.expired,
    )
