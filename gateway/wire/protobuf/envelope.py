r"""The envelope of every object: four magic bytes, then a runtime.Unknown message that names the object's type.

    6b 38 73 00   Unknown{typeMeta: {apiVersion, kind}, raw: the object, contentEncoding: "", contentType: ""}

In a watch, each event has its length in four bytes before it; the object inside an event has an envelope too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from gateway.wire.protobuf.wire_format import (
    LEN,
    MalformedMessage,
    delimited,
    read_fields,
    string,
    tag,
    varint,
)

MAGIC: Final = b"k8s\x00"
_NO_ENCODING_OR_TYPE: Final = string(3, "") + string(4, "")
LENGTH_SIZE: Final = 4


class NotProtobuf(Exception):
    """The bytes are no object in an envelope."""


class Envelope(NamedTuple):
    api_version: str
    kind: str
    raw: bytes
    content_type: str  # of `raw`; empty means protobuf


def wrap(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"%b%b%b%b" % (_begin(api_version, kind), varint(len(raw)), raw, _NO_ENCODING_OR_TYPE)


@lru_cache(maxsize=1024)
def _begin(api_version: str, kind: str) -> bytes:
    """All before the length of the object."""
    return MAGIC + delimited(1, string(1, api_version) + string(2, kind)) + tag(2, LEN)


def event(type_: str, wrapped: bytes) -> bytes:
    """One watch event, with its length before it."""
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
