"""A clock that a test moves: the wall clock and the deadlines of the event loop advance together.

    clock = AdvancingClock()
    trio.run(serve, clock=clock.deadlines)      serve passes `clock` to `server.run`
    await clock.advance(3600)

Between two moves time passes as usual. `advance` stops at every deadline on its way and lets the tasks run that it
wakes: of two timers the earlier one fires first, and a timer that is set again fires again. It moves on only when what
they wrote is committed: a node whose lease waits for a commit must not miss the next renewals.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import trio
from trio.lowlevel import current_statistics

# Deadlines that are closer together than this fraction of an advance fire together: a task that wakes up every
# millisecond must not interrupt an advance by a day a hundred million times.
_STEPS: Final = 500
_BUSY: Final = 0.1  # seconds to wait at each deadline for a server that is never idle


class AdvancingClock:
    def __init__(self) -> None:
        self._offset = 0.0  # seconds by which tests have moved the clock
        self.deadlines = _Deadlines(self)
        self._moving = trio.Lock()

    @property
    def offset(self) -> float:
        return self._offset

    def now(self) -> int:
        """Microseconds since 1970."""
        return time.time_ns() // 1000 + round(self._offset * 1_000_000)

    async def advance(
        self, seconds: float, working: Working | None = None, committing: Working | None = None
    ) -> None:
        """Move the clock; returns when the tasks that are due have run. See `wait_until_idle` for the others."""
        async with self._moving:
            end, shortest, longest = self._offset + seconds, seconds / _STEPS, LONGEST
            if not await wait_until_idle(longest, working, committing):
                longest = _BUSY
            while self._offset < end:
                step = max(current_statistics().seconds_to_next_deadline, shortest)
                self._offset = min(end, self._offset + step)
                if not await wait_until_idle(longest, working, committing):
                    longest = _BUSY


class _Deadlines(trio.abc.Clock):
    """trio's clock, moved together with the wall clock."""

    def __init__(self, clock: AdvancingClock) -> None:
        self._clock = clock

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return time.perf_counter() + self._clock.offset

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return deadline - self.current_time()


LONGEST: Final = 5.0  # seconds: a server with constant traffic is never idle
_LONGEST_WORK: Final = 120.0  # seconds for controllers that have work to do
_PAUSE: Final = 0.001  # seconds between two looks at threads
Working = Callable[[], bool]  # whether controllers have something to do


async def wait_until_idle(
    longest: float = LONGEST, working: Working | None = None, committing: Working | None = None
) -> bool:
    """Let tasks and threads run until all of them wait for clients or for time: controllers have nothing left to do.

    Returns False if they still run after a while though `working` says that no controller has work: then clients keep
    the server busy. While controllers work it waits longer, because the machine may be slow. `committing`: whether
    writes wait for their commit.
    """
    end = time.perf_counter() + _LONGEST_WORK
    while not await _wait_until_blocked(longest, committing or _never):
        if working is None or not working() or time.perf_counter() > end:
            return False
    return True


def _never() -> bool:
    return False


async def _wait_until_blocked(longest: float, committing: Working) -> bool:
    from trio.testing import wait_all_tasks_blocked  # imports pytest, where it is installed

    threads = trio.to_thread.current_default_thread_limiter()
    with trio.move_on_after(longest):
        await wait_all_tasks_blocked()
        # A task that waits for a thread, such as one that commits, counts as blocked, and so does one whose commit is
        # decided elsewhere.
        while threads.borrowed_tokens or committing():
            await trio.sleep(_PAUSE)
            await wait_all_tasks_blocked()
        return True
    return False
