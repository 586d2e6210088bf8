"""Header fields of forwarded requests and responses: what goes on, what belongs to one connection, what is added."""

from __future__ import annotations

from typing import Final

from gateway.message import Request
from gateway.outgoing.response import Field, Head

_HOP_BY_HOP: Final = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
# Never forwarded: credentials for this server, and what the connection to the other server sets itself.
_OWN: Final = frozenset((b"authorization", b"content-length", b"expect", b"host", b"x-forwarded-for"))
_WEBSOCKET_PROTOCOLS: Final = b"sec-websocket-protocol"
# Of responses: each connection has its own, and scripts of other origins get no rights from a backend.
_REPLACED: Final = frozenset((b"audit-id", b"content-type", b"date"))
_CORS: Final = frozenset(
    b"access-control-allow-" + name for name in (b"credentials", b"headers", b"methods", b"origin")
)
_CACHE_CONTROL: Final = (b"cache-control", b"no-cache, private")


def request_fields(request: Request, host: bytes | None, *, upgrading: bool) -> list[Field]:
    """The fields for the other server, without those that frame the body."""
    headers, repeated = request.headers, request.repeated or {}
    dropped = _OWN if upgrading else _OWN | _HOP_BY_HOP | _named(headers.get(b"connection", b""))
    fields = [(b"host", headers.get(b"host", b"") if host is None else host)]
    for name, joined in headers.items():
        if name in dropped or (name == _WEBSOCKET_PROTOCOLS and not joined):
            continue
        fields.extend((name, value) for value in (repeated.get(name) or (joined,)))
    if not upgrading and b"trailers" in _words(headers.get(b"te", b"")):
        fields.append((b"te", b"trailers"))
    forwarded_for = _forwarded_for(request)
    if forwarded_for:
        fields.append((b"x-forwarded-for", forwarded_for))
    return fields


def _forwarded_for(request: Request) -> bytes:
    """Empty for a client on a Unix socket that forwards for nobody."""
    address = request.peer.address.encode()
    before = request.headers.get(b"x-forwarded-for")
    if not address:
        return before or b""
    return b"%b, %b" % (before, address) if before is not None else address


def response_fields(head: Head, *, cors: bool) -> list[Field]:
    """The fields for the client, without the content type. `cors`: whether rights for other origins go on."""
    dropped = _REPLACED | (_HOP_BY_HOP - {b"trailer"}) | _named(head.get(b"connection"))
    if not cors:
        dropped |= _CORS
    fields = [one for one in head.fields if one[0] not in dropped]
    if any(name == b"cache-control" for name, _ in fields):
        fields.insert(0, _CACHE_CONTROL)  # whatever the other server allows, responses are not shared
    return fields


def _named(connection: bytes) -> frozenset[bytes]:
    """The fields that a Connection field names."""
    return frozenset(_words(connection)) if connection else frozenset()


def _words(value: bytes) -> list[bytes]:
    return [word.strip().lower() for word in value.split(b",")]
