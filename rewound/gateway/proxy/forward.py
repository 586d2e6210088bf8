"""Forwards one request to another server, and the response back.

Two tasks copy, one in each direction, a part at a time, so that a slow receiver holds back the sender. If either side
ends, both do. When the server stops, upgraded connections end at once and other responses get a few seconds. An
`Adapter` may change the response; `Adapter` itself changes as little as HTTP allows: `request_fields` and
`response_fields` decide which header fields are forwarded, belong to one connection, or are added.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import trio

from rewound.actors.errors import RequestError, ShuttingDown
from rewound.gateway.message import (
    BodyNotRead,
    CutOff,
    ForwardingClient,
    RawConnection,
    Report,
    Request,
    Response,
    asks_upgrade,
)
from rewound.gateway.outgoing.connections import Connections
from rewound.gateway.outgoing.response import Field, Head
from rewound.gateway.outgoing.streams import ByteStream
from rewound.gateway.pipeline.errors import BackendFailed, UpgradeRequired
from rewound.gateway.proxy.upstream import Target, Unreachable, Upstream, UpstreamFailed, connect

# How long responses may continue after the server began to stop; the client's reading is limited by its connection.
STOP_SECONDS: Final = 3.0
_WITH_BODY: Final = ("POST", "PUT", "PATCH")

Fail = Callable[[RequestError], Awaitable[Response]]


class Transform(Protocol):
    """Changes a body as it passes; `feed` and `finish` are quick."""

    def feed(self, part: bytes) -> bytes: ...
    def finish(self) -> bytes: ...


class Adapter:
    """Changes a request and its response as they are forwarded. If it raises RequestError, the client gets that."""

    cors = True

    def request_fields(self) -> list[Field]:
        """Fields added to the request, unless it asks for an upgrade."""
        return []

    def complete_fields(self, fields: list[Field], *, upgrading: bool) -> list[Field]:
        """The fields to send; `fields` are the client's fields that may be forwarded."""
        return fields if upgrading else [*fields, *self.request_fields()]

    async def response(self, head: Head, upstream: Upstream) -> tuple[Response, Transform | None]:
        headers = response_fields(head, cors=self.cors)
        return Response(head.status, b"", head.get(b"content-type"), headers), None

    def unreachable(self, why: str, *, upgrading: bool) -> RequestError:
        return BackendFailed(f"error dialing backend: {why}")


class _SendAgain(Exception):
    """A pooled connection was closed before any byte of the response arrived."""


