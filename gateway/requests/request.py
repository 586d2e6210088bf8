"""Request and Response, the same for every kind of connection.

Connections build a `Request`; the pipeline returns a `Response`. Query and header values are parsed only when a
handler needs them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import field
from enum import Enum
from typing import Any, Protocol

from gateway.requests.exchange import Exchange
from gateway.requests.forwarding import Forwarding
from journal.classes.dataclass import dataclass


@dataclass(slots=True)
class Peer:
    """The client's end of a connection; shared by all requests of the connection."""

    address: str = ""
    secure: bool = False
    # The verified client certificate as ssl.getpeercert() gives it, if a CA of ordinary clients issued it.
    certificate: dict[str, Any] | None = None
    # The same if a CA of authenticating proxies issued it. A CA may be both.
    proxy_certificate: dict[str, Any] | None = None
    certificate_expires: int = 0  # of either, in microseconds since 1970; 0: there is none


@dataclass(slots=True)
class Request:
    method: str
    path: str  # as sent: percent-encoded, without the query
    query: str  # as sent, without the question mark
    headers: dict[bytes, bytes]  # lower-case names; a repeated header is joined with b", "
    body: bytes
    peer: Peer
    repeated: dict[bytes, list[bytes]] | None = None  # headers sent more than once, value by value
    exchange: Exchange | None = None  # set if the server has an observer
    # Reads the body once the request is authorized; None if the body arrived together with the head, or there is none.
    # BodyNotRead, TooManyRequests.
    arriving: Callable[[], Awaitable[bytes]] | None = None
    user: str = ""  # whose memory budget it uses; empty until it is authenticated
    reserved: int = 0  # bytes that it holds of `gateway.requests.memory.MemoryBudget`


class BodyNotRead(Exception):
    """The body of a request did not arrive whole. Handlers let this error pass: the connection responds.

    `status` is 0 if there is nobody to send a response to.
    """

    def __init__(self, status: int = 0, message: str = "the client disconnected") -> None:
        self.status = status
        self.message = message
        super().__init__(message)


class ReplyLost(BodyNotRead):
    """The request was read, and the connection is to end without a response (`gateway.faults`)."""

    def __init__(self) -> None:
        super().__init__(0, "a fault rule ended the connection without a response")


class EndReason(Enum):
    """Why a stream ended in good order."""

    TIME_UP = "its timeout passed"
    STOPPING = "the server stops"
    TOO_OLD = "its next event has left the watch history"
    FAILED = "the server failed"


@dataclass(frozen=True, slots=True)
class Finished:
    reason: EndReason
    early: bytes = b""  # bytes that the client sent during the stream


class Stream(Protocol):
    """A response body without a known end, sent directly on the connection.

    A connection that has its own task runs it with `run`. One that carries many streams calls `start`, which returns
    None when others send from then on: the stream needs no task until it `should_end`.
    """

    @property
    def binary(self) -> bool:
        """Whether its events are protobuf, not text."""

    async def run(self, connection: Any, framing: Callable[[bytes], bytes]) -> Finished:
        """Send until the end of the stream. OSError: the client disconnected."""

    async def start(self, connection: Any, framing: Callable[[bytes], bytes]) -> Finished | None:
        """Send the beginning. OSError: the client disconnected."""

    def should_end(self) -> bool:
        """Whether a started stream has to `end` now; ask after every interruption of the connection."""

    async def end(self) -> Finished:
        """Send the end of a started stream. OSError: the client disconnected."""

    def leave(self) -> None:
        """The client has disconnected: send nothing more."""


class SharedFields:
    """Header fields that many responses have in common: connections cache heads by this object."""

    __slots__ = ("fields",)

    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        self.fields = fields


@dataclass(slots=True)
class Response:
    status: int
    body: bytes
    content_type: bytes = b"application/json"
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    stream: Stream | None = None  # instead of a body
    # Instead of a body, its parts: the connection takes the next one when the client has taken the one before.
    parts: AsyncIterator[bytes] | None = None
    shared: SharedFields | None = None
    forwarding: Forwarding | None = (
        None  # another server responds; then nothing else of this counts but `shared`
    )
