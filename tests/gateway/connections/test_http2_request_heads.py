"""Request heads from HTTP/2 header blocks: every rule of RFC 9113, section 8, the limits, and the cache of blocks."""

import hpack

from gateway.connections.http2.request_heads import RequestHead, RequestHeads
from gateway.connections.limits import Limits

Pair = tuple[bytes, bytes]
BASIC: tuple[Pair, ...] = (
    (b":method", b"GET"),
    (b":scheme", b"https"),
    (b":path", b"/api"),
    (b":authority", b"t:6443"),
)


def encode(*fields: Pair) -> bytes:
    return hpack.Encoder().encode(fields)


def head(*fields: Pair, limits: Limits | None = None) -> RequestHead:
    return RequestHeads(limits or Limits()).request(encode(*fields))


def test_plain_request() -> None:
    result = head(*BASIC[:2], (b":path", b"/a%20b?x=1?2"), BASIC[3], (b"accept", b"*/*"))
    assert result == RequestHead(
        "GET", "/a%20b", "x=1?2", {b"accept": b"*/*", b"host": b"t:6443"}, None, -1, False, None
    )
