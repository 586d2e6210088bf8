"""An HTTP/1.1 client for `Api.ask`: sends what httpx sends, for a fifth of the processor time.

Most tests wait for nothing else than their requests. What is unusual (headers about the connection or the length of the
body, streams, HTTP/2) is sent with httpx, whose exceptions this client raises, too.
"""

from __future__ import annotations

import select
import zlib
from collections.abc import Iterable, Mapping
from functools import cache

import httpx
import trio

# Headers that change how a message is framed, or that this client sets itself.
FRAMING = {"connection", "content-length", "expect", "host", "te", "transfer-encoding", "upgrade"}
DEFAULTS = {"accept": "*/*", "accept-encoding": "gzip, deflate", "connection": "keep-alive"}
WITH_BODY = {"POST", "PUT", "PATCH"}
GZIP_OR_ZLIB = 47  # of zlib: either format, by its header

Headers = list[tuple[bytes, bytes]]
Received = tuple[int, Headers, bytes]


def is_plain(method: str, headers: Iterable[str]) -> bool:
    """Whether this client may send the request."""
    return method.isalpha() and method != "CONNECT" and not any(name.lower() in FRAMING for name in headers)


class PlainClient:
    """Connections to one server, kept open between requests."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._authority = f"{host}:{port}".encode()
        self._idle: list[_Connection] = []

    async def request(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str | bytes]
    ) -> Received:
        given = {name.lower() for name in headers}
        sent = {**{name: value for name, value in DEFAULTS.items() if name not in given}, **headers}
        head = [b"%b %b HTTP/1.1\r\nHost: %b\r\n" % (method.encode(), raw_path(path), self._authority)]
        head += [b"%b: %b\r\n" % (name.encode("ascii"), _raw(value)) for name, value in sent.items()]
        if content or method in WITH_BODY:
            head.append(b"Content-Length: %d\r\n" % len(content or b""))
        connection = await self._connection()
        try:
            await connection.send(b"".join(head) + b"\r\n", content or b"")
            received = await connection.receive(bodiless=method == "HEAD")
        except BaseException:
            connection.close()
            raise
        if connection.reusable:
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
        self._read = bytearray()  # not yet parsed
        self.reusable = True

    def was_closed(self) -> bool:
        """Whether the server has closed it, or sent what nobody asked for."""
        poll = select.poll()
        poll.register(self._stream.socket.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        self._stream.socket.close()

    async def send(self, head: bytes, body: bytes) -> None:
        try:
            await self._stream.send_all(head + body)
        except trio.BrokenResourceError:
            self.reusable = False  # the server may have responded before it read everything

    async def receive(self, *, bodiless: bool) -> Received:
        status, headers = await self._head()
        while 100 <= status < 200:
            status, headers = await self._head()
        fields = {name.lower(): value for name, value in headers}
        if b"close" in fields.get(b"connection", b"").lower():
            self.reusable = False
        if bodiless or status in (204, 304):
            return status, headers, b""
        body = await self._body(fields)
        if fields.get(b"content-encoding") in (b"gzip", b"deflate"):
            body = zlib.decompress(body, GZIP_OR_ZLIB)
        return status, headers, body

    async def _head(self) -> tuple[int, Headers]:
        while (end := self._read.find(b"\r\n\r\n")) < 0:
            await self._more("Server disconnected without sending a response.")
        first, *lines = bytes(self._read[:end]).split(b"\r\n")
        del self._read[: end + 4]
        pairs = (line.split(b":", 1) for line in lines)
        return int(first.split(b" ", 2)[1]), [(name, value.strip()) for name, value in pairs]

    async def _body(self, fields: dict[bytes, bytes]) -> bytes:
        if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
            return await self._chunks()
        if b"content-length" in fields:
            return await self._exactly(int(fields[b"content-length"]))
        self.reusable = False
        while part := await self._some():
            self._read += part
        return bytes(self._read)

    async def _chunks(self) -> bytes:
        parts = []
        while size := int((await self._line()).split(b";")[0], 16):
            parts.append(await self._exactly(size))
            await self._line()
        while await self._line():
            pass  # trailers
        return b"".join(parts)

    async def _line(self) -> bytes:
        while (end := self._read.find(b"\r\n")) < 0:
            await self._more()
        line = bytes(self._read[:end])
        del self._read[: end + 2]
        return line

    async def _exactly(self, size: int) -> bytes:
        while len(self._read) < size:
            await self._more()
        found = bytes(self._read[:size])
        del self._read[:size]
        return found

    async def _more(
        self, missing: str = "peer closed connection without sending complete message body"
    ) -> None:
        part = await self._some()
        if not part:
            raise httpx.RemoteProtocolError(missing)
        self._read += part

    async def _some(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(1 << 18))
        except trio.BrokenResourceError as error:
            raise httpx.ReadError(str(error)) from error


@cache
def raw_path(path: str) -> bytes:
    """The target of a request, with the characters percent-encoded that httpx encodes."""
    return httpx.URL(f"http://host{path}").raw_path


def _raw(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("ascii")
