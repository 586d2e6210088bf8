"""HTTP/1.1 on one transport: read, parse, handle and respond, all in the connection's own task.

The server runs one `Http1Connection` per connection. It creates no task, channel or cancel scope per request, and
sends the responses of pipelined requests together, in order. A stream (a watch) gets the transport itself; requests
that the client sends meanwhile are handled after it. Invariant: a request that was read whole is handled and gets its
response before the transport is closed, also while draining.

A request whose body does not arrive together with its head is handled at once: its handler reads the body
(`Request.arriving`) when it wants it. If it responds without, a small rest is discarded, else the connection ends.
"""

from __future__ import annotations

from math import inf

import trio

from gateway.connections.forwarding import forward
from gateway.connections.heads import CLOSE, CONTINUE, KEEP_ALIVE, all_fields
from gateway.connections.limits import KIB
from gateway.connections.metering import MeteredTransport, complete_observed, meter_of, start_observed
from gateway.connections.parsing.fault import Fault
from gateway.connections.parsing.parser import Parser
from gateway.connections.parts import PartCounter, send_parts
from gateway.connections.server_state import ServerState
from gateway.connections.transport import RECEIVE, Transport
from gateway.connections.websocket.handshake import REFUSAL_HEADERS, Accepted, accept_websocket
from gateway.connections.websocket.opening import new_websocket
from gateway.requests.exchange import Exchange
from gateway.requests.memory import SMALL
from gateway.requests.observer import RequestObserver, add_audit_id, observe
from gateway.requests.request import BodyNotRead, EndReason, Peer, Request, Response, Stream
from gateway.watch.framing import LAST_CHUNK, as_chunk, as_it_is

# Responses to pipelined requests are joined up to this size; a larger body is sent without a copy.
_GATHER = 32 * KIB
_TOO_SLOW = Fault(408, "the request did not arrive in time")
# A chunked body takes memory in steps of this size.
_STEP = 256 * KIB
# Enough of "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" to recognize it.
_HTTP2_PREFACE = b"PRI * HTTP/2.0"


