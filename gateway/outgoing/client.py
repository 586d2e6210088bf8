"""Requests over HTTPS with kept connections: a lean HTTP/1.1 client for webhooks (decision 0022).

Connections that are idle are kept for up to 90 seconds, those that were used last are used first. One that the peer
has closed meanwhile is not used; if the peer closes it just while a request is under way, before a byte of the response
has arrived, the request is sent once more over a new connection. Redirects are left to the caller, who also bounds the
number of calls. A call that fails, takes too long or is cancelled closes its connection.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import trio

from actors.access.remote.deadlines import Deadlines, TooSlow
from actors.access.remote.slots import Slots
from actors.certificates.trust import verifying
from actors.turns import SharedTurns
from gateway.outgoing.response import Disconnected, Response, ResponseError, ResponseReader
from gateway.outgoing.streams import ByteStream, TlsStream, dial

IDLE_SECONDS: Final = 90.0
MAX_LARGE_BODIES: Final = 8  # that are read at once
# A handshake takes a millisecond of the event loop: a hundred at once would hold it for a hundred.
MAX_HANDSHAKES: Final = 8
MAX_HEADS: Final = 64  # that are kept encoded: one for each URL, until a token changes
_SAFE: Final = "!$%&'()*+,/:;=?@[]~"  # in a request target, beside what is never quoted


class InvalidUrl(ValueError):
    pass


class Address(NamedTuple):
    """What of a URL a call needs."""

    host: str
    port: int
    authority: str  # the Host header
    path: str  # with the query
    tls: bool
    authorization: str  # of a user in the URL


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


class _Connection(NamedTuple):
    stream: ByteStream
    host: str
    port: int


class HttpsClient:
    def __init__(
        self, context: ssl.SSLContext, *, server_name: str = "", proxy_url: str = "", kept: int
    ) -> None:
        """`server_name`: in the certificate, if it is not the host of the URL. `kept`: how many idle connections."""
        self._context = context
        self._server_name = server_name
        self._proxy_url = proxy_url
        self._kept = kept
        self._idle: list[tuple[float, _Connection]] = []  # since when; the oldest first
        self._handshakes = trio.Semaphore(MAX_HANDSHAKES)
        self._deadlines = Deadlines()
        self._large_bodies = Slots(MAX_LARGE_BODIES, self._deadlines)
        self._turns = SharedTurns()
        self._outgoing = ssl.MemoryBIO()  # of all connections
        self._heads: dict[tuple[str, str, tuple[tuple[str, str], ...]], bytes] = {}

    async def request(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        largest: int,
        deadline: float = inf,
        method: str = "POST",
    ) -> Response:
        """The response; its body only if it is a success. `deadline` is in the time of trio.

        Raises InvalidUrl, OSError (ssl.SSLError among these), ResponseError, ResponseTooLarge for a body of more than
        `largest` bytes, TooSlow.
        """
        address = parse_url(url)
        if not address.tls:
            raise InvalidUrl(url)
        request = b"%b%d\r\n\r\n%b" % (self._head(method, url, address, headers), len(body), body)
        connection = self._take_idle(address)
        if connection is not None:
            self._deadlines.add(connection.stream, deadline)
            try:
                return await self._exchange(connection, request, largest, deadline)
            except Disconnected as error:
                if error.began:
                    raise
            finally:
                self._deadlines.remove(connection.stream)
        with trio.CancelScope(deadline=deadline):
            return await self._exchange(await self._connect(address), request, largest, deadline)
        raise TooSlow

    def close(self) -> None:
        """Close idle connections; a further call opens new ones."""
        idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.stream.close()

    def _head(self, method: str, url: str, address: Address, headers: Mapping[str, str]) -> bytes:
        """The head of a request up to its length."""
        key = method, url, tuple(headers.items())
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= MAX_HEADS:
                self._heads.clear()
            head = self._heads[key] = _head(method, address, headers)
        return head

    async def _exchange(
        self, connection: _Connection, request: bytes, largest: int, deadline: float
    ) -> Response:
        response: Response | None = None
        reader = ResponseReader(connection.stream, largest, self._large_bodies, deadline)
        try:
            try:
                await connection.stream.send(request)
            except (BrokenPipeError, ConnectionResetError):
                pass  # perhaps after a response that says why
            response = await reader.read()
            return response
        finally:
            reader.release()
            if response is not None and response.reusable:
                self._keep(connection)
            else:
                connection.stream.close()

    def _take_idle(self, address: Address) -> _Connection | None:
        self._close_expired()
        for index in range(len(self._idle) - 1, -1, -1):
            connection = self._idle[index][1]
            if connection.port == address.port and connection.host == address.host:
                del self._idle[index]
                if not connection.stream.readable():
                    return connection
                connection.stream.close()
        return None

    def _keep(self, connection: _Connection) -> None:
        self._idle.append((trio.current_time(), connection))
        if len(self._idle) > self._kept:
            self._idle.pop(0)[1].stream.close()

    def _close_expired(self) -> None:
        oldest = trio.current_time() - IDLE_SECONDS
        while self._idle and self._idle[0][0] < oldest:
            self._idle.pop(0)[1].stream.close()

    async def _connect(self, address: Address) -> _Connection:
        async with self._handshakes:
            transport = await (
                self._tunnel(address) if self._proxy_url else dial(address.host, address.port, self._turns)
            )
            name = self._server_name or address.host
            stream = await _with_tls(transport, self._context, name, self._outgoing)
        return _Connection(stream, address.host, address.port)

    async def _tunnel(self, address: Address) -> ByteStream:
        """A connection to the address through the proxy."""
        proxy = parse_url(self._proxy_url)
        stream: ByteStream = await dial(proxy.host, proxy.port, self._turns)
        try:
            if proxy.tls:
                context = await trio.to_thread.run_sync(verifying, None)
                stream = await _with_tls(stream, context, proxy.host, self._outgoing)
            host = f"[{address.host}]" if ":" in address.host else address.host
            target = f"{host}:{address.port}"
            authorization = f"proxy-authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
            await stream.send(f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n{authorization}\r\n".encode())
            _, status, _ = await ResponseReader(stream, 0).head()
            if not 200 <= status <= 299:
                raise ResponseError(f"the proxy responded with status {status}")
        except BaseException:
            stream.close()
            raise
        return stream


async def _with_tls(
    transport: ByteStream, context: ssl.SSLContext, name: str, outgoing: ssl.MemoryBIO
) -> ByteStream:
    try:
        stream = TlsStream(transport, context, name, outgoing)
        await stream.handshake()
    except BaseException:
        transport.close()
        raise
    return stream


def _head(method: str, address: Address, headers: Mapping[str, str]) -> bytes:
    fields = {"host": address.authority, **headers}
    if address.authorization:
        fields.setdefault("authorization", address.authorization)
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {address.path} HTTP/1.1\r\n{lines}content-length: ".encode("latin-1")
