"""Header blocks of HTTP/2 (HPACK): encodes requests as a real client does, reads the status of a response.

A client puts every field into its dynamic table, so after the first requests a block consists of indexes and repeats
byte for byte; the generator encodes it once and sends it again until the table changes. No Huffman coding. For the
other direction the generator announces a table of size zero, so the status is the first field of a block and needs
no state. Rejected: the hpack library, which the server also uses and which costs more per block than the server does.
"""

from __future__ import annotations

from collections import deque

from benchmarks.loads.request import BadResponse, Request

Field = tuple[bytes, bytes]

TABLE_SIZE = 4096  # of a connection whose peer announces no other
_ENTRY_OVERHEAD = 32
_LAST_STATIC = 61
_STATIC = {
    (b":method", b"GET"): 2,
    (b":method", b"POST"): 3,
    (b":scheme", b"http"): 6,
    (b":scheme", b"https"): 7,
}
_STATIC_NAMES = {
    b":authority": 1,
    b":method": 2,
    b":path": 4,
    b"accept": 19,
    b"authorization": 23,
    b"content-length": 28,
    b"content-type": 31,
}


def integer(value: int, bits: int, first: int) -> bytes:
    """An integer with a prefix of this many bits (RFC 7541, 5.1); `first` has the other bits of its first byte."""
    limit = (1 << bits) - 1
    if value < limit:
        return bytes((first | value,))
    encoded = bytearray((first | limit,))
    value -= limit
    while value >= 128:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class HeaderEncoder:
    """Encodes fields with incremental indexing; `generation` grows with every change of the dynamic table."""

    def __init__(self, table_size: int = TABLE_SIZE) -> None:
        self._table_size = min(table_size, TABLE_SIZE)
        self._entries: deque[Field] = deque()  # the newest last
        self._numbers: dict[Field, int] = {}  # which insertion put the field into the table
        self._size = 0
        self.generation = 0  # insertions so far
        self._announced = self._table_size == TABLE_SIZE

    def encode(self, fields: tuple[Field, ...]) -> bytes:
        begin = b""
        if not self._announced:
            self._announced, begin = True, integer(self._table_size, 5, 0x20)
        return begin + b"".join([self._encode_field(field) for field in fields])

    def _encode_field(self, field: Field) -> bytes:
        if field in _STATIC:
            return integer(_STATIC[field], 7, 0x80)
        if field in self._numbers:
            return integer(_LAST_STATIC + 1 + self.generation - self._numbers[field], 7, 0x80)
        name, value = field
        self._insert(field)
        index = _STATIC_NAMES.get(name, 0)
        literal_name = b"" if index else integer(len(name), 7, 0) + name
        return integer(index, 6, 0x40) + literal_name + integer(len(value), 7, 0) + value

    def _insert(self, field: Field) -> None:
        size = _size(field)
        while self._entries and self._size + size > self._table_size:
            evicted = self._entries.popleft()
            del self._numbers[evicted]
            self._size -= _size(evicted)
        self.generation += 1
        if size <= self._table_size:
            self._entries.append(field)
            self._numbers[field] = self.generation
            self._size += size


def _size(field: Field) -> int:
    return len(field[0]) + len(field[1]) + _ENTRY_OVERHEAD


class RequestBlocks:
    """The header blocks of one connection's requests; a block that inserted nothing serves again as it is."""

    def __init__(self, *, tls: bool, token: str, table_size: int = TABLE_SIZE) -> None:
        self._encoder = HeaderEncoder(table_size)
        self._scheme = b"https" if tls else b"http"
        self._always: tuple[Field, ...] = ((b"accept", b"application/json"),)
        if token:
            self._always += ((b"authorization", b"Bearer " + token.encode()),)
        self._settled: dict[tuple[str, str, str, int], bytes] = {}
        self._generation = 0  # of the table for which `_settled` holds

    def block(self, request: Request) -> bytes:
        body = request.body
        key = (request.method, request.path, request.media, -1 if body is None else len(body))
        known = self._settled.get(key)
        if known is not None:
            return known
        block = self._encoder.encode(self._fields(request))
        if self._encoder.generation == self._generation:
            self._settled[key] = block
        else:
            self._generation = self._encoder.generation
            self._settled.clear()
        return block

    def _fields(self, request: Request) -> tuple[Field, ...]:
        fields: tuple[Field, ...] = (
            (b":authority", b"bench"),
            (b":method", request.method.encode()),
            (b":path", request.path.encode()),
            (b":scheme", self._scheme),
            *self._always,
        )
        if request.body is not None:
            fields += (
                (b"content-type", request.media.encode()),
                (b"content-length", b"%d" % len(request.body)),
            )
        return fields


_STATUS = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}  # indexes of the static table
_STATUS_200 = 0x88


def status_of(block: bytes) -> int:
    """The status of a response, which is the first field of its header block."""
    if block[0] == _STATUS_200:
        return 200
    at = _after_size_updates(block)
    first = block[at]
    if first & 0x80:
        index, literal = first & 0x7F, b""
    else:
        index, literal = first & (0x3F if first & 0x40 else 0x0F), block[at + 1 :]
    if index not in _STATUS:
        raise BadResponse(f"a response whose first field is not a status: {block[:40]!r}")
    return _literal_status(literal) if literal else _STATUS[index]


def _after_size_updates(block: bytes) -> int:
    at = 0
    while block[at] & 0xE0 == 0x20:
        continued = block[at] & 0x1F == 0x1F
        at += 1
        while continued:
            continued = block[at] >= 0x80
            at += 1
    return at


def _literal_status(literal: bytes) -> int:
    length = literal[0] & 0x7F
    value = literal[1 : 1 + length]
    return _huffman_digits(value) if literal[0] & 0x80 else int(value)


def _huffman_digits(value: bytes) -> int:
    """Three digits in the Huffman code of RFC 7541: 0 to 2 have five bits, 3 to 9 six, from 011001 on."""
    bits, left, number = int.from_bytes(value, "big"), 8 * len(value), 0
    for _ in range(3):
        digit, used = bits >> left - 5 & 0x1F, 5
        if digit > 2:
            digit, used = (bits >> left - 6 & 0x3F) - 0x19 + 3, 6
        number, left = number * 10 + digit, left - used
    return number
