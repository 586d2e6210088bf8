"""HTTP/1.1 on one link: read, parse, handle, answer, all in the connection's own task.

The server runs one `Conversation` per connection. No task, channel or cancel scope is made per request, and
answers of pipelined requests leave in one send, in order. An answer without an end (a watch) gets the link
itself, and what the client sends meanwhile is answered after it. Invariant: a request that was read whole is
handled and answered before the link is closed, also while draining; one that was not is never handled at all.
"""

from __future__ import annotations

from math import inf

import trio

from gateway.connections.heads import CLOSE, CONTINUE, KEEP_ALIVE
from gateway.connections.limits import KIB
from gateway.connections.link import Link
from gateway.connections.metering import MeteredLink, meter_of
from gateway.connections.parser import Fault, Parser
from gateway.connections.serving import Serving
from gateway.connections.websocket.connection import WebSocket
from gateway.connections.websocket.handshake import REFUSAL_HEADERS, Agreement, agree
from gateway.requests.exchange import Counter, Exchange
from gateway.requests.observer import RequestObserver, add_audit_id, observe
from gateway.requests.request import EndReason, Peer, Response, Stream
from gateway.watch.framing import LAST_CHUNK, as_chunk, as_it_is

# Answers of pipelined requests are gathered up to this; a larger body is sent from where it is, not copied.
_GATHER = 32 * KIB
_TOO_SLOW = Fault(408, "the request did not arrive in time")
# Enough of "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" to know it by.
_HTTP2_PREFACE = b"PRI * HTTP/2.0"


