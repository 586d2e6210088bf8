"""A group with the task that sweeps it: woken by commits, and by the clock where bookmarks are asked for.

Made by the hub for the first watcher of a group, cancelled when the last one leaves. A sweep that breaks ends the
watches of its group, each with an error its client can read, and nobody else's.
"""

from __future__ import annotations

import logging

import trio

from gateway.requests.request import Ending
from gateway.watch.changes import TooOld
from gateway.watch.framing import Framing
from gateway.watch.group import Group
from gateway.watch.interest import Interest

logger = logging.getLogger(__name__)

# How often those who ask for bookmarks get one. Well within the shortest sensible watch history, so that whoever
# resumes from a bookmark finds what came after it.
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
        """A commit concerns the group; `before` is the newest offset in front of that commit."""
        self.group.disturb(before)
        self._dirty.set()

    def cancel(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        with self._scope:
            try:
                while True:
                    await self._woken()
                    await self._catch_up()
            except TooOld:
                self.group.dismiss_all(Ending.TOO_OLD)
            except Exception:
                logger.exception("the sweep of %s failed; its watches end", self.interest.key)
                self.group.dismiss_all(Ending.FAILED)

    async def _woken(self) -> None:
        if self.interest.bookmark is None:
            await self._dirty.wait()
        else:
            with trio.move_on_at(self._due):
                await self._dirty.wait()
        self._dirty = trio.Event()

    async def _catch_up(self) -> None:
        while not self.group.resting:
            await self.group.step()
            await self._bookmark_when_due()
            if not self.group.resting:
                await trio.lowlevel.checkpoint()
        await self._bookmark_when_due()

    async def _bookmark_when_due(self) -> None:
        mark = self.interest.bookmark
        if mark is None or trio.current_time() < self._due:
            return
        self._due = trio.current_time() + BOOKMARK_INTERVAL
        self.group.freshen()
        head = self.group.head
        await self.group.offer([(head, self._framing(mark(head)))])
