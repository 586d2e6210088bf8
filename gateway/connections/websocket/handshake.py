"""The opening handshake of a WebSocket (RFC 6455, section 4), and the bearer token as a subprotocol.

A browser cannot set an Authorization header on a WebSocket, but it can offer subprotocols. So one of them may carry
the token; the server never selects that one:

    Sec-WebSocket-Protocol: base64url.bearer.authorization.cluster.io.YWRtaW4tdG9rZW4, v1.example

A client has to offer another one too, because a browser accepts no connection for which the server selects none.
`Pipeline` removes the token before any other use; `http1` selects among the rest.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from actors.access.authentication.request_headers import HeaderFields
from actors.errors import Unauthorized
from actors.names import Names
from gateway.connections.parsing.fault import Fault

VERSION = b"13"
REFUSAL_HEADERS = [(b"sec-websocket-version", VERSION), (b"upgrade", b"websocket")]
PROTOCOLS = b"sec-websocket-protocol"
_KEY_BYTES = 16
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3


@dataclass(frozen=True, slots=True)
class Accepted:
    """The server's part of the handshake."""

    accept: bytes
    protocol: bytes  # empty: none was offered

    def head(self, fields: list[tuple[bytes, bytes]]) -> bytes:
        lines = [
            (b"upgrade", b"websocket"),
            (b"connection", b"Upgrade"),
            (b"sec-websocket-accept", self.accept),
            *([(PROTOCOLS, self.protocol)] if self.protocol else ()),
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
    offered = _protocols(headers)
    return Accepted(_accept_token(key), offered[0] if offered else b"")


def bearer_prefix(names: Names) -> bytes:
    return f"base64url.bearer.{names.group('authorization')}.".encode()


def take_bearer(fields: HeaderFields, prefix: bytes) -> bytes | None:
    """Remove the token from the offered subprotocols; return it as an Authorization header, None without one."""
    offered = _protocols(fields.headers)
    tokens = [one[len(prefix) :] for one in offered if one.startswith(prefix)]
    if not tokens:
        return None
    others = [one for one in offered if not one.startswith(prefix)]
    fields.headers[PROTOCOLS] = b", ".join(others)
    if fields.repeated:  # requests with the same head share it
        fields.repeated = {name: values for name, values in fields.repeated.items() if name != PROTOCOLS}
    if len(tokens) > 1 or not tokens[0] or not others:
        raise Unauthorized
    try:
        token = base64.b64decode(tokens[0] + b"=" * (-len(tokens[0]) % 4), altchars=b"-_", validate=True)
        token.decode()
    except (binascii.Error, UnicodeDecodeError):
        raise Unauthorized from None
    if token.split() != [token]:
        raise Unauthorized  # in a header, the space would end the token or make it none
    return b"Bearer " + token


def _protocols(headers: Mapping[bytes, bytes]) -> list[bytes]:
    return [word for word in (word.strip() for word in headers.get(PROTOCOLS, b"").split(b",")) if word]


def _accept_token(key: bytes) -> bytes:
    """Sec-WebSocket-Accept for this key (RFC 6455, section 4.2.2)."""
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except binascii.Error:
        return False
