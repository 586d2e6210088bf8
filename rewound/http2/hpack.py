"""Decodes the header blocks of one HTTP/2 connection (RFC 7541), and encodes literals.

The connection passes every block that the peer sends, in order: after a skipped block the table would be out of step.
Only the tables of the `hpack` package are used; its Decoder takes several times as long, and stops at a list that is
too large, where we must continue (docs/decisions has the figures).

The work is proportional to the bytes of the block, whatever they refer to, and a list that exceeds its limit is not
stored. `generation` increases with every change of the dynamic table: while it is the same, equal blocks that change
nothing decode to equal fields.

Each field is checked once, when its bytes are read. A field that a client refers to by index was checked when it
entered the table, so the head of an ordinary request needs no further checks of characters. The rules are those of
RFC 9113, sections 8.2 and 8.3, except for spaces around a value: they are removed, as in HTTP/1.1. Go's servers
accept them too, and curl sends one for `Authorization: Bearer $UNSET`, whose user understands a 401 better than a
PROTOCOL_ERROR.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Union

from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE
from hpack.table import HeaderTable

# Huffman strings are decoded byte by byte, where the hpack package decodes half bytes. The states are those of its
# table; a list for each maps a byte to the next state and the decoded bytes. A step is computed when it first occurs,
# and cached: ordinary text needs some hundred steps (100 kB), and all 65,536 that hostile peers can cause take 7 MB,
# once per process. A string is decoded five times as fast, so that decoded strings need no cache, which would hold
# clients' secrets.
_State = list[Union["_Step", None]]
_Step = tuple[_State, bytes]


class HuffmanError(ValueError):
    """The string contains the end-of-string symbol, or its padding is not the start of that symbol."""


def decode_huffman(text: bytes) -> bytes:
    """Decode a string. Raises HuffmanError if it is not valid."""
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


# Name, value, size in a header list as defined by RFC 9113, and whether a request may contain the field.
Field = tuple[bytes, bytes, int, bool]

OVERHEAD = 32  # RFC 7541, section 4.1, and RFC 9113, section 6.5.2
PSEUDO_HEADERS = frozenset((b":method", b":scheme", b":authority", b":path", b":protocol"))

_SPACES = b" \t"
_VISIBLE = bytes(range(0x21, 0x7F))
_HOST = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~%!$&'()*+,;=:[]"
_NAME = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
# The parser of HTTP/1.1 refuses the same control characters.
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


TABLE_SIZE = 4096  # default of SETTINGS_HEADER_TABLE_SIZE

# Indexes in RFC 7541, appendix A, start at 1.
_STATIC: tuple[Field, ...] = tuple(checked(*pair) for pair in ((b"", b""), *HeaderTable.STATIC_TABLE))
_LAST_STATIC = len(_STATIC) - 1

# Bytes of an integer after its prefix: the largest value, 2**35, is more than any block can refer to.
_INTEGER_BYTES = 5

# By how much a list may exceed twice the size of its block. Clients that refer to each entry once and send the rest
# as literals need no more; one that repeats entries of 4 kB would occupy thousands of times the bytes that it sends.
_EXPANDED = 16 * 1024
# How many more fields of a list that is already too large are read (runs of one-byte fields count once): no client
# sends so many.
_BEYOND = 1000
_ONE_BYTE = re.compile(rb"[\x81-\xfe]*")  # references to an entry with an index below 127


class TooManyFields(Exception):
    """The block has too many fields: connection error ENHANCE_YOUR_CALM."""


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
        """The fields of a block; None if the list is larger than the limit.

        Raises CompressionError, or TooManyFields, after which no other block can be decoded.
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
        """Apply the table size updates at the start of a block, and return where its fields start."""
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
        """Skip fields of one byte each, and return where they end; they must refer to existing entries."""
        found = _ONE_BYTE.match(block, at)
        assert found is not None
        highest = max(memoryview(block)[at : found.end()], default=0x80) & 0x7F
        if highest - _LAST_STATIC > len(self._table):
            raise IndexError
        return found.end()

    def _entry(self, index: int) -> Field:
        return self._table[_LAST_STATIC - index] if index > _LAST_STATIC else _STATIC[index]

    def _insert(self, field: Field) -> None:
        """Insert an entry as the newest; one that is larger than the table empties it."""
        size = field[2]
        self.generation += 1
        if self._size + size > self._capacity:
            self._evict(size)
        if size <= self._capacity:
            self._table.append(field)
            self._size += size

    def _evict(self, room: int) -> None:
        """Evict the oldest entries until there is this much room."""
        count, size, table = 0, self._size, self._table
        while count < len(table) and size + room > self._capacity:
            size -= table[count][2]
            count += 1
        del table[:count]
        self._size = size


def _integer(block: bytes, at: int, prefix: int) -> tuple[int, int]:
    """An integer that continues after its prefix, and where it ends (RFC 7541, section 5.1)."""
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


def encode_string(value: bytes) -> bytes:
    return encode_integer(len(value), 7, 0) + value


def encode_integer(value: int, prefix: int, first: int) -> bytes:
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
