"""The only writer of the journal: gathers what all actors decided into one durable transaction.

Actors reserve offsets and submit events in the same synchronous step, so the order of submission is the order of
the log. While one batch is being fsynced in the writer thread, everything submitted meanwhile becomes the next
batch (group commit). Nobody is told of success before the fsync. When a batch fails, everything submitted after
it was decided on a state that never came to be, so it fails too; offsets are not reused (resourceVersions never
go back) and the actors forget what they had pending.

The writer is one plain thread with a queue: `trio.to_thread` costs a thread hand-over and a cancel scope per
commit. `inline=True` commits in the caller's task, for tests in virtual time.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import trio

from actors.errors import StorageRefused
from actors.feed import Feed
from journal.environment import Journal
from journal.errors import JournalError
from journal.records import Event

logger = logging.getLogger(__name__)

Done = Callable[[Exception | None], None]


@dataclass(frozen=True, slots=True)
class CommitterStatistics:
    commits: int
    events: int
    failures: int
    waiting: int
    largest_batch: int
    last_failure: str


@dataclass(slots=True)
class _Batch:
    events: list[Event]
    done: list[Done]


class Committer:
    def __init__(self, journal: Journal, feed: Feed, *, inline: bool = False) -> None:
        self._journal = journal
        self._feed = feed
        self._inline = inline
        self._next = journal.head + 1
        self._last_time = 0
        self._pending = _Batch([], [])
        self._writing: _Batch | None = None
        self._idle = trio.lowlevel.ParkingLot()
        self._work: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._commits = self._events = self._failures = self._largest = 0
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
            self._commit_inline(_Batch(list(events), [done]))
            return
        self._pending.events.extend(events)
        self._pending.done.append(done)
        if self._writing is None:
            self._hand_over()

    def start(self) -> None:
        """Begin writing; must be called inside trio."""
        if self._inline:
            return
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.Thread(target=self._write_batches, name="committer", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Wait until all that was submitted is settled, then end the writer thread."""
        while self._writing is not None:
            await self._idle.park()
        if self._thread is not None:
            self._work.put(None)
            await trio.to_thread.run_sync(self._thread.join)
            self._thread = None

    def statistics(self) -> CommitterStatistics:
        waiting = len(self._pending.events) + (len(self._writing.events) if self._writing else 0)
        return CommitterStatistics(
            self._commits, self._events, self._failures, waiting, self._largest, self.last_failure
        )

    def _hand_over(self) -> None:
        batch, self._pending = self._pending, _Batch([], [])
        if batch.events:
            self._writing = batch
            self._work.put(batch)
        elif batch.done:
            self._settle(batch, None)

    def _write_batches(self) -> None:
        assert self._token is not None
        while (batch := self._work.get()) is not None:
            error = self._append(batch)
            try:
                self._token.run_sync_soon(self._written, batch, error)
            except trio.RunFinishedError:
                return

    def _append(self, batch: _Batch) -> Exception | None:
        try:
            self._journal.append(batch.events)
        except JournalError as error:
            return StorageRefused(str(error))
        except Exception as error:
            logger.exception("the journal failed to append")
            return StorageRefused(f"{type(error).__name__}: {error}")
        return None

    def _written(self, batch: _Batch, error: Exception | None) -> None:
        self._settle(batch, error)
        if error is not None:
            rejected, self._pending = self._pending, _Batch([], [])
            for done in rejected.done:
                done(error)
        self._writing = None
        if self._pending.done:
            self._hand_over()
        if self._writing is None:
            self._idle.unpark_all()

    def _settle(self, batch: _Batch, error: Exception | None) -> None:
        if error is not None:
            self._failures += 1
            self.last_failure = str(error)
        elif batch.events:
            self.last_failure = ""
            self._commits += 1
            self._events += len(batch.events)
            self._largest = max(self._largest, len(batch.events))
            self._feed.publish(batch.events)
        for done in batch.done:
            done(error)

    def _commit_inline(self, batch: _Batch) -> None:
        error = self._append(batch) if batch.events else None
        self._settle(batch, error)
