"""Responses on one HTTP/2 connection: their heads, bodies in parts, and their ends as an observer gets them."""

from __future__ import annotations

from gateway.connections.heads import Heads, has_body
from gateway.connections.http2.heads.response_heads import length_field
from gateway.connections.http2.output import Output
from gateway.connections.http2.protocol import (
    DATA,
    END_STREAM,
    INTERNAL_ERROR,
    NO_ERROR,
    frame,
    header_frames,
)
from gateway.connections.http2.receiver import Receiver
from gateway.connections.http2.stream import Stream
from gateway.connections.parsing.fault import Fault
from gateway.connections.responder import _next_part as next_part
from gateway.connections.responder import _PartsFailed as PartsFailed
from gateway.connections.server_state import ServerState
from gateway.exchange import Exchange
from gateway.message import Response
from gateway.observer import add_audit_id


class Responses:
    __slots__ = ("_heads", "_output", "_receiver", "_server")

    def __init__(self, server: ServerState, heads: Heads, output: Output, receiver: Receiver) -> None:
        self._server = server
        self._heads = heads
        self._output = output
        self._receiver = receiver

    def send(self, stream: Stream, response: Response) -> None:
        """Queue a response; the rest of it follows as the client takes it."""
        request = stream.request
        assert request is not None
        if stream.closed:
            return
        body = response.body
        length = len(body) if response.parts is None else None
        if request.method == "HEAD" or not has_body(response.status):
            body = b""
        exchange = request.exchange
        if exchange is not None:
            add_audit_id(response, exchange)
            exchange.respond(response.status, len(body))
        block = self._heads.head(
            response, None, b"" if length is None or not has_body(response.status) else length_field(length)
        )
        if self._receiver.size_update:
            block = self._receiver.size_update + block
        head = header_frames(block, stream.number, end=not body)
        stream.responding = True
        if self._output.respond(stream, head, body):
            self.complete(stream)
            return
        self._receiver.streams[stream.number] = stream
        stream.begin_transfer()

    async def send_parts(self, stream: Stream, response: Response) -> None:
        """Send a body in parts; each is produced when the windows took the last. A reset of the stream cancels it."""
        request, parts, output = stream.request, response.parts, self._output
        assert request is not None and parts is not None
        self._start_parts(stream, response, request.exchange)
        try:
            while part := await next_part(parts):
                await stream.send_part(part)
                del part  # not held while the next one is produced
        except PartsFailed as failed:
            self._server.responder.cut_off(request, failed)
            if not stream.closed:
                self._receiver.end_stream(stream, INTERNAL_ERROR)
                output.flush_later()
            return
        except OSError:
            return  # the reset of the stream, or the end of the connection, is being handled
        if not (stream.closed or output.failed):
            output.control(frame(DATA, END_STREAM, stream.number))
            output.flush_later()
            self.complete(stream)

    def _start_parts(self, stream: Stream, response: Response, exchange: Exchange | None) -> None:
        if exchange is not None:
            add_audit_id(response, exchange)
        block = self._receiver.size_update + self._heads.head(response, None, b"")
        self._output.control(header_frames(block, stream.number, end=False))
        self._output.flush_later()
        stream.responding = stream.in_parts = True
        if exchange is not None:
            exchange.start(response.status, stream)

    def refuse(self, stream: Stream, fault: Fault) -> None:
        """Respond to a request that cannot be handled."""
        request, server = stream.request, self._server
        assert request is not None
        if server.responder.observe is not None:
            server.responder.observe(request)
        self.send(stream, server.responder.refusal(fault.status, fault.message))

    def lose(self, stream: Stream) -> None:
        """End a stream without a response."""
        if not stream.closed:
            self._receiver.end_stream(stream, INTERNAL_ERROR)
            self._output.flush_later()

    def complete(self, stream: Stream) -> None:
        """All of a response has been queued."""
        request = stream.request
        if request is not None:
            if request.exchange is not None:
                self._output.complete_when_sent(request.exchange)
            if request.reserved:
                self._receiver.release_memory(request)
        if not stream.request_ended:
            self._receiver.reset(stream.number, NO_ERROR)
        self._receiver.forget(stream)

    def task_ended(self, stream: Stream) -> None:
        """The task of a request has ended."""
        request = stream.request
        if request is None:
            return
        request.arriving = None  # it refers to the stream
        if not stream.responding:
            cut_off(request.exchange)
        if stream.closed:
            self._receiver.release_memory(request)

    def cut_off(self, stream: Stream) -> None:
        """A stream was reset before its response was complete, or before its request was."""
        request = stream.request
        if request is None:
            return
        if stream.scope is None:
            self._receiver.release_memory(request)
        if request.exchange is None and self._server.responder.observe is not None:
            cut_off(self._server.responder.observe(request))
        elif stream.responding:
            cut_off(request.exchange)


def cut_off(exchange: Exchange | None) -> None:
    if exchange is not None:
        exchange.cut_off()
