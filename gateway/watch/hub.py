"""All watch groups of a server: who asks for the same bytes shares one, and every commit wakes those it concerns.

The hub follows the feed with a callback that only notes and wakes; each group sweeps in a task of its own, so a
group of ten thousand does not hold up one of ten. A group without members goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import trio

from actors.feed import Feed
from gateway.watch.changes import Changes
from gateway.watch.framing import Framing
from gateway.watch.group import Group, GroupStatistics
from gateway.watch.member import Member
from gateway.watch.selection import Selection
from journal.log import Journal
from journal.records import Event

# How often those who ask for bookmarks get one while nothing else is sent to them.
BOOKMARK_INTERVAL = 60.0


@dataclass(frozen=True, slots=True)
class Interest:
    """What a watcher asks for. Watchers with equal keys share a group."""

    key: tuple[Any, ...]
    type_id: int
    selection: Selection
    present: Callable[[str, bytes], bytes]
    bookmark: Callable[[int], bytes] | None  # the document that marks an offset; None: not asked for


class _Sweeper:
    """A group with its task and its wake-up."""

    def __init__(self, group: Group, interest: Interest, framing: Framing) -> None:
        self.group = group
        self.interest = interest
        self._framing = framing
        self._dirty = trio.Event()
        self.scope = trio.CancelScope()

    def wake(self) -> None:
        self._dirty.set()

    async def run(self, nursery: trio.Nursery) -> None:
        """Sweep for ever. Only the waiting is ever cut short, never a sweep."""
        with self.scope:
            due = trio.current_time() + BOOKMARK_INTERVAL
            while True:
                await self._woken(due)
                await self.group.advance(nursery)
                if trio.current_time() >= due:
                    due = trio.current_time() + BOOKMARK_INTERVAL
                    await self._bookmark(nursery)

    async def _woken(self, due: float) -> None:
        if self.interest.bookmark is None:
            await self._dirty.wait()
        else:
            with trio.move_on_at(due):
                await self._dirty.wait()
        self._dirty = trio.Event()

    async def _bookmark(self, nursery: trio.Nursery) -> None:
        if self.interest.bookmark is not None:
            head = self.group.head
            await self.group.offer([(head, self._framing(self.interest.bookmark(head)))], head, nursery)


class Hub:
    def __init__(self, journal: Journal, feed: Feed, floor: Callable[[], int], nursery: trio.Nursery) -> None:
        self._journal = journal
        self._feed = feed
        self._floor = floor
        self._nursery = nursery
        self._sweepers: dict[tuple[Any, ...], _Sweeper] = {}
        self._changes: dict[int, Changes] = {}
        self._by_type: dict[int, list[_Sweeper]] = {}
        self._pipes: set[Member] = set()
        self.closing = False
        feed.follow(self._committed)

    def join(self, interest: Interest, framing: Framing) -> Group:
        """The group for an interest over a transport; it lasts while it has members."""
        key = (interest.key, framing)
        sweeper = self._sweepers.get(key)
        if sweeper is None:
            sweeper = self._make(key, interest, framing)
        sweeper.wake()
        return sweeper.group

    def enter(self, member: Member) -> None:
        self._pipes.add(member)

    def leave(self, interest: Interest, framing: Framing, member: Member) -> None:
        self._pipes.discard(member)
        sweeper = self._sweepers.get((interest.key, framing))
        if sweeper is None:
            return
        sweeper.group.leave(member)
        if sweeper.group.empty:
            self._drop((interest.key, framing), sweeper)

    def close(self) -> None:
        """End every watch in good order: each watcher's own task says goodbye."""
        self.closing = True
        for member in tuple(self._pipes):
            member.pipe.interrupt()

    def statistics(self) -> list[GroupStatistics]:
        return [sweeper.group.statistics() for sweeper in self._sweepers.values()]

    def _make(self, key: tuple[Any, ...], interest: Interest, framing: Framing) -> _Sweeper:
        changes = self._changes.get(interest.type_id)
        if changes is None:
            changes = self._changes[interest.type_id] = Changes(
                self._journal, interest.type_id, self._feed.head
            )
        group = Group(interest.selection, interest.present, framing, changes, self._floor)
        sweeper = self._sweepers[key] = _Sweeper(group, interest, framing)
        self._by_type.setdefault(interest.type_id, []).append(sweeper)
        self._nursery.start_soon(sweeper.run, self._nursery)
        return sweeper

    def _drop(self, key: tuple[Any, ...], sweeper: _Sweeper) -> None:
        sweeper.scope.cancel()
        del self._sweepers[key]
        type_id = sweeper.interest.type_id
        self._by_type[type_id].remove(sweeper)
        if not self._by_type[type_id]:
            del self._by_type[type_id], self._changes[type_id]

    def _committed(self, events: Sequence[Event]) -> None:
        head = events[-1].offset
        for type_id, changes in self._changes.items():
            if changes.add(events, head):
                for sweeper in self._by_type[type_id]:
                    sweeper.wake()
