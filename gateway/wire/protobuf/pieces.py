"""What protobuf is made of: whole numbers of one to ten bytes, and blocks that have a number and a length."""

from __future__ import annotations

from typing import Final

VARINT: Final = 0
EIGHT_BYTES: Final = 1
BLOCK: Final = 2
FOUR_BYTES: Final = 5

_ALL_BITS: Final = (1 << 64) - 1


def varint(value: int) -> bytes:
    """Negative numbers are written as those of 64 bits, whatever their type."""
    value &= _ALL_BITS
    if value < 0x80:
        return _SHORT[value]
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


_SHORT: Final = tuple(bytes((value,)) for value in range(0x80))


def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def block(number: int, content: bytes) -> bytes:
    return tag(number, BLOCK) + varint(len(content)) + content


def text(number: int, value: str) -> bytes:
    return block(number, value.encode())
