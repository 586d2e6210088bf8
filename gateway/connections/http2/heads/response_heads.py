"""Header blocks of HTTP/2 responses: literals and entries of HPACK's static table, never the dynamic table.

A block is therefore the same bytes on every connection. All that depends on status, content type, shared fields and
date is encoded once a second; a response adds its Audit-Id, its length, and the fields that its handler set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gateway.connections.heads import CACHE_CONTROL, default_fields, has_body, one_line_fields
from gateway.exchange import next_audit_id
from gateway.message import Response, SharedFields
from gateway.wire.http_date import http_date

# Entries of the static table: statuses that have one, and names.
_STATUSES = {200: 8, 204: 9, 206: 10, 304: 11, 400: 12, 404: 13, 500: 14}
_NAMES = {b"cache-control": 24, b"content-length": 28, b"content-type": 31, b"date": 33, b"location": 46}
_STATUS_NAME = 8
_INDEXED = 0x80


class _Start(NamedTuple):
    """What blocks with one status, content type and shared fields have in common."""

    status: bytes  # :status, date and shared fields
    fields: bytes  # and the default Cache-Control, content type and the name of the Audit-Id
    has_body: bool


class ResponseHeads:
    __slots__ = ("_now", "_starts", "_tick")

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` returns the server's coarse clock; when it changes, the date may have changed."""
        self._now = now
        self._tick = -1.0
        self._starts: dict[tuple[int, bytes, SharedFields | None], _Start] = {}

    def block(self, response: Response, length: int | None) -> bytes:
        """Return the header block of a response; `length` of its body, None if it is not known."""
        if (tick := self._now()) != self._tick:
            self._tick = tick
            self._starts.clear()
        key = (response.status, response.content_type, response.shared)
        start = self._starts.get(key) or self._start(*key)
        if length is None or not start.has_body:
            tail = b""
        else:
            digits = b"%d" % length
            tail = b"\x0f\x0d%c%b" % (len(digits), digits)
        if not response.headers:
            return b"%b%b%b" % (start.fields, next_audit_id(), tail)
        fields = one_line_fields([*default_fields(response.headers), *response.headers])
        if response.content_type:
            fields.append((b"content-type", response.content_type))
        return b"%b%b%b" % (start.status, b"".join([_literal(*field) for field in fields]), tail)

    def _start(self, status: int, content_type: bytes, shared: SharedFields | None) -> _Start:
        first = _status(status) + _literal(b"date", http_date())
        if shared is not None:
            first += b"".join([_literal(*field) for field in shared.fields])
        fields = first + _literal(*CACHE_CONTROL)
        if content_type:
            fields += _literal(b"content-type", content_type)
        fields += b"\x00" + _string(b"audit-id") + _integer(len(next_audit_id()), 7, 0)
        start = self._starts[status, content_type, shared] = _Start(first, fields, has_body(status))
        return start


def field_block(fields: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The block of trailers."""
    return b"".join([_literal(*field) for field in one_line_fields(list(fields))])


def _status(status: int) -> bytes:
    index = _STATUSES.get(status)
    if index is not None:
        return bytes([_INDEXED | index])
    return _integer(_STATUS_NAME, 4, 0) + _string(b"%d" % status)


def _literal(name: bytes, value: bytes) -> bytes:
    """Encode a field as a literal that is not added to the dynamic table."""
    name = name.lower()
    index = _NAMES.get(name)
    return (b"\x00" + _string(name) if index is None else _integer(index, 4, 0)) + _string(value)


def _string(value: bytes) -> bytes:
    return _integer(len(value), 7, 0) + value


def _integer(value: int, prefix: int, first: int) -> bytes:
    """Encode an integer with a prefix of so many bits; `first` has the bits above the prefix."""
    limit = (1 << prefix) - 1
    if value < limit:
        return bytes([first | value])
    encoded = bytearray([first | limit])
    value -= limit
    while value >= 128:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
