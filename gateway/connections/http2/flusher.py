"""Sends what tasks have queued on HTTP/2 connections, once per turn of the event loop for all of them.

Requests that complete together and events of several watches on one connection leave in one write, and with TLS in
one record. The server runs one `Flusher`; connections that were written to register with `add`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class Flusher(Generic[T]):
    """`flush_some(pending)` takes outputs from the left and sends what is queued on them, for a few milliseconds."""

    __slots__ = ("_flush_some", "_pending", "_task")

    def __init__(self, flush_some: Callable[[deque[T]], None]) -> None:
        self._flush_some = flush_some
        self._pending: deque[T] = deque()
        self._task: trio.lowlevel.Task | None = None  # while it waits

    def add(self, outputs: list[T]) -> None:
        self._pending.extend(outputs)
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
            self._flush_some(self._pending)

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
