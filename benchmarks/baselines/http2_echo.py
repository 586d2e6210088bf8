"""The HTTP/2 side of the bare echo: splits frames, looks up the header block, sends a constant response.

No server in Python can do less for a request: the response to all requests of one read is one write, each HEADERS and
DATA with a head that was encoded once. It announces large windows and keeps none, and it knows no errors.
"""

from __future__ import annotations

import struct

from benchmarks.loads import http2

_HEAD = struct.Struct(">LBL")
_STATUS_200 = b"\x88"
_LARGE_WINDOW = 1 << 30


class Http2Echo:
    """Takes what a client sends; returns what it gets."""

    def __init__(self, body: bytes) -> None:
        head = _STATUS_200 + b"\x0f\x10\x0atext/plain" + b"\x0f\x0d\x04%d" % len(body)
        self._header = http2.frame_header(len(head), http2.HEADERS, http2.END_HEADERS, 0)[:5]
        self._head = head
        self._data_header = http2.frame_header(len(body), http2.DATA, http2.END_STREAM, 0)[:5]
        self._body = body
        self._kept = b""
        self._known: dict[bytes, int] = {}  # header blocks, as a server caches them
        self._greeted = False

    def feed(self, data: bytes) -> bytes:
        if self._kept:
            data = self._kept + data
        out: list[bytes] = []
        at = 0
        if not self._greeted:
            if len(data) < len(http2.PREFACE):
                self._kept = data
                return b""
            at, self._greeted = len(http2.PREFACE), True
            out.append(http2.frame(http2.SETTINGS, 0, 0))
            out.append(http2.window_update(0, _LARGE_WINDOW))
        while len(data) - at >= http2.FRAME_HEADER:
            length, flags, stream = _HEAD.unpack_from(data, at)
            start = at + http2.FRAME_HEADER
            end = start + (length >> 8)
            if end > len(data):
                break
            self._respond(length & 0xFF, flags, stream, data[start:end], out)
            at = end
        self._kept = data[at:]
        return b"".join(out)

    def _respond(self, kind: int, flags: int, stream: int, payload: bytes, out: list[bytes]) -> None:
        if kind == http2.HEADERS:
            self._known[payload] = self._known.get(payload, 0) + 1
        if kind in (http2.HEADERS, http2.DATA) and flags & http2.END_STREAM:
            number = stream.to_bytes(4, "big")
            out += (self._header, number, self._head, self._data_header, number, self._body)
        elif kind == http2.SETTINGS and not flags & http2.ACK:
            out.append(http2.SETTINGS_ACK)
