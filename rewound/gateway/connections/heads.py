"""The heads of responses: their fields, and how they are encoded.

Every response has the same fields, whichever connection sends it, also one that refuses what is no request: a date,
`Cache-Control: no-cache, private` unless its handler set one, its content type, the FlowSchema and priority level
(`Response.shared`), and an Audit-Id: that of its observer, or one of its own. A connection adds only the fields of its
framing, such as a length.

`Heads` caches them for a protocol: nearly all of a head repeats, so what depends on status, content type, shared
fields and the date is encoded once. The watchdog clears the cache once a second, when the date changes, because
reading the clock for each response would cost more than everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from rewound.gateway.exchange import Exchange, next_audit_id, next_audit_number, numbered_id
from rewound.gateway.message import Response, SharedFields
from rewound.gateway.wire.http_date import http_date

Fields = list[tuple[bytes, bytes]]

AUDIT_ID: Final = b"audit-id"
CACHE_CONTROL: Final = (b"cache-control", b"no-cache, private")
_LINE_FEED: Final = 10
_CARRIAGE_RETURN: Final = 13


class HeadFormat(NamedTuple):
    """How a protocol encodes a head."""

    status: Callable[[int], bytes]  # encodes the start of the head
    fields: Callable[[Fields], bytes]


class _Start(NamedTuple):
    """The common part of heads with one status, content type and shared fields."""

    lines: bytes
    to_number: bytes  # the whole head up to the number in the Audit-Id, if its handler set no fields


class Heads:
    """The heads of one protocol on one server."""

    __slots__ = ("_after_number", "_before_number", "_format", "_starts")

    def __init__(self, form: HeadFormat) -> None:
        self._format = form
        self._starts: dict[tuple[int, bytes, SharedFields | None], _Start] = {}
        before, number, after = form.fields([(AUDIT_ID, numbered_id(0))]).rpartition(b"%012x" % 0)
        assert number, "an Audit-Id is written unescaped"
        self._before_number, self._after_number = before, after

    def tick(self) -> None:
        """Clear the cache, because the date may have changed."""
        self._starts.clear()

    def head(self, response: Response, exchange: Exchange | None, framing: bytes) -> bytes:
        """An encoded head; `framing` are the encoded fields that the protocol adds at its end."""
        key = (response.status, response.content_type, response.shared)
        start = self._starts.get(key) or self._start(response, key)
        if not response.headers:
            number = next_audit_number() if exchange is None else exchange.audit_number
            if number:
                return b"%b%012x%b%b" % (start.to_number, number, self._after_number, framing)
        fields = one_line(own_fields(response, exchange))
        return b"%b%b%b" % (start.lines, self._format.fields(fields), framing)

    def _start(self, response: Response, key: tuple[int, bytes, SharedFields | None]) -> _Start:
        form = self._format
        lines = form.status(response.status) + form.fields(one_line(common_fields(response)))
        start = _Start(lines, lines + form.fields([CACHE_CONTROL]) + self._before_number)
        self._starts[key] = start
        return start


def has_body(status: int) -> bool:
    return status >= 200 and status not in (204, 304)


def all_fields(response: Response, exchange: Exchange | None) -> Fields:
    """The fields of a response, without its length; `exchange` has its Audit-Id, if it is observed."""
    return one_line([*common_fields(response), *own_fields(response, exchange)])


def common_fields(response: Response) -> Fields:
    """Those that responses with one status, content type and flow have in common."""
    fields = [(b"date", http_date())]
    if response.content_type:
        fields.append((b"content-type", response.content_type))
    if response.shared is not None:
        fields += response.shared.fields
    return fields


def own_fields(response: Response, exchange: Exchange | None) -> Fields:
    """Those of its handler, with what every response has."""
    names = [name for name, _ in response.headers]
    fields = [] if CACHE_CONTROL[0] in names else [CACHE_CONTROL]
    fields += response.headers
    if exchange is not None:
        fields.append((AUDIT_ID, exchange.audit_id))
    elif AUDIT_ID not in names:
        fields.append((AUDIT_ID, next_audit_id()))
    return fields


def one_line(fields: Fields) -> Fields:
    """Remove line breaks: one inside a value would let a client inject headers into the response."""
    text = b"".join([name + value for name, value in fields])
    # By number: a search for bytes takes far longer.
    if _LINE_FEED not in text and _CARRIAGE_RETURN not in text:
        return fields
    return [(b" ".join(name.split()), b" ".join(value.split())) for name, value in fields]
