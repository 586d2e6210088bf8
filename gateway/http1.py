"""HTTP/1.1 on one link: read, parse, handle, answer, all in the connection's own task.

The server runs one `Conversation` per connection. No task, channel or cancel scope is made per request, and
answers of pipelined requests leave in one send, in order. Invariant: a request that was read whole is
handled and answered before the link is closed, also while draining; one that was not is never handled at
all.
"""

from __future__ import annotations

from math import inf

import trio

from gateway.heads import CLOSE, CONTINUE, KEEP_ALIVE, has_body, head
from gateway.limits import KIB
from gateway.link import Link
from gateway.parser import Fault, Parser
from gateway.request import Peer, Request, Response
from gateway.serving import Serving

# Answers of pipelined requests are gathered up to this; a body above it is sent from where it is, not copied.
_GATHER = 64 * KIB
_TOO_SLOW = Fault(408, "the request did not arrive in time")
# Enough of "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" to know it by.
_HTTP2_PREFACE = b"PRI * HTTP/2.0"


class Conversation:
    __slots__ = ("_body_began", "_link", "_parser", "_serving")

    def __init__(self, serving: Serving, link: Link, peer: Peer) -> None:
        self._serving = serving
        self._link = link
        self._parser = Parser(peer, serving.limits)
        self._body_began = 0.0

    async def run(self) -> bytes:
        """Serve until the connection ends. Bytes are returned only when they open HTTP/2 instead."""
        link, serving = self._link, self._serving
        link.deadline = serving.now + serving.limits.head_seconds
        try:
            data = await self._receive()
            if data.startswith(_HTTP2_PREFACE):
                return data
            while data and await self._exchange(data):
                data = await self._receive()
        except (OSError, trio.ClosedResourceError):
            # Gone, or too slow in taking its answer: nobody is left to tell.
            link.abort()
        finally:
            self._parser.release()
        return b""

    async def _receive(self) -> bytes:
        """The next bytes; none when the conversation is over."""
        link = self._link
        if link.idle and self._serving.draining:
            return link.receive_nowait()
        try:
            return await link.receive()
        except trio.ClosedResourceError:
            if link.idle:
                # Told to go while at rest: what arrived in the same instant still counts.
                return link.receive_nowait()
        await self._refuse(_TOO_SLOW)
        return b""

    async def _exchange(self, data: bytes) -> bool:
        """Take in bytes and answer what is complete; False when the connection is to end."""
        link, parser, serving = self._link, self._parser, self._serving
        parser.feed(data)
        if parser.ready:
            link.idle = False
            link.deadline = inf
            if await self._answer_ready():
                return False
            link.idle = True
            self._body_began = 0.0
        if parser.fault is not None:
            await self._refuse(parser.fault)
            return False
        if parser.midway:
            await self._await_rest()
        else:
            link.deadline = serving.now + serving.limits.idle_seconds
        return True

    async def _answer_ready(self) -> bool:
        """Answer the requests at hand; True when the last answer said that it is the last."""
        parser, serving, link = self._parser, self._serving, self._link
        requests, parser.ready = parser.ready, []
        left = len(requests)
        ending = False
        gathered = b""
        for request in requests:
            response = await serving.answer(request)
            left -= 1
            if left == 0:
                ending = not parser.midway and (parser.closing or serving.draining)
            gathered += head(response, CLOSE if ending else KEEP_ALIVE if parser.old else b"")
            body = _body(request, response)
            if len(gathered) + len(body) <= _GATHER:
                gathered += body
                continue
            await link.send(gathered)
            gathered = b""
            if body:
                await link.send(body)
        if gathered:
            await link.send(gathered)
        return ending

    async def _await_rest(self) -> None:
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

    async def _refuse(self, fault: Fault) -> None:
        response = self._serving.refusal(fault.status, fault.message)
        self._link.deadline = inf
        await self._link.send(head(response, CLOSE) + response.body)
        await self._link.linger()


def _body(request: Request, response: Response) -> bytes:
    if request.method == "HEAD" or not has_body(response.status):
        return b""
    return response.body
