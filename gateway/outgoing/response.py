"""Reads one HTTP/1.1 response from a stream, by the strict form of RFC 9112: what is ambiguous is an error.

Everything is bounded: the head, the body, the number of chunks, and the responses 1xx before the one that counts.
Only the body of a success is read; a response without one, or with another status, ends the connection unless its body
is empty. Bodies of more than `LARGE_BODY` bytes wait for one of a few places (`Slots`), if the caller gives these: many
at once would take hundreds of megabytes.
"""

from __future__ import annotations

import re
from math import inf
from typing import Final, NamedTuple

from actors.access.remote.slots import Slots
from gateway.outgoing.streams import ByteStream

LARGE_BODY: Final = 1 << 20
MAX_HEAD: Final = 32 * 1024
MAX_FIELDS: Final = 128
MAX_INTERIM: Final = 8  # responses such as 100 Continue and 103 Early Hints
# Each chunk costs about a microsecond, however short it is. Servers flush a few times in a megabyte.
MAX_CHUNKS: Final = 4096  # or as many of this size as the largest body has
USUAL_CHUNK: Final = 1024
MAX_CHUNK_LINE: Final = 1024  # its size and extensions

_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n\0]*)?")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n\0]*)?")
_ONCE: Final = frozenset((b"content-length", b"transfer-encoding"))


class ResponseError(Exception):
    """The peer broke HTTP or a bound; the text says how."""


class Disconnected(ResponseError):
    """The connection ended before the response did."""

    def __init__(self, began: bool) -> None:
        super().__init__("the connection was closed before the response was complete")
        self.began = began  # at least one byte of the response had arrived


class ResponseTooLarge(ResponseError):
    """The body has more bytes than the caller accepts."""


class Response(NamedTuple):
    status: int
    fields: dict[bytes, bytes]  # names in lower case
    body: bytes
    reusable: bool  # the connection may carry another request


