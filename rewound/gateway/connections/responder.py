"""Calls the handler of a request and sends its response, in the same way for every protocol.

A connection passes a request to its handler (`Responder.handle`) and the handler's response to `Responder.respond`,
which knows the five kinds: a whole body, a body in parts, a watch, a watch as a WebSocket, and a forwarded response
of another server. It decides what to send for HEAD, reports each stage to the observer, releases the memory of the
request, and ends what cannot be completed.

A `Codec` frames one request and its response as bytes. There is one for HTTP/1.1 (`http1.connection.Http1Connection`,
which has one request at a time), one for HTTP/2 (`http2.stream.Stream`) and one for ASGI (`asgi.codec`). Another
protocol needs a class with the methods of `Codec`, and does this for each request:

    codec.request = request
    codec.exchange = responder.receive(request)     # counts it, and reports it to the observer
    try:
        response = await responder.handle(request)
    except Exception as error:
        response = responder.failed(codec, error)
    if response is not None and (rest := responder.respond(codec, response)) is not None:
        await rest
    ...                                             # send what `send` has queued, then `exchange.complete()`
    responder.release(codec)                        # in any case, at the end

`heads.all_fields(response, codec.exchange)` returns the fields of a head; a codec adds only those of its
framing, such as Content-Length. A codec whose client disconnects raises OSError (or trio.ClosedResourceError) when it
sends, or cancels the task; it calls `exchange.cut_off()` for an exchange whose response was not sent completely.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol

import trio

from rewound.actors.errors import RequestError
from rewound.gateway.connections.arriving import Fault
from rewound.gateway.connections.heads import AUDIT_ID, Fields, has_body
from rewound.gateway.connections.websocket.handshake import REFUSAL_HEADERS, Accepted, accept_websocket
from rewound.gateway.exchange import Exchange, RequestObserver, observing
from rewound.gateway.memory.budget import NO_LIMIT, MemoryBudget
from rewound.gateway.message import (
    BodyNotRead,
    CutOff,
    EndReason,
    Finished,
    Forwarding,
    RawConnection,
    Request,
    Response,
    Stream,
)
from rewound.gateway.message import Fields as Trailers

log = logging.getLogger("rewound.gateway")

Handle = Callable[[Request], Coroutine[Any, Any, Response]]
Refuse = Callable[[int, str], Response]


class Codec(Protocol):
    """One request on its connection, and its response. Sending may raise OSError or trio.ClosedResourceError."""

    request: Request | None  # None once a watch has started, which need not keep its request in memory
    exchange: Exchange | None  # of an observed request, until its response is completely queued

    @property
    def payload(self) -> int:
        """Bytes that the connection accepted of a response body sent with `begin`."""

    @property
    def may_upgrade(self) -> bool:
        """Whether the client asks to switch protocols, and its connection can."""

    def stream_body(self) -> None:
        """Take the request's body in parts from now on, as it arrives, without limits of size and time."""

    async def receive_body(self) -> bytes:
        """The next part of the body, b"" at the end. Raises BodyNotRead if the client disconnects."""

    async def wait_disconnected(self) -> None:
        """Return when the client has disconnected. Call it only after the end of the body."""

    def send(self, response: Response, length: int | None, body: bytes) -> None:
        """Queue a whole response; the exchange is complete when it is sent. A length of None is not sent."""

    async def send_queued(self) -> None:
        """Send what is queued."""

    async def begin(self, response: Response, *, bare: bool = False, patient: bool = False) -> None:
        """Send a head; parts follow until `end`, or none if it is bare. With `patient`, the client may read slowly."""

    async def send_part(self, part: bytes) -> None:
        """Send a part of the body, once the client has accepted the previous one."""

    async def end(self, trailers: Trailers) -> None:
        """End the body; the exchange is complete when that has been sent."""

    def abort(self, *, failed: bool = True) -> None:
        """End without the rest of the response, so that the client notices that it is incomplete.

        `failed`: because of a fault of the server. No effect if the client has disconnected.
        """

    def run_watch(self, stream: Stream) -> Awaitable[Finished | None]:
        """Send a stream after its head; return None if it continues without a task and calls `watch_ended` later."""

    async def end_watch(self, finished: Finished) -> None:
        """`end` after a watch."""

    async def begin_websocket(self, accepted: Accepted, fields: Fields) -> None:
        """Switch to a WebSocket; only if `may_upgrade`."""

    async def run_websocket(self, stream: Stream) -> None:
        """Send a stream as messages, and close the WebSocket."""

    async def upgrade(self, head: bytes) -> tuple[RawConnection, bytes]:
        """Switch protocols with this head; return the connection, and what the client has already sent on it."""


