"""Bounds how many calls run at once: others wait in order, each until its deadline.

Like trio's Semaphore in a cancel scope with a deadline. Hundreds of writes may wait for one slow webhook, and this
takes a third of the memory.
"""

from __future__ import annotations

import outcome
import trio

from actors.access.remote.deadlines import Deadlines
from actors.access.remote.tls_stream import TooSlow


class _Waiter:
    __slots__ = ("_slots", "task")

    def __init__(self, slots: Slots, task: trio.lowlevel.Task) -> None:
        self._slots = slots
        self.task = task

    def expire(self) -> None:
        self._slots.give_up(self)
        trio.lowlevel.reschedule(self.task, outcome.Error(TooSlow()))


class Slots:
    __slots__ = ("_deadlines", "_free", "_limit", "_waiting")

    def __init__(self, limit: int, deadlines: Deadlines) -> None:
        self._limit = self._free = limit
        self._deadlines = deadlines
        self._waiting: dict[_Waiter, None] = {}  # in the order in which they came

    @property
    def idle(self) -> bool:
        """Whether all slots are free."""
        return self._free == self._limit

    def take_nowait(self) -> bool:
        """Whether a slot was free; the caller has it then."""
        if not self._free:
            return False
        self._free -= 1
        return True

    async def take(self, deadline: float) -> None:
        """Wait for a slot. TooSlow at the deadline."""
        waiter = _Waiter(self, trio.lowlevel.current_task())
        self._waiting[waiter] = None
        self._deadlines.add(waiter, deadline)

        def abort(_: object) -> trio.lowlevel.Abort:
            self.give_up(waiter)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def give_up(self, waiter: _Waiter) -> None:
        del self._waiting[waiter]
        self._deadlines.remove(waiter)

    def release(self) -> None:
        """Give a slot back: to the one that waits for longest, if there is one."""
        if not self._waiting:
            self._free += 1
            return
        waiter = next(iter(self._waiting))
        self.give_up(waiter)
        trio.lowlevel.reschedule(waiter.task)
