r"""Watch events as bytes on the wire: the document, and the frame that each protocol puts around it.

    {"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":...}}\n

HTTP/1.1 sends each document as one chunk, WebSocket as one text frame, or as a binary one in protobuf and CBOR
(server frames are not masked, so all watchers of a group share the same bytes), HTTP/2 without a frame.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from rewound.gateway.wire.cbor.writer import SELF_DESCRIBED
from rewound.gateway.wire.protobuf.wire_format import LENGTH_SIZE

Framing = Callable[[bytes], bytes]
Encode = Callable[[str, bytes], bytes]  # event type and stored object -> watch event

LAST_CHUNK = b"0\r\n\r\n"
_TEXT = 0x81
_BINARY = 0x82


def document(kind: str, obj: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), obj)


class StoredObjects:
    """Encodes events with objects as they are stored, except that each is prefixed with its type, as most watches
    need.

    It does the work of `document` and `as_chunk` in one step.
    """

    __slots__ = ("_heads",)

    def __init__(self, prefix: bytes) -> None:
        """`prefix` replaces the first byte of an object."""
        self._heads = {kind: document(kind, prefix)[:-2] for kind in ("ADDED", "MODIFIED", "DELETED")}

    def __call__(self, kind: str, body: bytes) -> bytes:
        return self._heads[kind] + body[1:] + b"}\n"

    def chunk(self, kind: str, body: bytes) -> bytes:
        head = self._heads[kind]
        return b"%x\r\n" % (len(head) + len(body) + 1) + head + body[1:] + b"}\n\r\n"


def framed_by(framing: Framing, encode: Encode) -> Encode:
    """The function that encodes and frames an event."""
    if framing is unframed:
        return encode
    if framing is as_chunk and isinstance(encode, StoredObjects):
        return encode.chunk
    return lambda kind, body: framing(encode(kind, body))


def as_chunk(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def as_text_frame(payload: bytes) -> bytes:
    payload = payload.rstrip(b"\n")
    return _head(_TEXT, len(payload)) + payload


def as_binary_frame(payload: bytes) -> bytes:
    """Frame an event in CBOR, or a protobuf event without its length prefix: the WebSocket frame has the length."""
    if not payload.startswith(SELF_DESCRIBED):  # no length begins like this
        payload = payload[LENGTH_SIZE:]
    return _head(_BINARY, len(payload)) + payload


def _head(opcode: int, size: int) -> bytes:
    if size < 126:
        return struct.pack("!BB", opcode, size)
    if size < 1 << 16:
        return struct.pack("!BBH", opcode, 126, size)
    return struct.pack("!BBQ", opcode, 127, size)


def unframed(payload: bytes) -> bytes:
    return payload