class Responder:
    """Calls the handler for a server's requests and sends its responses; all connections of a server share one."""

    __slots__ = ("failures", "handle", "memory", "observe", "refuse", "refused", "requests")

    def __init__(
        self,
        handle: Handle,
        refuse: Refuse,
        observer: RequestObserver | None = None,
        memory: MemoryBudget | None = None,
    ) -> None:
        self.handle = handle
        self.refuse = refuse
        self.observe = observing(observer)
        self.memory = memory or MemoryBudget(NO_LIMIT)
        self.requests = 0  # requests passed to the handler
        self.refused = 0  # requests refused without the handler
        self.failures = 0  # requests whose handler raised

    # Requests.

    def receive(self, request: Request) -> Exchange | None:
        """Count a request that is about to be handled, and report it to the observer."""
        self.requests += 1
        return None if self.observe is None else self.observe(request)

    def failed(self, codec: Codec, error: Exception) -> Response | None:
        """The response to a request whose handler raised this error; None if the client has disconnected."""
        if not isinstance(error, BodyNotRead):
            assert codec.request is not None
            return self.failure(codec.request, error)
        if error.status:
            return self.refusal(error.status, error.message)
        codec.abort()
        return None

    def failure(self, request: Request, error: Exception) -> Response:
        """A 500 response for a handler that raised; logs the traceback."""
        self.failures += 1
        if request.exchange is not None:
            request.exchange.panic(error)
        log.error("%s %s failed", request.method, request.path, exc_info=error)
        return self.refuse(500, "internal error; see the server's log")

    def refusal(self, status: int, message: str) -> Response:
        self.refused += 1
        return self.refuse(status, message)

    def cut_off(self, request: Request, error: BaseException) -> None:
        """Log why the rest of a response could not be produced; its client does not get the end of it."""
        cause = error.__cause__ or error
        if isinstance(cause, RequestError | CutOff):
            log.warning("%s %s was cut off: %s", request.method, request.path, cause)
            return
        self.failures += 1
        if request.exchange is not None:
            request.exchange.panic(cause)
        log.error("%s %s was cut off", request.method, request.path, exc_info=cause)

    def release(self, codec: Codec) -> None:
        """Release the memory of a request that has its response, or whose client has disconnected."""
        request, codec.request = codec.request, None
        if request is not None and request.reserved:
            self.memory.release(request)

    # Responses.

    def respond(self, codec: Codec, response: Response) -> Coroutine[Any, Any, None] | None:
        """Queue a whole response; for other kinds, return a coroutine that sends it."""
        request, exchange, body = codec.request, codec.exchange, response.body
        assert request is not None
        if response.forwarding is not None:
            return self._forward(codec, request, response, response.forwarding)
        length: int | None = len(body)
        if request.method == "HEAD":
            body = b""
            if response.parts is not None:
                length = None
        elif response.stream is not None:
            if codec.may_upgrade:
                return self._watch_websocket(codec, response, response.stream)
            return self._watch(codec, response, response.stream)
        elif response.parts is not None:
            return self._send_parts(codec, request, response, response.parts)
        status = response.status
        if status in (204, 304) or status < 200:  # `has_body`, inlined
            body, length = b"", None
        if exchange is not None:  # `Exchange.respond`, inlined
            exchange.response = response
            exchange.status, exchange.size = status, len(body)
        codec.send(response, length, body)
        return None

    async def _send_parts(
        self, codec: Codec, request: Request, response: Response, parts: AsyncIterator[bytes]
    ) -> None:
        """Send a body part by part: the next one is produced when the client has accepted the previous one."""
        await codec.begin(response)
        if codec.exchange is not None:
            codec.exchange.start(response.status, codec)
        try:
            while part := await _next_part(parts):
                await codec.send_part(part)
                del part  # do not hold it while the next one is produced
        except _PartsFailed as error:
            self.cut_off(request, error)
            codec.abort()
        else:
            await codec.end(())

    async def _watch(self, codec: Codec, response: Response, stream: Stream) -> None:
        await codec.begin(response)
        self.release(codec)  # releases its memory during the watch
        if codec.exchange is not None:
            codec.exchange.start(response.status, codec)
        await self.watch_ended(codec, codec.run_watch(stream))

    async def watch_ended(self, codec: Codec, steps: Awaitable[Finished | None]) -> None:
        """Wait for the end of a watch, unless it continues without a task."""
        try:
            finished = await steps
        except (OSError, trio.ClosedResourceError):
            codec.abort(failed=False)  # the client disconnected or does not read
        except Exception as error:
            log.error("a watch failed", exc_info=error)
            if codec.exchange is not None:
                codec.exchange.panic(error)
            codec.abort()
        except BaseException:
            codec.abort(failed=False)
            raise
        else:
            if finished is None:
                return
            if finished.reason is EndReason.FAILED and codec.exchange is not None:
                codec.exchange.panic()
            await codec.end_watch(finished)

    async def _watch_websocket(self, codec: Codec, response: Response, stream: Stream) -> None:
        assert codec.request is not None
        exchange = codec.exchange
        accepted = accept_websocket(codec.request.headers)
        if isinstance(accepted, Fault):
            refusal = self.refusal(accepted.status, accepted.message)
            refusal.headers.extend(REFUSAL_HEADERS)
            self.respond(codec, refusal)
            return
        fields = list(response.headers)
        if exchange is not None:
            fields.append((AUDIT_ID, exchange.audit_id))
        if response.shared is not None:
            fields += response.shared.fields
        await codec.begin_websocket(accepted, fields)
        self.release(codec)
        if exchange is not None:
            exchange.start(101, codec)
        await codec.run_websocket(stream)

    async def _forward(
        self, codec: Codec, request: Request, response: Response, forwarding: Forwarding
    ) -> None:
        client = _ForwardingClient(self, codec, response)
        await codec.send_queued()
        codec.stream_body()
        try:
            await forwarding.run(client)
            if client.upgraded:
                await codec.end(())
        except BodyNotRead as error:
            if error.status and not client.started:
                await client.respond(self.refusal(error.status, error.message))
            else:
                codec.abort()
        except CutOff as error:
            self.cut_off(request, error)
            codec.abort()
        except (OSError, trio.ClosedResourceError):
            codec.abort()
        except Exception as error:
            failure = self.failure(request, error)
            if client.started:
                codec.abort()
            else:
                await client.respond(failure)