class ResponseReader:
    __slots__ = ("_buffer", "_deadline", "_has_place", "_largest", "_places", "_stream")

    def __init__(
        self, stream: ByteStream, largest: int, places: Slots | None = None, deadline: float = inf
    ) -> None:
        """`places` for large bodies: `read` may take one, and waits for it until the deadline, with TooSlow."""
        self._stream = stream
        self._largest = largest  # bytes of a body
        self._places, self._deadline = places, deadline
        self._has_place = False
        self._buffer = b""

    async def read(self) -> Response:
        minor, status, fields = await self.head()
        if status < 200:
            minor, status, fields = await self._final_head()
        reusable = minor == 1 and b"close" not in fields.get(b"connection", b"").lower()
        if status in (204, 304):
            return Response(status, fields, b"", reusable and not self._buffer)
        if not 200 <= status <= 206:
            return Response(status, fields, b"", False)
        arrived = self._arrived_body(fields)
        if arrived is not None:
            return Response(status, fields, arrived, reusable and not self._buffer)
        body, ended = await self._body(minor, fields)
        return Response(status, fields, body, reusable and ended and not self._buffer)

    def release(self) -> None:
        """Give the place of a large body back."""
        if self._has_place and self._places is not None:
            self._has_place = False
            self._places.release()

    async def _take_place(self) -> None:
        """A body is large: wait for a place, unless it has one."""
        if self._places is not None and not self._has_place:
            if not self._places.take_nowait():
                await self._places.take(self._deadline)
            self._has_place = True

    async def _final_head(self) -> tuple[int, int, dict[bytes, bytes]]:
        """The head that follows interim responses."""
        for _ in range(MAX_INTERIM):
            minor, status, fields = await self.head()
            if status >= 200:
                return minor, status, fields
        raise ResponseError("too many interim responses, or a switch of protocols")

    async def head(self) -> tuple[int, int, dict[bytes, bytes]]:
        """The minor version, the status and the fields."""
        if not self._buffer:
            await self._more(began=False)
        end = self._buffer.find(b"\r\n\r\n")
        if not 0 <= end <= MAX_HEAD:
            end = await self._find(b"\r\n\r\n", MAX_HEAD, "the head of the response is too large")
        buffer = self._buffer
        lines = buffer[:end].split(b"\r\n")
        self._buffer = buffer[end + 4 :]
        line = _STATUS_LINE.fullmatch(lines[0])
        if line is None:
            raise ResponseError("the response is not HTTP/1.1")
        if len(lines) > MAX_FIELDS:
            raise ResponseError("the response has too many header fields")
        status = int(line[2])
        if status == 101:
            raise ResponseError("the peer switched protocols")
        return int(line[1]), status, _fields(lines)

    def _arrived_body(self, fields: dict[bytes, bytes]) -> bytes | None:
        """The body if it has a length and has arrived with the head, as most do; None otherwise."""
        length = fields.get(b"content-length", b"")
        if b"transfer-encoding" in fields or not length.isdigit() or len(length) > 18:
            return None
        size, buffer = self._bounded(int(length)), self._buffer
        if len(buffer) < size:
            return None
        self._buffer = buffer[size:]
        return buffer[:size]

    async def _body(self, minor: int, fields: dict[bytes, bytes]) -> tuple[bytes, bool]:
        """The body, and whether its end is known without the end of the connection."""
        coding, length = fields.get(b"transfer-encoding"), fields.get(b"content-length")
        if coding is not None:
            if length is not None or not minor or coding.lower() != b"chunked":
                raise ResponseError("the response has an ambiguous or unknown transfer encoding")
            return await self._chunked(), True
        if length is None:
            return await self._until_end(), False
        if not length.isdigit() or len(length) > 18:
            raise ResponseError("the response has an invalid Content-Length")
        if (size := self._bounded(int(length))) > LARGE_BODY:
            await self._take_place()
        return await self._take(size), True

    def _bounded(self, size: int) -> int:
        if size > self._largest:
            raise ResponseTooLarge(f"the response has more than {self._largest} bytes")
        return size

    async def _until_end(self) -> bytes:
        parts, size = [self._buffer], self._bounded(len(self._buffer))
        self._buffer = b""
        while part := await self._stream.receive():
            size = self._bounded(size + len(part))
            parts.append(part)
            if size > LARGE_BODY:
                await self._take_place()
        return b"".join(parts)

    async def _chunked(self) -> bytes:
        parts: list[bytes] = []
        total, most = 0, max(MAX_CHUNKS, self._largest // USUAL_CHUNK)
        for _ in range(most):
            match = _CHUNK.fullmatch(await self._line())
            if match is None:
                raise ResponseError("the response has an invalid chunk")
            size = int(match[1], 16)
            if not size:
                await self._trailers()
                return b"".join(parts)
            total = self._bounded(total + size)
            if total > LARGE_BODY:
                await self._take_place()
            parts.append(await self._take(size))
            if await self._take(2) != b"\r\n":
                raise ResponseError("the response has an invalid chunk")
        raise ResponseError(f"the response has more than {most} chunks")

    async def _trailers(self) -> None:
        for _ in range(MAX_FIELDS):
            if not await self._line():
                return
        raise ResponseError("the response has too many trailers")

    async def _line(self) -> bytes:
        end = await self._find(b"\r\n", MAX_CHUNK_LINE, "the response has an invalid chunk")
        line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
        return line

    async def _find(self, mark: bytes, most: int, error: str) -> int:
        searched = 0
        while True:
            end = self._buffer.find(mark, searched)
            if 0 <= end <= most:
                return end
            if end >= 0 or len(self._buffer) > most + len(mark):
                raise ResponseError(error)
            searched = max(len(self._buffer) - len(mark) + 1, 0)
            await self._more(began=bool(self._buffer))

    async def _more(self, *, began: bool = True) -> None:
        try:
            arrived = await self._stream.receive()
        except (BrokenPipeError, ConnectionResetError):
            arrived = b""
        if not arrived:
            raise Disconnected(began)
        self._buffer += arrived

    async def _take(self, size: int) -> bytes:
        if len(self._buffer) < size:
            parts, missing = [self._buffer], size - len(self._buffer)
            while missing > 0:
                self._buffer = b""
                await self._more()
                parts.append(self._buffer)
                missing -= len(self._buffer)
            self._buffer = b"".join(parts)
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken


def _fields(lines: list[bytes]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for line in lines[1:]:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise ResponseError("the response has an invalid header field")
        name = field[1].lower()
        if name in found and name in _ONCE and found[name] != field[2]:
            raise ResponseError(f"the response has several {name.decode()} fields")
        found[name] = field[2]
    return found
