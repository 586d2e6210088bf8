"""One exchange with the other server over HTTP/1.1: send a request, receive the head and the parts of the response.

Bodies are never held whole: a part of the response is what one read returned. Every failure of the other server, and
of the way there, is an `UpstreamFailed`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import httptools
import trio

from gateway.message import Fields

# More than any server should send; our own requests may have half of it.
MAX_HEAD = 256 * 1024
_MAX_TRAILERS = 64 * 1024
RECEIVE = 32 * 1024
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: [^\r\n]*)?\r\n")
_SWITCHING = 101
_OK = 200


class UpstreamFailed(Exception):
    """The other server broke off, or what it sent is no HTTP; the text says what."""


@dataclass(slots=True)
class ResponseHead:
    status: int = 0
    fields: list[tuple[bytes, bytes]] = field(default_factory=list)  # lower-case names
    raw: bytes = b""  # of a response that switches protocols

    def get(self, name: bytes) -> bytes:
        return next((value for one, value in self.fields if one == name), b"")


class Upstream:
    def __init__(self, stream: trio.abc.Stream, method: str) -> None:
        self._stream = stream
        self._method = method
        self._head = ResponseHead()
        self._complete_head = False
        self._body: list[bytes] = []
        self._ended = False
        self._chunked_request = False
        self._since_body = 0
        self._parser: Any = httptools.HttpResponseParser(self)
        self.trailers: list[tuple[bytes, bytes]] = []
        self._keeps = False  # whether the other server keeps the connection after this response
        self._excess = False  # it sent more than the response
        self.received = 0  # bytes
        self.rest = b""  # what followed the head of a response that switches protocols

    # The request.

    async def send_head(self, target: str, fields: Fields, *, chunked: bool) -> None:
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
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise UpstreamFailed("write: broken pipe") from error

    # The response.

    async def receive(self) -> bytes:
        """The next bytes; b"" at the end."""
        try:
            data = bytes(await self._stream.receive_some(RECEIVE))
            self.received += len(data)
            return data
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise UpstreamFailed("read: connection reset by peer") from error

    async def read_head(self, *, upgrading: bool) -> ResponseHead:
        received = 0
        data = await self._switched() if upgrading else b""
        if self._head.raw:
            return self._head
        while not self._complete_head:
            if not data:
                data = await self.receive()
                received += len(data)
            if not data:
                raise UpstreamFailed("EOF")
            self._feed(data)
            data = b""
            if received > MAX_HEAD and not self._complete_head:
                raise UpstreamFailed(f"server response headers exceeded {MAX_HEAD} bytes")
        return self._head

    async def _switched(self) -> bytes:
        """Read a whole head; if it switches protocols set `_head`, else return what is read."""
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            more = await self.receive()
            data += more
            if not more or len(data) > MAX_HEAD:
                return data
        found = _STATUS_LINE.match(data)
        if found is not None and int(found[1]) == _SWITCHING:
            self._head.status, self._head.raw, self.rest = _SWITCHING, data[: end + 4], data[end + 4 :]
        return data

    async def read_part(self) -> bytes:
        """The next part of the body; b"" at the end."""
        while True:
            if self._body:
                parts, self._body = self._body, []
                return b"".join(parts)
            if self._ended:
                return b""
            data = await self.receive()
            if not data:
                if self._ends_with_connection():
                    self._ended = True
                    return b""
                raise UpstreamFailed("unexpected EOF")
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        self._since_body += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._ended = True  # an upgrade that nobody asked for: it has no body
        except httptools.HttpParserError as error:
            if not self._ended:
                raise UpstreamFailed(f"malformed HTTP response: {error}") from None
        if self._since_body > _MAX_TRAILERS + len(data) and self._complete_head and not self._ended:
            raise UpstreamFailed("the trailers of the response are too large")

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another request: the response is complete, and nothing followed it."""
        return self._ended and self._keeps and not self._excess and not self._head.raw

    def _ends_with_connection(self) -> bool:
        return not (self._head.get(b"content-length") or self._head.get(b"transfer-encoding"))

    # Callbacks of llhttp.

    def on_message_begin(self) -> None:
        self._excess = self._excess or self._ended

    def on_header(self, name: bytes, value: bytes) -> None:
        fields = self.trailers if self._complete_head else self._head.fields
        fields.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < _OK and status != _SWITCHING:  # informational: the response follows
            self._head.fields.clear()
            return
        self._head.status = status
        self._complete_head = True
        self._keeps = bool(self._parser.should_keep_alive())
        if self._method == "HEAD" or status in (_SWITCHING, 204, 304):
            self._ended = True

    def on_body(self, part: bytes) -> None:
        self._since_body = 0
        if self._ended:
            self._excess = True
        else:
            self._body.append(part)

    def on_message_complete(self) -> None:
        if self._complete_head:
            self._ended = True

    def release(self) -> None:
        """Break the reference cycle of parser and callbacks."""
        self._parser = None
