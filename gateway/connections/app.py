"""The ASGI application behind HTTP/2: it builds a `Request` from a scope and sends a `Response` as ASGI messages.

Hypercorn calls it, one task per stream; it calls the same handler as `http1` and enforces the same limits.
The scope's state holds the `Http2Connection` as `connection`, and with it the peer.
"""

from __future__ import annotations

from typing import Any

import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope

from gateway.connections.heads import default_fields, has_body, one_line_fields
from gateway.connections.http2 import Http2Connection, interrupted
from gateway.connections.http2_watch import StreamPipe
from gateway.connections.parser import Fault
from gateway.connections.server_state import ServerState
from gateway.requests.exchange import Exchange
from gateway.requests.observer import add_audit_id, observe
from gateway.requests.request import Peer, Request, Response, Stream
from gateway.watch.member import CLOSE_TIMEOUT

# As much as Hypercorn buffers for a stream before `send` waits for the client's window.
_SLICE = 32 * 1024


class App:
    def __init__(self, server: ServerState) -> None:
        self._server = server

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            return
        connection: Http2Connection = scope["state"]["connection"]
        request = _request(dict(scope), connection.peer)
        if self._server.observer is not None:
            observe(self._server.observer, request)
        try:
            if connection.running < self._server.limits.streams:
                await self._serve(request, connection, receive, send)
            else:
                # A reset stream is still being handled and counts: a client cannot start more by resetting.
                refusal = self._server.refusal(429, "too many requests on one connection")
                await self._send(refusal, request, connection, send)
        except Exception as error:
            if request.exchange is not None:
                request.exchange.panic(error)
            raise
        finally:
            if request.exchange is not None:
                request.exchange.cut_off()

    async def _serve(
        self,
        request: Request,
        connection: Http2Connection,
        receive: ASGIReceiveCallable,
        send: ASGISendCallable,
    ) -> None:
        connection.running += 1
        try:
            body = self._long_target(request) or await self._body(request, receive)
            if body is None:
                return
            if isinstance(body, Fault):
                response = self._server.refusal(body.status, body.message)
            else:
                request.body = body
                response = await self._server.respond(request)
            if response.stream is not None and request.method != "HEAD":
                await self._stream(response, response.stream, request.exchange, receive, send)
            else:
                await self._send(response, request, connection, send)
        finally:
            connection.running -= 1

    async def _stream(
        self,
        response: Response,
        stream: Stream,
        exchange: Exchange | None,
        receive: ASGIReceiveCallable,
        send: ASGISendCallable,
    ) -> None:
        if exchange is not None:
            add_audit_id(response, exchange)
        start: Any = next(_messages(response, b"", streaming=True))
        await send(start)
        last: Any = {"type": "http.response.body", "body": b"", "more_body": False}
        pipe = StreamPipe(send, receive)
        if exchange is not None:
            exchange.start(response.status, pipe)
        if not await pipe.run(stream):
            return
        # Hypercorn has buffered all of it; a client that reads late gets the rest without a waiting task.
        with trio.move_on_after(CLOSE_TIMEOUT):
            await send(last)
        if exchange is not None:
            if pipe.failed:
                exchange.panic()
            exchange.complete()

    def _long_target(self, request: Request) -> Fault | None:
        limit = self._server.limits.target
        if len(request.path) + len(request.query) < limit:
            return None
        return Fault(414, f"Request URI too long: limit is {limit} bytes")

    async def _body(self, request: Request, receive: ASGIReceiveCallable) -> bytes | Fault | None:
        """Return the whole body, or why it is refused, or None when the client disconnected."""
        limits = self._server.limits
        too_large = Fault(413, f"Request entity too large: limit is {limits.body}")
        announced = request.headers.get(b"content-length", b"0")
        if not announced.isdigit():
            return Fault(400, "the request has no single Content-Length")
        if int(announced) > limits.body:
            return too_large
        parts: list[bytes] = []
        received = 0
        started = trio.current_time()
        while received <= limits.body:
            with trio.CancelScope(deadline=limits.transfer_deadline(started, received)) as scope:
                message: Any = await receive()
            if scope.cancelled_caught:
                return Fault(408, "the request did not arrive in time")
            if message["type"] != "http.request":
                return None
            parts.append(message["body"])
            received += len(message["body"])
            if not message["more_body"]:
                return b"".join(parts)
        return too_large

    async def _send(
        self, response: Response, request: Request, connection: Http2Connection, send: ASGISendCallable
    ) -> None:
        body = response.body if request.method != "HEAD" and has_body(response.status) else b""
        if request.exchange is not None:
            request.exchange.respond(response.status, len(body))
            add_audit_id(response, request.exchange)
        with trio.CancelScope() as scope:
            for message in _messages(response, body):
                # The deadline is per slice: a large response to a slow but steady reader completes.
                scope.deadline = trio.current_time() + self._server.limits.transfer_seconds
                await send(message)
        if scope.cancelled_caught:
            connection.transport.abort()
        elif request.exchange is not None and not interrupted(send):
            request.exchange.complete()


def _messages(response: Response, body: bytes, *, streaming: bool = False) -> Any:
    headers = one_line_fields([*default_fields(response.headers), *response.headers])
    if response.content_type:
        headers.append((b"content-type", response.content_type))
    if has_body(response.status) and not streaming:
        headers.append((b"content-length", b"%d" % len(response.body)))
    yield {"type": "http.response.start", "status": response.status, "headers": headers}
    for start in range(0, len(body), _SLICE):
        yield {"type": "http.response.body", "body": body[start : start + _SLICE], "more_body": True}
    yield {"type": "http.response.body", "body": b"", "more_body": False}


def _request(scope: dict[str, Any], peer: Peer) -> Request:
    headers: dict[bytes, bytes] = {}
    repeated: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        if name in headers:
            repeated.setdefault(name, [headers[name]]).append(value)
            headers[name] += b", " + value
        else:
            headers[name] = value
    return Request(
        scope["method"],
        scope["raw_path"].decode("latin-1"),
        scope["query_string"].decode("latin-1"),
        headers,
        b"",
        peer,
        repeated or None,
    )
