"""Asynchronous admission steps under way, of all resource types of a server.

Each runs in a task of its own and calls back with its outcome, or with the error that refuses the write. Their number
is bounded: a write above it is refused at once, so that a plugin that never returns cannot fill the memory. A call that
is cancelled, by its client or with the server, ends with ShuttingDown, which no client that has gone can see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio

from actors.admission.plugin import Admitted, AsyncPlugin
from actors.admission.request import AdmissionRequest
from actors.errors import Overloaded, ShuttingDown

# As many as a mailbox holds: what waits here is some kilobytes a write.
MOST_CALLS = 4096

Done = Callable[[Admitted | Exception], None]


@dataclass(frozen=True, slots=True)
class CallStatistics:
    running: int
    limit: int
    started: int
    refused: int


class AdmissionCalls:
    def __init__(self, nursery: trio.Nursery, limit: int = MOST_CALLS) -> None:
        self._nursery = nursery
        self._limit = limit
        self._running = self._started = self._refused = 0

    def start(self, plugin: AsyncPlugin, request: AdmissionRequest, done: Done) -> trio.CancelScope:
        """`done` is called exactly once, after this returns. Overloaded when too many calls are under way."""
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
        try:
            with scope:
                outcome = await plugin.admit(request)
        except Exception as error:
            outcome = error
        finally:
            self._running -= 1
            done(outcome)
