"""HTTP/2 on one transport: read frames, handle requests, send responses and watches.

The server runs one `Http2Connection` after ALPN chose h2, or when a client sends the preface of HTTP/2 first. One task
reads. It handles GET requests itself, one after the other, and sends their responses together; if one has to wait, that
task stays with it and a new task goes on reading. Requests that change something, and watches, get a task each, so
that those that arrive together are committed together; so do requests whose body is incomplete. A reset of the stream
cancels the work behind it.

A stopping server sends GOAWAY, completes the requests up to its last stream, and closes.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine, Generator
from functools import partial
from math import inf
from types import TracebackType, coroutine
from typing import Any, TypeVar

import trio

from rewound.gateway.connections.arriving import Fault
from rewound.gateway.connections.http2.output import Flusher, Output
from rewound.gateway.connections.http2.protocol import (
    CANCEL,
    LEAVING_PING,
    NO_ERROR,
    PING,
    STREAM_MASK,
    ConnectionFault,
    frame,
    goaway,
)
from rewound.gateway.connections.http2.receiver import Receiver
from rewound.gateway.connections.http2.response_heads import HTTP2
from rewound.gateway.connections.http2.stream import Stream
from rewound.gateway.connections.server_state import ServerState, log
from rewound.gateway.connections.transport import Transport
from rewound.gateway.message import Peer, Request, Response
from rewound.gateway.message import Stream as Watch

T = TypeVar("T")

# A coroutine that one task runs up to its first wait, and that goes on from there. One that does not wait needs no
# task. One that does has registered the task that ran it with whatever it waits for, so that this task must yield its
# trap to trio and take the remaining steps.
Steps = Coroutine[Any, Any, T]

# Requests that the reading task handles between two checkpoints; 4 KiB of a response count as one more request.
_TURN = 32
_WATCH_COST = 8
_READS = ("GET", "HEAD")
# Reads after the server began to stop, for requests that had arrived before, until GOAWAY is sent.
_LATE_READS = 4


class Http2:
    """What all HTTP/2 connections of a server share: the task that flushes."""

    __slots__ = ("_server", "flusher")

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self.flusher = Flusher()

    async def serve(self, transport: Transport, peer: Peer, ahead: bytes) -> None:
        """Serve one connection; `ahead` was received already."""
        await Http2Connection(self._server, self.flusher, transport, peer).run(ahead)


class Http2Connection:
    __slots__ = (
        "_deadline",
        "_flusher",
        "_hurried",
        "_last_stream",
        "_late_reads",
        "_leaving",
        "_nursery",
        "_overdue",
        "_partial_since",
        "_peer",
        "_responder",
        "_running",
        "_transport",
        "_warned_at",
        "heads",
        "output",
        "receiver",
        "server",
    )

    def __init__(self, server: ServerState, flusher: Flusher, transport: Transport, peer: Peer) -> None:
        self.server = server
        self.heads = server.heads(HTTP2)
        self._responder = server.responder
        self._flusher = flusher
        self._transport = transport
        self._peer = peer
        self._running = 0  # tasks that handle requests, also of streams that were reset
        self._warned_at: float | None = None  # when the peer was warned that the connection will end
        self._leaving = False  # GOAWAY has been sent
        self._hurried = False  # since the server began to stop, after GOAWAY
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
                output = self.output = Output(transport, self._flusher, nursery)
                self.receiver = Receiver(self, self._peer)
                self.receiver.open()
                await self._read(ahead)
            failed = output.failed
        finally:
            self.receiver.drop_all()  # if it was cancelled or failed: watches have no task that would notice
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
                    self.receiver.feed(data)
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
        receiver, responder, output = self.receiver, self._responder, self.output
        handled = 0
        chance = self.server.limits.goaway_chance
        while (stream := receiver.next_request()) is not None:
            handled += 1
            if chance and random.random() < chance:
                self._warn()
            client = self._transport.unauthenticated
            if client is not None:
                if handled > 1:
                    output.flush()
                    await client.again()
            elif handled > _TURN:
                handled = 0
                output.flush()
                await trio.lowlevel.checkpoint()
            if stream.fault is not None:
                self._refuse(stream, stream.fault)
                continue
            request = stream.request
            assert request is not None
            if request.method not in _READS or request.body:
                self._start_task(stream, request)
                if client is not None:
                    await self._let_begin()
                continue
            stream.exchange = responder.receive(request)
            steps = responder.handle(request)
            response: Response | None
            try:
                trap = steps.send(None)
            except StopIteration as result:
                response = result.value
            except Exception as error:
                response = responder.failed(stream, error)
            else:
                receiver.streams[stream.number] = stream
                self._running += 1
                output.flush()
                self._pause()
                return stream, self._complete(stream, resume(steps, trap))
            if response is None:
                continue
            rest = responder.respond(stream, response)
            if rest is None:
                handled += len(response.body) >> 12
                continue
            handled += _WATCH_COST
            receiver.streams[stream.number] = stream
            try:
                trap = rest.send(None)
            except StopIteration:
                continue
            except OSError:
                continue  # the end of the connection is being handled
            self._running += 1
            output.flush()
            self._pause()
            return stream, self._complete_rest(stream, resume(rest, trap))
        if receiver.begun:
            for stream in receiver.take_begun():
                request = stream.request
                assert request is not None
                stream.begin_request(request)
                self._start_task(stream, request)
                if self._transport.unauthenticated is not None:
                    await self._let_begin()
        output.flush()
        return None

    def _pause(self) -> None:
        if self._transport.unauthenticated is not None:
            self._transport.unauthenticated.pause()

    async def _let_begin(self) -> None:
        """Have the task of a request run, and its work counted, before the next one of this client."""
        self.output.flush()
        self._pause()
        await trio.lowlevel.checkpoint()
        if self._transport.unauthenticated is not None:
            await self._transport.unauthenticated.again()

    def _refuse(self, stream: Stream, fault: Fault) -> None:
        """Respond to a request that cannot be handled."""
        responder, request = self._responder, stream.request
        assert request is not None
        if responder.observe is not None:
            stream.exchange = responder.observe(request)
        responder.respond(stream, responder.refusal(fault.status, fault.message))

    async def _receive(self) -> bytes:
        """Return the peer's next bytes; b"" when the connection ends."""
        transport, server, receiver = self._transport, self.server, self.receiver
        while not (self.output.failed or (self._leaving and not receiver.streams and not self._running)):
            if (server.draining or self._warned_at is not None) and not self._leaving and self._may_leave():
                self._late_reads += 1
                if self._late_reads <= _LATE_READS and (data := transport.receive_nowait()):
                    return data
                self._leave()
                continue
            if self._in_hurry and not self._hurried:
                self._hurry()
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
        stream.exchange = self._responder.receive(request)
        self.receiver.streams[stream.number] = stream
        self._running += 1
        self._nursery.start_soon(self._handle, stream, request)

    async def _handle(self, stream: Stream, request: Request) -> None:
        """The task of a request."""
        if stream.closed:  # reset before the task began
            self._end_task(stream)
            return
        with RequestScope() as scope:
            stream.scope = scope
            steps = self._complete(stream, self._responder.handle(request))
            client = self._transport.unauthenticated
            await (steps if client is None else client.measured(steps))

    async def _complete(self, stream: Stream, steps: Steps[Response]) -> None:
        """Take the remaining steps of a request in this task, and respond."""
        responder = self._responder
        response: Response | None
        try:
            try:
                response = await steps
            except Exception as error:
                response = responder.failed(stream, error)
            if response is None or stream.closed:
                return
            if (rest := responder.respond(stream, response)) is not None:
                await rest
            if self._running == 1:
                self.output.flush()
            else:
                self.output.flush_later()
        except OSError:
            pass  # the reset of the stream, or the end of the connection, is being handled
        finally:
            self._end_task(stream)

    async def _complete_rest(self, stream: Stream, rest: Steps[None]) -> None:
        """Take the remaining steps of a response in this task."""
        try:
            await rest
        except OSError:
            pass  # as above
        finally:
            self._end_task(stream)

    def _end_task(self, stream: Stream) -> None:
        self._running -= 1
        stream.scope = None
        if stream.request is not None:
            stream.request.arriving = None  # it refers to the stream
            if not stream.responding:
                stream.cut_off()
            if stream.closed:
                self._responder.release(stream)
        self.request_ended()

    # What streams report.

    def stream_reset(self, stream: Stream) -> None:
        """A stream was reset before its response was complete, or before its request was."""
        request, observe = stream.request, self._responder.observe
        if request is not None:
            if request.exchange is None and observe is not None:
                observe(request).cut_off()
            elif stream.responding:
                stream.cut_off()
            if stream.scope is None:
                self._responder.release(stream)
        self.request_ended()

    def watch_interrupted(self, stream: Stream) -> None:
        """Look whether a watch without a task has ended, or has to end."""
        watch = stream.watch
        assert watch is not None
        if stream.closed or self.output.failed:
            stream.sweeping = False
            watch.leave()
            stream.forget_watch()
        elif watch.should_end():
            stream.sweeping = False
            self._nursery.start_soon(self._end_watch, stream, watch)
        self.request_ended()

    async def _end_watch(self, stream: Stream, watch: Watch) -> None:
        try:
            await self._responder.watch_ended(stream, watch.end())
        finally:
            self.request_ended()

    def refuses_streams(self) -> bool:
        limit = self.server.limits.streams
        return self._leaving or len(self.receiver.streams) >= limit or self._running >= limit

    def expect_deadline(self, moment: float) -> None:
        if moment < self._deadline:
            self._deadline = moment
            self._transport.deadline = min(self._transport.deadline, moment)

    def _deadlines(self) -> set[float]:
        return {stream.deadline for stream in self.receiver.streams.values()}

    def transfer_deadline(self) -> float:
        limits = self.server.limits
        return self.server.now + (limits.drain_seconds if self._in_hurry else limits.transfer_seconds)

    @property
    def _in_hurry(self) -> bool:
        """The server stops: peers get little time. A connection that leaves alone lets its requests complete."""
        return self._leaving and self.server.draining

    def progress_deadline(self, deadline: float, size: int) -> float:
        """The responses of a connection share the rate that a peer has to reach."""
        responses = len(self.receiver.streams) - self.output.watches
        seconds = size * responses / self.server.limits.min_bytes_per_second
        return min(deadline + seconds, self.transfer_deadline())

    def _set_deadline(self) -> None:
        transport, server = self._transport, self.server
        transport.idle = False
        self._partial_since = self.receiver.partial_since(server.now)
        if self._warned_at is not None and not self._leaving:
            transport.deadline = min(self._deadline, self._leaves_at())
            return
        if self._partial_since is not None and not self._leaving:  # then each request has its own limits
            transport.deadline = min(self._deadline, self._partial_since + server.limits.head_seconds)
            return
        if self.receiver.streams or self._running:
            transport.deadline = self._deadline
        else:
            self._become_idle()

    def _expire(self) -> None:
        """The watchdog has interrupted the reading: end what is too slow, and an idle connection."""
        self._overdue = False
        now = trio.current_time()
        began = inf if self._partial_since is None or self._leaving else self._partial_since
        if now >= began + self.server.limits.head_seconds:
            raise ConnectionFault(NO_ERROR, "the rest of a frame did not arrive in time")
        if self._transport.idle and self._transport.deadline <= now:
            self._end_idle()
        self._deadline = inf
        for stream in list(self.receiver.streams.values()):
            if stream.deadline <= now:
                self._expire_stream(stream, now)
            if not stream.closed:
                self._deadline = min(self._deadline, stream.deadline)

    def _expire_stream(self, stream: Stream, now: float) -> None:
        if stream.watch is not None:
            stream.interrupt()  # at every tick from its deadline on
        elif stream.parts is not None:
            stream.expire_body(now, leaving=self._in_hurry)
        elif stream.body is None:
            stream.deadline = inf  # it is being handled
        elif self._in_hurry and self.output.moved_at + self.server.limits.drain_seconds > now:
            stream.deadline = self.output.moved_at + self.server.limits.drain_seconds
        elif self.output.blocked:
            self.output.fail()
        else:
            self.receiver.end_stream(stream, CANCEL)
            self.output.flush()

    # The end.

    def _end_idle(self) -> None:
        """The connection has been idle for too long, or the server needs the place for a new client."""
        self._leave()
        if self._transport.deadline == -inf:
            self._transport.close()  # the new client waits

    def _may_leave(self) -> bool:
        """Whether the last GOAWAY may be sent, by which requests on their way are refused.

        Where other processes go on, the peer is warned first.
        """
        if self._warned_at is None:
            if not self.server.limits.drain_idle_seconds:
                return True
            self._warn()
        return self.receiver.acknowledged_leaving or trio.current_time() >= self._leaves_at()

    def _warn(self) -> None:
        """Send a GOAWAY that refuses nothing, and a PING: who has acknowledged that sends no more requests here."""
        if self._warned_at is None and not self._leaving:
            self._warned_at = trio.current_time()
            self.output.control(goaway(STREAM_MASK, NO_ERROR) + frame(PING, 0, 0, LEAVING_PING))
            self.output.flush()

    def _leaves_at(self) -> float:
        """When the last GOAWAY is due, whether the peer has acknowledged the first or not."""
        return inf if self._warned_at is None else self._warned_at + self.server.limits.drain_seconds

    def _leave(self) -> None:
        """Send GOAWAY: the requests up to now are completed, the peer may repeat later ones elsewhere."""
        self._leaving = True
        self._last_stream = self.receiver.highest
        self.output.control(goaway(self._last_stream, NO_ERROR))
        self.output.flush()

    def _hurry(self) -> None:
        """The server stops: from now on, the peer gets little time for the responses that it takes."""
        self._hurried = True
        due = trio.current_time() + self.server.limits.drain_seconds
        for stream in self.receiver.streams.values():
            if stream.watch is None and stream.deadline > due and (stream.parts is not None or stream.body):
                stream.deadline = due
                self.expect_deadline(due)

    def request_ended(self) -> None:
        """A request has ended while the reading task waits: after the last, the connection is idle, or has to end."""
        if self.receiver.streams or self._running:
            return
        if self._leaving:
            self._transport.interrupt()
        elif self._partial_since is None:
            self._become_idle()

    def _become_idle(self) -> None:
        self._deadline = inf
        self._transport.idle = True
        self._transport.deadline = min(self.server.now + self.server.limits.idle_seconds, self._leaves_at())

    def _finish(self, fault: ConnectionFault | None) -> None:
        """The reading has ended: end the streams and send what is queued."""
        self._leaving = True
        self._transport.deadlines = None
        self.receiver.drop_all()
        output = self.output
        if fault is not None and not output.failed:
            last = min(self._last_stream, self.receiver.highest)  # must not increase
            output.queue.append(goaway(last, fault.code, fault.message))
        output.finish(self.server.limits.drain_seconds)


@coroutine
def resume(steps: Steps[T], trap: Any) -> Generator[Any, Any, T]:
    """Go on after the first `steps.send(None)`, which returned `trap`; the caller must not have awaited since."""
    while True:
        try:
            value = yield trap
        except BaseException as error:
            advance = partial(steps.throw, error)
        else:
            advance = partial(steps.send, value)
        try:
            trap = advance()
        except StopIteration as result:
            return result.value  # type: ignore[no-any-return]


class RequestScope:
    """A cancel scope for the steps of one request, which a reset of its stream cancels.

    A child task of the request may fail while it is cancelled. No client waits for the response then, and the other
    requests of the connection go on.
    """

    __slots__ = ("_scope",)

    def __enter__(self) -> trio.CancelScope:
        self._scope = trio.CancelScope()
        return self._scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            return self._scope.__exit__(kind, error, traceback)
        except ExceptionGroup as group:
            if not self._scope.cancel_called:
                raise
            log.debug("a request failed after its client had reset it", exc_info=group)
            return True
