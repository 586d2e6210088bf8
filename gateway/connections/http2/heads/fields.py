"""Header fields as the HPACK decoder yields them: each is checked once, when its bytes are read.

A field that a client refers to by its index was checked when it entered the table, so the head of a usual request
costs no further checks of characters. The rules are RFC 9113, sections 8.2 and 8.3, but for spaces around a value: they
are removed, as in HTTP/1.1. Servers in Go accept them too, and curl sends one for `Authorization: Bearer $UNSET`, whose
user understands a 401 rather than a PROTOCOL_ERROR.
"""

from __future__ import annotations

# Name, value, size as RFC 9113 counts it in a header list, and whether a request may contain the field.
Field = tuple[bytes, bytes, int, bool]

OVERHEAD = 32  # RFC 7541, section 4.1, and RFC 9113, section 6.5.2
PSEUDO_HEADERS = frozenset((b":method", b":scheme", b":authority", b":path", b":protocol"))

_SPACES = b" \t"
_VISIBLE = bytes(range(0x21, 0x7F))
_HOST = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~%!$&'()*+,;=:[]"
_NAME = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
# HTTP/1.1's parser refuses the same control characters.
_VALUE = b"\t " + _VISIBLE + bytes(range(0x80, 0x100))


def checked(name: bytes, value: bytes) -> Field:
    size = len(name) + len(value) + OVERHEAD
    if name[:1] != b":":
        value = value.strip(_SPACES)
    return name, value, size, _allowed(name, value)


def _allowed(name: bytes, value: bytes) -> bool:
    if name == b":authority" or name == b"host":
        return not value.translate(None, _HOST)  # no user information
    if name[:1] == b":":
        return name in PSEUDO_HEADERS and not value.translate(None, _VISIBLE)
    if not name or name.translate(None, _NAME):
        return False
    return not value.translate(None, _VALUE)
