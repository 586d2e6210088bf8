"""The reconcile loop of every controller: follow the feed, scan the journal, then reconcile keys from a work queue.

The feed calls `observe` synchronously, so a controller only adds keys there; `reconcile` handles one key by reading the
journal and writing like any client. It is level-triggered: whatever happened meanwhile or while the server was down,
the result is the same. The loop follows the feed before `catch_up` begins, so there is no gap between the two, and
reconciles only after `catch_up` has ended, because an incomplete index would lead to wrong decisions.

A key that fails is retried after a growing pause while the other keys continue. If it fails because of the form of a
stored object, it is left out: the log names it once, and later attempts are silent. Only an exception of the loop
itself or of `catch_up` reaches the supervisor, which runs the loop again.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec
import trio

from rewound.actors.controllers.work_queue import WorkQueue, WorkQueueStatistics
from rewound.actors.errors import RequestError
from rewound.actors.kinds.declaration.stored_form import OF_MISFITS
from rewound.actors.runtime.turns import user_at_work
from rewound.actors.store.feed import Feed
from rewound.actors.store.misfits import report
from rewound.journal.records import Event

logger = logging.getLogger(__name__)

# Enough for one commit to carry many writes, few enough to leave room in the mailboxes for clients.
MAX_CONCURRENT_RECONCILES = 32
# Additional ones, for namespaces of which none is being reconciled: one with many keys may occupy all others for long.
FOR_OTHER_NAMESPACES = 8
# Seconds of the first pause that is worth a line of the log: shorter ones follow races with other writers.
LOGGED_PAUSE = 1.0

K = TypeVar("K", bound=Hashable)


class RetryLater(Exception):
    """The key cannot be reconciled yet, because something else has to happen first; retry after a pause."""


class Controller(Protocol[K]):
    @property
    def name(self) -> str: ...

    @property
    def queue(self) -> WorkQueue[K]: ...

    @property
    def observed_types(self) -> frozenset[int] | None:
        """The types whose events it observes; None: all."""

    def observe(self, events: Sequence[Event]) -> None:
        """Called with every committed batch that has such an event; adds keys to the queue and returns."""

    async def catch_up(self) -> None:
        """Add the keys of existing objects that need work. Runs again after a crash."""

    async def reconcile(self, key: K) -> None:
        """Bring the objects of one key into the desired state, or raise to be called again."""


class LoopStatistics(msgspec.Struct):
    caught_up: bool = False
    last_failure: str = ""
    left_out: dict[Hashable, str] = {}  # keys whose objects it cannot read, with the reason


class Loop(Generic[K]):
    def __init__(
        self, controller: Controller[K], feed: Feed, max_concurrent: int = MAX_CONCURRENT_RECONCILES
    ) -> None:
        self._controller = controller
        self._feed = feed
        self._max_concurrent = max_concurrent
        self._statistics = LoopStatistics()
        self._unread: dict[K, str] = {}  # keys of the queue that failed because of what is stored, and why

    @property
    def name(self) -> str:
        return self._controller.name

    @property
    def controller(self) -> Controller[K]:
        return self._controller

    def statistics(self) -> tuple[LoopStatistics, WorkQueueStatistics]:
        return self._statistics, self._controller.queue.statistics()

    async def run(self) -> None:
        """Run forever, under `Supervisor.keep`."""
        self._controller.queue.requeue_active()
        self._feed.follow(self._controller.observe, self._controller.observed_types)
        try:
            await self._controller.catch_up()
            self._statistics.caught_up = True
            await self._reconcile_keys()
        finally:
            self._statistics.caught_up = False
            self._feed.unfollow(self._controller.observe)

    async def _reconcile_keys(self) -> None:
        slots = trio.Semaphore(self._max_concurrent + FOR_OTHER_NAMESPACES)
        async with trio.open_nursery() as nursery:
            while True:
                await slots.acquire()
                key = await self._controller.queue.take(self._max_concurrent)
                nursery.start_soon(self._reconcile, key, slots)

    async def _reconcile(self, key: K, slots: trio.Semaphore) -> None:
        queue = self._controller.queue
        if namespace := queue.namespace_of(key):
            user_at_work.set(f"objects of {namespace}")  # in this task: namespaces take turns as users do
        try:
            await self._controller.reconcile(key)
        except RetryLater:
            queue.retry(key)
        except RequestError as refused:
            self._failed(key, str(refused), queue.retry(key))
        except Exception as broken:
            pause, why = queue.retry(key), f"{type(broken).__name__}: {broken}"
            if isinstance(broken, OF_MISFITS):
                self._cannot_read(key, why, pause)
            else:
                logger.error("%s broke on %r: %r", self.name, key, broken, exc_info=True)
                self._failed(key, why, pause)
        else:
            queue.done(key)
            self._unread.pop(key, None)
            self._statistics.left_out.pop(key, None)
        slots.release()

    def _cannot_read(self, key: K, why: str, pause: float) -> None:
        """An object of the key probably has a form that its kind does not have, which stays so for long.

        It may also be one that changes at this moment: the key is tried again, and left out from the first long pause
        on. Later attempts are silent, until it changes or fails in another way.
        """
        if self._unread.get(key) != why:
            self._unread[key] = why
            logger.info("%s cannot read what %r names: %s", self.name, key, why, exc_info=True)
        if pause >= LOGGED_PAUSE and self._statistics.left_out.get(key) != why:
            self._statistics.left_out[key] = why
            self._statistics.last_failure = f"{key}: {why}"
            where = "/".join(str(part) for part in key if part) if isinstance(key, tuple) else str(key)
            report(f"for {self.name}:", "", where, why)

    def _failed(self, key: K, why: str, pause: float) -> None:
        self._statistics.last_failure = f"{key}: {why}"
        level = logging.INFO if pause >= LOGGED_PAUSE else logging.DEBUG
        logger.log(level, "%s tries %r again in %.2f s: %s", self.name, key, pause, why)
