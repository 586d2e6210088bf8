"""Reads one HTTP/1.1 response from a stream, strictly by RFC 9112: ambiguous framing is an error.

    head = await reader.start()                 # after interim responses
    while part := await reader.part(): ...      # the body as it arrives

`read` returns a whole response, for webhooks: the body only of a success, and only up to the size that the caller
accepts. Everything is bounded: the head, the trailers, the number of 1xx responses, and for `read` the size of the body
and the number of chunks. Bodies of more than `LARGE_BODY` bytes wait for one of a few slots, if the caller passes
`Slots`: many at once would take hundreds of megabytes.

Rejected: httptools, which parses requests. It would need a callback for each field and chunk, and the same checks.
"""

from __future__ import annotations

import re
from math import inf
from typing import Final, NamedTuple

from rewound.actors.access.remote.slots import Slots
from rewound.gateway.outgoing.streams import ByteStream

LARGE_BODY: Final = 1 << 20
MAX_HEAD: Final = 32 * 1024
MAX_FIELDS: Final = 128
MAX_INTERIM: Final = 8  # responses such as 100 Continue and 103 Early Hints
# Each chunk costs about a microsecond, however short it is. Servers flush a few times per megabyte.
MAX_CHUNKS: Final = 4096  # or as many of this size as the largest body has
USUAL_CHUNK: Final = 1024
MAX_CHUNK_LINE: Final = 1024  # its size and extensions
MAX_TRAILERS: Final = 64 * 1024

SWITCHING: Final = 101
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [^\r\n\0]*)?")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n\0]*)?")
_ONCE: Final = (b"content-length", b"transfer-encoding")

Field = tuple[bytes, bytes]


class ResponseError(Exception):
    """The response violates HTTP or a limit; the text says how."""


class Disconnected(ResponseError):
    """The connection ended before the response did."""

    def __init__(self, began: bool) -> None:
        super().__init__("the connection was closed before the response was complete")
        self.began = began  # at least one byte of the response had arrived


class HeadTooLarge(ResponseError):
    """The head has more bytes, or fields, than the caller accepts."""


class ResponseTooLarge(ResponseError):
    """The body has more bytes than the caller accepts."""


class Response(NamedTuple):
    status: int
    fields: dict[bytes, bytes]  # names in lower case
    body: bytes
    reusable: bool  # the connection may carry another request


class Head(NamedTuple):
    minor: int  # of the version
    status: int
    fields: list[Field]  # names in lower case
    first: dict[bytes, bytes]  # of repeated fields, the first value
    raw: bytes  # of a response that switches protocols

    def get(self, name: bytes) -> bytes:
        return self.first.get(name, b"")


