"""HTTP/1.1 by hand, as cheaply as Python allows: request bytes out, one answer at a time in.

The load generator is the only caller. It keeps one request in flight per connection, so an `Answer` never
sees bytes of the next one. Only the status and the length are understood; the body is counted and thrown
away unless it is asked for or tells of an error. Rejected: http.client, which makes an email message of
every head, and a parser with callbacks, which tells much that nobody here asks.
"""

from __future__ import annotations

import re

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)


class BadAnswer(Exception):
    pass


def request(
    method: str, path: str, *, token: str = "", body: bytes | None = None, media: str = "application/json"
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: bench", "Accept: application/json"]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if body is not None:
        lines += [f"Content-Type: {media}", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


class Answer:
    """Takes bytes as they come; `feed` says when the answer is complete."""

    __slots__ = ("_chunks", "_head", "_keep", "_keeping", "_left", "_parts", "closing", "size", "status")

    def __init__(self, keep: bool) -> None:
        self._keep = keep
        self.clear()

    def clear(self) -> None:
        self.status = 0
        self.closing = False
        self.size = 0
        self._keeping = self._keep
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
        self._keeping = self._keep or self.status >= 400
        self.closing = _CLOSE.search(data, 0, end) is not None
        if length := _LENGTH.search(data, 0, end):
            self._left = int(length[1])
        elif _CHUNKED.search(data, 0, end):
            self._chunks = Chunks(self._keeping)
        else:
            raise BadAnswer("an answer without a length")
        return self._feed_body(memoryview(data)[end + 4 :])

    def _feed_body(self, data: memoryview) -> bool:
        self.size += len(data)
        if self._keeping and self._chunks is None:
            self._parts.append(bytes(data))
        if self._chunks is None:
            self._left -= len(data)
            return self._left <= 0
        done = self._chunks.feed(bytes(data))
        if done and self._keeping:
            self._parts = self._chunks.parts
        return done


class Chunks:
    """The chunked encoding, incrementally: a size line, that many bytes, a line end; ended by size zero."""

    __slots__ = ("_data", "_keep", "_last", "_left", "parts")

    def __init__(self, keep: bool) -> None:
        self.parts: list[bytes] = []
        self._keep = keep
        self._data = b""
        self._left = 0  # bytes of the open chunk still to come, its line end included
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
