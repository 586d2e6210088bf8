"""HTTP/1.1 on one transport: read, parse, handle and respond, all in the connection's own task.

The server runs one `Http1Connection` per connection. It is the `Codec` of its requests, one after the other. It
creates no task, channel or cancel scope per request, and sends the responses of pipelined requests together, in
order. Invariant: a request that was read completely is handled and gets its response before the transport is closed,
also while draining.

A request whose body does not arrive together with its head is handled at once: its handler reads the body
(`Request.arriving`) when it needs it. If the handler responds without reading it, a small rest is discarded; after a
larger one the connection ends. While a forwarded body arrives, one task of the forwarding reads it and another one
sends; after it, `wait_disconnected` reads, so that a client that disconnects ends the forwarding. Bytes that a client
sends before a watch or a forwarded response has ended are buffered until it has, up to a limit.
"""

from __future__ import annotations

from collections.abc import Awaitable
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING

import trio

from rewound.actors.runtime.background_import import imported
from rewound.gateway.connections.arriving import Fault
from rewound.gateway.connections.heads import Fields, HeadFormat, Heads
from rewound.gateway.connections.http1.parser import Parser
from rewound.gateway.connections.limits import KIB
from rewound.gateway.connections.metering import Meter, MeteredTransport, meter_of
from rewound.gateway.connections.server_state import ServerState
from rewound.gateway.connections.transport import RECEIVE, Transport
from rewound.gateway.connections.websocket.handshake import Accepted
from rewound.gateway.exchange import Exchange
from rewound.gateway.memory.budget import SMALL
from rewound.gateway.message import BodyNotRead, Finished, Peer, Request, Response, Stream
from rewound.gateway.message import Fields as Trailers
from rewound.gateway.watch.framing import as_chunk, unframed

if TYPE_CHECKING:
    from rewound.gateway.connections.websocket.connection import WebSocket

_TOO_SLOW = Fault(408, "the request did not arrive in time")
# Pipelined responses are joined up to this size; a larger body is sent without a copy.
_GATHER = 32 * KIB
# Limit of what a client may send before a forwarded response has ended.
_MAX_EARLY = 64 * KIB
# Memory for a chunked body is reserved in steps of this size.
_STEP = 256 * KIB
# Enough of "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" to recognize it.
_HTTP2_PREFACE = b"PRI * HTTP/2.0"

_FIELD_BYTES = 200  # overhead of Python's objects for a header field

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE = b"connection: close\r\n"
_KEEP_ALIVE = b"connection: keep-alive\r\n"  # needed for HTTP/1.0 clients
_LAST_CHUNK_SIZE = b"0\r\n"


def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Status"
    return b"HTTP/1.1 %d %b\r\n" % (status, phrase.encode())


def _lines(fields: Fields) -> bytes:
    return b"".join([b"%b: %b\r\n" % field for field in fields])


HTTP1 = HeadFormat(_status_line, _lines)


def closing_bytes(heads: Heads, response: Response, exchange: Exchange | None = None) -> bytes:
    """A response as the last bytes of a connection."""
    framing = b"%bcontent-length: %d\r\n\r\n" % (_CLOSE, len(response.body))
    return heads.head(response, exchange, framing) + response.body


