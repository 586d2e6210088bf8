"""Sends events to an HTTPS server in batches: one EventList after the other.

A batch that cannot be delivered in five tries, whatever the error, is lost and counted. Meanwhile events wait in a
queue that is limited by number and bytes; what does not fit is lost and counted too. A stopping server sends what is
queued for up to FLUSH_SECONDS; a batch in flight at that moment is sent again, so that the webhook may get it twice.
The event loop never waits for any of this, except in the blocking modes, in which `store` sends every event by
itself. Threads format events, because a batch of large objects takes milliseconds.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

import trio

from rewound.actors.access.remote.calls import WebhookError
from rewound.gateway.audit.backends.bounds import FLUSH_SECONDS, MAX_QUEUED_BYTES, Losses, Throttle
from rewound.gateway.audit.backends.lines import Lines
from rewound.gateway.audit.record import Event


class Sender(Protocol):
    async def send(self, body: bytes, first_delay: float, *, after_any_error: bool) -> bytes:
        """Deliver an EventList. Raises WebhookError after all tries."""

    async def run(self) -> None:
        """Keep connections open until cancelled."""


class WebhookBackend:
    pending = None  # it does not take records instead of events

    def __init__(
        self,
        webhook: Sender,
        lines: Lines,
        api_version: str,
        *,
        buffer_size: int,
        max_size: int,
        max_wait: float,
        initial_backoff: float,
        throttle: Throttle | None = None,
    ) -> None:
        self._webhook = webhook
        self._lines = lines
        self._start = b'{"kind":"EventList","apiVersion":"%b","metadata":{},"items":[' % api_version.encode()
        self._skipped = len(f'{{"kind":"Event","apiVersion":"{api_version}",')  # items of a list need no kind
        self._buffer_size = buffer_size
        self._max_size = max_size
        self._max_wait = max_wait
        self._initial_backoff = initial_backoff
        self._throttle = throttle
        self._queue: deque[tuple[Event, int]] = deque()
        self._bytes = 0
        self.events = 0
        self._sending: list[tuple[Event, int]] = []
        self._waiting, self._full = trio.Event(), trio.Event()
        self._formatting = trio.CapacityLimiter(1)
        self._lost = Losses("webhook")
        self._dropped = Losses("buffered")
        self._too_large = Losses("truncate")

    @property
    def losses(self) -> tuple[Losses, ...]:
        return self._lost, self._dropped, self._too_large

    def put(self, event: Event) -> None:
        """Queue an event; never waits."""
        self.events += 1
        if len(self._queue) >= self._buffer_size or self._bytes > MAX_QUEUED_BYTES:
            self._dropped.add(1, "its buffer is full, because events arrive faster than they can be sent")
            return
        weight = event.record.weight  # formatted now, because the record may grow
        self._bytes += weight
        self._queue.append((event, weight))
        self._waiting.set()
        if len(self._queue) >= self._max_size:
            self._full.set()

    async def store(self, event: Event) -> bool:
        """Send one event now; return False if it is lost."""
        self.events += 1
        return await self._deliver([event])

    async def run(self) -> None:
        """Send until cancelled, and then what is queued, for at most FLUSH_SECONDS."""
        connections = trio.CancelScope(shield=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_connections, connections)
            try:
                await self._send_batches()
            finally:
                with trio.move_on_after(FLUSH_SECONDS, shield=True):
                    await self._flush()
                left = len(self._queue) + len(self._sending)
                if left:
                    self._lost.add(left, "the server stops, and they could not be sent in time")
                connections.cancel()

    async def _keep_connections(self, scope: trio.CancelScope) -> None:
        with scope:
            await self._webhook.run()

    async def _send_batches(self) -> None:
        while True:
            await self._waiting.wait()
            with trio.move_on_after(self._max_wait):
                await self._full.wait()
            self._full = trio.Event()
            self._take_batch()
            if self._throttle is not None:
                await trio.sleep(self._throttle.delay(trio.current_time()))
            await self._send_taken()

    async def _flush(self) -> None:
        while self._sending or self._queue:
            if not self._sending:
                self._take_batch()
            await self._send_taken()

    def _take_batch(self) -> None:
        queue = self._queue
        self._sending = [queue.popleft() for _ in range(min(len(queue), self._max_size))]
        if not queue:
            self._waiting = trio.Event()
        elif len(queue) >= self._max_size:
            self._full.set()

    async def _send_taken(self) -> None:
        await self._deliver([event for event, _ in self._sending])
        self._bytes -= sum(weight for _, weight in self._sending)
        self._sending = []

    async def _deliver(self, events: list[Event]) -> bool:
        """Deliver events; return whether all were delivered, and count those that were not."""
        left = len(events)
        try:
            batches = await trio.to_thread.run_sync(self._format, events, limiter=self._formatting)
            counted = sum(count for count, _ in batches)
            if counted < left:
                self._too_large.add(left - counted, "they are larger than the limit of an event")
            left = counted
            for count, body in batches:
                await self._webhook.send(body, self._initial_backoff, after_any_error=True)
                left -= count
        except WebhookError as error:
            self._lost.add(left, str(error))
            return False
        except Exception as error:  # the task must not end
            self._lost.add(left, f"the server failed to format them ({type(error).__name__})")
            return False
        return counted == len(events)

    def _format(self, events: list[Event]) -> list[tuple[int, bytes]]:
        """Batches with their number of events; several if one would exceed the limit."""
        lines = self._lines.of(events)
        return [
            (len(batch), self._start + b",".join([b"{" + line[self._skipped :] for line in batch]) + b"]}\n")
            for batch in self._lines.batches(lines)
            if batch
        ]
