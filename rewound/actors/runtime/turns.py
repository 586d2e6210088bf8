"""Turns on the event loop: long work checks the clock after each step, and waits for its next turn when one is over.

Nothing may block the loop for more than five milliseconds. A turn is shorter than that, because work overruns it: it
checks the clock only between steps. In each pass of the event loop one task gets a turn (`next_turn`). So however many
requests read long lists, any other request waits for one turn in all, not for one turn of each.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

import trio

from rewound.actors.runtime.steps import Steps

TURN = 0.002  # seconds

T = TypeVar("T")

now = time.perf_counter
processor_now = time.thread_time
_endless = 0  # blocks of `endless_turns` that are open
_changing = threading.Lock()


@contextmanager
def endless_turns() -> Iterator[None]:
    """Inside the block no turn of this process ends, so the duration of work does not change which task runs next.

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
    """A turn that starts when it is created; `count` makes it several times as long."""

    __slots__ = ("_end",)

    def __init__(self, count: int = 1) -> None:
        self._end = now() + count * TURN

    def over(self) -> bool:
        return now() >= self._end


class ProcessorTurn(Turn):
    """A turn measured in CPU time: other processes that preempt this one do not end it sooner.

    For work that is more expensive to resume than to read the CPU time (half a microsecond): a list that resumes has to
    find its rows again. On a busy machine lists by selector took 1.2 to 1.4 times as long without it.
    """

    __slots__ = ("_used_up",)

    def __init__(self) -> None:
        super().__init__()
        self._used_up = processor_now() + TURN

    def over(self) -> bool:
        return super().over() and processor_now() >= self._used_up


# The user whose request the task serves: users take turns. "" is the server itself.
user_at_work: Final[ContextVar[str]] = ContextVar("user_at_work", default="")


async def next_turn() -> None:
    """Let other tasks run, then wait until it is this user's turn to do long work."""
    try:
        turns = _long_turns.get()
    except LookupError:
        turns = _LongTurns()
        _long_turns.set(turns)
    await turns.next(user_at_work.get())


class OverTime(Exception):
    """Work in turns took more processor time than it may."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it takes more than {seconds:g} seconds of processor time")


async def in_turns(steps: Steps[T], seconds: float | None = None) -> T:
    """Do work in turns on the event loop. Work that fits into one turn does not wait at all.

    `seconds` of processor time end it: raises OverTime. For work whose amount a user determines by one object.
    """
    turn, left = Turn(), seconds
    while True:
        began = processor_now() if left is not None else 0.0
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        if left is not None:
            left -= processor_now() - began
            if left < 0:
                assert seconds is not None
                steps.close()
                raise OverTime(seconds)
        if turn.over():
            await next_turn()
            turn = Turn()


class WaitingUsers:
    """Tasks that wait, by user: each resume takes the oldest task of the next user."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[trio.lowlevel.Task]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    async def wait(self, user: str) -> None:
        task = trio.lowlevel.current_task()
        self._waiting.setdefault(user, deque()).append(task)

        def abort(_: object) -> trio.lowlevel.Abort:
            self._waiting[user].remove(task)
            if not self._waiting[user]:
                del self._waiting[user]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def resume_next(self) -> None:
        user, tasks = self._waiting.popitem(last=False)
        trio.lowlevel.reschedule(tasks.popleft())
        if tasks:
            self._waiting[user] = tasks  # behind the other users


class _LongTurns:
    """The tasks that wait for a turn. A system task resumes one of them in each pass of the event loop."""

    def __init__(self) -> None:
        self._waiting = WaitingUsers()
        self._runs = False

    async def next(self, user: str) -> None:
        if not self._runs:
            self._runs = True
            trio.lowlevel.spawn_system_task(self._run, name="turns of long work")
        await self._waiting.wait(user)

    async def _run(self) -> None:
        try:
            while self._waiting:
                self._waiting.resume_next()
                await trio.lowlevel.checkpoint()
        finally:
            self._runs = False


_long_turns: Final[trio.lowlevel.RunVar[_LongTurns]] = trio.lowlevel.RunVar("long_turns")


def _processor_time() -> float:
    return processor_now()


class SharedTurns:
    """Turns shared by many tasks that may all become runnable at the same moment, each with little work.

    A task that becomes runnable checks whether the turn is `over`, and if so waits for the `next` one. Tasks that are
    runnable at the same time then need not wait for all of them. Turns are measured in CPU time.
    """

    __slots__ = ("_end", "_last", "_now", "_number")

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        clock = clock or _processor_time
        self._now = clock
        self._last = self._end = clock()
        self._number = 0

    def over(self) -> bool:
        time = self._now()
        if time - self._last > TURN / 2:
            self._begin(time)  # others have worked in the meantime
        self._last = time
        return time >= self._end

    def begin(self) -> None:
        """Start a turn. Otherwise the first task that checks finds it over."""
        self._begin(self._now())

    def worked(self) -> None:
        """Count the time since `over` towards the turn, however long it was."""
        self._last = self._now()

    async def next(self) -> None:
        """Let other tasks run, then wait for one of the next turns."""
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
