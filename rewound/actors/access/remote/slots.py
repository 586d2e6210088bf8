"""Bounds how many calls run at once: others wait, each until its deadline.

Users take turns, and the calls of one user are in order: a thousand requests of one user that wait for a slow webhook
delay another user's by one call. It is like trio's Semaphore in a cancel scope with a deadline, but takes a third of
the memory: hundreds of writes may wait for one slow webhook. A waiter need not be a task: a call whose task starts with
its turn takes even less.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

import outcome
import trio

from rewound.actors.access.remote.deadlines import Deadlines, TooSlow
from rewound.actors.runtime.turns import SharedTurns, user_at_work


class Waiter(Protocol):
    def proceed(self) -> None:
        """It has a slot now, and no longer waits."""

    def expire(self) -> None:
        """Its deadline has passed: it must give up."""


class _WaitingTask:
    __slots__ = ("_slots", "_task")

    def __init__(self, slots: Slots, task: trio.lowlevel.Task) -> None:
        self._slots = slots
        self._task = task

    def proceed(self) -> None:
        trio.lowlevel.reschedule(self._task)

    def expire(self) -> None:
        self._slots.give_up(self)
        trio.lowlevel.reschedule(self._task, outcome.Error(TooSlow()))


class Slots:
    __slots__ = ("_deadlines", "_free", "_limit", "_turns", "_users", "_waiting")

    def __init__(self, limit: int, deadlines: Deadlines, turns: SharedTurns | None = None) -> None:
        """`turns`: shared by tasks that have waited, because many may get their slots at the same moment."""
        self._limit = self._free = limit
        self._deadlines = deadlines
        self._turns = turns
        self._waiting: OrderedDict[str, dict[Waiter, None]] = OrderedDict()  # by user; the first is next
        self._users: dict[Waiter, str] = {}

    @property
    def idle(self) -> bool:
        """Whether all slots are free."""
        return self._free == self._limit

    def take_nowait(self) -> bool:
        """Take a slot if one is free; returns whether it was."""
        if not self._free:
            return False
        self._free -= 1
        return True

    async def take(self, deadline: float) -> None:
        """Wait for a slot. Raises TooSlow at the deadline."""
        waiter = _WaitingTask(self, trio.lowlevel.current_task())
        self.wait(waiter, deadline)

        def abort(_: object) -> trio.lowlevel.Abort:
            self.give_up(waiter)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if self._turns is not None and self._turns.over():
            try:
                await self._turns.next()
            except BaseException:
                self.release()
                raise

    def wait(self, waiter: Waiter, deadline: float) -> None:
        """Let it wait until it gets a slot or gives up, among those of the user that this task serves."""
        user = self._users[waiter] = user_at_work.get()
        self._waiting.setdefault(user, {})[waiter] = None
        self._deadlines.add(waiter, deadline)

    def give_up(self, waiter: Waiter) -> None:
        user = self._users.pop(waiter)
        del self._waiting[user][waiter]
        if not self._waiting[user]:
            del self._waiting[user]
        self._deadlines.remove(waiter)

    def release(self) -> None:
        """Give a slot back: to the next user's longest waiter, if any waits."""
        if not self._waiting:
            self._free += 1
            return
        user, waiters = next(iter(self._waiting.items()))
        self._waiting.move_to_end(user)
        waiter = next(iter(waiters))
        self.give_up(waiter)
        waiter.proceed()
