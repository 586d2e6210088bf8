"""Sends what tasks have queued on HTTP/2 connections, once per turn of the event loop for all of them.

Requests that complete together and events of several watches on one connection leave in one write, and with TLS in
one record. The server runs one `Flusher`; connections that were written to register with `add`.
"""

from __future__ import annotations

from typing import Protocol

import trio


class Flushable(Protocol):
    def flush(self) -> None: ...


# Connections flushed between two checkpoints.
_TURN = 256


class Flusher:
    __slots__ = ("_pending", "_task")

    def __init__(self) -> None:
        self._pending: list[Flushable] = []
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
            pending, self._pending = self._pending[:_TURN], self._pending[_TURN:]
            for output in pending:
                output.flush()

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
