"""Runs the asynchronous admission steps of all resource types.

Each step runs in a task of its own and calls back with its outcome, or with the error that refuses the write. Their
number is bounded: further writes are refused at once, so that a plugin that never returns cannot exhaust the memory. A
step that is cancelled, because its client disconnected or the server stops, ends with ShuttingDown.

A task that has completed a step waits for the next one, because a new task and its cancel scope cost more than most
plugins. A task whose step was cancelled ends. A step that must wait in a queue, because a webhook is slow, gets a task
with its turn: hundreds may wait, and a task with its frames takes five kilobytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import NamedTuple, Protocol

import trio

from actors.access.remote.slots import Slots
from actors.admission.plugin import Admitted, AsyncPlugin
from actors.admission.request import AdmissionRequest, Queued
from actors.admission.timings import ADMIT, VALIDATE, Timings
from actors.errors import Overloaded, ShuttingDown
from actors.runtime.turns import SharedTurns

# As many as a mailbox holds: each waiting write takes some kilobytes.
MAX_CALLS = 4096
# Tasks without a step take some kilobytes, too.
MAX_IDLE = 32

Done = Callable[[Admitted | Exception], None]


@dataclass(frozen=True, slots=True)
class CallStatistics:
    running: int
    limit: int
    started: int
    refused: int


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Call(NamedTuple):
    plugin: AsyncPlugin
    request: AdmissionRequest
    done: Done
    began: float  # by the clock of durations
    slots: Slots | None  # it has one of these when it has begun


class _WaitingCall:
    """A step that waits in the queue of its plugin; `cancel` also works when it has begun."""

    __slots__ = ("_call", "_calls", "_scope", "_slots")

    def __init__(self, calls: AdmissionCalls, call: Call, slots: Slots) -> None:
        self._calls = calls
        self._call: Call | None = call  # None when it has begun
        self._slots = slots
        self._scope: trio.CancelScope | None = None

    def proceed(self) -> None:
        assert self._call is not None
        self._begin(self._call)

    def expire(self) -> None:
        self._slots.give_up(self)
        assert self._call is not None
        self._begin(self._call._replace(slots=None))

    def cancel(self) -> None:
        if self._scope is None:
            self.expire()  # its task reports that it was cancelled
        assert self._scope is not None
        self._scope.cancel()

    def _begin(self, call: Call) -> None:
        self._call = None
        self._scope = self._calls.begin(call)


class _Worker:
    """A task that runs one step after the other; `scope` cancels the present one."""

    __slots__ = ("call", "scope", "task")

    def __init__(self, call: Call) -> None:
        self.call: Call | None = call
        self.scope = trio.CancelScope()
        self.task: trio.lowlevel.Task | None = None  # while it waits for a step


class AdmissionCalls:
    def __init__(
        self,
        nursery: trio.Nursery,
        limit: int = MAX_CALLS,
        *,
        timings: Timings | None = None,
        turns: SharedTurns | None = None,
    ) -> None:
        self._nursery = nursery
        self._limit = limit
        self._timings = timings or Timings()
        self._turns = turns or SharedTurns()
        self._running = self._started = self._refused = 0
        self._idle: list[_Worker] = []

    def start(self, plugin: AsyncPlugin, request: AdmissionRequest, done: Done) -> Cancellable:
        """Calls `done` exactly once, after this returns. Raises Overloaded if too many calls are running."""
        if self._running >= self._limit:
            self._refused += 1
            raise Overloaded
        if request.queued is not None:
            request.queued = None
        queue = plugin.queue(request)
        self._running += 1
        self._started += 1
        call = Call(plugin, request, done, perf_counter(), queue.slots if queue is not None else None)
        if queue is None or queue.slots.take_nowait():
            return self.begin(call)
        request.queued = Queued(trio.current_time(), queue.found)
        waiting = _WaitingCall(self, call, queue.slots)
        queue.slots.wait(waiting, request.queued.since + queue.seconds)
        return waiting

    def begin(self, call: Call) -> trio.CancelScope:
        """Run the step in a task."""
        if not self._idle:
            worker = _Worker(call)
            self._nursery.start_soon(self._work, worker)
            return worker.scope
        worker = self._idle.pop()
        task, worker.task = worker.task, None
        assert task is not None
        worker.call = call
        trio.lowlevel.reschedule(task)
        return worker.scope

    def statistics(self) -> CallStatistics:
        return CallStatistics(self._running, self._limit, self._started, self._refused)

    async def _work(self, worker: _Worker) -> None:
        with worker.scope:
            while True:
                call, worker.call = worker.call, None
                assert call is not None
                outcome: Admitted | Exception = ShuttingDown()
                try:
                    if call.request.queued is None or await self._may_begin():
                        outcome = await call.plugin.admit(call.request)
                except Exception as error:
                    outcome = error
                finally:
                    self._running -= 1
                    record_call(self._timings, call, refused=isinstance(outcome, Exception))
                    call.done(outcome)
                    if call.slots is not None:
                        call.slots.release()
                call = None  # an idle task keeps nothing of a write
                del outcome
                if worker.scope.cancel_called or len(self._idle) >= MAX_IDLE:
                    return
                await self._wait(worker)

    async def _may_begin(self) -> bool:
        """Wait for a turn, because many that waited may begin at the same moment. False for a cancelled step."""
        if self._turns.over():
            await self._turns.next()
        return trio.current_effective_deadline() > -inf

    async def _wait(self, worker: _Worker) -> None:
        """Until `start` has a step for the worker."""
        worker.task = trio.lowlevel.current_task()
        self._idle.append(worker)

        def abort(_: object) -> trio.lowlevel.Abort:
            self._idle.remove(worker)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)


def record_call(timings: Timings, call: Call, *, refused: bool) -> None:
    """Record how long an asynchronous step took; a refusal also ends the phase."""
    plugin, request, began = call.plugin, call.request, call.began
    type_, now = VALIDATE if plugin.validates else ADMIT, perf_counter()
    timing = timings.plugin(plugin.name, type_, request.operation)
    if refused:
        timing.refused.add(now - began)
        timings.phase(type_, request.operation).refused.add(now - request.phase_began)
    else:
        timing.passed.add(now - began)
