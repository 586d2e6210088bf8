"""The only writer of the journal: gathers what all actors decided into one durable transaction.

Actors reserve offsets and submit events in the same synchronous step, so the order of submission is the order of
the log. Everything submitted while a batch is being written becomes the next batch (group commit). Nobody is
told of success before the fsync. When a batch fails, everything submitted after it was decided on a state that
never came to be, so it fails too; offsets are not reused (resourceVersions never go back) and the actors forget
what they had pending.

Where commits are quick they happen in the event loop's own thread; where the disk is slow, in a worker thread, so
that reads never wait for it. A thread for every commit was rejected: lmdb drops the interpreter lock at each of the
four puts of an event, and with a busy event loop each costs a switch (docs/decisions/0002-committer.md).
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import outcome
import trio

from actors.errors import StorageRefused
from actors.mailbox import Reply
from actors.store.feed import Feed
from journal.errors import JournalError
from journal.log import Journal
from journal.records import Event

logger = logging.getLogger(__name__)

T = TypeVar("T")
Done = Callable[[Exception | None], None]

# Longer than this on average, and commits move to a thread; back when they take less than half of it. Other
# requests wait at most about this long for a commit in the event loop.
QUICK = 0.004
SMOOTHING = 0.1
SWITCH_IN_THREAD, SWITCH_USUAL = 0.0005, 0.005


@dataclass(frozen=True, slots=True)
class CommitterStatistics:
    commits: int
    events: int
    failures: int
    waiting: int
    largest_batch: int
    seconds: float  # spent writing
    in_thread: bool
    last_failure: str


@dataclass(slots=True)
class _Batch:
    events: list[Event] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)


@dataclass(slots=True)
class _Job:
    """Housekeeping that writes: runs between two batches."""

    work: Callable[[], Any]
    reply: Reply[Any]


class Committer:
    def __init__(self, journal: Journal, feed: Feed, *, inline: bool = False) -> None:
        self._journal = journal
        self._feed = feed
        self._inline = inline  # commit inside submit: for tests in virtual time
        self._next = journal.head + 1
        self._last_time = journal.time  # a clock set back between two starts must not reach the log
        self._pending = _Batch()
        self._jobs: deque[_Job] = deque()
        self._writing = 0  # events of the batch under way
        self._asleep: trio.lowlevel.Task | None = None
        self._settled = trio.lowlevel.ParkingLot()
        self._gone = False  # the one who writes was cancelled
        self._pace = 0.0  # seconds a commit takes, smoothed
        self._in_thread = False
        self._commits = self._events = self._failures = self._largest = 0
        self._seconds = 0.0
        self.last_failure = ""

    def reserve(self, time: int) -> tuple[int, int]:
        """The next offset, and the event's time: never before that of the event in front of it."""
        offset = self._next
        self._next = offset + 1
        if time > self._last_time:
            self._last_time = time
        return offset, self._last_time

    def submit(self, events: Sequence[Event], done: Done) -> None:
        """`done(None)` is called once these and all events submitted before are durable."""
        if self._inline:
            batch = _Batch(list(events), [done])
            self._settle(batch, self._append(batch))
            return
        self._pending.events.extend(events)
        self._pending.done.append(done)
        self._wake()

    async def perform(self, work: Callable[[], T]) -> T:
        """Run `work`, which writes to the journal, between two batches; short, or it holds up commits."""
        if self._inline:
            return work()
        job = _Job(work, Reply())
        self._jobs.append(job)
        self._wake()
        result: T = await job.reply.wait()
        return result

    async def run(self) -> None:
        """Write for ever. Cancel only after `drained`."""
        self._gone = False
        try:
            while True:
                await self._work()
                while self._pending.done:
                    await self._write_next()
                if self._jobs:
                    job = self._jobs.popleft()
                    job.reply.complete(await trio.to_thread.run_sync(outcome.capture, job.work))
        except trio.Cancelled:
            self._gone = True
            self._settled.unpark_all()
            raise

    async def drained(self) -> None:
        """Wait until all that was submitted is durable or refused, or nobody is left to write it."""
        while (self._pending.done or self._writing) and not self._gone:
            await self._settled.park()

    def statistics(self) -> CommitterStatistics:
        return CommitterStatistics(
            self._commits,
            self._events,
            self._failures,
            len(self._pending.events) + self._writing,
            self._largest,
            self._seconds,
            self._in_thread,
            self.last_failure,
        )

    def _wake(self) -> None:
        if self._asleep is not None:
            task, self._asleep = self._asleep, None
            trio.lowlevel.reschedule(task)

    async def _work(self) -> None:
        """Sleep until something was submitted."""
        if self._pending.done or self._jobs:
            await trio.lowlevel.checkpoint()
            return
        self._asleep = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self._asleep = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def _write_next(self) -> None:
        batch, self._pending = self._pending, _Batch()
        self._writing = len(batch.events)
        began = time.perf_counter()
        if self._in_thread:
            error = await trio.to_thread.run_sync(self._append, batch)
        else:
            error = self._append(batch)
        if batch.events:
            self._note_pace(time.perf_counter() - began)
        self._writing = 0
        self._settle(batch, error)
        if error is not None:
            self._refuse_pending(error)
        self._settled.unpark_all()
        if not self._in_thread:
            await trio.lowlevel.checkpoint()

    def _note_pace(self, seconds: float) -> None:
        self._seconds += seconds
        self._pace += (seconds - self._pace) * SMOOTHING
        if self._pace > QUICK and not self._in_thread:
            self._in_thread = True
            # The writer gives the interpreter up at every put and gets it back within one of these.
            sys.setswitchinterval(SWITCH_IN_THREAD)
        elif self._pace < QUICK / 2 and self._in_thread:
            self._in_thread = False
            sys.setswitchinterval(SWITCH_USUAL)

    def _append(self, batch: _Batch) -> Exception | None:
        if not batch.events:
            return None
        try:
            self._journal.append(batch.events)
        except JournalError as error:
            return StorageRefused(str(error))
        except Exception as error:
            logger.exception("the journal failed to append")
            return StorageRefused(f"{type(error).__name__}: {error}")
        return None

    def _settle(self, batch: _Batch, error: Exception | None) -> None:
        if error is not None:
            self._failures += 1
            self.last_failure = str(error)
        elif batch.events:
            self.last_failure = ""
            self._commits += 1
            self._events += len(batch.events)
            self._largest = max(self._largest, len(batch.events))
        try:
            if error is None and batch.events:
                self._feed.publish(batch.events)
        finally:
            # A follower that fails must not leave those who wrote without an answer: it is durable.
            for done in batch.done:
                done(error)

    def _refuse_pending(self, error: Exception) -> None:
        refused, self._pending = self._pending, _Batch()
        for done in refused.done:
            done(error)
