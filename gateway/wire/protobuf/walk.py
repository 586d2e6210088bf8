"""A message as it lies on the wire: field numbers, wire types and values, one after another.

`reader` and `envelope` say what they mean. Bytes that are no message raise NotAMessage; groups, which protobuf has
given up long ago, are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gateway.wire.protobuf.pieces import BLOCK, EIGHT_BYTES, FOUR_BYTES, VARINT

_SKIPPED: Final = {EIGHT_BYTES: 8, FOUR_BYTES: 4}
_MOST_BITS: Final = 63


class NotAMessage(ValueError):
    """The bytes are no message of this type. The place grows from the inside out."""

    def __init__(self, why: str) -> None:
        self._why = why
        self._where: list[str] = []

    def inside(self, name: str) -> None:
        self._where.insert(0, name)

    def __str__(self) -> str:
        return f"{'.'.join(self._where)}: {self._why}" if self._where else self._why


def walk(raw: bytes) -> Iterator[tuple[int, int, Any]]:
    """Field number, wire type and value of everything in a message."""
    at, end = 0, len(raw)
    while at < end:
        key, at = read_varint(raw, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = read_varint(raw, at)
            yield number, wire, value
            continue
        size = _SKIPPED.get(wire)
        if wire == BLOCK:
            size, at = read_varint(raw, at)
        if size is None or not number:
            raise NotAMessage(f"a field numbered {number} of wire type {wire}, which does not exist")
        if size > end - at:
            raise NotAMessage("unexpected EOF: a field is longer than the message that it stands in")
        yield number, wire, raw[at : at + size]
        at += size


def read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    try:
        while (byte := raw[at]) > 0x7F:
            value |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if shift > _MOST_BITS:
                raise NotAMessage("a number has more than 64 bits")
    except IndexError:
        raise NotAMessage("unexpected EOF: the message ends in the middle of a number") from None
    return (value | byte << shift) & (1 << 64) - 1, at + 1
