"""Writes events to a file or to standard output, in a thread of its own.

    put -> pending -> every 32 requests, or max_wait after the first -> queue of lines -> thread

A request only appends its record to a list. The event loop formats 32 of them at a time, which takes a third of the
time of formatting each after its request, because the code and the texts stay in the processor's caches. The thread
writes what is queued `max_wait` after the first event, or when a quarter of the buffer is used: each time it wakes,
it competes with the event loop for the GIL, which costs as much as thirty events. Events with bodies take long to
format and are left to the thread. A full disk, a deleted folder or a pipe that nobody reads delays only the thread:
the queue is limited by number and bytes, and events beyond that are lost and counted.

In the blocking modes `store` returns when the event is written: the event loop appends the line to a regular file
itself, which takes a few microseconds, whereas the thread and back takes 250. The thread is used for a file that was
slow once or is about to be rotated, for a pipe, for another process, and for events with bodies, including those in
the queue.

Rejected: a trio task that writes in worker threads, which would cost a hop of 50 us per batch and a second queue.
Rejected: formatting all events in the thread, which would hold the GIL for milliseconds while requests wait.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Event as Signal
from threading import Lock, Thread
from typing import Final, NamedTuple, Protocol

import trio

from rewound.gateway.audit.backends.bounds import FLUSH_SECONDS, MAX_QUEUED_BYTES, Losses, Throttle
from rewound.gateway.audit.backends.lines import Lines
from rewound.gateway.audit.backends.rotated_file import NotWritten
from rewound.gateway.audit.event import events_of
from rewound.gateway.audit.policy import PendingList
from rewound.gateway.audit.record import Event, Pending

# How many requests the event loop formats at a time: more would save little, and take longer than 0.2 ms.
_GATHERED: Final = 32
# The most that is formatted and written at once, without a throttle, which counts batches.
_LARGE_BATCH: Final = 1024

# The event loop leaves a file to the thread for so long (seconds) after one write took longer than this (seconds),
# and twice as long each time that it is still slow.
_SLOW: Final = 0.05
_SLOW_FOR: Final = 1.0
_LONGEST_SLOW: Final = 60.0
_WRITTEN_HERE: Final = 64 << 10  # bytes that the event loop formats and writes at once

Written = Callable[[bool], None]


class Output(Protocol):
    def is_quick(self, size: int) -> bool:
        """Whether a write of about this many bytes should take microseconds, as to a regular file."""

    def write(self, data: bytes) -> None:
        """Write whole lines, each with its newline. Raises NotWritten."""

    def close(self) -> None: ...


class _Queued(NamedTuple):
    given: Event | bytes  # lines with their newlines, or an event that the thread formats
    events: int
    weight: int  # bytes
    written: Written | None = None


class LogBackend:
    def __init__(
        self,
        output: Output,
        lines: Lines,
        *,
        buffer_size: int,
        max_size: int,
        max_wait: float,
        throttle: Throttle | None = None,
    ) -> None:
        self._output = output
        self._lines = lines
        self._lines_at_once = lines.at_once
        self._buffer_size = buffer_size
        self._max_size = max_size if throttle is not None else max(max_size, _LARGE_BATCH)
        self._wake_at = max_size if throttle is not None else max(max_size, buffer_size // 4)
        self._max_wait = max_wait
        self._throttle = throttle
        self.pending = PendingList(_GATHERED if self._wake_at > _GATHERED else 0)
        self._ticking = False  # a deadline is set for the pending events
        self._first = trio.Event()  # set when there is a first pending event
        self._queue: deque[_Queued] = deque()
        # Only the event loop changes the counters ending in `_in`; the others need `_writing`.
        self._events_in = self._events_out = 0
        self._bytes_in = self._bytes_out = 0
        self._wake = Signal()  # makes the thread write what is queued
        self._closing = False
        self._writing = Lock()  # held while taking from the queue and writing
        self._slow_until, self._slow_for = 0.0, _SLOW_FOR
        self._thread = Thread(target=self._run, name="audit log", daemon=True)
        self._lost = Losses("log")
        self._dropped = Losses("buffered")
        self._too_large = Losses("truncate")

    @property
    def events(self) -> int:
        return self._events_in + self._dropped.count + len(events_of(self.pending))

    @property
    def losses(self) -> tuple[Losses, ...]:
        return self._lost, self._dropped, self._too_large

    async def run(self) -> None:
        """Write until cancelled, and then what is queued: for at most FLUSH_SECONDS, because a disk may not respond."""
        self._thread.start()
        try:
            while True:
                await self._first.wait()
                self._first = trio.Event()
                await trio.sleep(self._max_wait)
                self._ticking = False
                self._queue_pending()
                self._wake.set()
        finally:
            with trio.move_on_after(FLUSH_SECONDS, shield=True):
                await self._close()

    def put(self, event: Pending) -> None:
        """Queue an event, or a record that represents its events; never waits."""
        if isinstance(event, tuple) and event.record.is_long:
            self._put_with_bodies(event)
            return
        pending = self.pending
        if 0 < pending.limit <= len(pending):
            # Now, not together with the new one: a record may later represent its last event too.
            self._queue_pending()
        pending.append(event)
        if not pending.limit:
            self._queue_pending()
        if not self._ticking:
            self._ticking = True
            self._first.set()

    def _put_with_bodies(self, event: Event) -> None:
        """Queue an event with bodies, which the thread formats, after those that arrived before it."""
        self._queue_pending()
        if self._room:
            self._push(_Queued(event, 1, event.record.weight))
        else:
            self._drop(1)
        if not self._ticking:
            self._ticking = True
            self._first.set()

    async def store(self, event: Event) -> bool:
        """Wait until the event is written; return False if it is lost."""
        written_here = self._write_in_event_loop(event)
        return await self._written_by_thread(event) if written_here is None else written_here

    def _write_in_event_loop(self, event: Event) -> bool | None:
        """Write an event, and what is queued before it, in the event loop; None if the thread must do it."""
        if event.record.is_long or time.monotonic() < self._slow_until:
            return None
        self._queue_pending()
        size = self._bytes_in - self._bytes_out + event.record.weight
        if (
            size > _WRITTEN_HERE
            or not self._output.is_quick(size)
            or not self._writing.acquire(blocking=False)
        ):
            return None
        try:
            results: list[bool] = []
            self._push(_Queued(event, 1, event.record.weight, results.append))
            started = time.monotonic()
            while self._queue:
                self._write_batch()
            self._note_duration(time.monotonic() - started)
            return results[0]
        finally:
            self._writing.release()

    def _note_duration(self, seconds: float) -> None:
        if seconds > _SLOW:
            self._slow_until = time.monotonic() + self._slow_for
            self._slow_for = min(2 * self._slow_for, _LONGEST_SLOW)
        else:
            self._slow_for = _SLOW_FOR

    async def _written_by_thread(self, event: Event) -> bool:
        token, done = trio.lowlevel.current_trio_token(), trio.Event()
        stored = False

        def finish(ok: bool) -> None:
            nonlocal stored
            stored = ok
            done.set()

        def written(ok: bool) -> None:
            try:
                token.run_sync_soon(finish, ok)
            except trio.RunFinishedError:
                pass

        self._queue_pending()
        self._push(_Queued(event, 1, event.record.weight, written))
        self._wake.set()
        await done.wait()
        return stored

    def _queue_pending(self) -> None:
        """Format the pending events and queue them for the thread."""
        pending: list[Pending] = self.pending[:]
        self.pending.clear()
        room = self._room
        if 2 * len(pending) > room:
            events = events_of(pending)
            if len(events) > room:
                self._drop(len(events) - room)
            pending = list(events[:room])
        if pending:
            self._push_lines(pending)
        if self._events_in - self._events_out >= self._wake_at:
            self._wake.set()

    def _drop(self, count: int) -> None:
        self._dropped.add(count, "its buffer is full, because events arrive faster than they can be written")

    @property
    def _room(self) -> int:
        """How many more events the queue accepts."""
        if self._bytes_in - self._bytes_out > MAX_QUEUED_BYTES:
            return 0
        return max(0, self._buffer_size - (self._events_in - self._events_out))

    def _push_lines(self, pending: list[Pending]) -> None:
        if self._lines_at_once is not None:
            try:
                lines = self._lines_at_once(pending)
            except Exception:  # the thread finds out which one it is, and counts it
                pass
            else:
                self._push(_Queued(lines, lines.count(b"\n"), len(lines)))
                return
        for event in events_of(pending):
            self._push(_Queued(event, 1, event.record.weight))

    def _push(self, queued: _Queued) -> None:
        self._events_in += queued.events
        self._bytes_in += queued.weight
        self._queue.append(queued)

    async def _close(self) -> None:
        """Write what is queued, and end the thread."""
        self.pending.limit = 0
        self._queue_pending()
        self._closing = True
        self._wake.set()
        await trio.to_thread.run_sync(self._thread.join, abandon_on_cancel=True)

    # In the thread.

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            with self._writing:
                while self._queue:
                    self._write_batch()
            if self._closing:
                self._output.close()
                return

    def _write_batch(self) -> None:
        queue = self._queue
        taken = [queue.popleft()]
        count = taken[0].events
        while queue and count + queue[0].events <= self._max_size:
            taken.append(queue.popleft())
            count += taken[-1].events
        if self._throttle is not None and not self._closing:
            time.sleep(self._throttle.delay(time.monotonic()))
        stored = self._write(taken, count)
        self._events_out += count
        self._bytes_out += sum([one.weight for one in taken])
        for one in taken:
            if one.written is not None:
                one.written(stored)

    def _write(self, taken: list[_Queued], count: int) -> bool:
        """Write events; return whether all of them are written."""
        left = count
        try:
            portions = self._portions(taken, count)
            left = made = sum([events for events, _ in portions])
            if made < count:
                self._too_large.add(count - made, "they are larger than the limit of an event")
            for events, data in portions:
                self._output.write(data)
                left -= events
        except NotWritten as error:
            self._lost.add(left - error.written, str(error))
            return False
        except Exception as error:  # the thread must not end
            self._lost.add(left, f"the server failed to format them ({type(error).__name__})")
            return False
        return made == count

    def _portions(self, taken: list[_Queued], count: int) -> list[tuple[int, bytes]]:
        """What to write at once, and its number of events, without those that are too large."""
        if self._lines_at_once is not None:
            return [(count, b"".join([self._made(one.given) for one in taken]))]
        lines = self._lines.of([one.given for one in taken if not isinstance(one.given, bytes)])
        return [(len(batch), b"\n".join(batch) + b"\n") for batch in self._lines.batches(lines) if batch]

    def _made(self, given: Event | bytes) -> bytes:
        """Formatted lines, with their newlines."""
        return given if isinstance(given, bytes) else self._lines.of([given])[0] + b"\n"
