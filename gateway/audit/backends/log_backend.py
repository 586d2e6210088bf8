"""Writes events to a file or to standard output, in a thread of its own.

The event loop appends to a queue; the thread writes what is there `max_wait` after the first, or when a quarter of the
queue is used: every time it wakes, both compete for the interpreter, which costs as much as thirty events. For the same
reason the loop itself makes the lines of events without bodies; the thread makes the others. A full disk, a folder that
was deleted or a pipe that nobody reads delay the thread alone: the queue is bounded by number and bytes, and events
beyond that are lost and counted. In the blocking modes `store` waits until the event is written.

Rejected: a trio task that writes in worker threads, which would cost a hop of 50 us per batch and a second queue.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Event as Signal
from threading import Thread
from typing import Final, Protocol

import trio

from gateway.audit.backends.lines import Lines
from gateway.audit.backends.losses import Losses
from gateway.audit.backends.rotated_file import NotWritten
from gateway.audit.backends.throttle import Throttle
from gateway.audit.event import Event

# Bodies are held until they are written; at level Metadata an event is counted with about 2 KiB.
MAX_QUEUED_BYTES = 64 << 20
# The most that is formatted and written at once, without a throttle, which counts batches.
_LARGE_BATCH: Final = 1024
# How long a stop waits for what is queued.
FLUSH_SECONDS = 10.0

Written = Callable[[bool], None]


class Output(Protocol):
    def write(self, lines: Sequence[bytes]) -> None:
        """NotWritten."""

    def close(self) -> None: ...


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
        self._line_at_once = lines.at_once
        self._buffer_size = buffer_size
        self._max_size = max_size if throttle is not None else max(max_size, _LARGE_BATCH)
        self._wake_at = max_size if throttle is not None else max(max_size, buffer_size // 4)
        self._max_wait = max_wait
        self._throttle = throttle
        self._queue: deque[tuple[Event | bytes, int, Written | None]] = deque()
        # Each is written by one thread only, so that neither needs a lock.
        self._bytes_in = self._bytes_out = 0
        self._waiting = Signal()  # there is something to write
        self._hurry = Signal()  # do not wait for more
        self._closing = False
        self._thread = Thread(target=self._run, name="audit log", daemon=True)
        self._lost = Losses("log")
        self._dropped = Losses("buffered")

    @property
    def losses(self) -> tuple[Losses, ...]:
        return self._lost, self._dropped

    async def run(self) -> None:
        """Write until cancelled, and then what is queued: at most FLUSH_SECONDS, as a disk may not respond."""
        self._thread.start()
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(FLUSH_SECONDS, shield=True):
                await self._close()

    def put(self, event: Event) -> None:
        """Queue an event; never waits."""
        queued = len(self._queue)
        if queued >= self._buffer_size or self._bytes_in - self._bytes_out > MAX_QUEUED_BYTES:
            self._dropped.add(1, "its buffer is full, because events arrive faster than they can be written")
            return
        record, line = event[0], self._line_at_once
        given: Event | bytes = event
        if line is not None and record.request_body is None and record.response_body is None:
            given = line(event)
            weight = len(given)
        else:
            weight = record.weight  # now: the record may grow
        self._bytes_in += weight
        self._queue.append((given, weight, None))
        # After the append: the thread clears the signal before it looks into the queue.
        if not self._waiting.is_set():
            self._waiting.set()
        if queued + 1 == self._wake_at:
            self._hurry.set()

    async def store(self, event: Event) -> bool:
        """Wait until the event is written; False if it is lost."""
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

        weight = event[0].weight
        self._bytes_in += weight
        self._queue.append((event, weight, written))
        self._waiting.set()
        self._hurry.set()
        await done.wait()
        return stored

    async def _close(self) -> None:
        """Write what is queued, and end the thread."""
        self._closing = True
        self._waiting.set()
        self._hurry.set()
        await trio.to_thread.run_sync(self._thread.join, abandon_on_cancel=True)

    def _run(self) -> None:
        while True:
            self._waiting.wait()
            if len(self._queue) < self._wake_at:
                self._hurry.wait(self._max_wait)
            self._hurry.clear()
            self._waiting.clear()
            while self._queue:
                self._write_batch()
            if self._closing:
                self._output.close()
                return

    def _write_batch(self) -> None:
        queue = self._queue
        taken = [queue.popleft() for _ in range(min(len(queue), self._max_size))]
        if self._throttle is not None and not self._closing:
            time.sleep(self._throttle.delay(time.monotonic()))
        stored = self._write([event for event, _, _ in taken])
        self._bytes_out += sum([weight for _, weight, _ in taken])
        for _, _, written in taken:
            if written is not None:
                written(stored)

    def _write(self, events: list[Event | bytes]) -> bool:
        """Whether all of them are written."""
        left = len(events)
        try:
            lines = self._made(events)
            if len(lines) < left:
                self._lost.add(left - len(lines), "they are larger than the limit of an event")
                left = len(lines)
            for batch in self._lines.batches(lines):
                self._output.write([line + b"\n" for line in batch])
                left -= len(batch)
        except NotWritten as error:
            self._lost.add(left - error.written, str(error))
            return False
        except Exception as error:  # the thread must not end
            self._lost.add(left, f"the server failed to format them ({type(error).__name__})")
            return False
        return len(lines) == len(events)

    def _made(self, events: list[Event | bytes]) -> list[bytes]:
        """The lines of all events, in their order."""
        made = [one for one in events if isinstance(one, bytes)]
        if len(made) == len(events):
            return made
        lines: list[bytes] = []
        for one in events:
            if isinstance(one, bytes):
                lines.append(one)
            else:
                lines += self._lines.of([one])
        return lines
