"""HTTP/2 on one transport: reads frames, handles requests, sends responses and watches.

The server runs one `Http2Connection` after ALPN selected h2, or if a client starts with the preface of HTTP/2. One
task reads. It handles GET requests itself, one after the other, and sends their responses together; if one has to
wait, that task stays with it and a new task continues reading. Writes and watches get a task each, so that writes
which arrive together are committed together; so do requests whose body is incomplete. A reset of a stream cancels its
request.

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
from rewound.gateway.connections.http2.receiver import Receiver
from rewound.gateway.connections.http2.response_heads import HTTP2
from rewound.gateway.connections.http2.stream import Stream
from rewound.gateway.connections.server_state import ServerState, log
from rewound.gateway.connections.transport import Transport
from rewound.gateway.message import Peer, Request, Response
from rewound.gateway.message import Stream as Watch
from rewound.http2.frames import (
    CANCEL,
    NO_ERROR,
    STREAM_MASK,
    ConnectionFault,
    goaway,
)

T = TypeVar("T")

# A coroutine that one task runs up to its first wait and continues from there. If it does not wait, it needs no task.
# If it does, it has registered the task that ran it with whatever it waits for, so that this task must yield the
# coroutine's trap to trio and run the remaining steps.
Steps = Coroutine[Any, Any, T]

# Requests that the reading task handles between two checkpoints; 4 KiB of a response count as one more request.
_TURN = 32
_WATCH_COST = 8
_READS = ("GET", "HEAD")
# Reads after the server began to stop, for requests that had arrived before, until GOAWAY is sent.
_LATE_READS = 4
# Seconds without a new request before GOAWAY. A client that is sending one when GOAWAY arrives may take that for an
# error (httpcore does); after this time all that it sends at once are waiting, and it sends them again.
_QUIET = 0.3


class Http2:
    """Shared by all HTTP/2 connections of a server: the task that flushes."""

    __slots__ = ("_server", "flusher")

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self.flusher = Flusher()

    async def serve(self, transport: Transport, peer: Peer, ahead: bytes) -> None:
        """Serve one connection; `ahead` are the bytes already received."""
        await Http2Connection(self._server, self.flusher, transport, peer).run(ahead)


class Http2Connection:
    __slots__ = (
        "_deadline",
        "_deadlines_shortened",
        "_flusher",
        "_goaway_sent",
        "_held_at",
        "_last_stream",
        "_late_reads",
        "_nursery",
        "_overdue",
        "_partial_since",
        "_peer",
        "_responder",
        "_running",
        "_transport",
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
        self._running = 0  # tasks that handle requests, including those of streams that were reset
        self._held_at: float | None = None  # since when new requests are left to another connection
        self._goaway_sent = False  # the final GOAWAY has been sent
        self._deadlines_shortened = False  # deadlines were shortened because the server stops
        self._last_stream = STREAM_MASK  # the last stream that it named
        self._late_reads = 0  # reads since the server began to stop
        self._deadline = inf  # earliest deadline of all streams
        self._overdue = False  # a deadline has passed; the peer's bytes are handled first
        self._partial_since: float | None = None  # when the first bytes of an incomplete frame arrived

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
            # In case it was cancelled or failed: watches have no task that would notice.
            self.receiver.drop_all()
            self.output.fail()  # the flusher may still have it, and the observer waits for what was not sent
        if failed:
            transport.abort()
        elif not transport.closed:
            await transport.linger()

    # Reading.

    async def _read(self, data: bytes = b"") -> None:
        """Read until the connection ends, or until a request has to wait: then another task continues reading."""
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
                self._hold()
            client = self._transport.unauthenticated
            if client is not None:
                if handled > 1:
                    output.flush()
                    await client.next_turn()
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
                    await self._let_task_start()
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
                continue  # the connection is ending
            self._running += 1
            output.flush()
            self._pause()
            return stream, self._complete_rest(stream, resume(rest, trap))
        if receiver.incomplete:
            for stream in receiver.take_incomplete():
                request = stream.request
                assert request is not None
                stream.begin_request(request)
                self._start_task(stream, request)
                if self._transport.unauthenticated is not None:
                    await self._let_task_start()
        output.flush()
        return None

    def _pause(self) -> None:
        if self._transport.unauthenticated is not None:
            self._transport.unauthenticated.pause()

    async def _let_task_start(self) -> None:
        """Let the task of a request start, and its work be counted, before this client's next request."""
        self.output.flush()
        self._pause()
        await trio.lowlevel.checkpoint()
        if self._transport.unauthenticated is not None:
            await self._transport.unauthenticated.next_turn()

    def _refuse(self, stream: Stream, fault: Fault) -> None:
        """Respond to a request that cannot be handled."""
        responder, request = self._responder, stream.request
        assert request is not None
        if responder.observe is not None:
            stream.exchange = responder.observe(request)
        responder.respond(stream, responder.refusal(fault.status, fault.message))

    async def _receive(self) -> bytes:
        """The peer's next bytes; b"" when the connection ends."""
        transport, server, receiver = self._transport, self.server, self.receiver
        while not (self.output.failed or (self._goaway_sent and not receiver.streams and not self._running)):
            if (server.draining or self._held_at is not None) and not self._goaway_sent:
                if self._held_at is None:
                    self._late_reads += 1
                    if self._late_reads <= _LATE_READS and (data := transport.receive_nowait()):
                        return data
                    self._hold()
                if self._may_send_goaway():
                    self._send_goaway()
                    continue
            if self._has_short_deadlines and not self._deadlines_shortened:
                self._shorten_deadlines()
            self._set_deadline()
            if self._overdue:
                self._expire()
                continue
            try:
                return await transport.receive()
            except trio.ClosedResourceError:
                if transport.closed or self.output.failed:
                    return b""
            # Interrupted; bytes that arrived at the same moment still count.
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
        """Run the remaining steps of a request in this task, and respond."""
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
            pass  # the stream was reset or the connection is ending
        finally:
            self._end_task(stream)

    async def _complete_rest(self, stream: Stream, rest: Steps[None]) -> None:
        """Run the remaining steps of a response in this task."""
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
            stream.request.arriving = None  # refers to the stream
            if not stream.responding:
                stream.cut_off()
            if stream.closed:
                self._responder.release(stream)
        self.request_ended()

    # Callbacks of streams.

    def stream_reset(self, stream: Stream) -> None:
        """Called when a stream is reset before its request or its response is complete."""
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
        """Check whether a watch without a task has ended, or must end."""
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
        return self._goaway_sent or len(self.receiver.streams) >= limit or self._running >= limit

    def expect_deadline(self, moment: float) -> None:
        if moment < self._deadline:
            self._deadline = moment
            self._transport.deadline = min(self._transport.deadline, moment)

    def _deadlines(self) -> set[float]:
        return {stream.deadline for stream in self.receiver.streams.values()}

    def transfer_deadline(self) -> float:
        limits = self.server.limits
        return self.server.now + (
            limits.drain_seconds if self._has_short_deadlines else limits.transfer_seconds
        )

    @property
    def _has_short_deadlines(self) -> bool:
        """Whether deadlines are short because the server stops, rather than only this connection ending."""
        return self._goaway_sent and self.server.draining

    def progress_deadline(self, deadline: float, size: int) -> float:
        """Extend a deadline by the minimum rate, which the responses of a connection share."""
        responses = len(self.receiver.streams) - self.output.watches
        seconds = size * responses / self.server.limits.min_bytes_per_second
        return min(deadline + seconds, self.transfer_deadline())

    def _set_deadline(self) -> None:
        transport, server = self._transport, self.server
        transport.idle = False
        self._partial_since = self.receiver.partial_since(server.now)
        if self._held_at is not None and not self._goaway_sent:
            transport.deadline = min(self._deadline, self._goaway_due_at())
            return
        # Requests in progress have their own limits.
        if self._partial_since is not None and not self._goaway_sent:
            transport.deadline = min(self._deadline, self._partial_since + server.limits.head_seconds)
            return
        if self.receiver.streams or self._running:
            transport.deadline = self._deadline
        else:
            self._become_idle()

    def _expire(self) -> None:
        """End what is too slow, and an idle connection, after the watchdog has interrupted the read."""
        self._overdue = False
        now = trio.current_time()
        began = inf if self._partial_since is None or self._goaway_sent else self._partial_since
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
            stream.interrupt()  # called at every tick after its deadline
        elif stream.parts is not None:
            stream.expire_body(now, leaving=self._has_short_deadlines)
        elif stream.body is None:
            stream.deadline = inf  # it is being handled
        elif self._has_short_deadlines and self.output.moved_at + self.server.limits.drain_seconds > now:
            stream.deadline = self.output.moved_at + self.server.limits.drain_seconds
        elif self.output.blocked:
            self.output.fail()
        else:
            self.receiver.end_stream(stream, CANCEL)
            self.output.flush()

    # The end.

    def _end_idle(self) -> None:
        """End a connection that was idle for too long, or whose place a new client needs."""
        self._send_goaway()
        if self._transport.deadline == -inf:
            self._transport.close()  # a new client waits for the place

    def _may_send_goaway(self) -> bool:
        """Whether GOAWAY may be sent: when the running requests are complete, or take too long.

        Clients with h2 (httpx) read nothing that follows a GOAWAY, neither a PING nor the rest of a response. A server
        that ends sends it at once: other clients then connect to the next one sooner.
        """
        now = trio.current_time()
        if now >= self._goaway_due_at() or self._is_last():
            return True
        return not (self.receiver.streams or self._running) and now >= self.receiver.opened_at + _QUIET

    def _is_last(self) -> bool:
        """Whether the server ends, and no other process continues to serve."""
        return self.server.draining and not self.server.limits.drain_idle_seconds

    def _hold(self) -> None:
        """Start no further request. GOAWAY says so soon, and clients send those that were not started once more."""
        if self._held_at is None and not self._goaway_sent:
            self._held_at = self.receiver.opened_at = trio.current_time()
            if not self._is_last():
                self.receiver.hold()
                self._nursery.start_soon(self._await_quiet)

    async def _await_quiet(self) -> None:
        while not self._goaway_sent and (left := self.receiver.opened_at + _QUIET - trio.current_time()) > 0:
            await trio.sleep(left)
        if not self._goaway_sent:
            self._transport.interrupt()

    def _goaway_due_at(self) -> float:
        """When GOAWAY is due, even if requests are still running."""
        return inf if self._held_at is None else self._held_at + self.server.limits.drain_seconds

    def _send_goaway(self) -> None:
        """Send GOAWAY: requests that were started are completed, and the peer may retry later ones elsewhere."""
        self._goaway_sent = True
        self._last_stream = min(self.receiver.held_after, self.receiver.highest)
        self.output.control(goaway(self._last_stream, NO_ERROR))
        self.output.flush()

    def _shorten_deadlines(self) -> None:
        """Shorten the deadlines of all streams, because the server stops."""
        self._deadlines_shortened = True
        due = trio.current_time() + self.server.limits.drain_seconds
        for stream in self.receiver.streams.values():
            if stream.watch is None and stream.deadline > due and (stream.parts is not None or stream.body):
                stream.deadline = due
                self.expect_deadline(due)

    def request_ended(self) -> None:
        """Called when a request ends while the reading task waits; after the last the connection is idle, or ends."""
        if self.receiver.streams or self._running:
            return
        if self._goaway_sent or self._held_at is not None:
            self._transport.interrupt()
        elif self._partial_since is None:
            self._become_idle()

    def _become_idle(self) -> None:
        self._deadline = inf
        self._transport.idle = True
        self._transport.deadline = min(
            self.server.now + self.server.limits.idle_seconds, self._goaway_due_at()
        )

    def _finish(self, fault: ConnectionFault | None) -> None:
        """End the streams and send what is queued, after reading has ended."""
        self._goaway_sent = True
        self._transport.deadlines = None
        self.receiver.drop_all()
        output = self.output
        if fault is not None and not output.failed:
            last = min(
                self._last_stream, self.receiver.held_after, self.receiver.highest
            )  # must not increase
            output.queue.append(goaway(last, fault.code, fault.message))
        output.finish(self.server.limits.drain_seconds)


@coroutine
def resume(steps: Steps[T], trap: Any) -> Generator[Any, Any, T]:
    """Continue after the first `steps.send(None)`, which returned `trap`; the caller must not have awaited since."""
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
    """A cancel scope for the steps of one request, cancelled when its stream is reset.

    A child task of the request may fail while it is cancelled. No client waits for the response then, so the error
    does not end the other requests of the connection.
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
