"""Resumes tasks that wait for input or for a reply: many of them in one step of the event loop.

trio takes some 250 bytecodes and a dozen calls to put one task into its queue, to run it and to let it wait again: an
eighth of a get. A task that waits with `pause` can be resumed with `resume` instead. One system task, the resumer,
then runs all that are ready in its own step; the I/O manager (`PersistentReads`) runs those that have input when it
polls. Each is run as trio would: as the current task, in its own context, with its cancellation. This needs private
parts of trio, so it is done only with the releases that it was written for; with others, and before `start`, `resume`
is `trio.lowlevel.reschedule` (docs/decisions/0029).
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import outcome
import trio
from trio.lowlevel import Abort, Task, reschedule, wait_task_rescheduled

# Releases of trio whose tasks and I/O manager are those that this module and `PersistentReads` were written for.
RELEASES: Final = frozenset({"0.30", "0.31", "0.32", "0.33", "0.34", "0.35"})
KNOWN: Final = trio.__version__.rpartition(".")[0] in RELEASES

if TYPE_CHECKING or KNOWN:
    from trio._core._run import GLOBAL_RUN_CONTEXT
    from trio._core._traps import (
        CancelShieldedCheckpoint,
        PermanentlyDetachCoroutineObject,
        WaitTaskRescheduled,
    )

    _run: Any = GLOBAL_RUN_CONTEXT
else:
    _run = None

AbortWait = Callable[[Any], Abort]
# What the resumer sends to a task. trio sends a new object each time, which has to be unwrapped.
_RESUMED: Final = outcome.Value(None)


@types.coroutine
def _pause(abort: AbortWait) -> Generator[Any, Any, None]:
    """As `wait_task_rescheduled`, for a task that somebody will `resume`."""
    result = yield WaitTaskRescheduled(abort)
    if result is not _RESUMED:
        result.unwrap()


@types.coroutine
def pause_again(message: WaitTaskRescheduled) -> Generator[Any, Any, None]:
    """As `pause`, with a message that was made before: it may be used any number of times."""
    result = yield message
    if result is not _RESUMED:
        result.unwrap()


class Resumer:
    """The system task that runs resumed tasks."""

    def __init__(self) -> None:
        self.ready: list[Task] = []  # tasks to run in its next step
        self._waiting: Any = None  # the system task itself, while it waits
        self._message = WaitTaskRescheduled(self._abort)
        self._queue = _run.runner.runq

    async def run(self) -> None:
        own = _run.task
        try:
            while True:
                if not self.ready:
                    self._waiting = own
                    await pause_again(self._message)
                tasks, self.ready = self.ready, []
                try:
                    _run_each(tasks)
                finally:
                    _run.task = own
                if self.ready:  # what they have resumed runs after the other tasks
                    await trio.lowlevel.cancel_shielded_checkpoint()
        finally:
            vars(_run).pop("resumer", None)
            for task in self.ready:
                reschedule(task)

    def wake(self) -> None:
        """There are tasks to run; no effect while it runs some. As `reschedule`, in fewer steps."""
        task = self._waiting
        if task is not None:
            self._waiting = task._abort_func = None
            task._next_send_fn, task._next_send = task.coro.send, _RESUMED
            self._queue.append(task)

    def _abort(self, _: object) -> Abort:
        self._waiting = None
        return Abort.SUCCEEDED


def run_at_poll(tasks: list[Task]) -> None:
    """Run tasks that wait in `pause_again`; only the I/O manager may, while it processes events."""
    for call in getattr(_run, "polled", ()):
        call()
    try:
        _run_each(tasks)
    finally:
        vars(_run).pop("task", None)


@contextmanager
def called_at_poll(call: Callable[[], None]) -> Iterator[None]:
    """Call this in the running loop whenever tasks are about to run at a poll, which instruments do not see."""
    if not KNOWN:
        yield
        return
    _run.polled = (*getattr(_run, "polled", ()), call)
    try:
        yield
    finally:
        _run.polled = tuple(one for one in getattr(_run, "polled", ()) if one != call)


def _run_each(tasks: list[Task]) -> None:
    """Run each task until it waits again or ends, as the loop of trio does."""
    runner = _run.runner
    if "before_task_step" in runner.instruments or "after_task_step" in runner.instruments:
        for task in tasks:
            reschedule(task)
        return
    for task in tasks:
        _run.task = task
        try:
            message = task.context.run(task.coro.send, _RESUMED)
        except BaseException as error:
            ended = _ended(error)
        else:
            if type(message) is WaitTaskRescheduled:
                task._abort_func = message.abort_func
                if task._cancel_status.effectively_cancelled or runner.ki_pending:
                    _interrupt(runner, task)
            else:
                _obey(runner, task, message)
            continue
        runner.task_exited(task, ended)  # not while the exception is being handled


def _ended(error: BaseException) -> outcome.Value[object] | outcome.Error:
    """How a task has ended whose coroutine raised this."""
    if isinstance(error, StopIteration):
        return outcome.Value(error.value)
    trace = error.__traceback__
    return outcome.Error(error.with_traceback(trace and trace.tb_next))


def _interrupt(runner: Any, task: Any) -> None:
    """Deliver what was to interrupt a task before it began to wait."""
    if runner.ki_pending and task is runner.main_task:
        task._attempt_delivery_of_pending_ki()
    task._attempt_delivery_of_any_pending_cancel()


def _obey(runner: Any, task: Any, message: Any) -> None:
    """Do what a task wants other than to wait."""
    if message is CancelShieldedCheckpoint:
        runner.reschedule(task)
    elif type(message) is PermanentlyDetachCoroutineObject:
        runner.task_exited(task, message.final_outcome)
    else:
        runner.reschedule(task, TypeError(f"trio does not know the message {message!r}"))
        task._next_send_fn = task.coro.throw


def start() -> bool:
    """Let `resume` run tasks in the running loop by a resumer; False if it cannot."""
    if not KNOWN or _run.runner.is_guest:
        return False
    if find_resumer() is None:
        _run.resumer = Resumer()
        trio.lowlevel.spawn_system_task(_run.resumer.run, name="resumer")
    return True


def find_resumer() -> Resumer | None:
    """The resumer of the running loop."""
    return getattr(_run, "resumer", None)


def _resume(task: Task) -> None:
    """As `reschedule`, for a task that waits in `pause`."""
    resumer = getattr(_run, "resumer", None)
    if resumer is None:
        reschedule(task)
        return
    task._abort_func = None
    ready = resumer.ready
    if not ready:
        resumer.wake()
    ready.append(task)


pause: Callable[[AbortWait], Awaitable[None]] = _pause if KNOWN else wait_task_rescheduled
resume: Callable[[Task], None] = _resume if KNOWN else reschedule
