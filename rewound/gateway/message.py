"""Request and Response, the same for every protocol. This module knows only HTTP.

Connections build a `Request`; the pipeline returns a `Response`. Query and header values are parsed only when a
handler needs them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

import msgspec

# Reports the status of the response as soon as it is known.
Report = Callable[[int], None]
Fields = Sequence[tuple[bytes, bytes]]


class HasHeaders(Protocol):
    headers: dict[bytes, bytes]


def asks_upgrade(request: HasHeaders) -> bool:
    return b"upgrade" in request.headers.get(b"connection", b"").lower()


WEBSOCKET_PROTOCOLS: Final = b"sec-websocket-protocol"


def wants_websocket(headers: Mapping[bytes, bytes]) -> bool:
    return b"websocket" in [word.strip() for word in headers.get(b"upgrade", b"").lower().split(b",")]


def websocket_protocols(headers: Mapping[bytes, bytes]) -> list[bytes]:
    """The subprotocols that a client offers."""
    words = [word.strip() for word in headers.get(WEBSOCKET_PROTOCOLS, b"").split(b",")]
    return [word for word in words if word]


class CutOff(Exception):
    """The other server ended its response early; the client's connection is aborted, so that it notices."""


class RawConnection(Protocol):
    """The client's connection after it has switched protocols: bytes in both directions."""

    async def receive(self) -> bytes:
        """The next bytes, b"" at the end. Raises OSError or trio.ClosedResourceError."""

    async def send(self, data: bytes) -> None:
        """Raises OSError or trio.ClosedResourceError."""


class ForwardingClient(Protocol):
    """The client of one forwarded request. One task may call `receive_body` while another calls the other methods."""

    @property
    def may_upgrade(self) -> bool:
        """Whether the client asks to switch protocols, and its connection can."""

    async def receive_body(self) -> bytes:
        """The next part of the body, b"" at the end. Raises BodyNotRead."""

    async def wait_disconnected(self) -> None:
        """Return when the client has disconnected. To be called after the end of the body."""

    async def respond(self, response: Any) -> None:
        """Send a whole Response."""

    async def start(self, response: Any) -> None:
        """Send the head of a Response; its body follows in parts, unless it has none."""

    async def send(self, part: bytes) -> None:
        """Send a part of the body after the previous one. Raises OSError or trio.ClosedResourceError."""

    async def finish(self, trailers: Fields) -> None:
        """End the body."""

    async def upgrade(self, head: bytes) -> tuple[RawConnection, bytes]:
        """Switch protocols with this head; return the connection and the bytes that the client sent early."""


class Forwarding(Protocol):
    report: Report | None

    async def run(self, client: ForwardingClient) -> None:
        """Forward the request and the response.

        Raises OSError if the client disconnected, BodyNotRead if its body cannot be read and nothing has been sent, and
        CutOff.
        """


class Peer(msgspec.Struct):
    """The client's end of a connection; shared by all requests of the connection."""

    address: str = ""
    secure: bool = False
    # The verified client certificate as ssl.getpeercert() gives it, if a CA of ordinary clients issued it.
    certificate: dict[str, Any] | None = None
    # The same, if a CA of authenticating proxies issued it. A CA may be in both sets.
    proxy_certificate: dict[str, Any] | None = None
    certificate_expires: int = 0  # in nanoseconds since 1970; 0: there is no certificate
    known: bool = False  # a request of the connection has been authenticated


class HeaderFacts:
    """Values that other parts compute from a header block alone: a field for each part, opaque here.

    Connections pass the same object with every request whose header block is byte-identical.
    """

    __slots__ = ("audit", "pipeline")

    def __init__(self) -> None:
        self.audit: Any = None
        self.pipeline: Any = None


