"""The body of a request over ASGI: read when its handler asks for it, within limits of size, time and memory."""

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

# Memory for a body of unknown length is reserved in steps of this size.
_STEP: Final = 256 * KIB
# If no handler reads a body, a rest of up to this size is discarded, so that the client gets the response.
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
        """The next part of the body, b"" at the end. Raises BodyNotRead if the client disconnects."""
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
        """The whole body, once there is memory for it. Raises BodyNotRead or TooManyRequests."""
        server, request, length = self._server, self._head.request, self._head.length
        if length > SMALL:
            await server.responder.memory.wait_for(request, length)
        began, parts = trio.current_time(), list[bytes | bytearray]()
        while True:
            if length < 0 and self._received + RECEIVE > SMALL + request.reserved:
                waited = trio.current_time()
                await server.responder.memory.wait_for(request, _STEP)
                began += trio.current_time() - waited  # do not count the time that the client had to wait
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
        """Read a small rest of the body: servers may close the connection if a request continues after its response."""
        most = self._received + _DISCARDED
        with trio.move_on_after(self._server.limits.linger_seconds):
            try:
                while self._received < most and await self.receive_part():
                    pass
            except BodyNotRead:
                return

    async def wait_disconnected(self) -> None:
        """Return when the client has disconnected; body parts that still arrive are ignored."""
        while not self.disconnected:
            message = await self._receive()
            self.disconnected = message["type"] != "http.request"