class Forward:
    def __init__(
        self,
        request: Request,
        target: Target,
        adapter: Adapter,
        stopping: trio.Event,
        fail: Fail,
        *,
        method: str = "",
        warnings: tuple[Field, ...] = (),
        upgrade_required: bool = False,
        own_request: bool = False,
        connections: Connections,
    ) -> None:
        """`own_request`: only its lifetime is that of the client's request."""
        self._request = request
        self._target = target
        self._adapter = adapter
        self._stopping = stopping
        self._fail = fail
        self._method = method or request.method
        self._warnings = warnings
        self._upgrade_required = upgrade_required
        self._own_request = own_request
        self._connections = connections
        self._upgraded = False
        self._started = False
        self._sent = False  # the whole request can be sent again
        self._length: int | None = None  # length of the body; None if unknown
        self._failure: Exception | None = None
        self.report: Report | None = None

    async def run(self, client: ForwardingClient) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_at_stop, nursery.cancel_scope)
            try:
                await self._run(client)
            except Exception as error:
                self._failure = self._failure or error
            nursery.cancel_scope.cancel()
        failure = self._failure
        if isinstance(failure, RequestError) and not self._started:
            await self._respond(client, await self._fail(failure))
        elif failure is not None:
            raise failure

    async def _end_at_stop(self, scope: trio.CancelScope) -> None:
        await self._stopping.wait()
        if not self._upgraded:
            await trio.sleep(STOP_SECONDS)
        self._failure = CutOff(ShuttingDown.message) if self._started else ShuttingDown()
        if self._upgraded:
            self._failure = None
        scope.cancel()

    async def _run(self, client: ForwardingClient) -> None:
        upgrading = not self._own_request and client.may_upgrade and asks_upgrade(self._request)
        if self._upgrade_required and not upgrading:
            raise UpgradeRequired
        self._length = self._body_length()  # now, because the body is gone once it has been sent
        if upgrading or not await self._try_pooled(client):
            try:
                stream = await connect(self._connections, self._target)
            except Unreachable as error:
                raise self._adapter.unreachable(str(error), upgrading=upgrading) from None
            await self._exchange(client, stream, upgrading=upgrading)

    async def _try_pooled(self, client: ForwardingClient) -> bool:
        """Try a pooled connection. False if there is none, or if it was closed and the request can be sent again."""
        stream = self._connections.take(self._target.endpoint)
        if stream is None:
            return False
        try:
            await self._exchange(client, stream, upgrading=False, again=self._length == 0)
        except _SendAgain:
            return False
        return True

    async def _exchange(
        self, client: ForwardingClient, stream: ByteStream, *, upgrading: bool, again: bool = False
    ) -> None:
        """`again`: the request can be sent again if the other server has closed the connection."""
        upstream, reusable = Upstream(stream, self._method), False
        self._sent = False
        try:
            await self._copy(client, upstream, upgrading=upgrading)
            reusable = self._sent and upstream.reusable
        except UpstreamFailed as error:
            if self._started:
                raise CutOff(f"the response of {self._target.authority} broke off: {error}") from None
            if again and not upstream.began:
                raise _SendAgain from None
            raise self._adapter.unreachable(str(error), upgrading=upgrading) from None
        finally:
            if reusable:
                self._connections.keep(self._target.endpoint, stream)
            else:
                stream.close()

    async def _copy(self, client: ForwardingClient, upstream: Upstream, *, upgrading: bool) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._upload, client, upstream, nursery.cancel_scope, upgrading)
            head, failure = None, None
            try:
                head = await upstream.read_head(upgrading=upgrading)
                if not head.raw:
                    await self._download(client, upstream, head, upgrading=upgrading)
            except Exception as error:
                failure = error
            nursery.cancel_scope.cancel()
        if failure := self._failure or failure:
            raise failure
        if head is not None and head.raw:
            await self._switch(client, upstream, head.raw)

    # The request.

    async def _upload(
        self, client: ForwardingClient, upstream: Upstream, scope: trio.CancelScope, upgrading: bool
    ) -> None:
        """Send the request; then notice if the client disconnects before it has the response."""
        try:
            await self._send_head(upstream, upgrading=upgrading)
            if not self._own_request:
                while part := await client.receive_body():
                    await upstream.send_body(part)
            await upstream.end_body()
            self._sent = True
        except UpstreamFailed:
            return  # it may have responded without reading the rest
        except BodyNotRead as error:
            self._end(scope, error)
            return
        await client.wait_disconnected()
        self._end(scope, ConnectionResetError("the client disconnected"))

    async def _send_head(self, upstream: Upstream, *, upgrading: bool) -> None:
        target, request = self._target, self._request
        path = target.request_target
        if self._own_request:
            fields: list[Field] = [(b"host", target.authority.encode()), *self._adapter.request_fields()]
            await upstream.send_head(path, [*fields, (b"connection", b"close")], chunked=False)
            return
        fields = request_fields(request, target.host_header, upgrading=upgrading)
        fields = self._adapter.complete_fields(fields, upgrading=upgrading)
        if upgrading:
            await upstream.send_head(path, fields, chunked=False)
            return
        if not self._connections.max_idle:
            fields.append((b"connection", b"close"))
        length = self._length
        if length is not None and (length or self._method in _WITH_BODY):
            fields.append((b"content-length", b"%d" % length))
        await upstream.send_head(path, fields, chunked=length is None)

    def _body_length(self) -> int | None:
        request = self._request
        if request.arriving is None:
            return len(request.body)
        sent = request.headers.get(b"content-length")
        return int(sent) if sent is not None else None

    def _end(self, scope: trio.CancelScope, error: Exception) -> None:
        self._failure = self._failure or error
        scope.cancel()

    # The response.

    async def _respond(self, client: ForwardingClient, response: Response) -> None:
        self._report(response.status)
        response.headers.extend(one for one in self._warnings if one not in response.headers)
        await client.respond(response)

    def _report(self, status: int) -> None:
        self._started = True
        if self.report is not None:
            self.report(status)

    async def _download(
        self, client: ForwardingClient, upstream: Upstream, head: Head, *, upgrading: bool
    ) -> None:
        if upgrading and head.status < 400:
            raise BackendFailed(f"invalid upgrade response: status code {head.status}")
        response, transform = await self._adapter.response(head, upstream)
        response.headers.extend(self._warnings)
        self._report(response.status)
        await client.start(response)
        while part := await upstream.read_part():
            if transform is not None:
                part = transform.feed(part)
            if part:
                await client.send(part)
        if transform is not None and (part := transform.finish()):
            await client.send(part)
        await client.finish(upstream.trailers)

    # After both sides have switched protocols.

    async def _switch(self, client: ForwardingClient, upstream: Upstream, head: bytes) -> None:
        self._upgraded = True
        self._report(101)
        connection, ahead = await client.upgrade(head)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._copy_to_upstream, connection, upstream, ahead, nursery.cancel_scope)
            try:
                await self._copy_to_client(connection, upstream)
            except (OSError, trio.ClosedResourceError, UpstreamFailed):
                pass
            nursery.cancel_scope.cancel()

    async def _copy_to_upstream(
        self, connection: RawConnection, upstream: Upstream, data: bytes, scope: trio.CancelScope
    ) -> None:
        try:
            if data:
                await upstream.send(data)
            while data := await connection.receive():
                await upstream.send(data)
        except (OSError, trio.ClosedResourceError, UpstreamFailed):
            pass
        scope.cancel()

    async def _copy_to_client(self, connection: RawConnection, upstream: Upstream) -> None:
        while data := await upstream.receive():
            await connection.send(data)


