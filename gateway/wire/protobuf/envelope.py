r"""What stands around every object: four bytes that say what this is, then a message that says of which type.

    6b 38 73 00   Unknown{typeMeta: {apiVersion, kind}, raw: the object, contentEncoding: "", contentType: ""}

In a watch, events follow each other with their length in four bytes before each; the object of an event has an
envelope of its own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.wire.protobuf.pieces import BLOCK, block, text
from gateway.wire.protobuf.walk import NotAMessage, walk

MAGIC: Final = b"k8s\x00"
_PLAIN: Final = text(3, "") + text(4, "")
LENGTH: Final = 4


class NotProtobuf(Exception):
    """The bytes are no object in an envelope."""


class Opened(NamedTuple):
    api_version: str
    kind: str
    raw: bytes
    content_type: str  # of `raw`; none means protobuf


def seal(api_version: str, kind: str, raw: bytes) -> bytes:
    return MAGIC + block(1, text(1, api_version) + text(2, kind)) + block(2, raw) + _PLAIN


def event(type_: str, sealed: bytes) -> bytes:
    """One event of a watch, with its length before it."""
    written = text(1, type_) + block(2, block(1, sealed))
    return len(written).to_bytes(LENGTH, "big") + written


def unseal(data: bytes) -> Opened:
    if not data.startswith(MAGIC):
        raise NotProtobuf(
            f"provided data does not appear to be a protobuf message, expected prefix {list(MAGIC)}"
        )
    parts = {1: b"", 2: b"", 3: b"", 4: b""}
    try:
        _collect(data[len(MAGIC) :], parts)
        type_ = {1: b"", 2: b""}
        _collect(parts[1], type_)
        if parts[3]:
            raise NotProtobuf("contentEncoding must be empty: encoded objects are not read")
        return Opened(type_[1].decode(), type_[2].decode(), parts[2], parts[4].decode())
    except (NotAMessage, UnicodeDecodeError) as error:
        raise NotProtobuf(f"the envelope of the object cannot be read: {error}") from None


def _collect(raw: bytes, parts: dict[int, bytes]) -> None:
    for number, wire, value in walk(raw):
        if wire == BLOCK and number in parts:
            parts[number] = value
