"""Status line and headers of an HTTP/1.1 response, as bytes.

`http1` calls `head` once per response. Nearly all of it repeats, so the lines that depend on status,
content type and the second of the day are kept, and thrown away together when the second is over.
"""

from __future__ import annotations

from email.utils import formatdate
from http import HTTPStatus
from time import time

from gateway.request import Response

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"connection: close\r\n"
KEEP_ALIVE = b"connection: keep-alive\r\n"  # HTTP/1.0 clients must be told

Fields = list[tuple[bytes, bytes]]

_second = 0
_starts: dict[tuple[int, bytes], bytes] = {}


def head(response: Response, connection: bytes) -> bytes:
    """Everything up to the body; `connection` is CLOSE, KEEP_ALIVE or nothing."""
    global _second
    now = int(time())
    if now != _second:
        _starts.clear()
        _second = now
    key = (response.status, response.content_type)
    start = _starts.get(key) or _start(*key)
    if response.headers:
        connection += _lines(response.headers)
    if has_body(response.status):
        return b"%b%bcontent-length: %d\r\n\r\n" % (start, connection, len(response.body))
    return b"%b%b\r\n" % (start, connection)


def _start(status: int, content_type: bytes) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Status"
    date = formatdate(_second, usegmt=True)
    kind = b"content-type: %b\r\n" % content_type if content_type else b""
    start = f"HTTP/1.1 {status} {phrase}\r\ndate: {date}\r\n".encode() + kind
    _starts[status, content_type] = start
    return start


def has_body(status: int) -> bool:
    return status >= 200 and status != 204 and status != 304


def _lines(fields: Fields) -> bytes:
    lines = b"".join([b"%b: %b\r\n" % field for field in fields])
    if lines.count(b"\n") != len(fields) or lines.count(b"\r") != len(fields):
        return _lines(one_line_fields(fields))
    return lines


def one_line_fields(fields: Fields) -> Fields:
    """Without line breaks: one inside a value would let its author write headers of our answer."""
    return [(b" ".join(name.split()), b" ".join(value.split())) for name, value in fields]
