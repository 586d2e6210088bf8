"""The other server of a forwarded request: its address, the connection to it, and one HTTP/1.1 exchange.

`gateway/outgoing` has the connections and reads the response; here are the limits of what is forwarded, and the texts
of failures that clients know from Kubernetes. Bodies are never held as a whole: a part of the response is what one
read returned.
"""

from __future__ import annotations

import os
import socket
import ssl
from dataclasses import dataclass
from typing import Final

import trio

from rewound.actors.errors import BadRequest
from rewound.gateway.outgoing.connections import AddressNotAllowed, Connections, Endpoint, cause_of
from rewound.gateway.outgoing.response import (
    Disconnected,
    Field,
    Head,
    HeadTooLarge,
    ResponseError,
    ResponseReader,
)
from rewound.gateway.outgoing.streams import ByteStream

DIAL_SECONDS: Final = 30.0
HANDSHAKE_SECONDS: Final = 10.0
# Both start like v1.25's message, which clients know.
NO_ADDRESS: Final = "address not allowed: the pod has no address yet"
NOT_ALLOWED: Final = (
    "address not allowed: it is loopback, link-local, multicast or unspecified; the server forwards to such "
    "addresses only with --allow-local-proxy-targets"
)
# More than any server should send; our own requests may have half of it.
MAX_HEAD: Final = 256 * 1024
MAX_FIELDS: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a request is forwarded to, and how to connect."""

    host: str  # an address or a name
    port: int
    path: str  # percent-encoded
    query: str = ""
    tls: ssl.SSLContext | None = None  # None: plain HTTP
    server_name: str = ""  # the name in the server's certificate; empty: the host
    host_header: bytes | None = None  # None: the client's Host
    connect_seconds: float = DIAL_SECONDS  # timeouts in seconds: for connecting, and for the TLS handshake
    local_allowed: bool = False  # allow loopback, link-local and other addresses that are not global unicast

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.host, self.port, self.tls, self.server_name, self.local_allowed)

    @property
    def authority(self) -> str:
        """Host and port, as in a URL."""
        return self.endpoint.authority

    @property
    def request_target(self) -> str:
        """The path with the query."""
        path = self.path or "/"
        return f"{path}?{self.query}" if self.query else path


class Unreachable(Exception):
    """There is no connection to the target; the text says why."""


class UpstreamFailed(Exception):
    """The other server broke off, or what it sent is not HTTP; the text says what."""


async def connect(connections: Connections, target: Target) -> ByteStream:
    """Open a connection, in turn with others to the address. Raises BadRequest if it is not allowed, or Unreachable."""
    opening, began = connections.opening(target.endpoint), trio.current_time()
    try:
        with trio.fail_after(target.connect_seconds):
            await opening.acquire()
    except trio.TooSlowError:
        raise Unreachable(f"dial tcp {target.authority}: i/o timeout") from None
    try:
        return await _connect(connections, target, began + target.connect_seconds)
    finally:
        opening.release()


async def _connect(connections: Connections, target: Target, deadline: float) -> ByteStream:
    endpoint = target.endpoint
    try:
        with trio.fail_at(deadline):
            transport = await connections.dial(endpoint)
    except trio.TooSlowError:
        raise Unreachable(f"dial tcp {target.authority}: i/o timeout") from None
    except AddressNotAllowed:
        raise BadRequest(NOT_ALLOWED) from None
    except (socket.gaierror, UnicodeError):
        raise Unreachable(f"dial tcp: lookup {target.host}: no such host") from None
    except OSError as error:
        number = cause_of(error).errno
        why = os.strerror(number).lower() if number else "no addresses"
        raise Unreachable(f"dial tcp {target.authority}: connect: {why}") from None
    try:
        with trio.fail_after(min(HANDSHAKE_SECONDS, target.connect_seconds)):
            return await connections.secure(endpoint, transport)
    except trio.TooSlowError:
        raise Unreachable("net/http: TLS handshake timeout") from None
    except OSError as error:
        raise Unreachable(_tls_failure(error)) from None


def _tls_failure(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"x509: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError) or not isinstance(error, ssl.SSLError):
        return "EOF"
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "http: server gave HTTP response to HTTPS client"
    return f"tls: {(error.reason or 'handshake failure').lower().replace('_', ' ')}"


class Upstream:
    """One exchange. Every failure of the other server or the connection raises UpstreamFailed."""

    def __init__(self, stream: ByteStream, method: str) -> None:
        self._stream = stream
        self._method = method
        self._reader = ResponseReader(stream, max_head=MAX_HEAD, max_fields=MAX_FIELDS)
        self._chunked_request = False

    # The request.

    async def send_head(self, target: str, fields: list[Field], *, chunked: bool) -> None:
        self._chunked_request = chunked
        lines = b"".join(b"%b: %b\r\n" % one for one in fields)
        coding = b"transfer-encoding: chunked\r\n" if chunked else b""
        start = f"{self._method} {target} HTTP/1.1\r\n".encode("latin-1")
        await self.send(b"%b%b%b\r\n" % (start, lines, coding))

    async def send_body(self, part: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(part), part) if self._chunked_request else part)

    async def end_body(self) -> None:
        if self._chunked_request:
            await self.send(b"0\r\n\r\n")

    async def send(self, data: bytes) -> None:
        try:
            await self._stream.send(data)
        except OSError as error:
            raise UpstreamFailed("write: broken pipe") from error

    # The response.

    async def read_head(self, *, upgrading: bool = False) -> Head:
        try:
            return await self._reader.start(upgrading=upgrading, bodiless=self._method == "HEAD")
        except HeadTooLarge:
            raise UpstreamFailed(f"server response headers exceeded {MAX_HEAD} bytes") from None
        except (OSError, ResponseError) as error:
            raise _failure(error, "EOF") from error

    async def read_part(self) -> bytes:
        """The next part of the body; b"" at the end."""
        try:
            return await self._reader.part()
        except (OSError, ResponseError) as error:
            raise _failure(error, "unexpected EOF") from error

    async def receive(self) -> bytes:
        """The next bytes after both sides have switched protocols; b"" at the end."""
        try:
            return self._reader.take_rest() or await self._stream.receive()
        except OSError as error:
            raise _failure(error, "EOF") from error

    @property
    def began(self) -> bool:
        """Whether any byte of the response has arrived."""
        return self._reader.began

    @property
    def trailers(self) -> list[Field]:
        return self._reader.trailers

    @property
    def reusable(self) -> bool:
        return self._reader.reusable


def _failure(error: Exception, end: str) -> UpstreamFailed:
    if isinstance(error, OSError) or error.__cause__ is not None:
        return UpstreamFailed("read: connection reset by peer")
    return UpstreamFailed(end if isinstance(error, Disconnected) else f"malformed HTTP response: {error}")
