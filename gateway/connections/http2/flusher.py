"""Sends what tasks have queued on HTTP/2 connections, once per turn of the event loop for all of them.

Requests that complete together and events of several watches on one connection leave in one write, and with TLS in
one record. The server runs one `Flusher`; connections that were written to register with `add`.
"""

from __future__ import annotations

from collections import deque

import trio

from gateway.connections.http2.output import Output
from gateway.connections.transport import Transport

# What `flush_some` sends in one call: a slice that TLS encrypts at once.
_SMALL = 8 * 1024
# Connections that it flushes, and about how many bytes.
_TURN = 256
_TURN_BYTES = 2 << 20

Parcel = tuple[Transport, bytes | memoryview]


class Flusher:
    __slots__ = ("_pending", "_task")

    def __init__(self) -> None:
        self._pending: deque[Output] = deque()
        self._task: trio.lowlevel.Task | None = None  # while it waits

    def add(self, outputs: list[Output]) -> None:
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
            flush_some(self._pending)

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


def send_parcels(outputs: list[Output], parcels: list[Parcel]) -> None:
    """Send a parcel on each output, in one loop per class of transport."""
    kinds = {type(output.transport) for output in outputs}
    if len(kinds) > 1:
        for kind in kinds:
            chosen = [index for index, output in enumerate(outputs) if type(output.transport) is kind]
            send_parcels([outputs[index] for index in chosen], [parcels[index] for index in chosen])
        return
    for index, taken in kinds.pop().send_each(parcels):
        if isinstance(taken, Exception):
            outputs[index].fail()
        else:
            outputs[index].block(parcels[index][1], taken)


def flush_some(pending: deque[Output]) -> None:
    """`flush` some of many, those with little to send together."""
    chosen: list[Output] = []
    parcels: list[Parcel] = []
    size = 0
    for _ in range(min(len(pending), _TURN)):
        output = pending.popleft()
        queue = output.queue
        if output.queued > _SMALL or output._ready or output._completing or output.blocked or not queue:
            size += output.flush()
        else:
            size += output.queued
            chosen.append(output)
            parcels.append((output.transport, b"".join(queue) if len(queue) > 1 else queue[0]))
            queue.clear()
            output.queued = output._control = 0
            output.registered = False
        if size > _TURN_BYTES:
            break
    if parcels:
        send_parcels(chosen, parcels)
