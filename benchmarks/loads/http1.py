"""HTTP/1.1 as cheaply as Python allows: encodes requests, parses one response at a time.

The load generator and the watcher pool use it with one request in flight per connection, so a `Response` never gets
bytes of the next one. It parses only the status and the length; it counts the body and keeps it only when the caller
needs it or when the status is an error. Rejected: http.client, which parses every head as an email message, and
httptools, whose callbacks report more than is needed here.
"""

from __future__ import annotations

import re

from benchmarks.loads.request import BadResponse, Request

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_CACHED_HEADS = 1024  # more belong to requests that do not repeat
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)


class RequestEncoder:
    """Encodes requests of one connection; the heads of repeated requests are encoded once."""

    __slots__ = ("_heads", "_token")

    def __init__(self, token: str) -> None:
        self._token = token
        self._heads: dict[tuple[str, str, str, bool], bytes] = {}

    def encode(self, request: Request) -> bytes:
        key = (request.method, request.path, request.media, request.body is None)
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= _CACHED_HEADS:
                self._heads.clear()
            head = self._heads[key] = self._head(request)
        body = request.body
        if body is None:
            return head
        return b"%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body)

    def _head(self, request: Request) -> bytes:
        """The whole request, or what precedes the length of its body."""
        lines = [f"{request.method} {request.path} HTTP/1.1", "Host: bench", "Accept: application/json"]
        if self._token:
            lines.append(f"Authorization: Bearer {self._token}")
        if request.body is None:
            return "\r\n".join([*lines, "", ""]).encode()
        return "\r\n".join([*lines, f"Content-Type: {request.media}", ""]).encode()


class Response:
    """Parses a response incrementally; `feed` returns True when it is complete."""

    __slots__ = ("_chunks", "_head", "_keep", "_keep_body", "_left", "_parts", "closes", "size", "status")

    def __init__(self, keep: bool) -> None:
        self._keep = keep
        self.clear()

    def clear(self) -> None:
        self.status = 0
        self.closes = False
        self.size = 0
        self._keep_body = self._keep
        self._head = b""
        self._left = -1  # below zero: the head is not complete yet
        self._chunks: Chunks | None = None
        self._parts: list[bytes] = []

    @property
    def begun(self) -> bool:
        return bool(self.status or self._head)

    @property
    def body(self) -> bytes:
        return b"".join(self._parts)

    def feed(self, data: memoryview) -> bool:
        if self._left < 0 and self._chunks is None:
            return self._feed_head(bytes(data))
        return self._feed_body(data)

    def _feed_head(self, data: bytes) -> bool:
        if self._head:
            data = self._head + data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._head = data
            return False
        self.status = int(data[9:12])
        self._keep_body = self._keep or self.status >= 400
        self.closes = _CLOSE.search(data, 0, end) is not None
        if length := _LENGTH.search(data, 0, end):
            self._left = int(length[1])
        elif _CHUNKED.search(data, 0, end):
            self._chunks = Chunks(self._keep_body)
        else:
            raise BadResponse("a response without a length")
        return self._feed_body(memoryview(data)[end + 4 :])

    def _feed_body(self, data: memoryview) -> bool:
        self.size += len(data)
        if self._keep_body and self._chunks is None:
            self._parts.append(bytes(data))
        if self._chunks is None:
            self._left -= len(data)
            return self._left <= 0
        done = self._chunks.feed(bytes(data))
        if done and self._keep_body:
            self._parts = self._chunks.parts
        return done


class Chunks:
    """Decodes chunked transfer encoding incrementally: a size line, that many bytes, a line end; size zero ends it."""

    __slots__ = ("_data", "_keep", "_last", "_left", "parts")

    def __init__(self, keep: bool) -> None:
        self.parts: list[bytes] = []
        self._keep = keep
        self._data = b""
        self._left = 0  # bytes of the current chunk still to come, its line end included
        self._last = False

    def feed(self, data: bytes) -> bool:
        data = self._data + data
        at = 0
        while True:
            at += self._take(data, at)
            end = data.find(b"\r\n", at)
            if self._left or end < 0:
                self._data = data[at:]
                return False
            line, at = data[at:end], end + 2
            if self._last and not line:
                return True
            if not self._last:
                self._open(int(line.split(b";")[0], 16))

    def _take(self, data: bytes, at: int) -> int:
        taken = min(self._left, len(data) - at)
        if self._keep and taken:
            self.parts.append(data[at : at + min(taken, self._left - 2)] if self._left > 2 else b"")
        self._left -= taken
        return taken

    def _open(self, size: int) -> None:
        self._last = size == 0
        self._left = size + 2 if size else 0
