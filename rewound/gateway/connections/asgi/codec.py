"""The `Codec` for ASGI: turns a response into messages to the ASGI server.

There is one for each scope. Only one task at a time calls `receive`: the reader of the body while it is read, and,
while a response without a known end is sent, a task that notices when the client disconnects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import Final, NoReturn

import trio

from rewound.gateway.connections.asgi.bodies import Body
from rewound.gateway.connections.asgi.pipe import AsgiPipe, run_watch
from rewound.gateway.connections.asgi.scopes import (
    AcceptedConnection,
    Head,
    Receive,
    Scope,
    Send,
    accepted_connection,
)
from rewound.gateway.connections.heads import Fields, all_fields
from rewound.gateway.connections.metering import Meter, frame_head
from rewound.gateway.connections.responder import log
from rewound.gateway.connections.server_state import ServerState
from rewound.gateway.connections.websocket.handshake import Accepted
from rewound.gateway.exchange import Exchange
from rewound.gateway.message import EndReason, Finished, Request, Response, Stream
from rewound.gateway.message import Fields as Trailers
from rewound.gateway.watch.framing import as_binary_frame, as_text_frame, unframed

_SLICE: Final = 256 * 1024
_DATE: Final = b"date"  # the server frames the body itself
_CODES: Final = {
    EndReason.TIME_UP: 1000,
    EndReason.STOPPING: 1001,
    EndReason.TOO_OLD: 1008,
    EndReason.FAILED: 1011,
}


class ResponseCutOff(Exception):
    """The response breaks off: the server must close the connection or reset the stream."""


class HttpCodec:
    """The codec of a scope of type http."""

    __slots__ = (
        "_accepted",
        "_ends",
        "_http1",
        "_patient",
        "_pipe",
        "_queued",
        "_response",
        "_send",
        "_sent",
        "_server",
        "aborted",
        "body",
        "exchange",
        "request",
    )

    def __init__(
        self,
        server: ServerState,
        head: Head,
        body: Body,
        send: Send,
        accepted: AcceptedConnection | None,
        response: str = "http.response",
        *,
        http1: bool = False,
    ) -> None:
        self._server = server
        self._send = send
        self._accepted = accepted
        self._ends = http1 and head.fault is not None  # bytes after a refused head may still belong to it
        self._http1 = http1
        self._response = response  # prefix of the message types
        self._queued: tuple[Response, int | None, bytes] | None = None
        self._patient = False  # the client may read slowly
        self._pipe: AsgiPipe | None = None  # the pipe of a watch
        self._sent = 0  # bytes sent of a body in parts
        self.request: Request | None = head.request
        self.exchange: Exchange | None = None
        self.body = body
        self.aborted = False

    # The request.

    @property
    def may_upgrade(self) -> bool:
        return False

    def stream_body(self) -> None:
        """Nothing to do: the parts of a `Body` have no limits."""

    async def receive_body(self) -> bytes:
        return await self.body.receive_part()

    async def wait_disconnected(self) -> None:
        await self.body.wait_disconnected()

    # A whole response.

    def send(self, response: Response, length: int | None, body: bytes) -> None:
        self._queued = response, length, body

    async def send_queued(self) -> None:
        if self._queued is None:
            return
        (response, length, body), self._queued = self._queued, None
        await self._start(response, length)
        if self.body.complete:
            await self._send_body(body, more=False)
        else:
            await self._send_body(body, more=True)
            await self.body.discard()
            async with self._reading():
                await self._send_body(b"", more=False)
        self._complete()

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        """Keep receiving messages: a server may wait for that before it ends the response."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.body.wait_disconnected)
            yield
            nursery.cancel_scope.cancel()

    def _complete(self) -> None:
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.complete()

    # A response in parts.

    @property
    def payload(self) -> int:
        return self._sent if self._pipe is None else self._pipe.payload

    async def begin(self, response: Response, *, bare: bool = False, patient: bool = False) -> None:
        self._patient = patient
        await self._start(response, None)

    async def send_part(self, part: bytes) -> None:
        await self._send_body(part, more=True)
        self._sent += len(part)

    async def end(self, trailers: Trailers) -> None:
        """Trailers are dropped: ASGI requires announcing them at the start of a response."""
        await self._send_body(b"", more=False)
        self._complete()

    def abort(self, *, failed: bool = True) -> None:
        self.aborted = True
        if self._accepted is not None and self._accepted.transport is not None:
            self._accepted.transport.abort()

    def check(self) -> None:
        """Raise ResponseCutOff if the server must end a response that this codec cannot end."""
        ends = self._accepted is not None and self._accepted.transport is not None
        if self.aborted and not ends and not self.body.disconnected:
            raise ResponseCutOff

    # Messages.

    async def _start(self, response: Response, length: int | None) -> None:
        fields = [one for one in all_fields(response, self.exchange) if one[0] != _DATE]
        if length is not None:
            fields.append((b"content-length", b"%d" % length))
        # Hypercorn closes a connection without announcing it when it stops.
        if self._ends or (self._http1 and self._accepted is not None and self._server.draining):
            fields.append((b"connection", b"close"))
        with self._deadline(0) as scope:
            await self._send(
                {"type": f"{self._response}.start", "status": response.status, "headers": fields}
            )
        if scope.cancelled_caught:
            raise ConnectionResetError("the client does not read")

    async def _send_body(self, part: bytes, *, more: bool) -> None:
        """Send a body in slices, because a server copies every message."""
        name, size = f"{self._response}.body", len(part)
        with self._deadline(size) as scope:
            for at in range(0, size, _SLICE):
                last = at + _SLICE >= size
                body = part if size <= _SLICE else part[at : at + _SLICE]
                await self._send({"type": name, "body": body, "more_body": more or not last})
            if not size and not more:
                await self._send({"type": name, "body": b"", "more_body": False})
        if scope.cancelled_caught:
            raise ConnectionResetError("the client does not read")

    def _deadline(self, size: int) -> trio.CancelScope:
        """Limit the time of a transfer by its size alone: the server does not report what the client received."""
        began = trio.current_time()
        return trio.CancelScope(
            deadline=inf if self._patient else self._server.limits.transfer_deadline(began, size)
        )

    # A watch.

    async def run_watch(self, stream: Stream) -> Finished:
        self._pipe = AsgiPipe(self._send_events)
        with self._allow_slow_reads():
            return await run_watch(stream, unframed, self._pipe, self.wait_disconnected)

    def _allow_slow_reads(self) -> _SlowReads:
        return _SlowReads(self._accepted)

    async def _send_events(self, data: bytes) -> None:
        await self._send({"type": f"{self._response}.body", "body": data, "more_body": True})

    async def end_watch(self, finished: Finished) -> None:
        await self.end(())

    # Methods that a scope of type http cannot support.

    async def begin_websocket(self, accepted: Accepted, fields: Fields) -> None:
        raise AssertionError("the responder asks `may_upgrade` first")

    async def run_websocket(self, stream: Stream) -> None:
        raise AssertionError("the responder asks `may_upgrade` first")

    async def upgrade(self, head: bytes) -> NoReturn:
        raise AssertionError("a forwarded upgrade is refused earlier")


