"""The only writer of the journal: commits the proposals of all actors in one durable transaction (group commit).

Actors submit proposals; the committer alone orders them, which gives each its offset and its time. This committer
orders them as they were submitted. No caller may rely on an offset before its batch is ordered, so another process can
define the order instead. All proposals submitted while a batch is being written, or soon after it, form the next batch.
No client gets a response before the fsync. When a batch fails, all proposals submitted after it fail too, because they
were decided on a state that was never stored; offsets are not reused (resourceVersions never decrease) and the actors
discard their pending writes.

Fast commits run in the thread of the event loop; if the disk is slow, they run in a worker thread, so that reads never
wait for it (`DiskSpeed`). Rejected: a worker thread for every commit, because of the switches between threads
(docs/decisions/0002-committer.md). Reads see a commit of a worker thread a moment before the feed publishes it. Batches
for which that must not happen (`commits_on_loop`) stay in the thread of the event loop.

The followers of the feed get a batch before the replies are sent, so that a client's next request finds rules and
caches that know of its write. Watchers get it one pass of the event loop later, after the replies. trio runs the tasks
of a pass in random order: waking the writers first would not make them run first.
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec
import outcome
import trio

from rewound.actors.errors import StorageRefused
from rewound.actors.runtime.mailbox import Reply
from rewound.actors.runtime.turns import Turn
from rewound.actors.store.feed import Feed
from rewound.actors.store.proposal import Proposal
from rewound.journal.batch import Batch
from rewound.journal.errors import JournalError
from rewound.journal.log import Journal
from rewound.journal.records import Event

logger = logging.getLogger(__name__)

T = TypeVar("T")
# Seconds; the buckets of v1.25 for requests to etcd.
BOUNDS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0),
    *(4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
OnCommitted = Callable[[Exception | None], None]


class Overtaken(Exception):
    """Another node changed the object first, so the write must start over. This node has that change."""


class Condition(NamedTuple):
    """What must hold besides the versions of objects, if other nodes write too."""

    counted_in: str = ""  # the namespace whose quotas count the change
    counted_at: int = 0  # since this version, only this node has changed what they count
    leading: bool = False  # this node runs the controllers


UNCONDITIONAL: Final = Condition()


class Commits(Protocol):
    """Orders proposals and makes them durable: a `Committer`, or etcd (`actors.store.etcd.committer`)."""

    pause: trio.Event | None
    last_failure: str
    commits_on_loop: Callable[[Sequence[Event]], bool]
    durations: WriteDurations

    @property
    def is_shared(self) -> bool:
        """Whether other nodes write too. Each write is then submitted and fails on its own, also with `Overtaken`."""

    def submit(
        self, proposals: Sequence[Proposal], done: OnCommitted, condition: Condition = UNCONDITIONAL
    ) -> None: ...

    async def perform(self, work: Callable[[], T]) -> T: ...

    async def commit_at_once(self, propose: Callable[[], Sequence[Proposal]]) -> int: ...

    async def commit_alone(self, propose: Callable[[], Sequence[Proposal]]) -> int: ...

    def next_offset(self) -> int: ...

    async def register_types(self, names: Sequence[str]) -> None: ...

    async def run(self) -> None: ...

    async def drained(self) -> None: ...

    def statistics(self) -> CommitterStatistics: ...


# How often the event loop reads new requests before a batch is written, as long as each time adds to the batch.
PASSES = 3
# Events of a large commit between two checks of the clock: each takes the followers some microseconds.
PUBLISHED_AT_ONCE = 32


class CommitterStatistics(msgspec.Struct, frozen=True):
    commits: int
    events: int
    failures: int
    waiting: int
    largest_batch: int
    seconds: float  # spent writing
    in_thread: bool
    last_failure: str


class WriteDurations:
    """How long the transactions of changes took, by type and operation; each change counts the time of its batch."""

    __slots__ = ("_series",)

    def __init__(self) -> None:
        self._series: dict[tuple[int, str], tuple[list[float], list[int]]] = {}

    def add(self, events: Sequence[Event], seconds: float) -> None:
        bucket = bisect_left(BOUNDS, seconds)
        for event in events:
            operation = "delete" if event.removed else "update" if event.previous else "create"
            series = self._series.get((event.type_id, operation))
            if series is None:
                series = self._series[event.type_id, operation] = [0.0], [0] * (len(BOUNDS) + 1)
            total, buckets = series
            total[0] += seconds
            buckets[bucket] += 1

    def read(self) -> dict[tuple[int, str], tuple[float, tuple[int, ...]]]:
        """Total seconds and the count of each bucket, by type id and operation."""
        return {key: (total, tuple(buckets)) for key, ([total], buckets) in self._series.items()}


class _Batch(msgspec.Struct):
    proposals: list[Proposal] = msgspec.field(default_factory=list)
    done: list[OnCommitted] = msgspec.field(default_factory=list)


class _Job(msgspec.Struct):
    """Housekeeping that writes; it runs between two batches."""

    work: Callable[[], Any]
    reply: Reply[Any]
    in_thread: bool = True
    alone: bool = False  # `work` returns proposals, which are committed while no actor decides anything


class Committer:
    def __init__(
        self, journal: Journal, feed: Feed, disk: DiskSpeed | None = None, *, reply_passes: int = 1
    ) -> None:
        """`reply_passes`: passes of the event loop from a callback until the client's reply is sent."""
        self._journal = journal
        self._feed = feed
        self._reply_passes = reply_passes
        self._next = journal.head + 1
        # Event times never decrease, even if the clock was set back between two starts.
        self._last_time = journal.time
        self._pending = _Batch()
        self._jobs: deque[_Job] = deque()
        self._writing = 0  # events of the batch being written
        self._sleeping: trio.lowlevel.Task | None = None
        self._completed = trio.lowlevel.ParkingLot()
        self._cancelled = False
        # While set, actors wait for it before they decide: the state is about to change (`commit_alone`).
        self.pause: trio.Event | None = None
        self._newest_size = 0  # of the newest batch
        self._disk = disk or DiskSpeed()
        self._writer = BatchWriter(journal)
        self.commits_on_loop: Callable[[Sequence[Event]], bool] = _nothing
        self._commits = self._events = self._failures = self._largest = 0
        self._seconds = 0.0
        self.durations = WriteDurations()
        self.last_failure = ""

    @property
    def is_shared(self) -> bool:
        return False

    def submit(
        self, proposals: Sequence[Proposal], done: OnCommitted, condition: Condition = UNCONDITIONAL
    ) -> None:
        """Submit proposals; `done(None)` is called once these and all proposals submitted before are durable.

        Every condition holds, because nobody else writes.
        """
        self._pending.proposals.extend(proposals)
        self._pending.done.append(done)
        self._wake()

    async def perform(self, work: Callable[[], T]) -> T:
        """Run `work`, which writes to the journal, between two batches. It must be short: commits wait for it."""
        job = _Job(work, Reply())
        self._jobs.append(job)
        self._wake()
        result: T = await job.reply.wait()
        return result

    async def commit_at_once(self, propose: Callable[[], Sequence[Proposal]]) -> int:
        """Write what `propose` returns, without a checkpoint in between, while no other proposal is pending.

        For proposals that no actor decided: no actor decides a command on a state that this is about to change. Returns
        the number of proposals.
        """
        job = _Job(lambda: self._commit(propose()), Reply(), in_thread=False)
        self._jobs.append(job)
        self._wake()
        count: int = await job.reply.wait()
        return count

    async def commit_alone(self, propose: Callable[[], Sequence[Proposal]]) -> int:
        """Like `commit_at_once` for thousands of proposals: in a worker thread, while every actor waits.

        Followers of the feed get the events in turns, all before the first actor continues.
        """
        job = _Job(propose, Reply(), alone=True)
        self._jobs.append(job)
        self._wake()
        count: int = await job.reply.wait()
        return count

    def next_offset(self) -> int:
        """The first offset that no proposal submitted so far can get."""
        return self._next + len(self._pending.proposals)

    async def register_types(self, names: Sequence[str]) -> None:
        """Assign type ids in the journal; returns at once if all types have one."""
        if not all(map(self._journal.type_id, names)):
            await self.perform(lambda: self._journal.register_types(names))

    async def run(self) -> None:
        """Write batches forever. Cancel only after `drained`."""
        self._cancelled = False
        try:
            while True:
                await self._wait_for_work()
                while self._pending.done:
                    await self._write_next()
                    if self._jobs:
                        break  # under constant load, there is always a next batch
                if self._jobs:
                    job = self._jobs.popleft()
                    if job.alone:
                        while self._pending.done:
                            await self._write_next()
                        result = await self._commit_in_thread(job.work)
                    elif job.in_thread:
                        result = await trio.to_thread.run_sync(outcome.capture, job.work)
                    else:
                        while self._pending.done:
                            await self._write_next()
                        result = outcome.capture(job.work)
                    _complete(job.reply, result)
                    await self._deliver()
        except trio.Cancelled:
            self._cancelled = True
            self._completed.unpark_all()
            raise

    async def drained(self) -> None:
        """Wait until all submitted proposals are durable or failed, or `run` was cancelled."""
        while (self._pending.done or self._writing) and not self._cancelled:
            await self._completed.park()

    def statistics(self) -> CommitterStatistics:
        return CommitterStatistics(
            self._commits,
            self._events,
            self._failures,
            len(self._pending.proposals) + self._writing,
            self._largest,
            self._seconds,
            self._disk.slow,
            self.last_failure,
        )

    def _wake(self) -> None:
        if self._sleeping is not None:
            task, self._sleeping = self._sleeping, None
            trio.lowlevel.reschedule(task)

    async def _wait_for_work(self) -> None:
        """Sleep until there is a proposal or a job."""
        if self._pending.done or self._jobs:
            await trio.lowlevel.checkpoint()
        else:
            await self._sleep()

    async def _sleep(self) -> None:
        """Sleep until the next proposal or job."""
        self._sleeping = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self._sleeping = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def _gather(self) -> None:
        """Let the event loop read new requests, as long as that adds to the pending batch.

        The clients of the last batch have their responses and send the next requests. A commit puts the process to
        sleep several times, and its caches are cold afterwards: one larger commit takes less CPU than two. If the disk
        is slow, the batch waits a little, until it is as large as the last. A client that writes alone does not wait.
        Nothing waits while a test's clock stands still: the disk works in real time.
        """
        size = 0
        for _ in range(PASSES if self._newest_size > 1 else 0):
            if len(self._pending.proposals) == size:
                break
            size = len(self._pending.proposals)
            await trio.lowlevel.checkpoint()
        if not self._disk.slow or len(self._pending.proposals) >= self._newest_size:
            return
        seconds = self._disk.gather_seconds
        if passes_in_real_time(seconds):
            with trio.move_on_after(seconds):
                while len(self._pending.proposals) < self._newest_size:
                    await self._sleep()

    async def _write_next(self) -> None:
        await self._gather()
        self._newest_size = len(self._pending.proposals)
        batch, self._pending = self._pending, _Batch()
        try:
            events = self._order(batch.proposals)
        except Exception as crash:
            _call_back(batch.done, crash)
            self._fail_pending(crash)
            self._completed.unpark_all()
            raise
        self._writing = len(events)
        began = time.perf_counter()
        if self._disk.slow and events and not self.commits_on_loop(events):
            error = await self._writer.append_in_thread(events)
        else:
            error = self._writer.append(events)
        if events:
            seconds = time.perf_counter() - began
            self._seconds += seconds
            if error is None:
                self._disk.record(self._writer.disk_seconds)
                self.durations.add(events, seconds)
        self._writing = 0
        self._complete(events, batch.done, error)
        if error is not None:
            self._fail_pending(error)
        self._completed.unpark_all()
        await self._deliver()

    async def _deliver(self) -> None:
        """Deliver the last batch to clients, one pass of the event loop after the replies to its writers."""
        try:
            for _ in range(self._reply_passes):
                await trio.lowlevel.checkpoint()
        finally:
            self._feed.deliver()

    def _commit(self, proposals: Sequence[Proposal]) -> int:
        events = self._order(list(proposals))
        error = self._writer.append(events)
        self._complete(events, [], error)
        if error is not None:
            raise error
        return len(events)

    async def _commit_in_thread(
        self, propose: Callable[[], Sequence[Proposal]]
    ) -> outcome.Value[int] | outcome.Error:
        """Call `propose` and write what it returns, while no actor decides anything."""
        self.pause = pause = trio.Event()
        try:
            events = await trio.to_thread.run_sync(lambda: self._order(list(propose())))
            self._writing = len(events)
            at_once = self.commits_on_loop(events)
            if at_once:
                error = self._writer.append(events)
            else:
                error = await trio.to_thread.run_sync(self._writer.append, events)
            if at_once or error is not None:
                self._complete(events, [], error)
            else:
                await self._publish_in_turns(events)
            return outcome.Value(len(events)) if error is None else outcome.Error(error)
        except Exception as error:
            return outcome.Error(error)
        finally:
            self._writing = 0
            self.pause = None
            pause.set()
            self._completed.unpark_all()

    async def _publish_in_turns(self, events: list[Event]) -> None:
        turn = Turn()
        self._count(events)
        for begin in range(0, len(events), PUBLISHED_AT_ONCE):
            self._feed.publish(events[begin : begin + PUBLISHED_AT_ONCE])
            if turn.over():
                await trio.lowlevel.checkpoint()
                turn = Turn()

    def _order(self, proposals: list[Proposal]) -> list[Event]:
        """Give each proposal the next offset, and a time that is not before that of the previous event."""
        events: list[Event] = []
        offset, last = self._next, self._last_time
        for proposal in proposals:
            if proposal.time > last:
                last = proposal.time
            events.append(proposal.order(offset, last))
            offset += 1
        self._next, self._last_time = offset, last
        return events

    def _complete(self, events: list[Event], callbacks: list[OnCommitted], error: Exception | None) -> None:
        if error is not None:
            self._failures += 1
            self.last_failure = str(error)
        elif events:
            self._count(events)
            self._feed.record(events)
        _call_back(callbacks, error)

    def _count(self, events: list[Event]) -> None:
        self.last_failure = ""
        self._commits += 1
        self._events += len(events)
        self._largest = max(self._largest, len(events))

    def _fail_pending(self, error: Exception) -> None:
        failed, self._pending = self._pending, _Batch()
        _call_back(failed.done, error)


