"""Status line and headers of an HTTP/1.1 response, as bytes.

Each server has one `Heads`; `http1` calls `render` once per response. Nearly all of it repeats, so the lines
that depend on status, content type and the date are kept, and thrown away together when the watchdog's tick
says that the date has moved on: asking the clock for each response costs more than all the rest.

Every response says that no shared cache may keep it and has an Audit-Id of its own, unless its handler set these.
"""

from __future__ import annotations

import itertools
import uuid
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from gateway.requests.request import Response

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"connection: close\r\n"
KEEP_ALIVE = b"connection: keep-alive\r\n"  # HTTP/1.0 clients must be told

Fields = list[tuple[bytes, bytes]]

CACHE_CONTROL: Final = (b"cache-control", b"no-cache, private")
_CACHE_LINE: Final = b"%b: %b\r\n" % CACHE_CONTROL
# The first four groups of a random UUID, and a count in place of the fifth: a random one for each response would
# cost as much as the rest of its head.
_AUDIT_BASE: Final = str(uuid.uuid4())[:24].encode()
_next_count = itertools.count(1).__next__


def audit_id() -> bytes:
    return b"%b%012x" % (_AUDIT_BASE, _next_count())


class Heads:
    __slots__ = ("_starts",)

    def __init__(self) -> None:
        # The lines that repeat, and whether a body and its length follow.
        self._starts: dict[tuple[int, bytes], tuple[bytes, bool]] = {}

    def tick(self) -> None:
        """The date may have changed."""
        self._starts.clear()

    def render(self, method: str, response: Response, connection: bytes) -> tuple[bytes, bytes]:
        """Head and body to send; `connection` is CLOSE, KEEP_ALIVE or nothing."""
        key = (response.status, response.content_type)
        start, bodied = self._starts.get(key) or self._start(*key)
        if response.headers:
            start, connection = _with_fields(start, connection, response.headers)
        else:
            connection = b"audit-id: %b%012x\r\n%b" % (_AUDIT_BASE, _next_count(), connection)
        if not bodied:
            return b"%b%b\r\n" % (start, connection), b""
        body = response.body
        head = b"%b%bcontent-length: %d\r\n\r\n" % (start, connection, len(body))
        return head, body if method != "HEAD" else b""

    def streaming(self, response: Response, connection: bytes, *, chunked: bool) -> bytes:
        """The head of an answer whose end is not known: it comes in chunks, or ends with the connection."""
        start, _ = self._starts.get(key := (response.status, response.content_type)) or self._start(*key)
        coding = b"transfer-encoding: chunked\r\n" if chunked else b""
        start, lines = _with_fields(start, connection, response.headers)
        return b"%b%b%b\r\n" % (start, lines, coding)

    def _start(self, status: int, content_type: bytes) -> tuple[bytes, bool]:
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = "Status"
        kind = b"content-type: %b\r\n" % content_type if content_type else b""
        lines = (
            f"HTTP/1.1 {status} {phrase}\r\ndate: {formatdate(usegmt=True)}\r\n".encode() + _CACHE_LINE + kind
        )
        self._starts[status, content_type] = lines, has_body(status)
        return lines, has_body(status)


def has_body(status: int) -> bool:
    return status >= 200 and status not in (204, 304)


def default_fields(fields: Fields) -> Fields:
    """What a response has besides the fields that its handler set."""
    names = [name for name, _ in fields]
    defaults = [] if CACHE_CONTROL[0] in names else [CACHE_CONTROL]
    return defaults if b"audit-id" in names else [*defaults, (b"audit-id", audit_id())]


def _with_fields(start: bytes, connection: bytes, fields: Fields) -> tuple[bytes, bytes]:
    defaults = default_fields(fields)
    if CACHE_CONTROL in defaults:
        defaults.remove(CACHE_CONTROL)
    else:
        start = start.replace(_CACHE_LINE, b"")
    return start, _lines([*defaults, *fields]) + connection


def _lines(fields: Fields) -> bytes:
    lines = b"".join([b"%b: %b\r\n" % field for field in fields])
    if lines.count(b"\n") != len(fields) or lines.count(b"\r") != len(fields):
        return _lines(one_line_fields(fields))
    return lines


def one_line_fields(fields: Fields) -> Fields:
    """Without line breaks: one inside a value would let its author write headers of our answer."""
    return [(b" ".join(name.split()), b" ".join(value.split())) for name, value in fields]
