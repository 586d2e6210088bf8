"""Turns on the event loop: long work looks at the clock and runs a checkpoint after each turn.

Nothing may hold the loop for longer than five milliseconds. A turn is shorter, because work overruns it: it looks at
the clock only between steps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

TURN = 0.002  # seconds

now = time.perf_counter
processor_now = time.thread_time
_endless = 0  # blocks of `endless_turns` that have begun and not ended
_changing = threading.Lock()


@contextmanager
def endless_turns() -> Iterator[None]:
    """Inside the block no turn of this process ends: how long work takes does not change which task runs next.

    Several threads may be inside.
    """
    global now, processor_now, _endless
    with _changing:
        _endless += 1
        now = processor_now = _standing_still
    try:
        yield
    finally:
        with _changing:
            _endless -= 1
            if not _endless:
                now, processor_now = time.perf_counter, time.thread_time


def _standing_still() -> float:
    return 0.0


class Turn:
    """A turn that begins when it is made, or several."""

    __slots__ = ("_end",)

    def __init__(self, count: int = 1) -> None:
        self._end = now() + count * TURN

    def over(self) -> bool:
        return now() >= self._end


class ProcessorTurn(Turn):
    """A turn in seconds of processor time: other processes that interrupt it do not end it sooner.

    For work whose continuation costs more than asking for the processor time, half a microsecond: a list that continues
    has to find its rows again. On a busy machine lists by selector took 1.2 to 1.4 times as much without it.
    """

    __slots__ = ("_used_up",)

    def __init__(self) -> None:
        super().__init__()
        self._used_up = processor_now() + TURN

    def over(self) -> bool:
        return super().over() and processor_now() >= self._used_up


class SharedTurns:
    """Turns of many tasks that may all become runnable at the same moment, each with little work.

    A task that becomes runnable asks whether the turn is `over`, and waits for the `next` one if it is, so that the
    tasks which are runnable besides it do not wait for all of them. Turns are in seconds of processor time.
    """

    __slots__ = ("_end", "_last", "_now", "_number")

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._now = clock
        self._last = self._end = clock()
        self._number = 0

    def over(self) -> bool:
        time = self._now()
        if time - self._last > TURN / 2:
            self._begin(time)  # others have worked meanwhile
        self._last = time
        return time >= self._end

    async def next(self) -> None:
        """Wait until other tasks have run, and for one of the next turns."""
        while True:
            number = self._number
            await trio.lowlevel.checkpoint()
            time = self._last = self._now()
            if self._number == number:
                self._begin(time)
                return
            if time < self._end:
                return

    def _begin(self, time: float) -> None:
        self._number += 1
        self._end = time + TURN
