"""Header blocks of HTTP/2 responses: literals and entries of HPACK's static table, never the dynamic table.

So a block has the same bytes on every connection. Everything that depends on status, content type, shared fields and
date is encoded once a second; a response adds its Audit-Id, its length, and the fields that its handler set.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewound.gateway.connections.heads import HeadFormat
from rewound.http2.hpack import encode_integer, encode_string

# Entries of the static table: the statuses that have one, and names.
_STATUSES = {200: 8, 204: 9, 206: 10, 304: 11, 400: 12, 404: 13, 500: 14}
_NAMES = {b"cache-control": 24, b"content-length": 28, b"content-type": 31, b"date": 33, b"location": 46}
_STATUS_NAME = 8
_INDEXED = 0x80


def length_field(length: int) -> bytes:
    digits = b"%d" % length
    return b"\x0f\x0d%c%b" % (len(digits), digits)


def field_block(fields: Sequence[tuple[bytes, bytes]]) -> bytes:
    return b"".join([_literal(*field) for field in fields])


def _status(status: int) -> bytes:
    index = _STATUSES.get(status)
    if index is not None:
        return bytes([_INDEXED | index])
    return encode_integer(_STATUS_NAME, 4, 0) + encode_string(b"%d" % status)


def _literal(name: bytes, value: bytes) -> bytes:
    """Encode a field as a literal that is not added to the dynamic table."""
    name = name.lower()
    index = _NAMES.get(name)
    return (b"\x00" + encode_string(name) if index is None else encode_integer(index, 4, 0)) + encode_string(
        value
    )


HTTP2 = HeadFormat(_status, field_block)
