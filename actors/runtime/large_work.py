"""Runs work on large objects in a worker thread, one piece at a time, so that it does not hold the event loop.

Decoding, patching, validating and deciding take a microsecond per byte and more. Below `LARGE_BYTES` the event loop
does them itself, because the hop to a thread would cost more than the work. Larger pieces wait here for the one thread:
more threads would only take turns with the interpreter lock, and each would delay the event loop.

Users take turns, so that one user's many large requests delay another user's single one by one piece at most. The
number of waiting pieces is bounded, in all and for each user.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import trio

from actors.errors import Overloaded, ShuttingDown
from actors.runtime.time_limit import run_limited

# About a millisecond of work, which other requests may wait for.
LARGE_BYTES: Final = 64 * 1024
# At some tenths of a second for the largest piece, the last one waits about as long as a request may take.
MAX_WAITING: Final = 256
MAX_WAITING_OF_USER: Final = 64
# Commands wait without their object, and those of a deletecollection come together.
MAX_WAITING_COMMANDS: Final = 4096

T = TypeVar("T")


class TooMuchLargeWork(Overloaded):
    message = "the server has more large requests than it can work on now, please try again later"


@dataclass(frozen=True, slots=True)
class LargeWorkStatistics:
    waiting: int
    started: int
    refused: int


class LargeWork:
    def __init__(
        self, nursery: trio.Nursery, limit: int = MAX_WAITING, limit_of_user: int = MAX_WAITING_OF_USER
    ) -> None:
        self._nursery = nursery
        self._limit, self._limit_of_user = limit, limit_of_user
        self._running = False
        self._waiting: OrderedDict[str, deque[trio.lowlevel.Task]] = OrderedDict()  # the first user is next
        self._count = self._commands = 0  # waiting pieces, and how many of them are commands
        self._started = self._refused = 0
        self._thread = trio.CapacityLimiter(1)

    async def run(self, user: str, work: Callable[..., T], *arguments: Any) -> T:
        """Run work in the thread when it is the user's turn. Raises TooMuchLargeWork if too much is waiting.

        Cancelling does not stop work that runs: this returns when it has ended, or at its next call to the event loop.
        """
        return await self._run(user, False, work, *arguments)

    async def _run(self, user: str, is_command: bool, work: Callable[..., T], *arguments: Any) -> T:
        waited = await self._take_turn(user, is_command)
        self._started += 1
        try:
            if waited:
                # Whoever gets the result of the piece before this one uses it first: an actor proposes its events.
                await trio.lowlevel.cancel_shielded_checkpoint()
            return await trio.to_thread.run_sync(run_limited, work, *arguments, limiter=self._thread)
        finally:
            self._pass_turn()

    def start(
        self, user: str, work: Callable[[], T], done: Callable[[T | Exception], None]
    ) -> trio.CancelScope:
        """Run a command like `run`, in a task of its own. Calls `done` exactly once, after this returns."""
        scope = trio.CancelScope()
        self._nursery.start_soon(self._run_and_report, user, work, done, scope)
        return scope

    async def _run_and_report(
        self,
        user: str,
        work: Callable[[], T],
        done: Callable[[T | Exception], None],
        scope: trio.CancelScope,
    ) -> None:
        result: T | Exception = ShuttingDown()
        try:
            with scope:
                result = await self._run(user, True, work)
        except Exception as error:
            result = error
        finally:
            done(result)

    def statistics(self) -> LargeWorkStatistics:
        return LargeWorkStatistics(self._count, self._started, self._refused)

    async def _take_turn(self, user: str, is_command: bool) -> bool:
        """Returns whether others were before."""
        if not self._running:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._running = True
            return False
        self._check_room(user, is_command)
        task = trio.lowlevel.current_task()
        self._waiting.setdefault(user, deque()).append(task)
        self._count += 1
        self._commands += is_command

        def abort(_: object) -> trio.lowlevel.Abort:
            self._forget(user, task)
            return trio.lowlevel.Abort.SUCCEEDED

        try:
            await trio.lowlevel.wait_task_rescheduled(abort)
        finally:
            self._commands -= is_command
        return True

    def _check_room(self, user: str, is_command: bool) -> None:
        if is_command:
            full = self._commands >= MAX_WAITING_COMMANDS
        else:
            others = self._count - self._commands
            full = others >= self._limit or len(self._waiting.get(user, ())) >= self._limit_of_user
        if full:
            self._refused += 1
            raise TooMuchLargeWork

    def _forget(self, user: str, task: trio.lowlevel.Task) -> None:
        queue = self._waiting[user]
        queue.remove(task)
        self._count -= 1
        if not queue:
            del self._waiting[user]

    def _pass_turn(self) -> None:
        """Give the thread to the next user; this one goes to the end."""
        if not self._waiting:
            self._running = False
            return
        user, queue = self._waiting.popitem(last=False)
        task = queue.popleft()
        self._count -= 1
        if queue:
            self._waiting[user] = queue
        trio.lowlevel.reschedule(task)
