"""HTTP/1.1 on one transport: read, parse, handle and respond, all in the connection's own task.

The server runs one `Http1Connection` per connection. It creates no task, channel or cancel scope per request, and
sends the responses of pipelined requests together, in order (`responses`). Invariant: a request that was read whole is
handled and gets its response before the transport is closed, also while draining.

A request whose body does not arrive together with its head is handled at once: its handler reads the body
(`Request.arriving`) when it wants it. If it responds without, a small rest is discarded, else the connection ends.
"""

from __future__ import annotations

from math import inf

import trio

from gateway.connections.heads import CONTINUE
from gateway.connections.limits import KIB
from gateway.connections.metering import complete_observed
from gateway.connections.parsing.fault import Fault
from gateway.connections.parsing.parser import Parser
from gateway.connections.responses import GATHER, Responses
from gateway.connections.server_state import ServerState
from gateway.connections.transport import RECEIVE, Transport
from gateway.memory.budget import SMALL
from gateway.message import BodyNotRead, Peer, Request
from gateway.observer import add_audit_id

_TOO_SLOW = Fault(408, "the request did not arrive in time")
# A chunked body takes memory in steps of this size.
_STEP = 256 * KIB
# Enough of "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" to recognize it.
_HTTP2_PREFACE = b"PRI * HTTP/2.0"

_FIELD_BYTES = 200  # of Python's objects for a header field, besides its text


class Http1Connection(Responses):
    __slots__ = ("_body_began", "_partial_head")

    def __init__(self, server: ServerState, transport: Transport, peer: Peer) -> None:
        super().__init__(server, transport, Parser(peer, server.limits))
        self._body_began = 0.0  # when the rest of a body was first awaited
        self._partial_head = 0  # bytes of a head that has arrived in part

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
            if server.observe is not None:
                self._cut_off(server.observe)
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
            requests: list[Request] = []
            response, size = None, 0
            request = None if parser.mid_message or parser.closing else parser.heads.find(data)
            if request is not None:  # one whole request that came alone, as most do
                data = b""  # not held while a request waits
                transport.idle = False
                transport.deadline = inf
                server.requests += 1
                exchange = None
                if server.observe is not None:
                    self._observed.append(exchange := server.observe(request))
                try:
                    try:
                        response = await server.handle(request)
                    except Exception as error:
                        response = self._failure(request, error)
                        if response is None:
                            return
                    if (
                        response.stream is not None
                        or response.parts is not None
                        or response.forwarding is not None
                        or len(response.body) > GATHER
                        or server.draining
                    ):
                        requests.append(request)
                        parser.http10 = False
                    else:
                        if exchange is None:
                            rest = transport.send_nowait(server.heads.whole(request.method, response))
                        else:
                            method, length = request.method, len(response.body)
                            whole = server.heads.numbered(method, response, exchange.audit_number)
                            if not whole:
                                head, body = server.heads.render(method, response, b"", exchange)
                                whole, length = head + body, len(body)
                                del head, body
                            exchange.response = response
                            exchange.status, exchange.size = response.status, length
                            rest = transport.send_nowait(whole)
                            del whole
                        if rest is not None:
                            await transport.send_rest(rest)
                            del rest
                        if exchange is not None:
                            exchange.complete()
                            self._observed.clear()
                finally:
                    if request.reserved and not requests:
                        server.memory.release(request)
                del request, exchange
                if not requests:
                    transport.idle = True
                    if not server.draining:
                        del response
                        transport.deadline = server.now + idle_seconds
                        try:  # as `_receive_more`, without another coroutine
                            data = await transport.receive()
                        except trio.ClosedResourceError:
                            data = await self._interrupted()
                        continue
            else:
                discarding = parser.discarding
                parser.parse(data)
                size, data = len(data), b""
                if self._partial_head and (parser.ready or parser.incomplete is not None):
                    self._hold_head(0)
                if discarding and not parser.discarding:
                    transport.idle = True
                if parser.ready:
                    transport.idle = False
                    transport.deadline = inf
                    requests, parser.ready = parser.ready, []
            if requests:
                try:
                    if await self._respond(requests, response):
                        return
                finally:
                    if server.memory.held:
                        self._release(requests)
                    requests.clear()
                response = None
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
            try:
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
        held = size + self._parser.fields * _FIELD_BYTES if size else 0
        self._server.partial_heads.hold(self._transport, held)

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
        if server.observe is not None and (unread := self._parser.take_unread()) is not None:
            exchange = server.observe(unread)
            exchange.respond(response.status, len(response.body))
            add_audit_id(response, exchange)
            self._observed.append(exchange)
        await self._transport.send(server.closing_bytes(response))
        complete_observed(self._observed)
        self._parser.release()
        await self._transport.linger()
