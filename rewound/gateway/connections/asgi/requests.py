"""The ASGI application: handles each scope as one request, in a task of its own."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

import trio

from rewound.actors.certificates.pools import TrustPools
from rewound.gateway.connections.asgi.bodies import Body
from rewound.gateway.connections.asgi.codec import HttpCodec, WebSocketCodec
from rewound.gateway.connections.asgi.scopes import (
    Head,
    Receive,
    Scope,
    Send,
    accepted_connection,
    read_head,
    read_peer,
)
from rewound.gateway.connections.responder import Responder
from rewound.gateway.connections.server_state import ServerState
from rewound.gateway.message import Response, asks_upgrade

NO_UPGRADE: Final = (
    "ASGI cannot carry an upgraded connection, which exec, attach, portforward and proxied upgrades need: "
    "use a server with --transport native"
)


class AsgiRequests:
    def __init__(self, server: ServerState) -> None:
        self._server = server
        self.pools: TrustPools | None = None  # if set, the roles of a client certificate depend on its CA
        self.running = 0
        self._idle = trio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request. Raises ResponseCutOff if its response breaks off and the server must end it."""
        accepted = accepted_connection(scope)
        self.running += 1
        if accepted is not None:
            accepted.begin()
        try:
            await self._serve(scope, receive, send)
        finally:
            if accepted is not None:
                accepted.end()
            self.running -= 1
            if not self.running:
                self._idle.set()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        server = self._server
        head = read_head(scope, server.limits, read_peer(scope, self.pools))
        body = Body(server, head, receive)
        http1 = scope.get("http_version", "1.1").startswith("1")
        codec = HttpCodec(server, head, body, send, accepted_connection(scope), http1=http1)
        if scope["type"] == "websocket":
            await receive()  # consumes websocket.connect
            codec = WebSocketCodec(server, head, body, scope, receive, send)
        try:
            await _respond(server.responder, codec, head)
        except (OSError, trio.ClosedResourceError):
            codec.abort(failed=False)  # the client disconnected or does not read
        finally:
            server.responder.release(codec)
            if codec.exchange is not None:
                codec.exchange.cut_off()
        codec.check()

    async def wait_idle(self) -> None:
        """Return when no request is in progress."""
        while self.running:
            self._idle = trio.Event()
            await self._idle.wait()


async def _respond(responder: Responder, codec: HttpCodec, head: Head) -> None:
    response = await _handled(responder, codec, head)
    if response is None:
        return
    if response.forwarding is not None and (codec.may_upgrade or asks_upgrade(head.request)):
        response = responder.refusal(501, NO_UPGRADE)
    rest = responder.respond(codec, response)
    if rest is None:
        await codec.send_queued()
    elif response.parts is None:
        await rest
        await codec.send_queued()
    else:
        await _until_disconnected(codec, rest)


async def _handled(responder: Responder, codec: HttpCodec, head: Head) -> Response | None:
    """The pipeline's response; None if the client disconnects first."""
    request = head.request
    if head.fault is not None:
        codec.exchange = None if responder.observe is None else responder.observe(request)
        return responder.refusal(head.fault.status, head.fault.message)
    if head.length:
        request.arriving = codec.body.read
    codec.exchange = responder.receive(request)
    try:
        return await responder.handle(request)
    except Exception as error:
        return responder.failed(codec, error)


async def _until_disconnected(codec: HttpCodec, rest: Coroutine[Any, Any, None]) -> None:
    """Send the rest of a response unless the client disconnects. Raises OSError if it cannot be sent."""
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:

        async def listen() -> None:
            await codec.wait_disconnected()
            nursery.cancel_scope.cancel()

        nursery.start_soon(listen)
        try:
            await rest
        except Exception as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
