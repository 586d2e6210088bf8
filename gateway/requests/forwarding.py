"""A request that is forwarded to another server: what its connection and the forwarding need of each other.

A handler returns a Response with a `Forwarding` where another server has to respond. The connection runs it in the
task of the request, so that whatever ends that task ends the forwarding too. It reads the client's body and sends the
response in parts, through a `ForwardingClient`; neither holds more than one part of either at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from actors.errors import RequestError

# Reports the status of the response as soon as it is known.
Report = Callable[[int], None]
Fields = Sequence[tuple[bytes, bytes]]


class HasHeaders(Protocol):
    headers: dict[bytes, bytes]


def asks_upgrade(request: HasHeaders) -> bool:
    return b"upgrade" in request.headers.get(b"connection", b"").lower()


class CutOff(RequestError):
    """The other server did not send the end of its response: the client must not take what it has for the whole."""

    def __init__(self, message: str) -> None:
        self.message = message


class RawConnection(Protocol):
    """The client's connection after it has switched protocols: bytes in both directions."""

    async def receive(self) -> bytes:
        """The next bytes, b"" at the end. OSError, trio.ClosedResourceError."""

    async def send(self, data: bytes) -> None:
        """OSError, trio.ClosedResourceError."""


class ForwardingClient(Protocol):
    """The client of one forwarded request. `receive_body` and the others may run in two tasks."""

    @property
    def may_upgrade(self) -> bool:
        """Whether the client asks to switch protocols, and its connection can."""

    async def receive_body(self) -> bytes:
        """The next part of the body, b"" at the end. BodyNotRead."""

    async def wait_disconnected(self) -> None:
        """Return when the client has disconnected. Only after the end of the body."""

    async def respond(self, response: Any) -> None:
        """Send a whole Response."""

    async def start(self, response: Any) -> None:
        """Send the head of a Response; its body follows in parts, unless it has none."""

    async def send(self, part: bytes) -> None:
        """Send a part of the body, once the client has taken the one before. OSError, trio.ClosedResourceError."""

    async def finish(self, trailers: Fields) -> None:
        """End the body."""

    async def upgrade(self, head: bytes) -> tuple[RawConnection, bytes]:
        """Switch protocols with this head; returns the connection, and what the client has sent ahead."""


class Forwarding(Protocol):
    report: Report | None

    async def run(self, client: ForwardingClient) -> None:
        """Forward the request and the response.

        OSError if the client disconnected, BodyNotRead if its body cannot be read and nothing has been sent, CutOff.
        """
