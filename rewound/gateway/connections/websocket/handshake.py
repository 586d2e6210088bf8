"""The opening handshake of a WebSocket (RFC 6455, section 4).

It selects the first subprotocol that a client offers; one with a bearer token was removed before
(`gateway.pipeline.credentials`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping

import msgspec

from rewound.gateway.connections.arriving import Fault
from rewound.gateway.message import WEBSOCKET_PROTOCOLS, websocket_protocols

VERSION = b"13"
REFUSAL_HEADERS = [(b"sec-websocket-version", VERSION), (b"upgrade", b"websocket")]
_KEY_BYTES = 16
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3


class Accepted(msgspec.Struct, frozen=True):
    """The server's side of the handshake."""

    accept: bytes
    protocol: bytes  # empty if none was offered

    def head(self, fields: list[tuple[bytes, bytes]]) -> bytes:
        lines = [
            (b"upgrade", b"websocket"),
            (b"connection", b"Upgrade"),
            (b"sec-websocket-accept", self.accept),
            *([(WEBSOCKET_PROTOCOLS, self.protocol)] if self.protocol else ()),
            *fields,
        ]
        return b"HTTP/1.1 101 Switching Protocols\r\n%b\r\n" % b"".join(b"%b: %b\r\n" % one for one in lines)


def accept_websocket(headers: Mapping[bytes, bytes]) -> Accepted | Fault:
    """Accept an authorized request for a WebSocket, or return why its handshake is refused."""
    version = headers.get(b"sec-websocket-version", b"")
    if version != VERSION:
        offered_version = version.decode("latin-1") or "none"
        return Fault(426, f"Sec-WebSocket-Version: 13 is the only version served, not {offered_version}")
    key = headers.get(b"sec-websocket-key", b"")
    if not _is_key(key):
        return Fault(400, "Sec-WebSocket-Key is not the base64 form of 16 bytes")
    offered = websocket_protocols(headers)
    return Accepted(_accept_token(key), offered[0] if offered else b"")


def _accept_token(key: bytes) -> bytes:
    """The Sec-WebSocket-Accept for a key (RFC 6455, section 4.2.2)."""
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except binascii.Error:
        return False
