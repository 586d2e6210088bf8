"""An HTTP/1.1 client for `Api.ask`: sends what httpx sends, with h11 as httpx does, for a third of the processor time.

Most tests spend their time on requests. Unusual requests (headers about the connection or the length of the body,
streams, HTTP/2) are sent with httpx; this client raises httpx's exceptions too.
"""

from __future__ import annotations

import select
import zlib
from collections.abc import Iterable, Mapping
from functools import cache

import h11
import httpx
import trio

# Headers that change how a message is framed, or that this client sets itself.
FRAMING = {"connection", "content-length", "expect", "host", "te", "transfer-encoding", "upgrade"}
DEFAULTS = {"accept": "*/*", "accept-encoding": "gzip, deflate", "connection": "keep-alive"}
WITH_BODY = {"POST", "PUT", "PATCH"}
GZIP_OR_ZLIB = 47  # of zlib: either format, by its header
MAX_HEAD = 100 * 1024  # bytes, as for httpx

Headers = list[tuple[bytes, bytes]]
Received = tuple[int, Headers, bytes]


def is_plain(method: str, headers: Iterable[str]) -> bool:
    """Whether this client may send the request."""
    return method.isalpha() and method != "CONNECT" and not any(name.lower() in FRAMING for name in headers)


class PlainClient:
    """Connections to one server, open between requests."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._authority = f"{host}:{port}"
        self._idle: list[_Connection] = []

    async def request(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str | bytes]
    ) -> Received:
        given = {name.lower() for name in headers}
        defaults = {name: value for name, value in DEFAULTS.items() if name not in given}
        chosen = {"Host": self._authority, **defaults, **headers}
        if content or method in WITH_BODY:
            chosen["Content-Length"] = str(len(content or b""))
        sent = [(name.encode("ascii"), _raw(value)) for name, value in chosen.items()]
        connection = await self._connection()
        try:
            head = h11.Request(method=method, target=raw_path(path), headers=sent)
            received = await connection.exchange(head, content or b"")
        except BaseException:
            connection.close()
            raise
        if connection.is_reusable():
            self._idle.append(connection)
        else:
            connection.close()
        return received

    async def _connection(self) -> _Connection:
        while self._idle:
            found = self._idle.pop()
            if not found.was_closed():
                return found
            found.close()
        try:
            return _Connection(await trio.open_tcp_stream(self._host, self._port))
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error

    def close(self) -> None:
        """Close the connections that no request uses."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class _Connection:
    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self._broken = False

    def was_closed(self) -> bool:
        """Whether the server has closed it, or sent something without a request."""
        poll = select.poll()
        poll.register(self._stream.socket.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        self._stream.socket.close()

    async def exchange(self, head: h11.Request, body: bytes) -> Received:
        data = b"".join(self._http.send(part) or b"" for part in (head, h11.Data(body), h11.EndOfMessage()))
        try:
            await self._stream.send_all(data)
        except trio.BrokenResourceError:
            self._broken = True  # the server may have responded before it read everything
        try:
            return await self._receive()
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from error

    async def _receive(self) -> Received:
        while not isinstance(response := await self._event(), h11.Response):
            assert isinstance(response, h11.InformationalResponse)
        headers = list(response.headers)
        parts = []
        while isinstance(part := await self._event(), h11.Data):
            parts.append(bytes(part.data))
        body = b"".join(parts)
        if body and dict(headers).get(b"content-encoding") in (b"gzip", b"deflate"):
            body = zlib.decompress(body, GZIP_OR_ZLIB)
        return response.status_code, headers, body

    async def _event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            data = await self._some()
            if not data and self._http.their_state is h11.SEND_RESPONSE:
                raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
            self._http.receive_data(data)
        return event

    async def _some(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(1 << 18))
        except trio.BrokenResourceError as error:
            raise httpx.ReadError(str(error)) from error

    def is_reusable(self) -> bool:
        """Whether it can send the next request."""
        if self._broken or not self._http.our_state is self._http.their_state is h11.DONE:
            return False
        self._http.start_next_cycle()
        return True


@cache
def raw_path(path: str) -> bytes:
    """The target of a request, with the characters percent-encoded that httpx encodes."""
    return httpx.URL(f"http://host{path}").raw_path


def _raw(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("ascii")
