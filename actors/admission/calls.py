"""Runs the asynchronous admission steps of all resource types.

Each step runs in its own task and calls back with its outcome, or with the error that refuses the write. Their number
is bounded: further writes are refused at once, so that a plugin that never returns cannot exhaust the memory. A step
that is cancelled, because its client disconnected or the server stops, ends with ShuttingDown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import trio

from actors.admission.plugin import Admitted, AsyncPlugin
from actors.admission.request import AdmissionRequest
from actors.admission.timings import ADMIT, VALIDATE, Timings
from actors.errors import Overloaded, ShuttingDown

# As many as a mailbox holds: each waiting write takes some kilobytes.
MAX_CALLS = 4096

Done = Callable[[Admitted | Exception], None]


@dataclass(frozen=True, slots=True)
class CallStatistics:
    running: int
    limit: int
    started: int
    refused: int


class AdmissionCalls:
    def __init__(
        self, nursery: trio.Nursery, limit: int = MAX_CALLS, *, timings: Timings | None = None
    ) -> None:
        self._nursery = nursery
        self._limit = limit
        self._timings = timings or Timings()
        self._running = self._started = self._refused = 0

    def start(self, plugin: AsyncPlugin, request: AdmissionRequest, done: Done) -> trio.CancelScope:
        """Calls `done` exactly once, after this returns. Raises Overloaded if too many calls are running."""
        if self._running >= self._limit:
            self._refused += 1
            raise Overloaded
        scope = trio.CancelScope()
        self._running += 1
        self._started += 1
        self._nursery.start_soon(self._call, plugin, request, done, scope)
        return scope

    def statistics(self) -> CallStatistics:
        return CallStatistics(self._running, self._limit, self._started, self._refused)

    async def _call(
        self, plugin: AsyncPlugin, request: AdmissionRequest, done: Done, scope: trio.CancelScope
    ) -> None:
        outcome: Admitted | Exception = ShuttingDown()
        began = perf_counter()
        try:
            with scope:
                outcome = await plugin.admit(request)
        except Exception as error:
            outcome = error
        finally:
            self._running -= 1
            record_call(self._timings, plugin, request, began, refused=isinstance(outcome, Exception))
            done(outcome)


def record_call(
    timings: Timings, plugin: AsyncPlugin, request: AdmissionRequest, began: float, *, refused: bool
) -> None:
    """Record how long an asynchronous step took; a refusal also ends the phase."""
    type_, now = VALIDATE if plugin.validates else ADMIT, perf_counter()
    timing = timings.plugin(plugin.name, type_, request.operation)
    if refused:
        timing.refused.add(now - began)
        timings.phase(type_, request.operation).refused.add(now - request.phase_began)
    else:
        timing.passed.add(now - began)