class _SlowReads:
    """Lets an HTTP/1.1 client read as slowly as it likes. Not for HTTP/2, whose connection also has other responses."""

    def __init__(self, accepted: AcceptedConnection | None) -> None:
        transport = None if accepted is None else accepted.transport
        self._transport = None if transport is None or transport.protocol == "h2" else transport

    def __enter__(self) -> None:
        if self._transport is not None:
            self._transport.patient = True

    def __exit__(self, *_: object) -> None:
        if self._transport is not None:
            self._transport.patient = False


class WebSocketCodec(HttpCodec):
    """The codec of a scope of type websocket. The server does the handshake and the framing; one message is one
    event.

    A request that does not lead to a watch gets an ordinary response instead of the handshake, by ASGI's extension
    for that; a server without the extension refuses it with a response of its own.
    """

    __slots__ = ("_binary", "_extended", "_receive")

    def __init__(
        self,
        server: ServerState,
        head: Head,
        body: Body,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        super().__init__(server, head, body, send, accepted_connection(scope), "websocket.http.response")
        self._receive = receive
        self._extended = "websocket.http.response" in (scope.get("extensions") or {})
        self._binary = False

    @property
    def may_upgrade(self) -> bool:
        return True

    async def wait_disconnected(self) -> None:
        while (await self._receive())["type"] != "websocket.disconnect":
            pass  # a watch needs nothing from its client
        self.body.disconnected = True

    async def send_queued(self) -> None:
        if self._extended or self._queued is None:
            await super().send_queued()
        else:
            self._queued = None
            await self._send({"type": "websocket.close", "code": 1008})
            self._complete()

    async def begin_websocket(self, accepted: Accepted, fields: Fields) -> None:
        protocol = accepted.protocol.decode("latin-1") if accepted.protocol else None
        await self._send({"type": "websocket.accept", "subprotocol": protocol, "headers": fields})

    async def run_websocket(self, stream: Stream) -> None:
        self._binary = stream.binary
        measure: Callable[[bytes], int] = len if self.exchange is None else Meter(frame_head).measure
        self._pipe = AsgiPipe(self._send_messages, measure)
        framing = as_binary_frame if stream.binary else as_text_frame
        try:
            with self._allow_slow_reads():
                finished = await run_watch(stream, framing, self._pipe, self.wait_disconnected)
            reason = finished.reason
        except (OSError, trio.ClosedResourceError):
            self.abort(failed=False)
            return
        except Exception as error:
            log.error("a watch failed", exc_info=error)
            if self.exchange is not None:
                self.exchange.panic(error)
            reason = EndReason.FAILED
        if self.exchange is not None and reason is EndReason.FAILED:
            self.exchange.panic()
        await self._send({"type": "websocket.close", "code": _CODES[reason]})
        self._complete()

    async def _send_messages(self, data: bytes) -> None:
        """Send each whole frame as a message, because the server does its own framing."""
        at = 0
        while at < len(data):
            head = frame_head(data[at : at + 10])
            assert head is not None, "frames are whole"
            begin, size = at + head[0], head[1]
            payload = data[begin : begin + size]
            content = {"bytes": payload} if self._binary else {"text": payload.decode()}
            await self._send({"type": "websocket.send", **content})
            at = begin + size