class ResponseReader:
    __slots__ = (
        "_after_chunk",
        "_announced",
        "_buffer",
        "_chunked",
        "_chunks",
        "_deadline",
        "_ended",
        "_has_place",
        "_in_trailers",
        "_keeps",
        "_largest",
        "_left",
        "_max_fields",
        "_max_head",
        "_places",
        "_stream",
        "_trailer_bytes",
        "began",
        "trailers",
    )

    def __init__(
        self,
        stream: ByteStream,
        largest: int | None = None,
        places: Slots | None = None,
        deadline: float = inf,
        *,
        max_head: int = MAX_HEAD,
        max_fields: int = MAX_FIELDS,
    ) -> None:
        """`largest`: limit of a body for `read`; None for bodies of any size that are read in parts.

        `read` waits for one of `places` if the body is large. Raises TooSlow at the deadline.
        """
        self._stream = stream
        self._largest = largest
        self._places, self._deadline = places, deadline
        self._max_head, self._max_fields = max_head, max_fields
        self._has_place = False
        self._buffer = b""
        self._left: int | None = 0  # bytes of the body, or of a chunk; None: until the connection ends
        self._chunked = self._after_chunk = self._in_trailers = False
        self._chunks = self._announced = self._trailer_bytes = 0
        self._ended = self._keeps = False
        self.began = False  # at least one byte has arrived
        self.trailers: list[Field] = []

    async def read(self) -> Response:
        head = await self.start()
        status = head.status
        if not (200 <= status <= 206 or status == 304):
            return Response(status, head.first, b"", False)
        body = await self.body()
        return Response(status, head.first, body, self.reusable)

    def release(self) -> None:
        """Return the slot of a large body."""
        if self._has_place and self._places is not None:
            self._has_place = False
            self._places.release()

    # The head.

    async def start(self, *, upgrading: bool = False, bodiless: bool = False) -> Head:
        """The head of the final response. `bodiless`: the request was a HEAD.

        `upgrading`: it may switch protocols; then it has no body, and what follows is for `take_rest`.
        """
        head = await self.head()
        for _ in range(MAX_INTERIM):
            if head.status >= 200 or head.status == SWITCHING:
                break
            head = await self.head()
        if head.status == SWITCHING:
            if not upgrading:
                raise ResponseError("the peer switched protocols")
            self._ended = True
            return head
        if head.status < 200:
            raise ResponseError("too many interim responses")
        self._keeps = head.minor == 1 and b"close" not in head.first.get(b"connection", b"").lower()
        if bodiless or head.status in (204, 304):
            self._ended = True
        else:
            self._frame(head)
        return head

    async def head(self) -> Head:
        """The next head, also of an interim response."""
        if not self._buffer:
            await self._more()
        end = self._buffer.find(b"\r\n\r\n")
        if not 0 <= end <= self._max_head:
            end = await self._find_head_end()
        buffer = self._buffer
        lines = buffer[:end].split(b"\r\n")
        self._buffer = buffer[end + 4 :]
        line = _STATUS_LINE.fullmatch(lines[0])
        if line is None:
            raise ResponseError("the response is not HTTP/1.1")
        if len(lines) > self._max_fields:
            raise HeadTooLarge("the response has too many header fields")
        fields = [_field(one) for one in lines[1:]]
        first = dict(reversed(fields))
        if len(first) != len(fields):
            _check_repeated(fields, first)
        status = int(line[2])
        return Head(int(line[1]), status, fields, first, buffer[: end + 4] if status == SWITCHING else b"")

    async def _find_head_end(self) -> int:
        searched = 0
        while True:
            end = self._buffer.find(b"\r\n\r\n", searched)
            if 0 <= end <= self._max_head:
                return end
            if end >= 0 or len(self._buffer) > self._max_head + 4:
                raise HeadTooLarge("the head of the response is too large")
            searched = max(len(self._buffer) - 3, 0)
            await self._more()

    def _frame(self, head: Head) -> None:
        """Find out where the body ends."""
        coding, length = head.first.get(b"transfer-encoding"), head.first.get(b"content-length")
        if coding is not None:
            if length is not None or not head.minor or coding.lower() != b"chunked":
                raise ResponseError("the response has an ambiguous or unknown transfer encoding")
            self._chunked = True
        elif length is None:
            self._left = None
        else:
            if not length.isdigit() or len(length) > 18:
                raise ResponseError("the response has an invalid Content-Length")
            self._left = int(length)
            self._ended = not self._left

    # The body.

    async def body(self) -> bytes:
        """The whole body. Raises ResponseTooLarge."""
        left = self._left
        if left and not self._chunked:
            self._check_size(left)
            if len(self._buffer) >= left:  # the common case
                body, self._buffer = self._buffer[:left], self._buffer[left:]
                self._ended = True
                return body
            if left > LARGE_BODY:
                await self._take_place()
        parts, size = [], 0
        while part := await self.part():
            size += len(part)
            self._check_size(size)
            parts.append(part)
            if size > LARGE_BODY:
                await self._take_place()
        return b"".join(parts)

    async def part(self) -> bytes:
        """The next bytes of the body, as they arrive; b"" at its end."""
        while not self._ended:
            if not self._buffer:
                await self._arrive()
            elif part := self._dechunked() if self._chunked else self._taken():
                return part
            elif not self._ended:
                await self._arrive()  # the rest of a line
        return b""

    def take_rest(self) -> bytes:
        """The bytes that arrived after a head that switches protocols."""
        rest, self._buffer = self._buffer, b""
        return rest

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another request: the response is complete, and nothing followed it."""
        return self._ended and self._keeps and self._left is not None and not self._buffer

    def _taken(self) -> bytes:
        buffer, left = self._buffer, self._left
        if left is None:
            self._buffer = b""
            return buffer
        part, self._buffer = buffer[:left], buffer[left:]
        self._left = left - len(part)
        self._ended = not self._left
        return part

    def _dechunked(self) -> bytes:
        """The part of the body in the chunks that are in the buffer."""
        buffer, at, parts = self._buffer, 0, []
        while at < len(buffer) and not self._ended:
            if self._left:
                part = buffer[at : at + self._left]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
                self._after_chunk = not self._left
                continue
            longest = MAX_TRAILERS if self._in_trailers else MAX_CHUNK_LINE
            end = buffer.find(b"\r\n", at, at + longest + 2)
            if end < 0:
                if len(buffer) - at > longest + 2:
                    raise ResponseError("the response has an invalid chunk")
                break
            self._chunk_line(buffer[at:end])
            at = end + 2
        self._buffer = buffer[at:]
        return b"".join(parts)

    def _chunk_line(self, line: bytes) -> None:
        """Parse a line between chunks: the end of a chunk, the size of the next one, or a trailer."""
        if self._after_chunk:
            if line:
                raise ResponseError("the response has an invalid chunk")
            self._after_chunk = False
        elif self._in_trailers:
            self._trailer(line)
        else:
            match = _CHUNK.fullmatch(line)
            if match is None:
                raise ResponseError("the response has an invalid chunk")
            self._left = int(match[1], 16)
            self._in_trailers = not self._left
            if self._largest is not None:
                self._count_chunk(self._left, self._largest)

    def _count_chunk(self, size: int, largest: int) -> None:
        self._announced += size
        self._check_size(self._announced)
        self._chunks += 1
        most = max(MAX_CHUNKS, largest // USUAL_CHUNK)
        if self._chunks > most:
            raise ResponseError(f"the response has more than {most} chunks")

    def _trailer(self, line: bytes) -> None:
        if not line:
            self._ended = True
            return
        self._trailer_bytes += len(line)
        if len(self.trailers) >= self._max_fields or self._trailer_bytes > MAX_TRAILERS:
            raise ResponseError("the response has too many trailers")
        self.trailers.append(_field(line))

    def _check_size(self, size: int) -> None:
        if self._largest is not None and size > self._largest:
            raise ResponseTooLarge(f"the response has more than {self._largest} bytes")

    async def _take_place(self) -> None:
        """Wait for a slot for a large body, unless this response has one."""
        if self._places is not None and not self._has_place:
            if not self._places.take_nowait():
                await self._places.take(self._deadline)
            self._has_place = True

    async def _arrive(self) -> None:
        if self._left is not None:
            await self._more()
        else:
            self._buffer = await self._stream.receive()
            self._ended = not self._buffer

    async def _more(self) -> None:
        try:
            arrived = await self._stream.receive()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Disconnected(self.began) from error
        if not arrived:
            raise Disconnected(self.began)
        self.began = True
        self._buffer += arrived


def _field(line: bytes) -> Field:
    field = _FIELD.fullmatch(line)
    if field is None:
        raise ResponseError("the response has an invalid header field")
    return field[1].lower(), field[2]


def _check_repeated(fields: list[Field], first: dict[bytes, bytes]) -> None:
    for name, value in fields:
        if name in _ONCE and first[name] != value:
            raise ResponseError(f"the response has several {name.decode()} fields")
