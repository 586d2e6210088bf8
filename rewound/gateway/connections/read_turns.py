"""Connections whose sockets become readable in the same pass of the event loop go on in turns.

A poll returns every socket that is readable: when a client with five thousand watches leaves, five thousand tasks would
run before the next poll, and each ends a response and closes a socket. So only as many connections go on in a pass as
take about a turn together, by what those of the last passes have taken; the others wait, and go on in the next passes.
Those with a response in progress, such as a watch, usually say good-bye: a line of their own, so that requests wait for
no more than as many of them as there are requests.

Counting is cheap, so that a connection which is alone pays nothing noticeable. Connections on which no request has been
authenticated have stricter turns (`unauthenticated.py`).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Protocol

import outcome
import trio
from trio.lowlevel import Abort, Task, checkpoint, current_task, reschedule, wait_task_rescheduled

_TURN: Final = 0.004  # seconds of processor time that those of one pass may take together
_REQUEST: Final = 0.0005  # what one takes, until it is measured
_FEWEST, _MOST = 4, 64  # connections that go on in one pass


class Reading(Hashable, Protocol):
    """The transport of a connection."""

    streaming: bool


class ReadTurns(trio.abc.Instrument):
    """The turns of one server."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        """`clock` is the processor time of the event loop."""
        self._clock = clock
        self._requests: OrderedDict[Reading, Task] = OrderedDict()
        self._streams: OrderedDict[Reading, Task] = OrderedDict()
        self._changed = trio.Event()
        self._usual = _REQUEST  # seconds that one connection takes
        self._most = int(_TURN / _REQUEST)
        self._gone_on = 0  # connections, in this pass
        self._first = 1  # of them are not measured
        self._began = 0.0  # when those after them went on
        self._given = 0  # turns of the next pass
        self._stream_is_next = False

    @property
    def waiting(self) -> int:
        return len(self._requests) + len(self._streams)

    def over(self) -> bool:
        """Whether a connection that has become readable has to wait: its turn is over, or others wait already."""
        if self._requests or self._streams or self._gone_on >= self._most:
            return True
        self._gone_on += 1
        if self._gone_on == 2 and self._first:  # one that is alone is not measured
            self._began = self._clock()
        return False

    def before_io_wait(self, timeout: float) -> None:
        """A pass has ended: learn from it how many may go on in the next."""
        if self._gone_on > self._first:
            spent = (self._clock() - self._began) / (self._gone_on - self._first)
            self._usual += (spent - self._usual) * (0.5 if spent > self._usual else 0.05)
            self._most = max(_FEWEST, min(_MOST, int(_TURN / max(self._usual, 1e-9))))
        self._gone_on, self._first = 0, 1
        if self._given:
            self._gone_on, self._first, self._given = self._given, 0, 0
            self._began = self._clock()

    async def wait(self, transport: Reading) -> None:
        """Wait for a turn. ClosedResourceError if it is interrupted."""
        line = self._streams if transport.streaming else self._requests
        line[transport] = current_task()
        self._changed.set()

        def abort(_: object) -> Abort:
            line.pop(transport, None)
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)

    def interrupt(self, transport: Reading) -> None:
        """Wake it, if it waits."""
        task = self._requests.pop(transport, None) or self._streams.pop(transport, None)
        if task is not None:
            reschedule(task, outcome.Error(trio.ClosedResourceError()))

    async def run(self) -> None:
        """Give turns to those that wait, in each pass to as many as take one together."""
        trio.lowlevel.add_instrument(self)
        try:
            while True:
                if not self.waiting:
                    self._changed = trio.Event()
                    await self._changed.wait()
                await checkpoint()
                while self.waiting and self._given < self._most:
                    self._given += 1
                    reschedule(self._take())
        finally:
            trio.lowlevel.remove_instrument(self)

    def _take(self) -> Task:
        """The two lines take turns; in each the one that waits longest is the next."""
        self._stream_is_next = not self._stream_is_next
        first, second = self._streams, self._requests
        line = first if first and (self._stream_is_next or not second) else second
        return line.popitem(last=False)[1]