def _nothing(_: Sequence[Event]) -> bool:
    return False


def _complete(reply: Reply[T], result: outcome.Value[T] | outcome.Error) -> None:
    if isinstance(result, outcome.Error):
        reply.fail(result.error)
    else:
        reply.succeed(result.value)


def _call_back(callbacks: list[OnCommitted], error: Exception | None) -> None:
    """Call all callbacks, even if one raises: that is a bug of one actor, and the others wait for their replies."""
    for done in callbacks:
        try:
            done(error)
        except Exception:
            logger.exception("a callback failed after a commit: %r", done)


# The event loop is blocked while a worker thread puts up to this many bytes of bodies: a few milliseconds.
PUT_TOGETHER = 1 << 20


class BatchWriter:
    """Writes batches of events to the journal, in the thread of the event loop or in a worker thread.

    The committer decides which (`DiskSpeed`); one batch is written at a time. Errors for clients contain no path. The
    log does, once for consecutive errors with the same text.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._logged = ""
        self.disk_seconds = 0.0  # that the last commit took after its last put

    def append(self, events: list[Event]) -> StorageRefused | None:
        if not events:
            return None
        try:
            self._write(self._journal.encode(events))
        except Exception as error:
            return self._refusal(error)
        return None

    async def append_in_thread(self, events: list[Event]) -> StorageRefused | None:
        if sum(len(event.body) for event in events) > PUT_TOGETHER:
            return await trio.to_thread.run_sync(self.append, events)
        try:
            # Encode here, while the events are in the CPU's caches.
            batch = self._journal.encode(events)
            await run_beside(partial(self._write, batch))
        except Exception as error:
            return self._refusal(error)
        return None

    def _write(self, batch: Batch, on_put: Callable[[], None] | None = None) -> None:
        """Write a batch, and measure the disk. Calls `on_put` when only the durable commit remains."""
        began = time.perf_counter()

        def put() -> None:
            nonlocal began
            began = time.perf_counter()
            if on_put is not None:
                on_put()

        self._journal.write(batch, put)
        self.disk_seconds = time.perf_counter() - began
        self._logged = ""

    def _refusal(self, error: Exception) -> StorageRefused:
        if not isinstance(error, JournalError):
            logger.error("the journal failed to append", exc_info=error)
            return StorageRefused(f"{type(error).__name__}: {error}")
        if str(error) != self._logged:
            self._logged = str(error)
            logger.error("%s", error)
        return StorageRefused(error.public)


# Commits that take longer than this on average (seconds) move to a worker thread, and back when they take less than
# half of it. Other requests wait at most about this long for a commit in the event loop.
SLOW_COMMIT = 0.004
SMOOTHING = 0.1
# One commit counts as at most this, so that a single long one does not move the next ones.
LONGEST_COUNTED = 0.016
# The fraction of a slow commit's time that a batch waits for more proposals.
GATHERING = 0.125


class DiskSpeed:
    """Measures how long the disk takes for a commit; slow commits run in a worker thread.

    It measures the commit itself, from the last put to the end of LMDB's fsync, which is the same in both threads. In a
    worker thread the time of the whole write includes waiting for the interpreter lock: by that measure, a busy server
    that once moved its commits to a worker thread would never move them back (docs/decisions/0002-committer.md).

    The smoothed time decides where the next commit runs. Use only in the thread of the event loop.
    """

    def __init__(self) -> None:
        self.slow = False
        self._average = 0.0

    @property
    def gather_seconds(self) -> float:
        """Seconds that a batch waits for more proposals: a small fraction of its commit's time."""
        return self._average * GATHERING

    def record(self, seconds: float) -> None:
        self._average += (min(seconds, LONGEST_COUNTED) - self._average) * SMOOTHING
        if self._average > SLOW_COMMIT and not self.slow:
            self.slow = True
        elif self._average < SLOW_COMMIT / 2 and self.slow:
            self.slow = False