class Conversation:
    __slots__ = ("_body_began", "_early", "_link", "_observed", "_parser", "_serving")

    def __init__(self, serving: Serving, link: Link, peer: Peer) -> None:
        self._serving = serving
        self._link = link
        self._parser = Parser(peer, serving.limits)
        self._body_began = 0.0
        self._early = b""  # what came while an answer was streamed
        self._observed: list[Exchange] = []  # requests under way, oldest first, where there is an observer

    async def run(self) -> bytes:
        """Serve until the connection ends. Bytes are returned only when they open HTTP/2 instead."""
        link, serving = self._link, self._serving
        link.deadline = serving.now + serving.limits.head_seconds
        try:
            data = await self._first()
            if data.startswith(_HTTP2_PREFACE):
                return data
            await self._talk(data)
        except (OSError, trio.ClosedResourceError):
            # Gone, or too slow in taking its answer: nobody is left to tell.
            link.abort()
        except Exception as error:
            if self._observed:
                self._observed[-1].panic(error)
            raise
        finally:
            if serving.observer is not None:
                self._cut_off(serving.observer)
            self._parser.release()
        return b""

    async def _first(self) -> bytes:
        if self._serving.draining:
            return self._link.receive_nowait()
        try:
            return await self._link.receive()
        except trio.ClosedResourceError:
            return await self._interrupted()

    async def _talk(self, data: bytes) -> None:
        """The hot path: every request passes here, so it is one flat loop."""
        link, parser, serving = self._link, self._parser, self._serving
        idle_seconds = serving.limits.idle_seconds
        while data:
            parser.feed(data)
            if parser.ready:
                link.idle = False
                link.deadline = inf
                if await self._answer():
                    return
                link.idle = True
                self._body_began = 0.0
                if self._early:
                    data, self._early = self._early, b""
                    continue
            if parser.fault is not None:
                await self._refuse(parser.fault)
                return
            if parser.midway:
                await self._expect_rest()
            else:
                link.deadline = serving.now + idle_seconds
                if serving.draining:
                    data = link.receive_nowait()
                    continue
            try:
                data = await link.receive()
            except trio.ClosedResourceError:
                data = await self._interrupted()

    async def _answer(self) -> bool:
        """Answer the requests at hand; True when the last answer said that it is the last."""
        parser, serving, link = self._parser, self._serving, self._link
        requests, parser.ready = parser.ready, []
        left = len(requests)
        serving.requests += left
        ending = False
        gathered = b""
        observer = serving.observer
        for request in requests:
            if observer is not None:
                self._observed.append(observe(observer, request))
            try:
                response = await serving.handle(request)
            except Exception as error:
                response = serving.failure(request, error)
            if observer is not None:
                add_audit_id(response, self._observed[-1])
            left -= 1
            if left == 0:
                ending = (serving.draining or parser.closing) and not parser.midway
            if response.stream is not None and request.method != "HEAD":
                if left or not parser.upgrading:
                    ending = ending or parser.old
                    await link.send(gathered + self._streaming_head(response, ending))
                    gathered = b""
                    exchange = request.exchange
                    if not left:
                        requests.clear()  # a watch outlives what asked for it
                        del request
                    await self._stream(response.stream, response.status, exchange)
                    if parser.old:
                        return True
                    continue
                agreed = agree(request.headers)
                if isinstance(agreed, Agreement):
                    await link.send(gathered + agreed.head(response.headers))
                    exchange = request.exchange
                    requests.clear()
                    del request
                    link.streaming = True
                    websocket = WebSocket(link, parser.decline(), exchange)
                    if exchange is not None:
                        self._start(exchange, 101, websocket)
                    await websocket.run(response.stream)
                    self._complete()
                    return True
                response = serving.refusal(agreed.status, agreed.message)
                response.headers.extend(REFUSAL_HEADERS)
                if observer is not None:
                    add_audit_id(response, self._observed[-1])
            connection = CLOSE if ending else KEEP_ALIVE if parser.old else b""
            head, body = serving.heads.render(request.method, response, connection)
            gathered += head
            if observer is not None:
                self._observed[-1].respond(response.status, len(body))
            if len(gathered) + len(body) > _GATHER:
                await link.send_large(gathered, body)
                gathered = b""
                if observer is not None:
                    self._complete()
            else:
                gathered += body
        if gathered:
            rest = link.send_nowait(gathered)
            if rest is not None:
                await link.send_rest(rest)
            if observer is not None:
                self._complete()
        if parser.upgrading:
            self._early += parser.decline()
        return ending

    def _streaming_head(self, response: Response, ending: bool) -> bytes:
        return self._serving.heads.streaming(response, CLOSE if ending else b"", chunked=not self._parser.old)

    async def _stream(self, stream: Stream, status: int, exchange: Exchange | None) -> None:
        """A body without a known end; HTTP/1.0 knows no chunks, there the connection's end is the body's."""
        link, chunked = self._link, not self._parser.old
        link.streaming = True
        framing = as_chunk if chunked else as_it_is
        pipe: Link | MeteredLink = link
        if exchange is not None:
            pipe = MeteredLink(link, meter_of(framing))
            self._start(exchange, status, pipe.meter)
        finished = await stream.run(pipe, framing)
        if exchange is not None and finished.reason is EndReason.FAILED:
            exchange.panic()
        self._early += finished.early
        link.streaming = False
        link.deadline = inf
        if chunked:
            await link.send(LAST_CHUNK)
        self._complete()

    def _start(self, exchange: Exchange, status: int, stream: Counter) -> None:
        """The head of a stream has been sent, and with it all responses before it."""
        self._observed.remove(exchange)
        self._complete()
        self._observed.append(exchange)
        exchange.start(status, stream)

    def _complete(self) -> None:
        """Every response that was begun has been sent."""
        for exchange in self._observed:
            exchange.complete()
        self._observed.clear()

    def _cut_off(self, observer: RequestObserver) -> None:
        """The connection is over: what is not complete never will be."""
        if (unread := self._parser.abandon()) is not None:
            self._observed.append(observe(observer, unread))
        for exchange in self._observed:
            exchange.cut_off()
        self._observed.clear()

    async def _expect_rest(self) -> None:
        """Part of a request is here: see to it that the rest comes, and in time."""
        link, parser, limits = self._link, self._parser, self._serving.limits
        if link.idle:
            link.idle = False
            link.deadline = self._serving.now + limits.head_seconds
        if parser.in_body:
            self._body_began = self._body_began or self._serving.now
            link.deadline = limits.transfer_deadline(self._body_began, parser.received)
        if parser.expecting:
            parser.expecting = False
            await link.send(CONTINUE)

    async def _interrupted(self) -> bytes:
        """Time is up, or the server stops. What came in the same instant still counts."""
        if self._link.idle:
            return self._link.receive_nowait()
        await self._refuse(_TOO_SLOW)
        return b""

    async def _refuse(self, fault: Fault) -> None:
        self._link.deadline = inf
        serving = self._serving
        response = serving.refusal(fault.status, fault.message)
        if serving.observer is not None and (unread := self._parser.abandon()) is not None:
            exchange = observe(serving.observer, unread)
            exchange.respond(response.status, len(response.body))
            add_audit_id(response, exchange)
            self._observed.append(exchange)
        await self._link.send(serving.closing_bytes(response))
        self._complete()
        await self._link.linger()
