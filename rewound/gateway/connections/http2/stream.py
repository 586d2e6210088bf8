"""One stream of an HTTP/2 connection: the `Codec` of a request and its response, and the `Pipe` of a watch.

The connection creates it with the head of a request and forgets it when both sides have ended.

A body that did not arrive with its head is read when a handler needs it. Until then the peer may send no more than
the first window of the stream, and what it sent is not acknowledged on the connection either. `read_body` reserves
memory for it, opens the windows, and waits for the end of the stream. Data of a forwarded body also stays
unacknowledged until it is taken, so that a slow receiver holds back the client.

A watch sends through `transmit` and `broadcast`, which queue DATA frames on the connection as far as the windows and
the socket allow. A stream that accepts no more leaves the sweep, as for a full socket, keeps its cursor, and waits in
`flush` for its window. Once a watch has joined its group it has no task, because a task is most of the memory of an
idle watch. An interruption (its timeout, a stopping server, a failed group) starts a task that ends it; a reset or a
lost connection needs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NoReturn, Protocol

import trio
from trio.lowlevel import Abort, Task, checkpoint, current_task, reschedule, wait_task_rescheduled

from rewound.gateway.connections.arriving import Fault
from rewound.gateway.connections.heads import Heads
from rewound.gateway.connections.http2.output import WATCH_BURST, Output, Parcel, send_parcels
from rewound.gateway.connections.http2.response_heads import field_block, length_field
from rewound.gateway.connections.server_state import ServerState
from rewound.gateway.connections.websocket.handshake import Accepted
from rewound.gateway.exchange import Exchange
from rewound.gateway.memory.budget import SMALL
from rewound.gateway.message import BodyNotRead, Fields, Finished, Request, Response
from rewound.gateway.message import Stream as Watch
from rewound.gateway.watch.broadcast import Missed, one_by_one
from rewound.gateway.watch.framing import unframed
from rewound.http2.frames import (
    CANCEL,
    CONTINUE,
    DATA,
    DEFAULT_WINDOW,
    END_STREAM,
    FRAME_SIZE,
    HEAD,
    INTERNAL_ERROR,
    NO_ERROR,
    frame,
    header_frames,
)

# Memory for a body of unknown length is reserved in steps of this size.
_STEP = 256 * 1024
_LEAST_ROOM = DEFAULT_WINDOW // 2
_TOO_SLOW = Fault(408, "the request did not arrive in time")
_pack = HEAD.pack


class RequestBodies(Protocol):
    """The part of `bodies.Bodies` that a stream uses."""

    def want(self, stream: Stream) -> None: ...
    def take(self, stream: Stream) -> bytes: ...
    def room(self, stream: Stream) -> int: ...
    def open_stream(self, stream: Stream) -> None: ...
    def release(self, stream: Stream) -> None: ...


class Streams(Protocol):
    """The part of `receiver.Receiver` that a stream uses."""

    streams: dict[int, Stream]
    size_update: bytes

    @property
    def bodies(self) -> RequestBodies: ...
    def forget(self, stream: Stream) -> None: ...
    def reset(self, number: int, code: int) -> None: ...
    def end_stream(self, stream: Stream, code: int) -> None: ...
    def refuse(self, stream: Stream, fault: Fault, *, ended: bool) -> Stream | None: ...


class StreamOwner(Protocol):
    """The part of the connection that streams and the receiver of frames use."""

    server: ServerState
    heads: Heads
    output: Output

    @property
    def receiver(self) -> Streams: ...

    def refuses_streams(self) -> bool:
        """Whether new streams are refused, because the server stops or too many requests are being handled."""

    def expect_deadline(self, moment: float) -> None:
        """Ask for a check of a stream at this moment or before."""

    def request_ended(self) -> None:
        """Called when a stream is forgotten: the connection may be idle now."""

    def stream_reset(self, stream: Stream) -> None:
        """Called when a stream has ended before its response, and is forgotten."""

    def watch_interrupted(self, stream: Stream) -> None:
        """Called when a watch without a task has ended, or must check whether it should end."""

    def transfer_deadline(self) -> float:
        """The deadline of a response that the peer does not accept now."""

    def progress_deadline(self, deadline: float, size: int) -> float:
        """The deadline of a response after the peer has accepted so many more bytes of it."""


class Stream:
    may_upgrade = False

    __slots__ = (
        "_connection",
        "_deadline",
        "_receiver",
        "_waiter",
        "bare",
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
        self.window = window  # send window
        self.receive_window = receive_window  # receive window
        self.request: Request | None = request
        self.exchange: Exchange | None = None
        self.request_ended = False  # the peer has sent END_STREAM
        self.expected = -1  # the request's Content-Length
        self.received = 0  # bytes received of its body
        self.held = 0  # parts of its body, until the request ends
        self.parts: list[bytes | bytearray] | None = None
        self.expects_continue = False
        self.started = False  # its request is handled while its body arrives
        # A handler takes the body in parts; `parts` are those that it has not taken yet.
        self.streamed = False
        self.patient = False  # the client may read the response as slowly as it likes
        self.wanted = False  # a handler waits for the body, and there is memory for it
        self.unacknowledged = 0  # unacknowledged bytes of the connection's window, until the body is wanted
        self.reader: Task | None = None  # wakes the reader of the body
        self.began = 0.0
        self.fault: Fault | None = None  # why the request is refused
        self.scope: trio.CancelScope | None = None  # scope of the task that handles the request
        self.responding = False  # the head of the response has been queued
        self.head = b""
        self.body: memoryview | None = None
        self.in_parts = False  # the body is sent in parts, of which this may be one
        self.bare = False  # the head has ended the response
        self.closed = False  # reset, or the connection has ended
        self.watch: Watch | None = None
        self.sweeping = False  # the watch has started and has no task: its group sends
        self.payload = 0  # bytes of a watch, or of a body in parts, that the connection accepted
        self._deadline = inf
        # Wakes the task that waits for an interruption or the end of the stream.
        self._receiver: Task | None = None
        self._waiter: Task | None = None  # wakes the task that waits until the stream accepts more

    def wake_reader(self) -> None:
        """Wake the reader of the body: it is complete or refused, or needs memory to continue."""
        if self.reader is not None:
            reschedule(self.reader)
            self.reader = None

    # The codec: the body of the request.

    def begin_request(self, request: Request) -> None:
        """Prepare to handle the request while its body arrives."""
        self.started = True
        request.arriving = self.read_body

    async def read_body(self) -> bytes:
        """The whole body of the request, once there is memory for it. Raises BodyNotRead or TooManyRequests."""
        request, owner = self.request, self._connection
        bodies, memory = owner.receiver.bodies, owner.server.responder.memory
        assert request is not None
        if self.parts is not None:
            if self.expected > SMALL:
                await memory.wait_for(request, self.expected)
            self._restart_clock()
            self._send_continue()
            bodies.want(self)
            self.output.flush_later()
        while self.parts is not None:
            if self.expected < 0 and bodies.room(self) < _LEAST_ROOM:
                await memory.wait_for(request, _STEP)
                bodies.open_stream(self)
                self.output.flush_later()
            else:
                await self._wait_for_data()
        self._check_body()
        request.arriving = None
        return request.body

    async def _wait_for_data(self) -> None:
        self.reader = current_task()
        await wait_task_rescheduled(self._stop_reading)

    def _check_body(self) -> None:
        if self.fault is not None:
            raise BodyNotRead(self.fault.status, self.fault.message)
        if self.closed:
            raise BodyNotRead

    def _restart_clock(self) -> None:
        """Restart the time limit of the body: the peer could not send the rest before."""
        if self.parts is not None:
            server = self._connection.server
            self.began = server.now
            self.deadline = server.limits.transfer_deadline(server.now, 0, server.now)

    def _send_continue(self) -> None:
        if self.expects_continue and not self.received:
            self._queue_head(CONTINUE, end=False)

    def expire_body(self, now: float, *, leaving: bool) -> None:
        """Extend the deadline of the body if enough has arrived; otherwise respond with 408."""
        due = self._connection.server.limits.transfer_deadline(self.began, self.received)
        if due > now and not leaving:
            self.deadline = due
        else:
            self._connection.receiver.refuse(self, _TOO_SLOW, ended=False)

    def stream_body(self) -> None:
        if self.started:  # otherwise the body arrived before the request was handled
            self.streamed = True
            self.deadline = inf  # the forwarding enforces the time limits itself
            self._send_continue()
            self.output.flush_later()

    async def receive_body(self) -> bytes:
        while self.parts is not None:
            if part := self._connection.receiver.bodies.take(self):
                self.output.flush_later()
                return part
            if self.request_ended:
                self.parts = None
            else:
                await self._wait_for_data()
        self._check_body()
        assert self.request is not None
        body, self.request.body = self.request.body, b""  # in case it had arrived before
        return body

    async def wait_disconnected(self) -> None:
        await trio.sleep_forever()  # a reset of the stream cancels the task

    # The codec: the response.

    def send(self, response: Response, length: int | None, body: bytes) -> None:
        """Queue a whole response; the rest of it follows as the client accepts it."""
        if self.closed:
            return
        owner = self._connection
        if self.parts is not None:
            owner.receiver.bodies.release(self)  # the handler has ended
        block = owner.heads.head(response, self.exchange, b"" if length is None else length_field(length))
        if owner.receiver.size_update:
            block = owner.receiver.size_update + block
        self.responding = True
        if self.output.respond(self, header_frames(block, self.number, end=not body), body):
            self._complete()
            return
        owner.receiver.streams[self.number] = self
        self.begin_transfer()

    async def send_queued(self) -> None:
        self.output.flush_later()

    async def begin(self, response: Response, *, bare: bool = False, patient: bool = False) -> None:
        if self.closed:
            raise ConnectionResetError("the client disconnected")
        owner = self._connection
        if self.parts is not None and not self.streamed:
            owner.receiver.bodies.release(self)
        self.responding = self.in_parts = True
        self.bare, self.patient = bare, patient
        self._queue_head(owner.heads.head(response, self.exchange, b""), end=bare)
        self.output.flush_later()

    def _queue_head(self, block: bytes, *, end: bool) -> None:
        block = self._connection.receiver.size_update + block
        self.output.control(header_frames(block, self.number, end=end))

    async def end(self, trailers: Fields) -> None:
        self._check_connected()
        if trailers and not self.bare:
            self._queue_head(field_block(trailers), end=True)
        elif not self.bare:
            self.output.control(frame(DATA, END_STREAM, self.number))
        self.output.flush_later()
        self._complete()

    def abort(self, *, failed: bool = True) -> None:
        if not self.closed:
            self._connection.receiver.end_stream(self, INTERNAL_ERROR if failed else CANCEL)
            self.output.flush_later()
        if self.watch is not None:
            self.forget_watch()

    async def run_watch(self, stream: Watch) -> Finished | None:
        """Start a watch. Once it has joined its group, the group sends, and the watch has no task."""
        self.watch = stream
        self.output.watches += 1
        self.output.transport.streaming = True
        finished = await stream.start(self, unframed)
        if finished is None:
            self.sweeping = True
            self._connection.watch_interrupted(self)  # it may have been interrupted already
        return finished

    async def end_watch(self, finished: Finished) -> None:
        if not (self.closed or self.output.failed):
            self.output.control(frame(DATA, END_STREAM, self.number))
            self.output.flush_later()
            if self.exchange is not None:
                self.output.complete_when_sent(self.exchange)
                self.exchange = None
        self.forget_watch()

    def forget_watch(self) -> None:
        """Detach from the watch, which is over."""
        output = self.output
        output.watches -= 1
        output.transport.streaming = output.watches > 0
        self.cut_off()  # unless its end is being sent
        self.watch = None  # they refer to each other
        self._connection.receiver.forget(self)

    async def begin_websocket(self, accepted: Accepted, fields: Fields) -> NoReturn:
        raise AssertionError("HTTP/2 has no upgrades")

    async def run_websocket(self, stream: Watch) -> NoReturn:
        raise AssertionError("HTTP/2 has no upgrades")

    async def upgrade(self, head: bytes) -> NoReturn:
        raise AssertionError("HTTP/2 has no upgrades")

    def _complete(self) -> None:
        """Report the response as complete, because all of it has been queued."""
        owner = self._connection
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            self.output.complete_when_sent(exchange)
        owner.server.responder.release(self)
        if not self.request_ended:
            owner.receiver.reset(self.number, NO_ERROR)
        owner.receiver.forget(self)

    def cut_off(self) -> None:
        """Report that the end of the response is not sent."""
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.cut_off()

    # The body of the response, as the windows allow it.

    def body_queued(self) -> None:
        if self.in_parts:
            self.wake()
        else:
            self._complete()
            self._connection.request_ended()

    def begin_transfer(self) -> None:
        """Set the deadline by which the client must accept what waits."""
        if not self.patient:
            self.deadline = self._connection.transfer_deadline()

    def progressed(self, size: int) -> None:
        self.payload += size
        if not self.patient:
            self.deadline = self._connection.progress_deadline(self._deadline, size)

    async def send_part(self, part: bytes) -> None:
        """Send a part of a body, and wait until the windows have allowed all of it."""
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
        """End the stream in both directions, and stop the tasks that use it."""
        self.closed = True
        self.window = -1  # so that `broadcast` need not check `closed`
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
        """Always False: the connection sends what the stream accepted, even after the end of the watch."""
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
        word = size << 8  # the length, and type 0 (DATA)
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
        """Return b"" when the stream ends; the client sends nothing else. Raises ClosedResourceError if interrupted."""
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
        """Wake the task that waits until the stream accepts more."""
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

    def _stop_reading(self, _raise_cancel: object) -> Abort:
        self.reader = None
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
