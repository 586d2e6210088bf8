"""The encoded heads of responses. The pipeline decides which fields they have (`gateway.pipeline.response_fields`).

`Heads` caches them for a protocol: nearly all of a head repeats, so what depends on status, content type, shared
fields and the date is encoded once. The watchdog clears the cache once a second, when the date changes, because
reading the clock for each response would cost more than everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rewound.gateway.exchange import Exchange, next_audit_number, numbered_id
from rewound.gateway.message import Response, SharedFields
from rewound.gateway.pipeline.response_fields import (
    AUDIT_ID,
    CACHE_CONTROL,
    Fields,
    common_fields,
    one_line,
    own_fields,
)


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