_HOP_BY_HOP: Final = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
# Never forwarded: credentials for this server, and what the connection to the other server sets itself.
_OWN: Final = frozenset((b"authorization", b"content-length", b"expect", b"host", b"x-forwarded-for"))
_WEBSOCKET_PROTOCOLS: Final = b"sec-websocket-protocol"
# Fields of responses that are not forwarded: each connection has its own, and a backend must not grant rights to
# scripts of other origins.
_REPLACED: Final = frozenset((b"audit-id", b"content-type", b"date"))
_CORS: Final = frozenset(
    b"access-control-allow-" + name for name in (b"credentials", b"headers", b"methods", b"origin")
)
_CACHE_CONTROL: Final = (b"cache-control", b"no-cache, private")


def request_fields(request: Request, host: bytes | None, *, upgrading: bool) -> list[Field]:
    """The fields for the other server, without those that frame the body."""
    headers, repeated = request.headers, request.repeated or {}
    dropped = _OWN if upgrading else _OWN | _HOP_BY_HOP | _named(headers.get(b"connection", b""))
    fields = [(b"host", headers.get(b"host", b"") if host is None else host)]
    for name, joined in headers.items():
        if name in dropped or (name == _WEBSOCKET_PROTOCOLS and not joined):
            continue
        fields.extend((name, value) for value in (repeated.get(name) or (joined,)))
    if not upgrading and b"trailers" in _words(headers.get(b"te", b"")):
        fields.append((b"te", b"trailers"))
    forwarded_for = _forwarded_for(request)
    if forwarded_for:
        fields.append((b"x-forwarded-for", forwarded_for))
    return fields


def _forwarded_for(request: Request) -> bytes:
    """The value of X-Forwarded-For; empty for a client on a Unix socket that forwards for nobody."""
    address = request.peer.address.encode()
    before = request.headers.get(b"x-forwarded-for")
    if not address:
        return before or b""
    return b"%b, %b" % (before, address) if before is not None else address


def response_fields(head: Head, *, cors: bool) -> list[Field]:
    """The fields for the client, without the content type. `cors`: forward the rights of other origins."""
    dropped = _REPLACED | (_HOP_BY_HOP - {b"trailer"}) | _named(head.get(b"connection"))
    if not cors:
        dropped |= _CORS
    fields = [one for one in head.fields if one[0] not in dropped]
    if any(name == b"cache-control" for name, _ in fields):
        fields.insert(0, _CACHE_CONTROL)  # responses are not shared, whatever the other server allows
    return fields


def _named(connection: bytes) -> frozenset[bytes]:
    """The fields that a Connection field names."""
    return frozenset(_words(connection)) if connection else frozenset()


def _words(value: bytes) -> list[bytes]:
    return [word.strip().lower() for word in value.split(b",")]