@dataclass(slots=True)
class Request:
    method: str
    path: str  # as sent: percent-encoded, without the query
    query: str  # as sent, without the question mark
    headers: dict[bytes, bytes]  # lower-case names; a repeated header is joined with b", "
    body: bytes
    peer: Peer
    repeated: dict[bytes, list[bytes]] | None  # headers sent more than once, value by value
    facts: HeaderFacts
    exchange: Any  # `gateway.exchange.Exchange` if the server has an observer, else None
    # Reads the body, after authorization; None if it arrived with the head, or there is none. Raises BodyNotRead or
    # TooManyRequests.
    arriving: Callable[[], Awaitable[bytes]] | None
    user: str  # for the memory budget; empty until the request is authenticated
    reserved: int  # bytes reserved in `gateway.memory.budget.MemoryBudget`

    def __init__(
        self,
        method: str,
        path: str,
        query: str,
        headers: dict[bytes, bytes],
        body: bytes,
        peer: Peer,
        repeated: dict[bytes, list[bytes]] | None = None,
        facts: HeaderFacts | None = None,
        user: str = "",
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
        self.peer = peer
        self.repeated = repeated
        self.facts = facts or HeaderFacts()
        self.exchange = None
        self.arriving = None
        self.user = user
        self.reserved = 0


class BodyNotRead(Exception):
    """The body of a request did not arrive whole. Handlers must not catch this error: the connection responds.

    `status` is 0 if the client has disconnected.
    """

    def __init__(self, status: int = 0, message: str = "the client disconnected") -> None:
        self.status = status
        self.message = message
        super().__init__(message)


class ReplyLost(BodyNotRead):
    """The request was read, and the connection is to end without a response (`testing.faults`)."""

    def __init__(self) -> None:
        super().__init__(0, "a fault rule ended the connection without a response")


class EndReason(Enum):
    """Why a stream ended without a connection error."""

    TIME_UP = "its timeout passed"
    STOPPING = "the server stops"
    TOO_OLD = "its next event has left the watch history"
    FAILED = "the server failed"


class Finished(msgspec.Struct, frozen=True):
    reason: EndReason
    early: bytes = b""  # bytes that the client sent during the stream


class Stream(Protocol):
    """A response body without a known end, sent directly on the connection.

    A connection that has its own task runs it with `run`. One that carries many streams calls `start`, which returns
    None if others send its events from then on: the stream needs no task until `should_end`.
    """

    @property
    def binary(self) -> bool:
        """Whether its events are protobuf or CBOR, not text."""

    async def run(self, connection: Any, framing: Callable[[bytes], bytes]) -> Finished:
        """Send until the end of the stream. Raises OSError if the client disconnected."""

    async def start(self, connection: Any, framing: Callable[[bytes], bytes]) -> Finished | None:
        """Send the beginning. Raises OSError if the client disconnected."""

    def should_end(self) -> bool:
        """Whether a started stream has to `end` now; to be checked after every interruption of the connection."""

    async def end(self) -> Finished:
        """Send the end of a started stream. Raises OSError if the client disconnected."""

    def leave(self) -> None:
        """The client has disconnected: send nothing more."""


class SharedFields:
    """Header fields that many responses share: connections cache encoded heads by this object."""

    __slots__ = ("fields",)

    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        self.fields = fields


@dataclass(slots=True)
class Response:
    status: int
    body: bytes
    content_type: bytes
    headers: list[tuple[bytes, bytes]]
    stream: Stream | None  # instead of a body
    # Instead of a body, its parts: the connection asks for the next one when the client has read the previous one.
    parts: AsyncIterator[bytes] | None
    shared: SharedFields | None
    forwarding: Forwarding | None  # another server responds; then only `shared` of this response is used

    def __init__(
        self,
        status: int,
        body: bytes,
        content_type: bytes = b"application/json",
        headers: list[tuple[bytes, bytes]] | None = None,
        stream: Stream | None = None,
        parts: AsyncIterator[bytes] | None = None,
        shared: SharedFields | None = None,
        forwarding: Forwarding | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = [] if headers is None else headers
        self.stream = stream
        self.parts = parts
        self.shared = shared
        self.forwarding = forwarding
