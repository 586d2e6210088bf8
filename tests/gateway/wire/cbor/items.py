"""Writes CBOR as other programs might: texts as text strings, items of any form with `Raw`."""

from __future__ import annotations

import struct
from typing import Any


class Raw(bytes):
    """Bytes of a whole item."""


def head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes([major << 5 | number])
    for end, info, form in ((8, 24, "B"), (16, 25, ">H"), (32, 26, ">I"), (64, 27, ">Q")):
        if number < 1 << end:
            return bytes([major << 5 | info]) + struct.pack(form, number)
    raise AssertionError(number)


def item(value: Any) -> bytes:
    match value:
        case Raw():
            return bytes(value)
        case None | True | False:
            return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
        case int():
            return head(0, value) if value >= 0 else head(1, -1 - value)
        case float():
            return b"\xfb" + struct.pack(">d", value)
        case bytes():
            return head(2, len(value)) + value
        case str():
            return head(3, len(value.encode())) + value.encode()
        case list():
            return head(4, len(value)) + b"".join(map(item, value))
        case dict():
            return head(5, len(value)) + b"".join(item(key) + item(one) for key, one in value.items())
    raise AssertionError(value)


def tagged(tag: int, value: Any) -> Raw:
    return Raw(head(6, tag) + item(value))


def pairs(*members: tuple[Any, Any]) -> Raw:
    """A map, whose keys may repeat."""
    return Raw(head(5, len(members)) + b"".join(item(part) for pair in members for part in pair))
