"""Connections to other servers: dialled, secured by TLS, and pooled between requests.

A handshake costs milliseconds, so idle connections are pooled for up to 90 seconds, and the most recently
used are reused first. An idle connection that is readable was closed by its peer, or sent unexpected bytes: it is
dropped. No timer closes idle ones: the next `take` does.
"""

from __future__ import annotations

import base64
import ipaddress
import socket
import ssl
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit
from weakref import WeakValueDictionary

import trio

from rewound.actors.certificates.trust import verifying
from rewound.actors.runtime.turns import SharedTurns
from rewound.gateway.outgoing.response import ResponseError, ResponseReader
from rewound.gateway.outgoing.streams import ByteStream, SocketByteStream, TlsStream

IDLE_SECONDS: Final = 90.0
# Connections to one address that are opened at the same time. More would not open sooner, and would hold the event loop
# together: hundreds of requests may start to wait for one server at the same moment.
MAX_OPENING: Final = 16
_SAFE: Final = "!$%&'()*+,/:;=?@[]~"  # characters that are not quoted in a request target


class Endpoint(NamedTuple):
    """The target of a connection and its TLS identity. A pooled one serves every request to an equal endpoint."""

    host: str  # an address or a name
    port: int
    # The context itself: connections of another CA bundle or client certificate have another one. None: no TLS.
    tls: ssl.SSLContext | None = None
    server_name: str = ""  # for which the certificate must be valid; empty: the host
    # Whether loopback, link-local and other addresses that are not global unicast are allowed.
    local_allowed: bool = True

    @property
    def authority(self) -> str:
        """Host and port, as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class AddressNotAllowed(OSError):
    """The host is, or resolves to, an address that the endpoint does not allow."""


class Connections:
    def __init__(self, *, max_idle: int, proxy_url: str = "") -> None:
        """`max_idle` connections are pooled; all go through the proxy at `proxy_url`, if it is set."""
        self.max_idle = max_idle
        self._proxy_url = proxy_url
        self._idle: list[
            tuple[float, Endpoint, ByteStream]
        ] = []  # with the time since when they are idle; the oldest first
        self._turns = SharedTurns()
        self._outgoing = ssl.MemoryBIO()  # of all connections
        self._opening: WeakValueDictionary[tuple[str, int], trio.CapacityLimiter] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, endpoint: Endpoint) -> ByteStream | None:
        """An idle connection from the pool."""
        oldest = trio.current_time() - IDLE_SECONDS
        while self._idle and self._idle[0][0] < oldest:
            self._idle.pop(0)[2].close()
        for index in range(len(self._idle) - 1, -1, -1):
            if self._idle[index][1] == endpoint:
                stream = self._idle.pop(index)[2]
                if not stream.readable():
                    return stream
                stream.close()
        return None

    def keep(self, endpoint: Endpoint, stream: ByteStream) -> None:
        self._idle.append((trio.current_time(), endpoint, stream))
        if len(self._idle) > self.max_idle:
            self._idle.pop(0)[2].close()

    def close(self) -> None:
        """Close idle connections and pool none from now on: running requests close theirs."""
        self.max_idle = 0
        idle, self._idle = self._idle, []
        for _, _, stream in idle:
            stream.close()

    def opening(self, endpoint: Endpoint) -> trio.CapacityLimiter:
        """A limit on connections that are being opened to the endpoint's address, for callers that use it."""
        limiter = self._opening.get((endpoint.host, endpoint.port))
        if limiter is None:
            limiter = trio.CapacityLimiter(MAX_OPENING)
            self._opening[endpoint.host, endpoint.port] = limiter
        return limiter

    async def connect(self, endpoint: Endpoint) -> ByteStream:
        """Raises OSError (including ssl.SSLError), or ResponseError of a proxy."""
        return await self.secure(endpoint, await self.dial(endpoint))

    async def dial(self, endpoint: Endpoint) -> ByteStream:
        """A connection without TLS, through the proxy if there is one."""
        if self._proxy_url:
            return await self._tunnel(endpoint)
        return await self._dial(endpoint.host, endpoint.port, endpoint.local_allowed)

    async def secure(self, endpoint: Endpoint, transport: ByteStream) -> ByteStream:
        """Start TLS over the connection, if the endpoint has it; close the connection after an error."""
        if endpoint.tls is None:
            return transport
        try:
            stream = TlsStream(transport, endpoint.tls, endpoint.server_name or endpoint.host, self._outgoing)
            await stream.handshake()
        except BaseException:
            transport.close()
            raise
        return stream

    async def _dial(self, host: str, port: int, local_allowed: bool) -> ByteStream:
        # trio tries the addresses of a host at short intervals.
        stream = await (trio.open_tcp_stream(host, port) if local_allowed else _open_checked(host, port))
        return SocketByteStream(socket.socket(fileno=stream.socket.detach()), self._turns)

    async def _tunnel(self, endpoint: Endpoint) -> ByteStream:
        """A connection to the endpoint through the proxy."""
        proxy = parse_url(self._proxy_url)
        stream = await self._dial(proxy.host, proxy.port, True)
        if proxy.tls:
            try:
                context = await trio.to_thread.run_sync(verifying, None)
            except BaseException:
                stream.close()
                raise
            stream = await self.secure(Endpoint(proxy.host, proxy.port, context), stream)
        try:
            target = endpoint.authority
            authorization = f"proxy-authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
            await stream.send(f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n{authorization}\r\n".encode())
            status = (await ResponseReader(stream).head()).status
            if not 200 <= status <= 299:
                raise ResponseError(f"the proxy responded with status {status}")
        except BaseException:
            stream.close()
            raise
        return stream


async def _open_checked(host: str, port: int) -> trio.SocketStream:
    """Resolve the host, check its addresses and connect to one of these: resolving again could give other ones."""
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses: list[Any] = [str(sockaddr[0]) for *_, sockaddr in found]
    if not all(map(is_global, addresses)):
        raise AddressNotAllowed
    failure: OSError | None = None
    for address in addresses:
        try:
            return await trio.open_tcp_stream(address, port)
        except OSError as error:
            failure = failure or error
    raise failure or OSError(f"{host} has no addresses")


def is_global(text: str) -> bool:
    """Whether it is a global unicast address, as Go defines it: private ones are, loopback and link-local are not."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or str(address) == "255.255.255.255"
    )


def cause_of(error: OSError) -> OSError:
    """The error of the kernel, also if trio tried several addresses."""
    cause: BaseException | None = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause if isinstance(cause, OSError) else error


class InvalidUrl(ValueError):
    pass


class Address(NamedTuple):
    """The parts of a URL that a request needs."""

    host: str
    port: int
    authority: str  # the Host header
    path: str  # with the query
    tls: bool
    authorization: str  # from user and password in the URL


@lru_cache(maxsize=512)
def parse_url(url: str) -> Address:
    try:
        parts = urlsplit(url)
        port, host = parts.port, _ascii(parts.hostname or "")
    except ValueError:
        raise InvalidUrl(url) from None
    if parts.scheme not in ("https", "http") or not host:
        raise InvalidUrl(url)
    default = 443 if parts.scheme == "https" else 80
    shown = f"[{host}]" if ":" in host else host
    path = quote(parts.path or "/", safe=_SAFE)
    return Address(
        host,
        port or default,
        shown if port in (None, default) else f"{shown}:{port}",
        f"{path}?{quote(parts.query, safe=_SAFE)}" if parts.query else path,
        parts.scheme == "https",
        _basic(parts.username, parts.password),
    )


def _ascii(host: str) -> str:
    if not host.isascii():
        return host.encode("idna").decode("ascii")
    if not all(character.isalnum() or character in "-._:%" for character in host):
        raise ValueError(host)
    return host


def _basic(username: str | None, password: str | None) -> str:
    if username is None:
        return ""
    pair = f"{unquote(username)}:{unquote(password or '')}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"
