"""The protobuf wire format: tags, varints, length-delimited fields, and the envelope of every object."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

# Wire types, named as in protobuf's documentation.
VARINT: Final = 0
I64: Final = 1
LEN: Final = 2
I32: Final = 5

_FIXED_SIZES: Final = {I64: 8, I32: 4}
_MAX_SHIFT: Final = 63
_ALL_BITS: Final = (1 << 64) - 1


class MalformedMessage(ValueError):
    """The bytes are not a message of this type. The field path grows from the innermost field outwards."""

    def __init__(self, reason: str) -> None:
        self._reason = reason
        self._path: list[str] = []

    def inside(self, name: str) -> None:
        self._path.insert(0, name)

    def __str__(self) -> str:
        return f"{'.'.join(self._path)}: {self._reason}" if self._path else self._reason


def varint(value: int) -> bytes:
    """Encode a number; negative ones take 64 bits, whatever their type."""
    if 0 <= value < 0x80:
        return ONE_BYTE[value]
    if 0 <= value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    value &= _ALL_BITS
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))  # varints of the numbers below 128


def tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def delimited(number: int, content: bytes) -> bytes:
    """A length-delimited field: a string, bytes, or a message."""
    return tag(number, LEN) + varint(len(content)) + content


def string(number: int, value: str) -> bytes:
    return delimited(number, value.encode())


def read_fields(raw: bytes) -> Iterator[tuple[int, int, Any]]:
    """Number, wire type and value of each field of a message."""
    at, end = 0, len(raw)
    while at < end:
        key, at = read_varint(raw, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == VARINT:
            value, at = read_varint(raw, at)
            yield number, wire_type, value
            continue
        size = _FIXED_SIZES.get(wire_type)
        if wire_type == LEN:
            size, at = read_varint(raw, at)
        if size is None or not number:
            raise MalformedMessage(
                f"a field numbered {number} of wire type {wire_type}, which does not exist"
            )
        if size > end - at:
            raise MalformedMessage("unexpected EOF: a field is longer than the message that contains it")
        yield number, wire_type, raw[at : at + size]
        at += size


def read_varint(raw: bytes, at: int) -> tuple[int, int]:
    """The number that starts at index `at`, and the index after it."""
    value = shift = 0
    try:
        while (byte := raw[at]) > 0x7F:
            value |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if shift > _MAX_SHIFT:
                raise MalformedMessage("a number has more than 64 bits")
    except IndexError:
        raise MalformedMessage("unexpected EOF: the message ends in the middle of a number") from None
    return (value | byte << shift) & _ALL_BITS, at + 1


MAGIC: Final = b"k8s\x00"
_NO_ENCODING_OR_TYPE: Final = string(3, "") + string(4, "")
LENGTH_SIZE: Final = 4


class NotProtobuf(Exception):
    """The bytes are not an object in an envelope."""


class Envelope(NamedTuple):
    """The envelope of every object: four magic bytes, then a runtime.Unknown message that names the object's type.

        6b 38 73 00   Unknown{typeMeta: {apiVersion, kind}, raw: the object, contentEncoding: "", contentType: ""}

    In a watch, each event has its length in four bytes before it; the object inside an event has an envelope
    too.
    """

    api_version: str
    kind: str
    raw: bytes
    content_type: str  # content type of `raw`; empty means protobuf


def wrap(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"%b%b%b%b" % (_begin(api_version, kind), varint(len(raw)), raw, _NO_ENCODING_OR_TYPE)


@lru_cache(maxsize=1024)
def _begin(api_version: str, kind: str) -> bytes:
    """Everything before the length of the object."""
    return MAGIC + delimited(1, string(1, api_version) + string(2, kind)) + tag(2, LEN)


def event(type_: str, wrapped: bytes) -> bytes:
    """One watch event, preceded by its length."""
    message = string(1, type_) + delimited(2, delimited(1, wrapped))
    return len(message).to_bytes(LENGTH_SIZE, "big") + message


def unwrap(data: bytes) -> Envelope:
    if not data.startswith(MAGIC):
        raise NotProtobuf(
            f"provided data does not appear to be a protobuf message, expected prefix {list(MAGIC)}"
        )
    fields = {1: b"", 2: b"", 3: b"", 4: b""}
    try:
        _collect(data[len(MAGIC) :], fields)
        type_meta = {1: b"", 2: b""}
        _collect(fields[1], type_meta)
        if fields[3]:
            raise NotProtobuf("contentEncoding must be empty: encoded objects are not read")
        return Envelope(type_meta[1].decode(), type_meta[2].decode(), fields[2], fields[4].decode())
    except (MalformedMessage, UnicodeDecodeError) as error:
        raise NotProtobuf(f"the envelope of the object cannot be read: {error}") from None


def _collect(raw: bytes, fields: dict[int, bytes]) -> None:
    for number, wire_type, value in read_fields(raw):
        if wire_type == LEN and number in fields:
            fields[number] = value
