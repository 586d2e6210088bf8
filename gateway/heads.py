"""Status line and headers of an HTTP/1.1 response, as bytes.

`http1` calls `head` once per response. Nearly all of it repeats: the lines that depend on status and
content type are cached, and the Date line is made once a second.
"""

from __future__ import annotations

from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from time import time

from gateway.request import Response

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"connection: close\r\n"
KEEP_ALIVE = b"connection: keep-alive\r\n"  # HTTP/1.0 clients must be told

# The pair (second, line) is replaced as a whole.
_date: tuple[int, bytes] = (0, b"")


def date_line() -> bytes:
    global _date
    second, line = _date
    now = int(time())
    if now != second:
        line = b"date: %b\r\n" % formatdate(now, usegmt=True).encode()
        _date = (now, line)
    return line


# The server's own statuses and content types are few; the bound is for whoever makes them up.
@lru_cache(maxsize=256)
def _start(status: int, content_type: bytes) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase.encode()
    except ValueError:
        phrase = b"Status"
    kind = b"content-type: %b\r\n" % content_type if content_type else b""
    return b"HTTP/1.1 %d %b\r\n%b" % (status, phrase, kind)


def _fields(headers: list[tuple[bytes, bytes]]) -> bytes:
    lines = b"".join([b"%b: %b\r\n" % field for field in headers])
    if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers):
        return _fields(one_line_fields(headers))
    return lines


def one_line_fields(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Without line breaks: one inside a value would let its author write headers of our answer."""
    return [(b" ".join(name.split()), b" ".join(value.split())) for name, value in headers]


def has_body(status: int) -> bool:
    return status >= 200 and status not in (204, 304)


def head(response: Response, connection: bytes) -> bytes:
    """Everything up to the body; `connection` is CLOSE, KEEP_ALIVE or nothing."""
    status = response.status
    fields = _fields(response.headers) if response.headers else b""
    start = _start(status, response.content_type)
    if has_body(status):
        return b"%b%b%b%bcontent-length: %d\r\n\r\n" % (
            start,
            date_line(),
            fields,
            connection,
            len(response.body),
        )
    return b"%b%b%b%b\r\n" % (start, date_line(), fields, connection)
