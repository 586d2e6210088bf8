"""The body of a request above ASGI: read when its handler wants it, within the limits of size, time and memory."""

from __future__ import annotations

from typing import Final

import trio

from rewound.gateway.connections.arriving import add_part, join_parts
from rewound.gateway.connections.asgi.scopes import Head, Receive
from rewound.gateway.connections.limits import KIB
from rewound.gateway.connections.server_state import ServerState
from rewound.gateway.connections.transport import RECEIVE
from rewound.gateway.memory.budget import SMALL
from rewound.gateway.message import BodyNotRead

# A body of unknown length takes memory in steps of this size.
_STEP: Final = 256 * KIB
# The rest of a body that no handler reads is discarded up to this size, so that its client gets the response.
_DISCARDED: Final = 256 * KIB
_TOO_SLOW: Final = "the request did not arrive in time"


class Body:
    __slots__ = ("_head", "_receive", "_received", "_server", "complete", "disconnected")

    def __init__(self, server: ServerState, head: Head, receive: Receive) -> None:
        self._server = server
        self._head = head
        self._receive = receive
        self._received = 0  # bytes
        self.complete = not head.length
        self.disconnected = False

    async def receive_part(self) -> bytes:
        """The next part, b"" at the end. BodyNotRead if the client disconnects."""
        while not self.complete:
            message = await self._receive()
            if message["type"] != "http.request":
                self.disconnected = True
                raise BodyNotRead
            self.complete = not message.get("more_body", False)
            if part := bytes(message.get("body", b"")):
                self._received += len(part)
                return part
        return b""

    async def read(self) -> bytes:
        """The whole body, once there is room for it. BodyNotRead, TooManyRequests."""
        server, request, length = self._server, self._head.request, self._head.length
        if length > SMALL:
            await server.responder.memory.wait_for(request, length)
        began, parts = trio.current_time(), list[bytes | bytearray]()
        while True:
            if length < 0 and self._received + RECEIVE > SMALL + request.reserved:
                waited = trio.current_time()
                await server.responder.memory.wait_for(request, _STEP)
                began += trio.current_time() - waited  # the client had to wait
            now, limits = trio.current_time(), server.limits
            with trio.move_on_at(limits.transfer_deadline(began, self._received, now)) as scope:
                part = await self.receive_part()
            if scope.cancelled_caught:
                raise BodyNotRead(408, _TOO_SLOW)
            if not part:
                break
            if self._received > limits.body:
                raise BodyNotRead(413, f"Request entity too large: limit is {limits.body}")
            add_part(parts, part)
        request.arriving = None
        request.body = join_parts(parts)
        return request.body

    async def discard(self) -> None:
        """Read a small rest: servers may end a connection, or worse, if a request goes on after its response."""
        most = self._received + _DISCARDED
        with trio.move_on_after(self._server.limits.linger_seconds):
            try:
                while self._received < most and await self.receive_part():
                    pass
            except BodyNotRead:
                return

    async def wait_disconnected(self) -> None:
        """Return when the client has disconnected, whatever of its body it still sends."""
        while not self.disconnected:
            message = await self._receive()
            self.disconnected = message["type"] != "http.request"
