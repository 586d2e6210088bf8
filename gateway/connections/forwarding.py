"""The client of a forwarded request on HTTP/1.1: reads its body, sends the response, hands over the connection.

`http1` calls `forward` in the task of the connection. While the body arrives, one task of the forwarding reads it and
another one sends; after it, `wait_disconnected` reads, so that a client that disconnects ends the forwarding. What a
client sends ahead meanwhile, up to a limit, is kept for after it.
"""

from __future__ import annotations

import trio

from gateway.connections.heads import CLOSE, CONTINUE, has_body
from gateway.connections.limits import KIB
from gateway.connections.metering import complete_observed, start_observed
from gateway.connections.parsing.parser import Parser
from gateway.connections.server_state import ServerState
from gateway.connections.transport import Transport
from gateway.exchange import Exchange
from gateway.message import BodyNotRead, CutOff, Fields, Forwarding, Request, Response, SharedFields
from gateway.observer import add_audit_id

# What a client may send ahead of the end of a response.
_MAX_EARLY = 64 * KIB
LAST_CHUNK_SIZE = b"0\r\n"


class Http1Client:
    __slots__ = (
        "_chunked",
        "_closing",
        "_delimiter",
        "_last",
        "_observed",
        "_parser",
        "_received",
        "_request",
        "_server",
        "_shared",
        "_transport",
        "early",
        "ended",
        "may_upgrade",
        "payload",
        "started",
    )

    def __init__(
        self,
        server: ServerState,
        transport: Transport,
        parser: Parser,
        request: Request,
        shared: SharedFields | None,
        observed: list[Exchange],
        *,
        last: bool,
    ) -> None:
        self._server = server
        self._transport = transport
        self._parser = parser
        self._request = request
        self._shared = shared
        self._observed = observed
        self._closing = False
        self._chunked = False
        self._last = last
        self._delimiter = b""  # ends the chunk before
        self._received = False  # the whole body
        self.may_upgrade = last and parser.upgrading
        self.early = b""  # what the client has sent ahead
        self.started = False  # something of the response has been sent
        self.ended = False  # all of it
        self.payload = 0  # bytes of the response's body, for an observer

    @property
    def closing(self) -> bool:
        """Whether the connection ends after the response."""
        return self._closing or self._parser.incomplete is self._request

    # The request.

    async def receive_body(self) -> bytes:
        request, parser = self._request, self._parser
        while not self._received:
            if parser.incomplete is not request:
                self._received = True
                body, request.body = request.body, b""
                return body
            if part := parser.take_body():
                return part
            await self._receive_more()
        return b""

    async def _receive_more(self) -> None:
        parser, transport = self._parser, self._transport
        try:
            if parser.expects_continue:
                parser.expects_continue = False
                if not parser.received:
                    await transport.send(CONTINUE)
            data, self.early = self.early, b""
            data = data or await transport.receive()
        except (OSError, trio.ClosedResourceError):
            raise BodyNotRead from None
        if not data:
            raise BodyNotRead
        parser.feed(data)
        if parser.fault is not None and parser.incomplete is self._request:
            raise BodyNotRead(parser.fault.status, parser.fault.message)

    async def wait_disconnected(self) -> None:
        transport = self._transport
        while len(self.early) < _MAX_EARLY:
            try:
                data = await transport.receive()
            except trio.ClosedResourceError:
                if transport.closed:
                    return
                continue  # interrupted: the forwarding itself has the time limits
            except OSError:
                return
            if not data:
                return
            self.early += data
        await trio.sleep_forever()

    # The response.

    async def respond(self, response: Response) -> None:
        exchange = self._complete_head(response)
        head, body = self._server.heads.render(
            self._request.method, response, CLOSE if self._closing else b""
        )
        if exchange is not None:
            exchange.respond(response.status, len(body))
        await self._transport.send_large(head, body)
        self.ended = True

    async def start(self, response: Response) -> None:
        request = self._request
        exchange = self._complete_head(response)
        bare = request.method == "HEAD" or not has_body(response.status)
        framed = any(name == b"content-length" for name, _ in response.headers)
        self._chunked = not (bare or framed or self._parser.http10)
        if exchange is not None:
            await self._report_start(exchange, response.status)
        connection = CLOSE if self._closing else b""
        await self._transport.send(self._server.heads.streaming(response, connection, chunked=self._chunked))
        self._transport.patient = True  # a client may pause a log for as long as it likes

    def _complete_head(self, response: Response) -> Exchange | None:
        request, parser = self._request, self._parser
        self.started = True
        response.shared = self._shared
        ends = self._last and (self._server.draining or parser.closing or parser.http10)
        self._closing = ends or self.closing
        if request.exchange is not None:
            add_audit_id(response, request.exchange)
        return request.exchange

    async def _report_start(self, exchange: Exchange, status: int) -> None:
        start_observed(self._observed, exchange, status, self)
        if exchange.stored is not None:
            await exchange.stored()

    async def send(self, part: bytes) -> None:
        lead = b"%b%x\r\n" % (self._delimiter, len(part)) if self._chunked else b""
        await self._transport.send_large(lead, part)
        self._delimiter = b"\r\n"
        self.payload += len(part)

    async def finish(self, trailers: Fields) -> None:
        if self._chunked:
            lines = b"".join(b"%b: %b\r\n" % field for field in trailers)
            await self._transport.send(b"%b%b%b\r\n" % (self._delimiter, LAST_CHUNK_SIZE, lines))
        self.ended = True

    # After an upgrade.

    async def upgrade(self, head: bytes) -> tuple[Http1Client, bytes]:
        exchange = self._request.exchange
        self.started = self.ended = self._closing = True
        if exchange is not None:
            await self._report_start(exchange, 101)
        transport = self._transport
        transport.streaming = True  # the forwarding ends it when the server stops
        transport.patient = True
        await transport.send(head)
        ahead = self._parser.decline_upgrade() + self.early
        self.early = b""
        return self, ahead

    async def receive(self) -> bytes:
        return await self._transport.receive()

    def leave_transport(self) -> None:
        self._transport.streaming = self._transport.patient = False


async def forward(
    server: ServerState,
    transport: Transport,
    parser: Parser,
    request: Request,
    response: Response,
    observed: list[Exchange],
    early: bytes,
    *,
    last: bool,
) -> tuple[bool, bytes]:
    """Forward a request and its response; returns whether the connection ends, and what was received ahead.

    `last`: no other request has arrived after this one. OSError, trio.ClosedResourceError.
    """
    client = Http1Client(server, transport, parser, request, response.shared, observed, last=last)
    client.early = early
    assert response.forwarding is not None
    ending = await _run(client, response.forwarding, server, request)
    if client.ended:
        complete_observed(observed)
    if parser.incomplete is request:
        parser.discard()  # the connection ends
    elif parser.upgrading and last and not ending:
        return ending, parser.decline_upgrade() + client.early
    return ending, client.early


async def _run(client: Http1Client, forwarding: Forwarding, server: ServerState, request: Request) -> bool:
    try:
        await forwarding.run(client)
    except BodyNotRead as error:
        if not error.status or client.started:
            return True
        await client.respond(server.refusal(error.status, error.message))
        return True
    except CutOff as error:
        server.cut_off(request, error)
        raise ConnectionAbortedError from error
    except (OSError, trio.ClosedResourceError):
        raise
    except Exception as error:
        response = server.failure(request, error)
        if client.started:
            raise ConnectionAbortedError from error
        await client.respond(response)
    finally:
        client.leave_transport()
    return client.closing
