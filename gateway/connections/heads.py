"""Status line and headers of an HTTP/1.1 response, as bytes.

Each server has one `Heads`; `http1` calls `render` once per response. Nearly all of it repeats, so the lines
that depend on status, content type, shared fields and the date are cached, and the watchdog clears the cache once a
second, when the date changes: reading the clock for each response costs more than all the rest.

Every response has `Cache-Control: no-cache, private` and its own Audit-Id, unless its handler set these.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple

from gateway.exchange import AUDIT_BASE, Exchange, next_audit_id, next_audit_number
from gateway.message import Response, SharedFields
from gateway.wire.http_date import http_date

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"connection: close\r\n"
KEEP_ALIVE = b"connection: keep-alive\r\n"  # needed for HTTP/1.0 clients

Fields = list[tuple[bytes, bytes]]

CACHE_CONTROL: Final = (b"cache-control", b"no-cache, private")
_CACHE_LINE: Final = b"%b: %b\r\n" % CACHE_CONTROL
_LINE_FEED: Final = 10
_CARRIAGE_RETURN: Final = 13
_TEMPLATE_END: Final = b"%012x\r\ncontent-length: %d\r\n\r\n"


class _Start(NamedTuple):
    """What heads with one status, content type and shared fields have in common."""

    lines: bytes
    template: bytes  # a head without further fields; % fills in the count of the Audit-Id and the length
    has_body: bool  # a body and its length follow


class Heads:
    __slots__ = ("_starts", "_templates")

    def __init__(self) -> None:
        self._starts: dict[tuple[int, bytes, SharedFields | None], _Start] = {}
        self._templates: dict[tuple[int, bytes, SharedFields | None], bytes] = {}  # of those with a body

    def tick(self) -> None:
        """The date may have changed."""
        self._starts.clear()
        self._templates.clear()

    def whole(self, method: str, response: Response) -> bytes:
        """Return head and body on a connection that goes on; `render` does the same, in more steps."""
        template = self._templates.get((response.status, response.content_type, response.shared))
        if template is None or response.headers or method == "HEAD":
            return b"".join(self.render(method, response, b""))
        body = response.body
        return template % (next_audit_number(), len(body)) + body

    def numbered(self, method: str, response: Response, number: int) -> bytes:
        """The same with the number of an Audit-Id; empty if this needs more steps."""
        template = self._templates.get((response.status, response.content_type, response.shared))
        if template is None or not number or response.headers or method == "HEAD":
            return b""
        body = response.body
        return template % (number, len(body)) + body

    def render(
        self, method: str, response: Response, connection: bytes, observed: Exchange | None = None
    ) -> tuple[bytes, bytes]:
        """Return the head and body to send; `connection` is CLOSE, KEEP_ALIVE or empty.

        `observed` has the Audit-Id, if the response has it not.
        """
        key = (response.status, response.content_type, response.shared)
        lines, template, has_body = self._starts.get(key) or self._start(*key)
        body, fields = response.body, response.headers
        if has_body and not connection and not fields:
            number = next_audit_number() if observed is None else observed.audit_number
            if number:
                return template % (number, len(body)), body if method != "HEAD" else b""
            observed_id = observed.audit_id if observed is not None else b""
            # By number: a search for bytes takes far longer.
            if _LINE_FEED not in observed_id and _CARRIAGE_RETURN not in observed_id:
                head = b"%baudit-id: %b\r\ncontent-length: %d\r\n\r\n" % (lines, observed_id, len(body))
                return head, body if method != "HEAD" else b""
        if observed is not None:
            fields = [*fields, (b"audit-id", observed.audit_id)]
        lines, connection = _with_fields(lines, connection, fields)
        if not has_body:
            return b"%b%b\r\n" % (lines, connection), b""
        head = b"%b%bcontent-length: %d\r\n\r\n" % (lines, connection, len(body))
        return head, body if method != "HEAD" else b""

    def streaming(self, response: Response, connection: bytes, *, chunked: bool) -> bytes:
        """Return the head of a response of unknown length: its body is chunked, or ends with the connection."""
        key = (response.status, response.content_type, response.shared)
        start = self._starts.get(key) or self._start(*key)
        coding = b"transfer-encoding: chunked\r\n" if chunked else b""
        return b"%b%b%b\r\n" % (*_with_fields(start.lines, connection, response.headers), coding)

    def _start(self, status: int, content_type: bytes, shared: SharedFields | None) -> _Start:
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = "Status"
        kind = b"content-type: %b\r\n" % content_type if content_type else b""
        lines = (
            b"HTTP/1.1 %d %b\r\ndate: %b\r\n" % (status, phrase.encode(), http_date())
            + _CACHE_LINE
            + kind
            + _lines(shared.fields if shared is not None else [])
        )
        template = lines.replace(b"%", b"%%") + b"audit-id: " + AUDIT_BASE + _TEMPLATE_END
        start = _Start(lines, template, has_body(status))
        self._starts[status, content_type, shared] = start
        if start.has_body:
            self._templates[status, content_type, shared] = template
        return start


def has_body(status: int) -> bool:
    return status >= 200 and status not in (204, 304)


def default_fields(fields: Fields) -> Fields:
    """Return the default fields that the handler of a response did not set."""
    names = [name for name, _ in fields]
    defaults = [] if CACHE_CONTROL[0] in names else [CACHE_CONTROL]
    return defaults if b"audit-id" in names else [*defaults, (b"audit-id", next_audit_id())]


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
    """Remove line breaks: one inside a value would let a client inject headers into the response."""
    return [(b" ".join(name.split()), b" ".join(value.split())) for name, value in fields]


def all_fields(response: Response) -> list[tuple[bytes, bytes]]:
    return [*response.headers, *(response.shared.fields if response.shared is not None else ())]
