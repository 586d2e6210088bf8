"""HTTP/2 on one transport: read frames, handle requests, send responses and watches.

The server runs one `Http2Connection` after ALPN chose h2, or when a client sends the preface of HTTP/2 first. One task
reads. It handles GET requests itself, one after the other, and sends their responses together; if one has to wait, that
task stays with it and a new task goes on reading. Requests that change something, and watches, get a task each, so
that those that arrive together are committed together; so do requests whose body is incomplete. A reset of the stream
cancels the work behind it.

A stopping server sends GOAWAY, completes the requests up to its last stream, and closes.
"""

from __future__ import annotations

from math import inf

import trio

from gateway.connections.heads import Heads
from gateway.connections.http2.forwarding import Forwards
from gateway.connections.http2.output import FlushQueue, Output
from gateway.connections.http2.protocol import CANCEL, NO_ERROR, STREAM_MASK, ConnectionFault, goaway
from gateway.connections.http2.receiver import Receiver
from gateway.connections.http2.responses import Responses
from gateway.connections.http2.steps import RequestScope, Steps, completed, resume
from gateway.connections.http2.stream import Stream
from gateway.connections.http2.uploads import Uploads
from gateway.connections.http2.watches import Watches
from gateway.connections.server_state import ServerState
from gateway.connections.transport import Transport
from gateway.message import BodyNotRead, Peer, Request, Response

# Requests that the reading task handles between two checkpoints; 4 KiB of a response count as one more request.
_TURN = 32
_WATCH_COST = 8
_READS = ("GET", "HEAD")
# Reads after the server began to stop, for requests that had arrived before, until GOAWAY is sent.
_LATE_READS = 4