class UnmeasuredDisk(DiskSpeed):
    """Writes every commit in the thread of the event loop, however long the disk takes."""

    def record(self, seconds: float) -> None:
        pass


def passes_in_real_time(seconds: float) -> bool:
    """Whether real time passes as fast as the clock of the event loop, over so many seconds.

    A test's clock may stand still, or jump only while nothing else happens: no task may wait for such a clock because
    of a slow disk.
    """
    clock = trio.lowlevel.current_clock()
    return clock.deadline_to_sleep_time(clock.current_time() + seconds) <= 2 * seconds


async def run_beside(work: Callable[[Callable[[], None]], T]) -> T:
    """Run `work` in a worker thread; the event loop is blocked until `work` calls its argument, or ends.

    For work that needs the interpreter lock often and briefly before it waits for the disk: next to a busy event loop,
    every such step would cost two thread switches.
    """
    task, token = trio.lowlevel.current_task(), trio.lowlevel.current_trio_token()
    loop_waits = threading.Lock()
    loop_waits.acquire()

    def let_loop_continue() -> None:
        if loop_waits.locked():
            loop_waits.release()

    def run() -> T:
        try:
            return work(let_loop_continue)
        finally:
            let_loop_continue()

    def deliver(result: outcome.Outcome[T]) -> None:
        token.run_sync_soon(trio.lowlevel.reschedule, task, result)

    trio.lowlevel.start_thread_soon(run, deliver)
    loop_waits.acquire()
    result: T = await trio.lowlevel.wait_task_rescheduled(_cannot_be_cancelled)
    return result


def _cannot_be_cancelled(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED
