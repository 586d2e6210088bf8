"""Audit events of worker processes, which one process writes and sends for all of them: both ends.

A worker formats and batches its events with the buffers, limits and modes of a single-process server; only the
destination is another process (`RemoteOutput`, `RemoteWebhook`). That one (`AuditWriter`) has the file with its
rotation, and the connections to the webhook. Its reply says whether everything was written, so that the worker can
count what was lost, and a blocking mode waits for it.

While the other process is restarting, batches wait and the buffers of the worker fill up; in the blocking modes
events are lost after PATIENCE, as if a disk had failed. Batches in flight when that process ended are sent again, so
that events may be written twice, but none is lost.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgpack
import trio

from rewound.actors.access.remote.calls import Webhook, WebhookError
from rewound.gateway.audit.backends.log_backend import Output
from rewound.gateway.audit.backends.rotated_file import NotWritten

# Starting the other process takes about a second.
PATIENCE: Final = 5.0
# Bytes of lines sent at once, because other messages use the same connection.
_PORTION: Final = 256 << 10

# Sends a body; waits up to so many seconds while the other process is restarting. Raises ConnectionError after that.
Call = Callable[[bytes, float], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class AuditCalls:
    """The calls of a worker to the process that writes audit events."""

    write: Call  # takes lines
    send: Call  # takes an EventList
    workers: int  # number of workers that share the rates of the settings


def patience(*, blocking: bool) -> float:
    return PATIENCE if blocking else math.inf


class RemoteOutput:
    """An Output in another process, for the thread of a log backend."""

    def __init__(self, call: Call, seconds: float) -> None:
        self._call = call
        self._seconds = seconds
        self._token = trio.lowlevel.current_trio_token()

    def is_quick(self, _size: int) -> bool:
        return False

    def write(self, data: bytes) -> None:
        """Write lines in the other process. Raises NotWritten."""
        written = 0
        for portion in _portions(data):
            try:
                reply = trio.from_thread.run(self._call, portion, self._seconds, trio_token=self._token)
            except (ConnectionError, trio.RunFinishedError, trio.Cancelled) as error:
                raise NotWritten(written, "the process that writes the audit log is not running") from error
            if reply:
                count, why = msgpack.unpackb(reply)
                raise NotWritten(written + count, why)
            written += portion.count(b"\n")

    def close(self) -> None:
        """Nothing to do: the other process closes the file."""


def _portions(data: bytes) -> Iterator[bytes]:
    """The data in portions of whole lines; a longer line is a portion of its own."""
    start = 0
    while len(data) - start > _PORTION:
        end = data.find(b"\n", start + _PORTION - 1) + 1
        yield data[start:end]
        start = end
    if start < len(data):
        yield data[start:]


class RemoteWebhook:
    """Sends to the webhook from another process, which retries as configured."""

    def __init__(self, call: Call, seconds: float) -> None:
        self._call = call
        self._seconds = seconds

    async def send(self, body: bytes, first_delay: float, *, after_any_error: bool) -> bytes:
        """Deliver an EventList. Raises WebhookError."""
        try:
            refusal = await self._call(body, self._seconds)
        except ConnectionError as error:
            raise WebhookError("the process that sends audit events is not running") from error
        if refusal:
            raise WebhookError(refusal.decode())
        return b""

    async def run(self) -> None:
        """Wait for cancellation: the other process has the connections."""
        await trio.sleep_forever()


class AuditWriter:
    """Writes and sends the events of all workers; `write` and `send` handle their calls."""

    def __init__(
        self, output: Output | None, webhook: Webhook | None, *, initial_backoff: float, in_turn: bool
    ) -> None:
        """`in_turn`: send one EventList after the other, like a single-process server."""
        self._output = output
        self._webhook = webhook
        self._initial_backoff = initial_backoff
        self._one_at_a_time = trio.CapacityLimiter(1)
        self._turn = trio.CapacityLimiter(1 if in_turn else math.inf)

    async def write(self, lines: bytes) -> bytes:
        """Write lines. The reply is empty, or says how many lines were written and why the others were not."""
        assert self._output is not None, "workers have the same settings"
        try:
            await trio.to_thread.run_sync(self._output.write, lines, limiter=self._one_at_a_time)
        except NotWritten as error:
            reply: bytes = msgpack.packb((error.written, str(error)))
            return reply
        return b""

    async def send(self, body: bytes) -> bytes:
        """Send an EventList. The reply is empty, or says why the webhook did not get it."""
        assert self._webhook is not None, "workers have the same settings"
        async with self._turn:
            try:
                await self._webhook.send(body, self._initial_backoff, after_any_error=True)
            except WebhookError as error:
                return str(error).encode()
        return b""

    async def run(self) -> None:
        """Keep the file and the connections open until cancelled."""
        try:
            if self._webhook is not None:
                await self._webhook.run()
            await trio.sleep_forever()
        finally:
            if self._output is not None:
                self._output.close()
