"""One stream of an HTTP/2 connection: a request as it arrives, its response, and the `Pipe` of a watch.

The connection creates it with the head of a request and forgets it when both sides have ended. A watch sends through
`transmit` and `broadcast`, which queue DATA frames on the connection as far as the windows and the socket allow; a
stream that takes no more leaves the sweep like a full socket, keeps its cursor, and waits in `flush` for its window.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Protocol

import trio
from trio.lowlevel import Abort, Task, checkpoint, current_task, reschedule, wait_task_rescheduled

from gateway.connections.http2.flusher import Parcel, send_parcels
from gateway.connections.http2.output import WATCH_BURST, Output
from gateway.connections.http2.protocol import FRAME_SIZE, HEAD
from gateway.connections.parsing.fault import Fault
from gateway.exchange import Exchange
from gateway.message import Request
from gateway.message import Stream as Watch
from gateway.watch.broadcast import Missed, one_by_one

_pack = HEAD.pack


class StreamOwner(Protocol):
    """The part of the connection that a stream uses."""

    output: Output

    def expect_deadline(self, moment: float) -> None:
        """A stream has to be looked at, at this moment or before."""

    def rest_queued(self, stream: Stream) -> None:
        """The response of a stream, which had to wait, has been queued whole."""

    def watch_interrupted(self, stream: Stream) -> None:
        """A watch that has no task has ended, or has to look whether it should end."""

    def transfer_deadline(self) -> float:
        """Return when a response that the peer does not take now is too slow."""

    def progress_deadline(self, deadline: float, size: int) -> float:
        """Return the deadline of a response after the peer has taken so many bytes more of it."""


class ReceiverOwner(StreamOwner, Protocol):
    """The part of the connection that the receiver of frames uses."""

    def refuses_streams(self) -> bool:
        """Whether new streams are refused: the server stops, or too many requests are being handled."""

    def stream_reset(self, stream: Stream) -> None:
        """A stream has ended before its response, and is forgotten."""


class Stream:
    __slots__ = (
        "_connection",
        "_deadline",
        "_receiver",
        "_waiter",
        "began",
        "body",
        "closed",
        "exchange",
        "expected",
        "expects_continue",
        "fault",
        "head",
        "held",
        "in_parts",
        "number",
        "output",
        "parts",
        "patient",
        "payload",
        "reader",
        "receive_window",
        "received",
        "request",
        "request_ended",
        "responding",
        "scope",
        "started",
        "streamed",
        "sweeping",
        "unacknowledged",
        "wanted",
        "watch",
        "window",
    )

    def __init__(
        self, connection: StreamOwner, number: int, window: int, receive_window: int, request: Request
    ) -> None:
        self._connection = connection
        self.output = connection.output
        self.number = number
        self.window = window  # bytes that the peer takes
        self.receive_window = receive_window  # bytes that the peer may send
        self.request: Request | None = request
        self.request_ended = False  # the peer has sent END_STREAM
        self.expected = -1  # the request's Content-Length
        self.received = 0  # bytes of its body
        self.held = 0  # the same, until the request ends
        self.parts: list[bytes | bytearray] | None = None
        self.expects_continue = False
        self.started = False  # its request is handled while its body arrives
        self.streamed = False  # a handler takes the body in parts: `parts` has what it has not taken
        self.patient = False  # the client may take as long as it likes to read the response
        self.wanted = False  # a handler waits for the body, and there is memory for it
        self.unacknowledged = 0  # bytes of the connection's window, until the body is wanted
        self.reader: Task | None = None  # waits for the body
        self.began = 0.0
        self.fault: Fault | None = None  # why the request is refused
        self.scope: trio.CancelScope | None = None  # of the task that handles the request
        self.responding = False  # the head of the response has been queued
        self.head = b""
        self.body: memoryview | None = None
        self.in_parts = False  # the body is sent in parts, and this may be one of them
        self.closed = False  # reset, or the connection has ended
        self.watch: Watch | None = None
        self.sweeping = False  # the watch has started and has no task: its group sends
        self.exchange: Exchange | None = None  # of an observed watch
        self.payload = 0  # bytes of a watch, or of a body in parts, that the connection took
        self._deadline = inf
        self._receiver: Task | None = None  # waits for an interruption or the end of the stream
        self._waiter: Task | None = None  # waits until the stream takes more

    def wake_reader(self) -> None:
        """The body is complete or refused, or needs memory to go on."""
        if self.reader is not None:
            reschedule(self.reader)
            self.reader = None

    # The response.

    def body_queued(self) -> None:
        if self.in_parts:
            self.wake()
        else:
            self._connection.rest_queued(self)

    def begin_transfer(self) -> None:
        """The client has to take what waits in time."""
        if not self.patient:
            self.deadline = self._connection.transfer_deadline()

    def progressed(self, size: int) -> None:
        self.payload += size
        if not self.patient:
            self.deadline = self._connection.progress_deadline(self._deadline, size)

    async def send_part(self, part: bytes) -> None:
        """Send a part of a body, and wait until the windows have taken all of it."""
        before = self.payload
        self.body = memoryview(part)
        self.begin_transfer()
        self.output.resume(self)
        while self._has_body():
            self._waiter = current_task()
            await wait_task_rescheduled(self._stop_waiting)
        self._check_connected()
        self.payload = before + len(part)

    def opened(self, increment: int) -> None:
        """The peer has opened the window of the stream (or closed it, with a negative increment)."""
        self.window += increment
        if self.window > 0:
            if self.body is not None:
                self.output.resume(self)
            elif self._waiter is not None and self not in self.output.waiting:
                self.wake()

    def close(self) -> None:
        """Nothing is sent or received any more: stop the work behind the stream."""
        self.closed = True
        self.window = -1  # `broadcast` sees it without looking at `closed`
        self.body = None
        self.parts = None
        self.output.forget(self.number)
        self.output.waiting.pop(self, None)
        if self.watch is not None:
            self.interrupt()
        elif self.scope is not None:
            self.scope.cancel()

    # The `Pipe` of a watch.

    @property
    def deadline(self) -> float:
        return self._deadline

    @deadline.setter
    def deadline(self, moment: float) -> None:
        self._deadline = moment
        self._connection.expect_deadline(moment)

    @property
    def has_unsent(self) -> bool:
        """Never: what the stream took, the connection sends, also after the end of the watch."""
        return False

    def transmit(self, data: bytes | memoryview) -> int:
        if self.closed or self.output.failed:
            raise ConnectionResetError("the client disconnected")
        taken = self.output.data(self, data)
        self.payload += taken
        return taken

    @staticmethod
    def broadcast(streams: Sequence[Stream], data: bytes) -> Missed:
        """`transmit` to many. Connections with one watch are sent to at once, others with the next flush."""
        size = len(data)
        if size > FRAME_SIZE:
            return one_by_one(streams, data)
        missed: Missed = []
        outputs: list[Output] = []
        parcels: list[Parcel] = []
        written: list[Output] = []
        number, frame = 0, b""
        word = size << 8  # the length and type 0, DATA
        for stream in streams:
            output = stream.output
            if size > stream.window or size > output.window or output.blocked or output.queued > WATCH_BURST:
                _transmit_slowly(stream, data, missed)
                continue
            stream.window -= size
            output.window -= size
            stream.payload += size
            if stream.number != number:  # most watches are the first stream of their connection
                number = stream.number
                frame = _pack(word, 0, number) + data
            if output.watches == 1 and not output.queue:
                outputs.append(output)
                parcels.append((output.transport, frame))
                continue
            output.queue.append(frame)
            output.queued += size
            if not output.registered:
                output.registered = True
                written.append(output)
        if parcels:
            send_parcels(outputs, parcels)
        if written:
            written[0].flusher.add(written)
        return missed

    async def flush(self) -> None:
        output = self.output
        output.flush()
        if self.closed or output.failed:
            raise ConnectionResetError("the client disconnected")
        if self.window > 0 and output.window > 0 and not output.blocked:
            await checkpoint()
            return
        if output.window <= 0 or output.blocked:
            output.waiting[self] = None
        self._waiter = current_task()
        await wait_task_rescheduled(self._stop_waiting)
        output.waiting.pop(self, None)  # its window, or an interruption, may have ended the wait
        if self.closed or output.failed:
            raise ConnectionResetError("the client disconnected")

    async def receive(self) -> bytes:
        """Return b"" when the stream has ended, as the client sends nothing. ClosedResourceError if interrupted."""
        if not self.closed:
            self._receiver = current_task()
            await wait_task_rescheduled(self._stop_receiving)
        if self.closed or self.output.failed:
            return b""
        raise trio.ClosedResourceError

    def interrupt(self) -> None:
        if self.sweeping:
            self._connection.watch_interrupted(self)
        if self._receiver is not None:
            reschedule(self._receiver)
            self._receiver = None
        self.wake()

    def wake(self) -> None:
        """Wake the task that waits until the stream takes more."""
        if self._waiter is not None:
            reschedule(self._waiter)
            self._waiter = None

    def _has_body(self) -> bool:
        return self.body is not None

    def _check_connected(self) -> None:
        if self.closed or self.output.failed:
            raise ConnectionResetError("the client disconnected")

    def _stop_waiting(self, _raise_cancel: object) -> Abort:
        self._waiter = None
        self.output.waiting.pop(self, None)
        return Abort.SUCCEEDED

    def _stop_receiving(self, _raise_cancel: object) -> Abort:
        self._receiver = None
        return Abort.SUCCEEDED


def _transmit_slowly(stream: Stream, data: bytes, missed: Missed) -> None:
    try:
        taken = stream.transmit(data)
    except Exception as error:
        missed.append((stream, error))
    else:
        if taken != len(data):
            missed.append((stream, taken))
