"""Decodes the header blocks of one HTTP/2 connection (RFC 7541).

`RequestHeads` calls it, with every block that the peer sends, in order: a block that is skipped leaves the table out of
step. Of the `hpack` package only the tables are used; its Decoder takes several times as long, and stops at a list
that is too large, where we must go on (docs/decisions has the figures).

The work is proportional to the bytes of the block, whatever they refer to, and a list that exceeds its limit is not
stored. `generation` increases with every change of the dynamic table: between two equal numbers, equal blocks that
change nothing decode to equal fields.

Each field is checked once, when its bytes are read. One that a client refers to by its index was checked when it
entered the table, so the head of a usual request costs no further checks of characters. The rules are RFC 9113,
sections 8.2 and 8.3, but for spaces around a value: they are removed, as in HTTP/1.1. Servers in Go accept them too,
and curl sends one for `Authorization: Bearer $UNSET`, whose user understands a 401 rather than a PROTOCOL_ERROR.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Union

from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE
from hpack.table import HeaderTable

# Huffman strings are decoded byte by byte, where the hpack package goes by half bytes. The states are those of its
# table; a list for each maps a byte to the next state and the bytes decoded. A step is computed when it first occurs,
# and cached: usual text takes some hundred steps in 100 kB, and all that hostile peers can cause, 65,536 steps, take
# 7 MB, once in a process. That makes a string five times cheaper, so that decoded strings need no cache, which would
# hold clients' secrets.
_State = list[Union["_Step", None]]
_Step = tuple[_State, bytes]


class HuffmanError(ValueError):
    """The string contains the end-of-string symbol, or its padding is not the start of that symbol."""


def decode_huffman(text: bytes) -> bytes:
    """Return the decoded string. HuffmanError."""
    state, parts = _START, []
    for byte in text:
        state, part = state[byte] or _add_step(state, byte)
        parts.append(part)
    if _numbers[id(state)] not in _ENDS:
        raise HuffmanError("the padding of a Huffman string is wrong")
    return b"".join(parts)


_numbers: dict[int, int] = {}  # hpack's number of a state, by the identity of its list


@cache
def _state(number: int) -> _State:
    state: _State = [None] * 256
    _numbers[id(state)] = number
    return state


_START = _state(0)
# Where a string may end: after a symbol, or after at most 7 bits of padding.
_ENDS = frozenset(state for state, flags, _ in HUFFMAN_TABLE if flags & HUFFMAN_COMPLETE)


def _add_step(state: _State, byte: int) -> _Step:
    middle, first = _half_step(_numbers[id(state)], byte >> 4)
    end, second = _half_step(middle, byte & 0x0F)
    step = state[byte] = _state(end), first + second
    return step


def _half_step(number: int, bits: int) -> tuple[int, bytes]:
    number, flags, symbol = HUFFMAN_TABLE[16 * number + bits]
    if flags & HUFFMAN_FAIL:
        raise HuffmanError("a Huffman string contains the end-of-string symbol")
    return number, bytes((symbol,)) if flags & HUFFMAN_EMIT_SYMBOL else b""


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


TABLE_SIZE = 4096  # SETTINGS_HEADER_TABLE_SIZE: its default

# The index of RFC 7541, appendix A, starts at 1.
_STATIC: tuple[Field, ...] = tuple(checked(*pair) for pair in ((b"", b""), *HeaderTable.STATIC_TABLE))
_LAST_STATIC = len(_STATIC) - 1

# Bytes of an integer after its prefix: the largest value, 2**35, is beyond anything that a block can refer to.
_INTEGER_BYTES = 5

# A list may exceed twice its block by this. No client needs more that refers to each entry once and sends the rest as
# literals; one that repeats entries of 4 kB would occupy thousands of times the bytes it sends.
_EXPANDED = 16 * 1024
# Fields of a list that is too large already, of which those that are one byte each count once: no client sends so many.
_BEYOND = 1000
_ONE_BYTE = re.compile(rb"[\x81-\xfe]*")  # references to an entry with an index below 127


class TooManyFields(Exception):
    """The rest of the block is not worth the work: connection error ENHANCE_YOUR_CALM."""


class CompressionError(Exception):
    """The block cannot be decoded: connection error COMPRESSION_ERROR."""


class Decoder:
    __slots__ = ("_capacity", "_list_limit", "_size", "_table", "generation")

    def __init__(self, list_limit: int) -> None:
        self.generation = 0
        self._list_limit = list_limit
        self._capacity = TABLE_SIZE
        self._size = 0
        self._table: list[Field] = []  # the newest entry, which has the lowest index, is the last one

    def decode(self, block: bytes) -> list[Field] | None:
        """Return the fields of a block, or None if the list is larger than the limit.

        CompressionError; TooManyFields, after which no other block can be decoded.
        """
        fields: list[Field] = []
        at, end = 0, len(block)
        room, table, beyond = min(self._list_limit, _EXPANDED + 2 * end), self._table, 0
        try:
            if end and block[0] & 0xE0 == 0x20:
                at = self._update_size(block)
            while at < end:
                first = block[at]
                at += 1
                if first >= 0x80:
                    index = first & 0x7F
                    if index == 0x7F:
                        index, at = _integer(block, at, 0x7F)
                    # As in `_entry`, without the call.
                    field = table[_LAST_STATIC - index] if index > _LAST_STATIC else _STATIC[index]
                    if not index:
                        raise CompressionError("index 0 is not used")
                else:
                    field, at = self._literal(block, at, first)
                room -= field[2]
                if room >= 0:
                    fields.append(field)
                else:
                    beyond += 1
                    if beyond > _BEYOND:
                        raise TooManyFields
                    at = self._skip_indexed(block, at)
        except IndexError:
            raise CompressionError(
                "the block is truncated, or refers to an entry that is not there"
            ) from None
        except HuffmanError as error:
            raise CompressionError(str(error)) from None
        return fields if room >= 0 else None

    def _update_size(self, block: bytes) -> int:
        """Apply the table size updates at the start of a block, and return where its fields begin."""
        at = 0
        while at < len(block) and block[at] & 0xE0 == 0x20:
            size, at = block[at] & 0x1F, at + 1
            if size == 0x1F:
                size, at = _integer(block, at, 0x1F)
            if size > TABLE_SIZE:
                raise CompressionError(f"a table size update exceeds {TABLE_SIZE}")
            if size != self._capacity:
                self.generation += 1
                self._capacity = size
                self._evict(0)
        return at

    def _literal(self, block: bytes, at: int, first: int) -> tuple[Field, int]:
        if 0x20 <= first < 0x40:
            raise CompressionError("a table size update follows a field")
        mask = 0x3F if first >= 0x40 else 0x0F
        index = first & mask
        if index == mask:
            index, at = _integer(block, at, mask)
        if index:
            name = self._entry(index)[0]
        else:
            name, at = _string(block, at)
        value, at = _string(block, at)
        field = checked(name, value)
        if first >= 0x40:
            self._insert(field)
        return field, at

    def _skip_indexed(self, block: bytes, at: int) -> int:
        """Return where the fields end that are one byte each: they change nothing, but have to be in the table."""
        found = _ONE_BYTE.match(block, at)
        assert found is not None
        highest = max(memoryview(block)[at : found.end()], default=0x80) & 0x7F
        if highest - _LAST_STATIC > len(self._table):
            raise IndexError
        return found.end()

    def _entry(self, index: int) -> Field:
        return self._table[_LAST_STATIC - index] if index > _LAST_STATIC else _STATIC[index]

    def _insert(self, field: Field) -> None:
        """Insert as the newest entry; one that is larger than the table empties it."""
        size = field[2]
        self.generation += 1
        if self._size + size > self._capacity:
            self._evict(size)
        if size <= self._capacity:
            self._table.append(field)
            self._size += size

    def _evict(self, room: int) -> None:
        """Remove the oldest entries until the others leave this much room."""
        count, size, table = 0, self._size, self._table
        while count < len(table) and size + room > self._capacity:
            size -= table[count][2]
            count += 1
        del table[:count]
        self._size = size


def _integer(block: bytes, at: int, prefix: int) -> tuple[int, int]:
    """Return an integer that continues after its prefix, and where it ends (RFC 7541, section 5.1)."""
    number = prefix
    for shift in range(0, 7 * _INTEGER_BYTES, 7):
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise CompressionError("an integer is too long")


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    first = block[at]
    at += 1
    length = first & 0x7F
    if length == 0x7F:
        length, at = _integer(block, at, 0x7F)
    end = at + length
    if end > len(block):
        raise CompressionError("the block is truncated")
    text = block[at:end]
    return text if first < 0x80 else decode_huffman(text), end
