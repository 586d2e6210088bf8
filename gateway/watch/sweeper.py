"""The task that sweeps a group: commits wake it, and the clock where clients asked for bookmarks.

The hub starts one for the first watcher of a group and cancels it when the last one leaves. An exception in a sweep
ends the watches of that group only, each with an ERROR event.
"""

from __future__ import annotations

import logging

import trio

from gateway.requests.request import EndReason
from gateway.watch.changes import TooOld
from gateway.watch.framing import Framing
from gateway.watch.group import Group
from gateway.watch.interest import Interest

logger = logging.getLogger(__name__)

# Seconds between bookmarks. Well within the shortest sensible watch history, so that a client that resumes from a
# bookmark finds the events after it.
BOOKMARK_INTERVAL = 60.0


class Sweeper:
    def __init__(self, group: Group, interest: Interest, framing: Framing) -> None:
        self.group = group
        self.interest = interest
        self._framing = framing
        self._dirty = trio.Event()
        self._due = trio.current_time() + BOOKMARK_INTERVAL
        self._scope = trio.CancelScope()

    def wake(self, before: int) -> None:
        """A commit may affect the group; `before` is the offset of the commit before it."""
        self.group.mark_dirty(before)
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
        await self.group.offer([(head, self._framing(mark(head)))])
