"""Status line and headers of an HTTP/1.1 response, as bytes.

Each server has one `Heads`; `http1` calls `render` once per response. Nearly all of it repeats, so the lines
that depend on status, content type and the date are kept, and thrown away together when the watchdog's tick
says that the date has moved on: asking the clock for each response costs more than all the rest.
"""

from __future__ import annotations

from email.utils import formatdate
from http import HTTPStatus

from gateway.requests.request import Response

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"connection: close\r\n"
KEEP_ALIVE = b"connection: keep-alive\r\n"  # HTTP/1.0 clients must be told

Fields = list[tuple[bytes, bytes]]


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
            connection += _lines(response.headers)
        if not bodied:
            return b"%b%b\r\n" % (start, connection), b""
        body = response.body
        head = b"%b%bcontent-length: %d\r\n\r\n" % (start, connection, len(body))
        return head, body if method != "HEAD" else b""

    def streaming(self, response: Response, connection: bytes, *, chunked: bool) -> bytes:
        """The head of an answer whose end is not known: it comes in chunks, or ends with the connection."""
        start, _ = self._starts.get(key := (response.status, response.content_type)) or self._start(*key)
        coding = b"transfer-encoding: chunked\r\n" if chunked else b""
        return b"%b%b%b%b\r\n" % (start, connection, _lines(response.headers), coding)

    def _start(self, status: int, content_type: bytes) -> tuple[bytes, bool]:
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = "Status"
        kind = b"content-type: %b\r\n" % content_type if content_type else b""
        lines = f"HTTP/1.1 {status} {phrase}\r\ndate: {formatdate(usegmt=True)}\r\n".encode() + kind
        self._starts[status, content_type] = lines, has_body(status)
        return lines, has_body(status)


def has_body(status: int) -> bool:
    return status >= 200 and status not in (204, 304)


def _lines(fields: Fields) -> bytes:
    lines = b"".join([b"%b: %b\r\n" % field for field in fields])
    if lines.count(b"\n") != len(fields) or lines.count(b"\r") != len(fields):
        return _lines(one_line_fields(fields))
    return lines


def one_line_fields(fields: Fields) -> Fields:
    """Without line breaks: one inside a value would let its author write headers of our answer."""
    return [(b" ".join(name.split()), b" ".join(value.split())) for name, value in fields]
