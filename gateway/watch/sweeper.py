"""The task that sweeps a group: commits wake it, and the clock where clients asked for bookmarks.

The hub starts one for the first watcher of a group and cancels it when the last one leaves. An exception in a sweep
ends the watches of that group only, each with an ERROR event.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection

import trio

from actors.errors import ConversionFailed
from actors.turns import Turn
from gateway.message import EndReason
from gateway.watch.changes import TooOld
from gateway.watch.framing import Framing
from gateway.watch.group import Group
from gateway.watch.interest import Interest

logger = logging.getLogger(__name__)

# Seconds between bookmarks. Well within the shortest sensible watch history, so that a client that resumes from a
# bookmark finds the events after it.
BOOKMARK_INTERVAL = 60.0


# Sweepers woken at once: one or two milliseconds of sweeps with a few members each.
WAKE_AT_ONCE, MOST_AT_ONCE = 16, 256


class Sweeper:
    __slots__ = ("_dirty", "_due", "_framing", "_scope", "group", "interest", "mark_dirty", "queued")

    def __init__(self, group: Group, interest: Interest, framing: Framing) -> None:
        self.group = group
        self.interest = interest
        self._framing = framing
        self._dirty = trio.Event()
        self._due = trio.current_time() + BOOKMARK_INTERVAL
        self._scope = trio.CancelScope()
        self.queued = False  # in `Wakeups`
        self.mark_dirty = group.mark_dirty

    def wake(self) -> None:
        """Sweep what was committed since the group was idle."""
        self.queued = False
        self._dirty.set()

    def cancel(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        with self._scope:
            try:
                while True:
                    await self._wait_for_work()
                    await self._catch_up()
            except TooOld:
                self.group.remove_all(EndReason.TOO_OLD)
            except ConversionFailed as error:
                self.group.remove_all(EndReason.FAILED, error)
            except Exception:
                logger.exception("the sweep of %s failed; its watches end", self.interest.key)
                self.group.remove_all(EndReason.FAILED)

    async def _wait_for_work(self) -> None:
        if self.interest.bookmark is None:
            await self._dirty.wait()
        else:
            with trio.move_on_at(self._due):
                await self._dirty.wait()
        self._dirty = trio.Event()

    async def _catch_up(self) -> None:
        while not self.group.idle:
            await self.group.step()
            await self._bookmark_when_due()
            if not self.group.idle:
                await trio.lowlevel.checkpoint()
        await self._bookmark_when_due()

    async def _bookmark_when_due(self) -> None:
        mark = self.interest.bookmark
        if mark is None or trio.current_time() < self._due:
            return
        self._due = trio.current_time() + BOOKMARK_INTERVAL
        self.group.update_head()
        head = self.group.head
        frame = self._framing(mark(head))
        await self.group.offer([(head, frame)], frame)


class Wakeups:
    """Wakes sweepers, few at a time if there are many.

    trio runs all tasks that are ready before it looks at sockets again: five thousand sweeps would delay everybody else
    until the last of them has ended. How many are woken at once follows from how long the last ones took.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._waiting: deque[Sweeper] = deque()

    def wake(self, sweepers: Collection[Sweeper]) -> None:
        if not self._waiting and len(sweepers) <= WAKE_AT_ONCE:
            for sweeper in sweepers:
                sweeper.wake()
            return
        running = bool(self._waiting)
        for sweeper in sweepers:
            if not sweeper.queued:
                sweeper.queued = True
                self._waiting.append(sweeper)
        if not running and self._waiting:
            self._nursery.start_soon(self._wake_waiting)

    async def _wake_waiting(self) -> None:
        count = WAKE_AT_ONCE
        while self._waiting:
            turn = Turn()
            for _ in range(min(count, len(self._waiting))):
                self._waiting.popleft().wake()
            await trio.lowlevel.checkpoint()
            count = max(1, count // 2) if turn.over() else min(MOST_AT_ONCE, count * 2)