class Http1Connection:
    __slots__ = (
        "_body_began",
        "_chunked",
        "_delimiter",
        "_early",
        "_ending",
        "_ends_at",
        "_gathered",
        "_heads",
        "_large",
        "_last",
        "_meter",
        "_parser",
        "_partial_head",
        "_payload",
        "_responder",
        "_server",
        "_started",
        "_streams_body",
        "_transport",
        "_unsent",
        "exchange",
        "request",
    )

    def __init__(self, server: ServerState, transport: Transport, peer: Peer) -> None:
        self._server = server
        self._responder = server.responder
        self._heads = server.heads(HTTP1)
        self._transport = transport
        self._parser = Parser(peer, server.limits)
        self._body_began = 0.0  # when waiting for the rest of a body started
        self._partial_head = 0  # size of a partial head
        self._ends_at = inf  # end of the connection while the server stops, if no request arrives
        self._early = b""  # bytes received before a response has ended
        # The request in progress.
        self.request: Request | None = None
        self.exchange: Exchange | None = None
        self._last = True  # no other request has been read after it
        self._streams_body = False  # its body is taken in parts
        # Its response, and queued ones before it.
        self._gathered = b""  # queued heads and bodies
        self._large: bytes | None = None  # the body that follows them
        self._unsent: list[Exchange] = []  # requests of the queued responses
        self._started = False  # the head of a response in parts has been sent
        self._ending = False  # the connection ends after this response
        self._chunked = False
        self._delimiter = b""  # line break that ends the previous chunk
        self._payload = 0
        self._meter: Meter | WebSocket | None = None  # counts the bytes of an observed watch

    async def run(self) -> bytes:
        """Serve until the connection ends. If the first bytes are the start of HTTP/2 instead, return them."""
        transport, server = self._transport, self._server
        transport.deadline = server.now + server.limits.head_seconds
        try:
            data = await self._receive_first()
            if data.startswith(_HTTP2_PREFACE):
                return data
            await self._serve_requests(data)
        except (OSError, trio.ClosedResourceError):
            # The client disconnected or read its response too slowly: nobody receives a response.
            transport.abort()
        except Exception as error:
            if self.exchange is not None:
                self.exchange.panic(error)
            raise
        finally:
            self._cut_off()
            self._parser.release()
            self._hold_head(0)
        return b""

    def _cut_off(self) -> None:
        """Report every incomplete request as cut off, because the connection has ended."""
        observe, unsent = self._responder.observe, self._unsent
        if observe is not None and (unread := self._parser.take_unread()) is not None:
            unsent.append(observe(unread))
        if self.exchange is not None:
            unsent.append(self.exchange)
            self.exchange = None
        for exchange in unsent:
            exchange.cut_off()
        unsent.clear()

    # Reading.

    async def _receive_first(self) -> bytes:
        """Receive the first bytes: enough to tell whether this is HTTP/2, if they begin like its preface."""
        transport = self._transport
        if self._server.draining and not self._waits_for_next_request():
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
            size, data = len(data), b""  # do not hold the bytes while a request waits
            if self._partial_head and (parser.ready or parser.incomplete is not None):
                self._hold_head(0)
            if discarding and not parser.discarding:
                transport.idle = True
            if parser.ready:
                transport.idle = False
                transport.deadline = inf
                requests, parser.ready = parser.ready, []
                if await self._respond(requests):
                    return
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
                if server.draining and not self._waits_for_next_request():
                    data = transport.receive_nowait()
                    continue
            try:  # like `_receive_more`, but without another coroutine
                data = await transport.receive()
            except trio.ClosedResourceError:
                data = await self._interrupted()

    def _waits_for_next_request(self) -> bool:
        """Whether a stopping server waits a moment for a request that its client may be sending.

        Blank lines, which may precede a request, do not extend that moment.
        """
        seconds = self._server.limits.drain_idle_seconds
        self._ends_at = min(self._ends_at, self._server.now + seconds)
        self._transport.deadline = self._ends_at
        return seconds > 0

    async def _serve_incomplete(self) -> bool:
        """Handle the request whose body is incomplete, and those after it that arrive with its rest.

        Return True if the connection ends.
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
                requests, parser.ready = parser.ready, []
                if await self._respond(requests):
                    if parser.mid_message and not transport.closed:
                        await transport.linger()
                    return True
            transport.idle = not parser.discarding
        return False

    async def _read_body(self) -> bytes:
        """Read the rest of the incomplete request, once there is memory. Raises BodyNotRead or TooManyRequests."""
        parser, transport = self._parser, self._transport
        request = parser.incomplete
        assert request is not None
        if parser.length > SMALL:
            await self._responder.memory.wait_for(request, parser.length)
            self._body_began = self._server.now
        try:
            if parser.expects_continue:
                parser.expects_continue = False
                if not parser.received:
                    await transport.send(_CONTINUE)
            while parser.incomplete is request:
                await self._read_more(request)
        except trio.ClosedResourceError:
            parser.fault = parser.fault or _TOO_SLOW
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
            await self._responder.memory.wait_for(request, _STEP)
            self._body_began += server.now - began  # do not count the time that the client had to wait
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

    def _await_rest(self, size: int) -> None:
        """Set the deadline for the rest of a partial head, or of a body that is discarded."""
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
        """Handle a passed deadline or a stopping server; bytes that arrived at the same moment still count."""
        if self._transport.idle:
            return self._transport.receive_nowait()
        if not self._parser.discarding:
            await self._refuse(_TOO_SLOW)
        return b""

    async def _refuse(self, fault: Fault) -> None:
        if self._parser.discarding:  # it has its response already
            await self._transport.linger()
            return
        self._transport.deadline = inf
        responder = self._responder
        response = responder.refusal(fault.status, fault.message)
        if responder.observe is not None and (unread := self._parser.take_unread()) is not None:
            self.exchange = responder.observe(unread)
            self.exchange.response = response
            self.exchange.respond(response.status, len(response.body))
        await self._transport.send(closing_bytes(self._heads, response, self.exchange))
        self._complete()
        self._parser.release()
        await self._transport.linger()

    # Responding.

    async def _respond(self, requests: list[Request]) -> bool:
        """Respond to the requests read so far; return True if the last response closes the connection."""
        parser, responder = self._parser, self._responder
        try:
            while requests:
                request = self.request = requests.pop(0)
                client = self._transport.unauthenticated
                self._last, self._started, self._ending = not requests, False, False
                self.exchange = responder.receive(request)
                response: Response | None
                try:
                    if client is None:
                        response = await responder.handle(request)
                    else:
                        client.pause()
                        response = await client.measured(responder.handle(request))
                        client.begin()
                except Exception as error:
                    response = responder.failed(self, error)
                del request  # do not hold the request during a watch
                if response is not None:
                    rest = responder.respond(self, response)
                    if rest is not None:
                        if client is not None:
                            client.pause()
                        await rest
                        self._end_stream()
                        del rest
                    del response
                if self._transport.closed:
                    return True
                reserved = self.request is not None and self.request.reserved
                if self._last or self._ending or self._large is not None or reserved:
                    await self.send_queued()
                    if reserved:
                        responder.release(self)
                if self._ending:
                    return True
                if client is not None and requests:
                    await client.next_turn()
        finally:
            if self.request is not None and self.request.reserved:
                responder.release(self)
            self.request = None
        if parser.upgrading and not parser.ready:
            self._early = parser.decline_upgrade() + self._early
        return False

    def _end_stream(self) -> None:
        """End a response that was not sent completely."""
        transport, parser = self._transport, self._parser
        transport.streaming = transport.patient = False
        transport.deadline = inf
        if self._streams_body:
            self._streams_body = False
            if parser.incomplete is not None and parser.incomplete is self.request:
                parser.discard()
                self._ending = True

    def _decide_ending(self, *, streaming: bool) -> bool:
        """Decide whether the connection ends after the response whose head is about to be sent."""
        if not self._last:
            return False
        parser, draining = self._parser, self._server.draining
        if parser.incomplete is not None and parser.incomplete is self.request:
            return self._streams_body or not parser.discard() or draining or streaming
        # More requests may have arrived with the rest of this one.
        return (draining or parser.closing) and not (parser.mid_message or parser.ready)

    def _complete(self) -> None:
        """Report everything queued so far as sent, including the response to the current request."""
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.complete()

    # The codec: requests.

    @property
    def payload(self) -> int:
        return self._payload if self._meter is None else self._meter.payload

    @property
    def may_upgrade(self) -> bool:
        return self._parser.upgrading and self._last and not self._parser.ready

    def stream_body(self) -> None:
        self._streams_body = True

    async def receive_body(self) -> bytes:
        request, parser = self.request, self._parser
        assert request is not None
        while parser.incomplete is request:
            if part := parser.take_body():
                return part
            await self._receive_part()
        body, request.body = request.body, b""
        return body

    async def _receive_part(self) -> None:
        parser, transport = self._parser, self._transport
        try:
            if parser.expects_continue:
                parser.expects_continue = False
                if not parser.received:
                    await transport.send(_CONTINUE)
            data, self._early = self._early, b""
            data = data or await transport.receive()
        except (OSError, trio.ClosedResourceError):
            raise BodyNotRead from None
        if not data:
            raise BodyNotRead
        parser.feed(data)
        if parser.fault is not None and parser.incomplete is self.request:
            raise BodyNotRead(parser.fault.status, parser.fault.message)

    async def wait_disconnected(self) -> None:
        transport = self._transport
        while len(self._early) < _MAX_EARLY:
            try:
                data = await transport.receive()
            except trio.ClosedResourceError:
                if transport.closed:
                    return
                continue  # interrupted: the forwarding enforces the time limits itself
            except OSError:
                return
            if not data:
                return
            self._early += data
        await trio.sleep_forever()

    # The codec: responses.

    def send(self, response: Response, length: int | None, body: bytes) -> None:
        parser = self._parser
        if parser.incomplete is not None or parser.closing or self._server.draining:
            self._ending = self._decide_ending(streaming=False)
        framing = b"\r\n" if length is None else b"content-length: %d\r\n\r\n" % length
        if self._ending:
            framing = _CLOSE + framing
        elif parser.http10:
            framing = _KEEP_ALIVE + framing
        exchange = self.exchange
        self._gathered += self._heads.head(response, exchange, framing)
        if len(self._gathered) + len(body) > _GATHER:
            self._large = body
        else:
            self._gathered += body
        if exchange is not None:
            self._unsent.append(exchange)
            self.exchange = None

    async def send_queued(self) -> None:
        data, self._gathered = self._gathered, b""
        large, self._large = self._large, None
        if large:
            await self._transport.send_large(data, large)
        elif data:
            rest = self._transport.send_nowait(data)
            if rest is not None:
                await self._transport.send_rest(rest)
        if self._unsent:
            for exchange in self._unsent:
                exchange.complete()
            self._unsent.clear()

    async def begin(self, response: Response, *, bare: bool = False, patient: bool = False) -> None:
        http10 = self._parser.http10
        self._ending = self._decide_ending(streaming=response.stream is not None) or http10
        framed = bare or any(name == b"content-length" for name, _ in response.headers)
        self._chunked = not (framed or http10)
        framing = b"transfer-encoding: chunked\r\n\r\n" if self._chunked else b"\r\n"
        if self._ending:
            framing = _CLOSE + framing
        await self._begin(self._heads.head(response, self.exchange, framing))
        self._transport.patient = patient

    async def _begin(self, head: bytes) -> None:
        self._gathered += head
        self._started = True
        self._delimiter, self._payload, self._meter = b"", 0, None
        await self.send_queued()

    async def send_part(self, part: bytes) -> None:
        lead = b"%b%x\r\n" % (self._delimiter, len(part)) if self._chunked else b""
        await self._transport.send_large(lead, part)
        self._delimiter = b"\r\n"
        self._payload += len(part)

    async def end(self, trailers: Trailers) -> None:
        if self._chunked:
            last = b"%b%b%b\r\n" % (self._delimiter, _LAST_CHUNK_SIZE, _lines(list(trailers)))
            await self._transport.send(last)
        self._complete()

    def abort(self, *, failed: bool = True) -> None:
        self._ending = True
        if self._started:
            self._transport.abort()

    def run_watch(self, stream: Stream) -> Awaitable[Finished | None]:
        transport, framing = self._transport, as_chunk if self._chunked else unframed
        transport.streaming = True
        if self.exchange is None:
            return stream.run(transport, framing)
        pipe = MeteredTransport(transport, meter_of(framing))
        self._meter = pipe.meter
        return stream.run(pipe, framing)

    async def end_watch(self, finished: Finished) -> None:
        self._early += finished.early
        self._transport.streaming = False
        self._transport.deadline = inf
        await self.end(())

    async def begin_websocket(self, accepted: Accepted, fields: Fields) -> None:
        self._ending, self._chunked = True, False
        await self._begin(accepted.head(fields))
        self._transport.streaming = True

    async def run_websocket(self, stream: Stream) -> None:
        # Few clients use WebSockets, so the library is imported with the first one, outside the event loop.
        await imported("rewound.gateway.connections.websocket.connection")
        from rewound.gateway.connections.websocket.connection import WebSocket

        websocket = WebSocket(self._transport, self._parser.decline_upgrade(), self.exchange)
        self._meter = websocket
        await websocket.run(stream)
        self._complete()

    async def upgrade(self, head: bytes) -> tuple[_Upgraded, bytes]:
        transport = self._transport
        transport.streaming = True  # the forwarding ends the connection when the server stops
        transport.patient = True
        self._ending, self._chunked = True, False
        await self._begin(head)
        ahead = self._parser.decline_upgrade() + self._early
        self._early = b""
        return _Upgraded(transport, self), ahead


class _Upgraded:
    """The connection after an upgrade: bytes in both directions."""

    __slots__ = ("receive", "send")

    def __init__(self, transport: Transport, codec: Http1Connection) -> None:
        self.receive = transport.receive
        self.send = codec.send_part  # it also counts the bytes
