"""The frame that every controller runs in: follow the feed, catch up from the journal, then work off keys.

A controller notes keys when the feed calls it (synchronously, so it only notes), and handles one key at a
time by reading the journal and writing like any client. It handles states, never events: whatever happened
meanwhile or while the server was down, the outcome is the same. The feed is followed before catching up
begins, so there is no gap between the two; handling starts when catching up has ended, because a half-known
world invites wrong conclusions.

Each key's failure is its own: it is tried again after a growing pause while the others go on. Only a broken
frame or a broken `catch_up` reaches the supervisor, which runs the whole again.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import trio

from actors.controllers.work import WorkQueue, WorkStatistics
from actors.errors import RequestError
from actors.store.feed import Feed
from journal.records import Event

logger = logging.getLogger(__name__)

# Keys handled at a time: enough for one commit to carry many writes, few enough to leave clients their room.
WIDTH = 32

K = TypeVar("K", bound=Hashable)


class NotYet(Exception):
    """The key's work has to wait for somebody else; look again after a pause."""


class Controller(Protocol[K]):
    @property
    def name(self) -> str: ...

    @property
    def queue(self) -> WorkQueue[K]: ...

    def note(self, events: Sequence[Event]) -> None:
        """Called with every committed batch; adds keys to the queue and returns."""

    async def catch_up(self) -> None:
        """Add the keys of all that is in the journal already and needs work. May run again after a crash."""

    async def handle(self, key: K) -> None:
        """Bring the world of one key in order, or raise to be called again."""


@dataclass(slots=True)
class LoopStatistics:
    caught_up: bool = False
    last_failure: str = ""


class Loop(Generic[K]):
    def __init__(self, controller: Controller[K], feed: Feed, width: int = WIDTH) -> None:
        self._controller = controller
        self._feed = feed
        self._width = width
        self._state = LoopStatistics()

    @property
    def name(self) -> str:
        return self._controller.name

    def statistics(self) -> tuple[LoopStatistics, WorkStatistics]:
        return self._state, self._controller.queue.statistics()

    async def run(self) -> None:
        """For ever; what `Supervisor.keep` is given."""
        self._controller.queue.recover()
        self._feed.follow(self._controller.note)
        try:
            await self._controller.catch_up()
            self._state.caught_up = True
            await self._work()
        finally:
            self._state.caught_up = False
            self._feed.unfollow(self._controller.note)

    async def _work(self) -> None:
        free = trio.Semaphore(self._width)
        async with trio.open_nursery() as nursery:
            while True:
                await free.acquire()
                key = await self._controller.queue.take()
                nursery.start_soon(self._attempt, key, free)

    async def _attempt(self, key: K, free: trio.Semaphore) -> None:
        queue = self._controller.queue
        try:
            await self._controller.handle(key)
        except NotYet:
            queue.retry(key)
        except RequestError as refused:
            self._failed(key, str(refused), queue.retry(key))
        except Exception as broken:
            logger.exception("%s broke on %r", self.name, key)
            self._failed(key, f"{type(broken).__name__}: {broken}", queue.retry(key))
        else:
            queue.done(key)
        free.release()

    def _failed(self, key: K, why: str, pause: float) -> None:
        self._state.last_failure = f"{key}: {why}"
        logger.info("%s tries %r again in %.2f s: %s", self.name, key, pause, why)
