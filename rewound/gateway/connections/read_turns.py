"""Limits how many connections whose sockets become readable at once continue in one pass of the event loop.

A poll returns every readable socket: if a client with five thousand watches disconnects, five thousand tasks would
run before the next poll, and each ends a response and closes a socket. So each pass continues only as many
connections as together take about one turn, estimated from the last passes; the others wait for the next passes.
Connections with a response in progress, such as a watch, are usually disconnecting. They have a queue of their own,
which alternates with that of requests, so that a request waits for no more of them than there are requests before it.

Counting is cheap, so that a single connection pays nothing noticeable. Connections without an authenticated request
have stricter turns (`unauthenticated.py`).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Protocol

import outcome
import trio
from trio.lowlevel import Abort, Task, checkpoint, current_task, reschedule, wait_task_rescheduled

_TURN: Final = 0.004  # seconds of processor time for all connections of one pass
_REQUEST: Final = 0.0005  # the estimate for one connection until it is measured
_FEWEST, _MOST = 4, 64  # connections per pass, at least and at most


class Reading(Hashable, Protocol):
    """The transport of a connection."""

    streaming: bool


class ReadTurns(trio.abc.Instrument):
    """The turns of one server."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        """`clock` returns the processor time of the event loop."""
        self._clock = clock
        self._requests: OrderedDict[Reading, Task] = OrderedDict()
        self._streams: OrderedDict[Reading, Task] = OrderedDict()
        self._changed = trio.Event()
        self._average = _REQUEST  # seconds that one connection takes
        self._most = int(_TURN / _REQUEST)
        self._continued = 0  # connections that continued in this pass
        self._unmeasured = 1  # how many of them are not measured
        self._began = 0.0  # when the measured ones started
        self._turns_given = 0  # turns given for the next pass
        self._stream_is_next = False

    @property
    def waiting(self) -> int:
        return len(self._requests) + len(self._streams)

    def over(self) -> bool:
        """Whether a connection that has become readable must wait: this pass is full, or others wait already."""
        if self._requests or self._streams or self._continued >= self._most:
            return True
        self._continued += 1
        if self._continued == 2 and self._unmeasured:  # a single connection is not measured
            self._began = self._clock()
        return False

    def before_io_wait(self, timeout: float) -> None:
        """Estimate, at the end of a pass, how many connections may continue in the next."""
        if self._continued > self._unmeasured:
            spent = (self._clock() - self._began) / (self._continued - self._unmeasured)
            self._average += (spent - self._average) * (0.5 if spent > self._average else 0.05)
            self._most = max(_FEWEST, min(_MOST, int(_TURN / max(self._average, 1e-9))))
        self._continued, self._unmeasured = 0, 1
        if self._turns_given:
            self._continued, self._unmeasured, self._turns_given = self._turns_given, 0, 0
            self._began = self._clock()

    async def wait(self, transport: Reading) -> None:
        """Wait for a turn. Raises ClosedResourceError if interrupted."""
        queue = self._streams if transport.streaming else self._requests
        queue[transport] = current_task()
        self._changed.set()

        def abort(_: object) -> Abort:
            queue.pop(transport, None)
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)

    def interrupt(self, transport: Reading) -> None:
        """Wake a waiting connection with ClosedResourceError; no effect on others."""
        task = self._requests.pop(transport, None) or self._streams.pop(transport, None)
        if task is not None:
            reschedule(task, outcome.Error(trio.ClosedResourceError()))

    async def run(self) -> None:
        """Give turns to waiting connections: in each pass as many as together take one turn."""
        trio.lowlevel.add_instrument(self)
        try:
            while True:
                if not self.waiting:
                    self._changed = trio.Event()
                    await self._changed.wait()
                await checkpoint()
                while self.waiting and self._turns_given < self._most:
                    self._turns_given += 1
                    reschedule(self._take())
        finally:
            trio.lowlevel.remove_instrument(self)

    def _take(self) -> Task:
        """Take the one that has waited longest, alternating between the two queues."""
        self._stream_is_next = not self._stream_is_next
        first, second = self._streams, self._requests
        queue = first if first and (self._stream_is_next or not second) else second
        return queue.popitem(last=False)[1]