class _ForwardingClient:
    """The client of a forwarded request, as `proxy` uses it."""

    __slots__ = (
        "_codec",
        "_responder",
        "_shared",
        "may_upgrade",
        "receive_body",
        "send",
        "started",
        "upgraded",
        "wait_disconnected",
    )

    def __init__(self, responder: Responder, codec: Codec, response: Response) -> None:
        self._responder = responder
        self._codec = codec
        self._shared = response.shared
        self.may_upgrade = codec.may_upgrade
        self.receive_body = codec.receive_body
        self.wait_disconnected = codec.wait_disconnected
        self.send = codec.send_part
        self.started = False  # part of the response has been sent
        self.upgraded = False

    async def respond(self, response: Response) -> None:
        self.started = True
        response.shared = self._shared
        self._responder.respond(self._codec, response)
        await self._codec.send_queued()

    async def start(self, response: Response) -> None:
        codec = self._codec
        assert codec.request is not None
        self.started = True
        response.shared = self._shared
        await self._report_start(response.status)
        bare = codec.request.method == "HEAD" or not has_body(response.status)
        await codec.begin(response, bare=bare, patient=True)

    async def finish(self, trailers: Trailers) -> None:
        await self._codec.end(trailers)

    async def upgrade(self, head: bytes) -> tuple[RawConnection, bytes]:
        self.started = self.upgraded = True
        await self._report_start(101)
        return await self._codec.upgrade(head)

    async def _report_start(self, status: int) -> None:
        """Report the start before the head is sent, because an audit log may have to store it first."""
        exchange = self._codec.exchange
        if exchange is not None:
            exchange.start(status, self._codec)
            if exchange.stored is not None:
                await exchange.stored()


class _PartsFailed(Exception):
    """The next part could not be produced; the cause is the error."""


async def _next_part(parts: AsyncIterator[bytes]) -> bytes:
    """The next part that is not empty; b"" after the last. Raises _PartsFailed if it cannot be produced."""
    try:
        while not (part := await anext(parts)):
            pass
    except StopAsyncIteration:
        return b""
    except Exception as error:
        raise _PartsFailed from error
    return part
