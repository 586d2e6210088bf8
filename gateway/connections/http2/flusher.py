"""Sends what tasks have queued on HTTP/2 connections, once per turn of the event loop for all of them.

Requests that complete together and events of several watches on one connection leave in one write, and with TLS in
one record. The server runs one `Flusher`; connections that were written to register with `add`.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

import trio


class Flushable(Protocol):
    def flush(self) -> int:
        """Send what is queued and return its size."""


# Connections flushed between two checkpoints, and about how many bytes: a few milliseconds, with encryption.
_TURN = 256
_TURN_BYTES = 2 << 20


class Flusher:
    __slots__ = ("_pending", "_task")

    def __init__(self) -> None:
        self._pending: deque[Flushable] = deque()
        self._task: trio.lowlevel.Task | None = None  # while it waits

    def add(self, output: Flushable) -> None:
        self._pending.append(output)
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)
            self._task = None

    async def run(self) -> None:
        while True:
            if self._pending:
                await trio.lowlevel.checkpoint()
            else:
                self._task = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._abort)
            self._flush_some()

    def _flush_some(self) -> None:
        pending, size = self._pending, 0
        for _ in range(min(len(pending), _TURN)):
            size += pending.popleft().flush()
            if size > _TURN_BYTES:
                return

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
