r"""Watch events as bytes on the wire: the document, and the frame that a transport puts around it.

    {"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":...}}\n

HTTP/1.1 sends each document as one chunk, WebSocket as one text frame (server frames are not masked, so all
watchers of a group share the same bytes), HTTP/2 as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import orjson

Framing = Callable[[bytes], bytes]

LAST_CHUNK = b"0\r\n\r\n"
_TEXT = 0x81


def document(kind: str, shown: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), shown)


def error_document(status: dict[str, Any]) -> bytes:
    return document("ERROR", orjson.dumps(status))


def as_chunk(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def as_text_frame(payload: bytes) -> bytes:
    payload = payload.rstrip(b"\n")
    size = len(payload)
    if size < 126:
        return struct.pack("!BB", _TEXT, size) + payload
    if size < 1 << 16:
        return struct.pack("!BBH", _TEXT, 126, size) + payload
    return struct.pack("!BBQ", _TEXT, 127, size) + payload


def as_it_is(payload: bytes) -> bytes:
    return payload