class Http2Connection:
    __slots__ = (
        "_deadline",
        "_flushes",
        "_forwards",
        "_heads",
        "_last_stream",
        "_late_reads",
        "_leaving",
        "_nursery",
        "_overdue",
        "_partial_since",
        "_peer",
        "_receiver",
        "_responses",
        "_running",
        "_server",
        "_transport",
        "_uploads",
        "_watches",
        "output",
    )

    def __init__(
        self, server: ServerState, heads: Heads, flushes: FlushQueue, transport: Transport, peer: Peer
    ) -> None:
        self._server = server
        self._heads = heads
        self._flushes = flushes
        self._transport = transport
        self._peer = peer
        self._running = 0  # tasks that handle requests, also of streams that were reset
        self._leaving = False  # GOAWAY has been sent
        self._last_stream = STREAM_MASK  # the highest number that it named
        self._late_reads = 0  # since the server began to stop
        self._deadline = inf  # the first of all streams
        self._overdue = False  # a deadline has passed, and the peer's bytes have been handled first
        self._partial_since: float | None = None  # when the peer began a frame that is incomplete

    async def run(self, ahead: bytes) -> None:
        transport = self._transport
        transport.protocol = "h2"
        transport.deadlines = self._deadlines
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                output = self.output = Output(transport, self._flushes, nursery)
                self._receiver = Receiver(self, self._server, self._peer, output)
                self._responses = Responses(self._server, self._heads, output, self._receiver)
                self._watches = Watches(output, self._receiver, self._heads, nursery, self._request_ended)
                self._uploads = Uploads(self._server, output, self._receiver)
                self._forwards = Forwards(self._server, self._heads, output, self._receiver, self._uploads)
                self._receiver.open()
                await self._read(ahead)
            failed = output.failed
        finally:
            self._receiver.drop_all()  # if it was cancelled or failed: watches have no task that would notice
            self.output.fail()  # the flusher may still have it, and the observer waits for what was not sent
        if failed:
            transport.abort()
        elif not transport.closed:
            await transport.linger()

    # Reading.

    async def _read(self, data: bytes = b"") -> None:
        """Read until the connection ends, or until a request has to wait: then another task goes on reading."""
        fault: ConnectionFault | None = None
        waiting: tuple[Stream, Steps[None]] | None = None
        with RequestScope() as scope:
            try:
                while True:
                    self._receiver.feed(data)
                    waiting = await self._handle_received()
                    if waiting is not None:
                        break
                    data = await self._receive()
                    if not data:
                        break
            except ConnectionFault as error:
                fault = error
            except (OSError, trio.ClosedResourceError):
                self.output.fail()
            if waiting is not None:
                self._nursery.start_soon(self._read)
                stream, steps = waiting
                stream.scope = scope
                await steps
        if waiting is None:
            self._finish(fault)

    async def _handle_received(self) -> tuple[Stream, Steps[None]] | None:
        """Handle the requests that have arrived; return one that has to wait, with the rest of its steps."""
        receiver, server, output = self._receiver, self._server, self.output
        handled = 0
        while (stream := receiver.next_request()) is not None:
            handled += 1
            if handled > _TURN:
                handled = 0
                output.flush()
                await trio.lowlevel.checkpoint()
            if stream.fault is not None:
                self._responses.refuse(stream, stream.fault)
                continue
            request = stream.request
            assert request is not None
            server.responder.requests += 1
            if server.responder.observe is not None:
                server.responder.observe(request)
            if request.method not in _READS or request.body:
                self._start_task(stream, request)
                continue
            steps = server.responder.handle(request)
            try:
                trap = steps.send(None)
            except StopIteration as result:
                response: Response = result.value
            except Exception as error:
                response = server.responder.failure(request, error)
            else:
                receiver.streams[stream.number] = stream
                self._running += 1
                output.flush()
                return stream, self._complete(stream, resume(steps, trap))
            forwarded = response.forwarding is not None
            whole = response.stream is None and response.parts is None
            if not forwarded and (whole or request.method == "HEAD"):
                self._responses.send(stream, response)
                handled += len(response.body) >> 12
                continue
            handled += _WATCH_COST
            receiver.streams[stream.number] = stream
            if forwarded or response.parts is not None:
                self._running += 1
                output.flush()
                return stream, self._complete(stream, completed(response))
            start = self._watches.start(stream, response)
            try:
                trap = start.send(None)
            except StopIteration:
                continue
            self._running += 1
            output.flush()
            return stream, self._complete_start(stream, resume(start, trap))
        if receiver.begun:
            for stream, request in self._uploads.take_begun():
                self._start_task(stream, request)
        output.flush()
        return None

    async def _receive(self) -> bytes:
        """Return the peer's next bytes; b"" when the connection ends."""
        transport, server, receiver = self._transport, self._server, self._receiver
        while not (self.output.failed or (self._leaving and not receiver.streams and not self._running)):
            if server.draining and not self._leaving:
                self._late_reads += 1
                if self._late_reads <= _LATE_READS and (data := transport.receive_nowait()):
                    return data
                self._leave()
                continue
            self._set_deadline()
            if self._overdue:
                self._expire()
                continue
            try:
                return await transport.receive()
            except trio.ClosedResourceError:
                if transport.closed or self.output.failed:
                    return b""
            # Interrupted; what has arrived in the same instant still counts.
            self._overdue = True
            if data := transport.receive_nowait():
                return data
            self._expire()
        return b""

    # Requests with a task.

    def _start_task(self, stream: Stream, request: Request) -> None:
        self._receiver.streams[stream.number] = stream
        self._running += 1
        self._nursery.start_soon(self._handle, stream, request)

    async def _handle(self, stream: Stream, request: Request) -> None:
        """The task of a request."""
        if stream.closed:  # reset before the task began
            self._end_task(stream)
            return
        with RequestScope() as scope:
            stream.scope = scope
            await self._complete(stream, self._server.responder.handle(request))

    async def _complete_start(self, stream: Stream, steps: Steps[None]) -> None:
        """Take the remaining steps of the start of a watch in this task."""
        try:
            await steps
        finally:
            self._running -= 1
            stream.scope = None
            self._request_ended()

    async def _complete(self, stream: Stream, steps: Steps[Response]) -> None:
        """Take the remaining steps of a request in this task, and respond."""
        request = stream.request
        assert request is not None
        try:
            try:
                response = await steps
            except BodyNotRead as error:
                if not error.status:
                    self._responses.lose(stream)
                if stream.closed:
                    return
                response = self._server.responder.refusal(error.status, error.message)
            except Exception as error:
                response = self._server.responder.failure(request, error)
            if response.forwarding is not None:
                await self._forwards.run(stream, request, response)
                return
            if stream.parts is not None:
                self._receiver.bodies.release(stream)  # nobody reads it any more
            if response.stream is not None and request.method != "HEAD" and not stream.closed:
                await self._watches.start(stream, response)
            elif response.parts is not None and request.method != "HEAD" and not stream.closed:
                await self._responses.send_parts(stream, response)
            else:
                self._responses.send(stream, response)
                if self._running == 1:
                    self.output.flush()
                else:
                    self.output.flush_later()
        finally:
            self._end_task(stream)

    def _end_task(self, stream: Stream) -> None:
        self._running -= 1
        stream.scope = None
        self._responses.task_ended(stream)
        self._request_ended()

    def rest_queued(self, stream: Stream) -> None:
        self._responses.complete(stream)
        self._request_ended()

    def stream_reset(self, stream: Stream) -> None:
        self._responses.cut_off(stream)
        self._request_ended()

    def watch_interrupted(self, stream: Stream) -> None:
        self._watches.interrupted(stream)
        self._request_ended()

    def refuses_streams(self) -> bool:
        limit = self._server.limits.streams
        return self._leaving or len(self._receiver.streams) >= limit or self._running >= limit

    def expect_deadline(self, moment: float) -> None:
        if moment < self._deadline:
            self._deadline = moment
            self._transport.deadline = min(self._transport.deadline, moment)

    def _deadlines(self) -> set[float]:
        return {stream.deadline for stream in self._receiver.streams.values()}

    def transfer_deadline(self) -> float:
        limits = self._server.limits
        return self._server.now + (limits.drain_seconds if self._leaving else limits.transfer_seconds)

    def progress_deadline(self, deadline: float, size: int) -> float:
        """The responses of a connection share the rate that a peer has to reach."""
        responses = len(self._receiver.streams) - self.output.watches
        seconds = size * responses / self._server.limits.min_bytes_per_second
        return min(deadline + seconds, self.transfer_deadline())

    def _set_deadline(self) -> None:
        transport, server = self._transport, self._server
        transport.idle = False
        self._partial_since = self._receiver.partial_since(server.now)
        if self._partial_since is not None and not self._leaving:  # then each request has its own limits
            transport.deadline = min(self._deadline, self._partial_since + server.limits.head_seconds)
            return
        if self._receiver.streams or self._running:
            transport.deadline = self._deadline
        else:
            self._become_idle()

    def _expire(self) -> None:
        """The watchdog has interrupted the reading: end what is too slow, and an idle connection."""
        self._overdue = False
        now = trio.current_time()
        began = inf if self._partial_since is None or self._leaving else self._partial_since
        if now >= began + self._server.limits.head_seconds:
            raise ConnectionFault(NO_ERROR, "the rest of a frame did not arrive in time")
        if self._transport.idle and self._transport.deadline <= now:
            self._end_idle()
        self._deadline = inf
        for stream in list(self._receiver.streams.values()):
            if stream.deadline <= now:
                self._expire_stream(stream, now)
            if not stream.closed:
                self._deadline = min(self._deadline, stream.deadline)

    def _expire_stream(self, stream: Stream, now: float) -> None:
        if stream.watch is not None:
            stream.interrupt()  # at every tick from its deadline on
        elif stream.parts is not None:
            self._uploads.expire(stream, now, leaving=self._leaving)
        elif stream.body is None:
            stream.deadline = inf  # it is being handled
        elif self._leaving and self.output.moved_at + self._server.limits.drain_seconds > now:
            stream.deadline = self.output.moved_at + self._server.limits.drain_seconds
        elif self.output.blocked:
            self.output.fail()
        else:
            self._receiver.end_stream(stream, CANCEL)
            self.output.flush()

    # The end.

    def _end_idle(self) -> None:
        """The connection has been idle for too long, or the server needs the place for a new client."""
        self._leave()
        if self._transport.deadline == -inf:
            self._transport.close()  # the new client waits

    def _leave(self) -> None:
        """Send GOAWAY: the requests up to now are completed, the peer may repeat later ones elsewhere."""
        self._leaving = True
        self._last_stream = self._receiver.highest
        self.output.control(goaway(self._last_stream, NO_ERROR))
        self.output.flush()
        due = trio.current_time() + self._server.limits.drain_seconds
        for stream in self._receiver.streams.values():
            if stream.watch is None and stream.deadline > due and (stream.parts is not None or stream.body):
                stream.deadline = due

    def _request_ended(self) -> None:
        """A request has ended while the reading task waits: after the last, the connection is idle, or has to end."""
        if self._receiver.streams or self._running:
            return
        if self._leaving:
            self._transport.interrupt()
        elif self._partial_since is None:
            self._become_idle()

    def _become_idle(self) -> None:
        self._deadline = inf
        self._transport.idle = True
        self._transport.deadline = self._server.now + self._server.limits.idle_seconds

    def _finish(self, fault: ConnectionFault | None) -> None:
        """The reading has ended: end the streams and send what is queued."""
        self._leaving = True
        self._transport.deadlines = None
        self._receiver.drop_all()
        output = self.output
        if fault is not None and not output.failed:
            last = min(self._last_stream, self._receiver.highest)  # must not increase
            output.queue.append(goaway(last, fault.code, fault.message))
        output.finish(self._server.limits.drain_seconds)
