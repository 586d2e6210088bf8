"""Handles requests of an HTTP/1.1 connection that were read, and sends their responses together, in order.

`http1` reads the requests. A stream (a watch) gets the transport itself; requests that the client sends meanwhile are
handled after it.
"""

from __future__ import annotations

from math import inf

from gateway.connections.forwarding import forward
from gateway.connections.heads import CLOSE, KEEP_ALIVE, all_fields
from gateway.connections.limits import KIB
from gateway.connections.metering import MeteredTransport, complete_observed, meter_of, start_observed
from gateway.connections.parsing.fault import Fault
from gateway.connections.parsing.parser import Parser
from gateway.connections.parts import PartCounter, send_parts
from gateway.connections.server_state import ServerState
from gateway.connections.transport import Transport
from gateway.connections.websocket.handshake import REFUSAL_HEADERS, Accepted, accept_websocket
from gateway.connections.websocket.opening import new_websocket
from gateway.exchange import Exchange
from gateway.message import BodyNotRead, EndReason, Request, Response, Stream
from gateway.observer import Observe, add_audit_id
from gateway.watch.framing import LAST_CHUNK, as_chunk, as_it_is

# Responses to pipelined requests are joined up to this size; a larger body is sent without a copy.
GATHER = 32 * KIB


class Responses:
    """The part of a connection that responds."""

    __slots__ = ("_early", "_observed", "_parser", "_server", "_transport")

    def __init__(self, server: ServerState, transport: Transport, parser: Parser) -> None:
        self._server = server
        self._transport = transport
        self._parser = parser
        self._early = b""  # bytes received during a stream
        self._observed: list[Exchange] = []  # requests in progress, oldest first, if there is an observer

    def _failure(self, request: Request, error: Exception) -> Response | None:
        """The response to a request whose handler raised this; None if there is nobody to send one to."""
        if not isinstance(error, BodyNotRead):
            return self._server.failure(request, error)
        if not error.status:
            return None
        self._parser.fault = self._parser.fault or Fault(error.status, error.message)
        return self._server.refusal(error.status, error.message)

    async def _respond(self, requests: list[Request], handled: Response | None = None) -> bool:
        """Respond to the requests read so far; True when the last response closes the connection.

        The first one has been handled if there is a response to it.
        """
        parser, server, transport = self._parser, self._server, self._transport
        left = len(requests)
        server.requests += left if handled is None else 0
        ending = behind = False
        gathered, observe = b"", server.observe
        for request in requests:
            response, handled, observed = handled, None, None
            exchange = request.exchange
            if response is None:
                if observe is not None:
                    self._observed.append(exchange := observe(request))
                try:
                    response = await server.handle(request)
                except Exception as error:
                    response = self._failure(request, error)
                    if response is None:
                        return True
            if exchange is not None:
                if response.stream is None and response.parts is None and response.forwarding is None:
                    exchange.response, observed = response, exchange
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
            head, body = server.heads.render(request.method, response, line, observed)
            gathered += head
            if exchange is not None:
                exchange.respond(response.status, len(body))
            if len(gathered) + len(body) > GATHER:
                await transport.send_large(gathered, body)
                gathered = b""
                if request.reserved:
                    server.memory.release(request)
                if observe is not None:
                    complete_observed(self._observed)
            else:
                gathered += body
        if gathered:
            rest = transport.send_nowait(gathered)
            if rest is not None:
                await transport.send_rest(rest)
            if observe is not None:
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

    def _release(self, requests: list[Request]) -> None:
        """The requests have their responses, or the connection is broken: they hold nothing any more."""
        for request in requests:
            self._server.memory.release(request)
        requests.clear()

    def _cut_off(self, observe: Observe) -> None:
        """The connection has ended: report every incomplete request as cut off."""
        if (unread := self._parser.take_unread()) is not None:
            self._observed.append(observe(unread))
        for exchange in self._observed:
            exchange.cut_off()
        self._observed.clear()
