"""Runs the asynchronous steps of admission plugins, of all resource types.

Their number is bounded: further writes are rejected at once, so that a plugin that never returns cannot exhaust the
memory.
"""

from __future__ import annotations

import msgspec

from rewound.actors.admission.plugin import Admitted, AsyncPlugin
from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.errors import Overloaded
from rewound.actors.runtime.outside import outside

# As many as a mailbox holds: each waiting write takes some kilobytes.
MAX_CALLS = 4096


class CallStatistics(msgspec.Struct, frozen=True):
    running: int
    limit: int
    started: int
    refused: int


class AdmissionCalls:
    def __init__(self, limit: int = MAX_CALLS) -> None:
        self._limit = limit
        self._running = self._started = self._refused = 0

    async def call(self, plugin: AsyncPlugin, request: AdmissionRequest) -> Admitted:
        """The outcome of the plugin's step. Raises Overloaded if too many steps are running."""
        if self._running >= self._limit:
            self._refused += 1
            raise Overloaded
        self._running += 1
        self._started += 1
        try:
            step = plugin.admit(request)
            return await (outside(step) if plugin.calls_webhooks else step)
        finally:
            self._running -= 1

    def statistics(self) -> CallStatistics:
        return CallStatistics(self._running, self._limit, self._started, self._refused)