class Http1Connection:
    __slots__ = ("_body_began", "_early", "_observed", "_parser", "_partial_head", "_server", "_transport")

    def __init__(self, server: ServerState, transport: Transport, peer: Peer) -> None:
        self._server = server
        self._transport = transport
        self._parser = Parser(peer, server.limits)
        self._body_began = 0.0  # when the rest of a body was first awaited
        self._early = b""  # bytes received during a stream
        self._partial_head = 0  # bytes of a head that has arrived in part
        self._observed: list[Exchange] = []  # requests in progress, oldest first, if there is an observer

    async def run(self) -> bytes:
        """Serve until the connection ends. Returns bytes only if they are the start of HTTP/2 instead."""
        transport, server = self._transport, self._server
        transport.deadline = server.now + server.limits.head_seconds
        try:
            data = await self._receive_first()
            if data.startswith(_HTTP2_PREFACE):
                return data
            await self._serve_requests(data)
        except (OSError, trio.ClosedResourceError):
            # The client disconnected, or read its response too slowly: nobody is left to send a response to.
            transport.abort()
        except Exception as error:
            if self._observed:
                self._observed[-1].panic(error)
            raise
        finally:
            if server.observer is not None:
                self._cut_off(server.observer)
            self._parser.release()
            self._hold_head(0)
        return b""

    async def _receive_first(self) -> bytes:
        """Return the first bytes: as many as show whether this is HTTP/2, if they begin like its preface."""
        transport = self._transport
        if self._server.draining:
            data = transport.receive_nowait()
        else:
            data = await self._receive_more()
        while data and len(data) < len(_HTTP2_PREFACE) and _HTTP2_PREFACE.startswith(data):
            transport.idle = False
            more = await self._receive_more()
            if not more:
                return b""
            data += more
        transport.idle = True
        return data

    async def _receive_more(self) -> bytes:
        try:
            return await self._transport.receive()
        except trio.ClosedResourceError:
            return await self._interrupted()

    async def _serve_requests(self, data: bytes) -> None:
        """The hot path: every request passes here, so it is one flat loop."""
        transport, parser, server = self._transport, self._parser, self._server
        idle_seconds = server.limits.idle_seconds
        while data:
            discarding = parser.discarding
            parser.feed(data)
            size, data = len(data), b""  # not held while a request waits
            if self._partial_head and (parser.ready or parser.incomplete is not None):
                self._hold_head(0)
            if discarding and not parser.discarding:
                transport.idle = True
            if parser.ready:
                transport.idle = False
                transport.deadline = inf
                requests, parser.ready = parser.ready, []
                try:
                    if await self._respond(requests):
                        return
                finally:
                    if server.memory.held:
                        self._release(requests)
                    requests.clear()
                transport.idle = True
            if parser.incomplete is not None and await self._serve_incomplete():
                return
            if self._early:
                data, self._early = self._early, b""
                continue
            if parser.fault is not None:
                await self._refuse(parser.fault)
                return
            if parser.mid_message:
                self._await_rest(size)
            else:
                transport.deadline = server.now + idle_seconds
                if server.draining:
                    data = transport.receive_nowait()
                    continue
            try:  # as `_receive_more`, without another coroutine
                data = await transport.receive()
            except trio.ClosedResourceError:
                data = await self._interrupted()

    async def _serve_incomplete(self) -> bool:
        """Handle the request whose body has not arrived whole, and those after it that arrive with its rest.

        True when the connection ends.
        """
        parser, transport = self._parser, self._transport
        while (request := parser.incomplete) is not None and not parser.discarding and parser.fault is None:
            transport.idle = False
            transport.deadline = inf
            self._body_began = self._server.now
            request.arriving = self._read_body
            parser.begin()
            parser.ready.append(request)
            del request
            while parser.ready:
                if await self._respond_to_ready():
                    if parser.mid_message:
                        await transport.linger()
                    return True
            transport.idle = not parser.discarding
        return False

    async def _read_body(self) -> bytes:
        """Read the rest of the incomplete request, once there is room for it. BodyNotRead, TooManyRequests."""
        parser, transport, server = self._parser, self._transport, self._server
        request = parser.incomplete
        assert request is not None
        if parser.length > SMALL:
            await server.memory.wait_for(request, parser.length)
            self._body_began = server.now
        try:
            if parser.expects_continue:
                parser.expects_continue = False
                if not parser.received:
                    await transport.send(CONTINUE)
            while parser.incomplete is request:
                await self._read_more(request)
        except trio.ClosedResourceError:
            raise BodyNotRead(_TOO_SLOW.status, _TOO_SLOW.message) from None
        except OSError:
            raise BodyNotRead from None
        finally:
            transport.deadline = inf
        request.arriving = None
        return request.body

    async def _read_more(self, request: Request) -> None:
        parser, transport, server = self._parser, self._transport, self._server
        if parser.length < 0 and parser.received + RECEIVE > SMALL + request.reserved:
            transport.deadline, began = inf, server.now
            await server.memory.wait_for(request, _STEP)
            self._body_began += server.now - began  # the client had to wait
        transport.deadline = server.limits.transfer_deadline(self._body_began, parser.received, server.now)
        if self._early:
            data, self._early = self._early, b""
        else:
            data = await transport.receive()
        if not data:
            raise BodyNotRead
        parser.feed(data)
        if parser.fault is not None and parser.incomplete is request:
            raise BodyNotRead(parser.fault.status, parser.fault.message)

    async def _respond_to_ready(self) -> bool:
        requests, self._parser.ready = self._parser.ready, []
        try:
            return await self._respond(requests)
        finally:
            self._release(requests)

    def _release(self, requests: list[Request]) -> None:
        """The requests have their responses, or the connection is broken: they hold nothing any more."""
        for request in requests:
            self._server.memory.release(request)
        requests.clear()

    async def _respond(self, requests: list[Request]) -> bool:
        """Respond to the requests read so far; True when the last response closes the connection."""
        parser, server, transport = self._parser, self._server, self._transport
        left = len(requests)
        server.requests += left
        ending = behind = False
        gathered, observer = b"", server.observer
        for request in requests:
            exchange = audit_id = None
            if observer is not None:
                self._observed.append(exchange := observe(observer, request))
            try:
                response = await server.handle(request)
            except BodyNotRead as error:
                if not error.status:
                    return True
                parser.fault = parser.fault or Fault(error.status, error.message)
                response = server.refusal(error.status, error.message)
            except Exception as error:
                response = server.failure(request, error)
            if exchange is not None:
                if response.stream is None and response.parts is None and response.forwarding is None:
                    exchange.response, audit_id = response, exchange.audit_id
                elif response.forwarding is None:
                    add_audit_id(response, exchange)
            left -= 1
            if response.forwarding is not None:
                if gathered:
                    await transport.send(gathered)
                    gathered = b""
                last = not left and not parser.ready
                ending, self._early = await forward(
                    server, transport, parser, request, response, self._observed, self._early, last=last
                )
                if ending:
                    return True
                continue
            if left == 0:
                behind = bool(parser.ready)  # requests that arrived with the rest of this one
                ending = (server.draining or parser.closing) and not (parser.mid_message or behind)
                if parser.incomplete is request:
                    ending = not parser.discard() or server.draining or response.stream is not None
            if response.stream is not None and request.method != "HEAD":
                if left or behind or not parser.upgrading:
                    ending = ending or parser.http10
                    await transport.send(gathered + self._streaming_head(response, ending))
                    gathered = b""
                    if not left:
                        self._release(requests)  # the request's memory is free while the watch lasts
                        del request
                    await self._stream(response.stream, response.status, exchange)
                    if parser.http10:
                        return True
                    continue
                accepted = accept_websocket(request.headers)
                if isinstance(accepted, Accepted):
                    await transport.send(gathered + accepted.head(all_fields(response)))
                    self._release(requests)
                    del request
                    transport.streaming = True
                    websocket = await new_websocket(transport, parser.decline_upgrade(), exchange)
                    if exchange is not None:
                        start_observed(self._observed, exchange, 101, websocket)
                    await websocket.run(response.stream)
                    complete_observed(self._observed)
                    return True
                response = server.refusal(accepted.status, accepted.message)
                response.headers.extend(REFUSAL_HEADERS)
                if exchange is not None:
                    add_audit_id(response, exchange)
            if response.parts is not None:
                ending = ending or parser.http10
                await transport.send(gathered + self._streaming_head(response, ending))
                gathered = b""
                if request.method != "HEAD":
                    counter = PartCounter()
                    if exchange is not None:
                        start_observed(self._observed, exchange, response.status, counter)
                    await send_parts(server, transport, request, response, counter, not parser.http10)
                elif exchange is not None:
                    exchange.respond(response.status, 0)
                complete_observed(self._observed)
                if parser.http10:
                    return True
                continue
            line = CLOSE if ending else KEEP_ALIVE if parser.http10 else b""
            head, body = server.heads.render(request.method, response, line, audit_id)
            gathered += head
            if exchange is not None:
                exchange.respond(response.status, len(body))
            if len(gathered) + len(body) > _GATHER:
                await transport.send_large(gathered, body)
                gathered = b""
                if request.reserved:
                    server.memory.release(request)
                if observer is not None:
                    complete_observed(self._observed)
            else:
                gathered += body
        if gathered:
            rest = transport.send_nowait(gathered)
            if rest is not None:
                await transport.send_rest(rest)
            if observer is not None:
                complete_observed(self._observed)
        if parser.upgrading and not behind:
            self._early += parser.decline_upgrade()
        return ending

    def _streaming_head(self, response: Response, ending: bool) -> bytes:
        line = CLOSE if ending else b""
        return self._server.heads.streaming(response, line, chunked=not self._parser.http10)

    async def _stream(self, stream: Stream, status: int, exchange: Exchange | None) -> None:
        """Send a body of unknown length: in chunks, or for HTTP/1.0 up to the end of the connection."""
        transport, chunked = self._transport, not self._parser.http10
        transport.streaming, framing = True, as_chunk if chunked else as_it_is
        pipe: Transport | MeteredTransport = transport
        if exchange is not None:
            pipe = MeteredTransport(transport, meter_of(framing))
            start_observed(self._observed, exchange, status, pipe.meter)
        finished = await stream.run(pipe, framing)
        if exchange is not None and finished.reason is EndReason.FAILED:
            exchange.panic()
        self._early += finished.early
        transport.streaming = False
        transport.deadline = inf
        if chunked:
            await transport.send(LAST_CHUNK)
        complete_observed(self._observed)

    def _cut_off(self, observer: RequestObserver) -> None:
        """The connection has ended: report every incomplete request as cut off."""
        if (unread := self._parser.take_unread()) is not None:
            self._observed.append(observe(observer, unread))
        for exchange in self._observed:
            exchange.cut_off()
        self._observed.clear()

    def _await_rest(self, size: int) -> None:
        """Part of a request has been read: set the deadline of the rest of its head, or of what is discarded."""
        transport, parser, server = self._transport, self._parser, self._server
        if parser.discarding:
            transport.deadline = server.limits.transfer_deadline(
                self._body_began, parser.received, server.now
            )
            return
        if transport.idle:
            transport.idle = False
            transport.deadline = server.now + server.limits.head_seconds
        self._hold_head(self._partial_head + size)

    def _hold_head(self, size: int) -> None:
        self._partial_head = size
        self._server.partial_heads.hold(self._transport, size)

    async def _interrupted(self) -> bytes:
        """The deadline passed, or the server stops; bytes that arrived in the same instant still count."""
        if self._transport.idle:
            return self._transport.receive_nowait()
        if not self._parser.discarding:
            await self._refuse(_TOO_SLOW)
        return b""

    async def _refuse(self, fault: Fault) -> None:
        if self._parser.discarding:  # it has its response
            await self._transport.linger()
            return
        self._transport.deadline = inf
        server = self._server
        response = server.refusal(fault.status, fault.message)
        if server.observer is not None and (unread := self._parser.take_unread()) is not None:
            exchange = observe(server.observer, unread)
            exchange.respond(response.status, len(response.body))
            add_audit_id(response, exchange)
            self._observed.append(exchange)
        await self._transport.send(server.closing_bytes(response))
        complete_observed(self._observed)
        self._parser.release()
        await self._transport.linger()
