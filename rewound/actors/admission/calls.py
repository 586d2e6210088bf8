"""Runs the steps of admission plugins that writes wait for, of all resource types.

Their number is bounded: further writes are refused at once, so that a plugin that never returns cannot exhaust the
memory. A step begins in the queue of its plugin, if that has one: a slow webhook is asked by so many writes at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from rewound.actors.access.remote.deadlines import TooSlow
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, Queue
from rewound.actors.admission.request import AdmissionRequest, Queued
from rewound.actors.errors import Overloaded
from rewound.actors.runtime.outside import outside
from rewound.actors.runtime.turns import SharedTurns

# As many as a mailbox holds: each waiting write takes some kilobytes.
MAX_CALLS = 4096


@dataclass(frozen=True, slots=True)
class CallStatistics:
    running: int
    limit: int
    started: int
    refused: int


class AdmissionCalls:
    def __init__(self, limit: int = MAX_CALLS, *, turns: SharedTurns | None = None) -> None:
        self._limit = limit
        self._turns = turns or SharedTurns()
        self._running = self._started = self._refused = 0

    async def call(self, plugin: AsyncPlugin, request: AdmissionRequest) -> Admitted:
        """The outcome of the plugin's step. Raises Overloaded if too many steps are running."""
        if self._running >= self._limit:
            self._refused += 1
            raise Overloaded
        self._running += 1
        self._started += 1
        try:
            request.queued = None
            queue = plugin.queue(request)
            step = plugin.admit(request) if queue is None else self._call_in_turn(plugin, request, queue)
            return await (outside(step) if plugin.calls_webhooks else step)
        finally:
            self._running -= 1

    async def _call_in_turn(self, plugin: AsyncPlugin, request: AdmissionRequest, queue: Queue) -> Admitted:
        has_slot = queue.slots.take_nowait() or await self._wait_for_slot(request, queue)
        try:
            if request.queued is not None and self._turns.over():
                await self._turns.next()  # many that waited may begin at the same moment
            return await plugin.admit(request)
        finally:
            if has_slot:
                queue.slots.release()

    async def _wait_for_slot(self, request: AdmissionRequest, queue: Queue) -> bool:
        request.queued = Queued(trio.current_time(), queue.found)
        try:
            await queue.slots.take(request.queued.since + queue.seconds)
        except TooSlow:
            return False  # the step fails, and its plugin says why
        return True

    def statistics(self) -> CallStatistics:
        return CallStatistics(self._running, self._limit, self._started, self._refused)
