"""How long the disk takes for a commit, and commits beside the event loop when that is long.

What counts is the commit itself, from the last put to the end of LMDB's fsync: it is the same in both threads. The time
of the whole write would not do, because in a worker thread it includes waiting for the interpreter lock: a busy server
that had moved its commits to a worker thread once would never move them back (docs/decisions/0002-committer.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import outcome
import trio

T = TypeVar("T")

# Commits that take longer than this on average (seconds) move to a worker thread, and back when they take less than
# half of it. Other requests wait at most about this long for a commit in the event loop.
SLOW_COMMIT = 0.004
SMOOTHING = 0.1
# One commit counts as no more than this: a single long one does not move those after it.
LONGEST_COUNTED = 0.016
# The part of a slow commit's time that a batch waits for more proposals.
GATHERING = 0.125


class DiskSpeed:
    """The smoothed time of commits, which says where the next one runs. Only for the thread of the event loop."""

    def __init__(self) -> None:
        self.slow = False
        self._average = 0.0

    @property
    def worth_waiting(self) -> float:
        """Seconds that a batch waits for more proposals: a small part of those that its commit takes."""
        return self._average * GATHERING

    def record(self, seconds: float) -> None:
        self._average += (min(seconds, LONGEST_COUNTED) - self._average) * SMOOTHING
        if self._average > SLOW_COMMIT and not self.slow:
            self.slow = True
        elif self._average < SLOW_COMMIT / 2 and self.slow:
            self.slow = False


def passes_in_real_time(seconds: float) -> bool:
    """Whether as much real time passes while the clock of the event loop moves by so many seconds.

    A test's clock may stand still, or jump only while nothing else happens: a task must not wait for such a clock
    because the disk was slow.
    """
    clock = trio.lowlevel.current_clock()
    return clock.deadline_to_sleep_time(clock.current_time() + seconds) <= 2 * seconds


async def run_beside(work: Callable[[Callable[[], None]], T]) -> T:
    """Run `work` in a worker thread; the event loop stands still until `work` calls its argument, or ends.

    For work that needs the interpreter lock often and briefly before it waits for the disk: with a busy event loop
    beside it, every such step would cost two switches between the threads.
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
