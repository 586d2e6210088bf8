"""Decodes and checks the request heads of one HTTP/2 connection: method, target and headers.

The connection passes every block that the peer sends, in order. A block that breaks a rule of RFC 9113, section 8, is
`Malformed` and ends the stream; what HTTP/1.1 would refuse with a response (`parser`) has the same `fault` here.

Clients repeat their blocks byte by byte once the dynamic table contains their headers, so heads are cached by block.
A cached block is valid as long as the table does not change: a block that changes it is not cached, and clears the
cache. Callers copy `headers` before they change them or pass on what a handler may change.
"""

from __future__ import annotations

import re

import msgspec

from rewound.gateway.connections.arriving import Fault, escape_fault
from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import HeaderFacts
from rewound.http2.hpack import Decoder, Field

# Limits of what an idle connection has cached: 16 different requests, in blocks of about 100 bytes, take some 20 kB.
_CACHED_BLOCKS = 16
_CACHED_BLOCK_SIZE = 2048

_METHODS = {
    name.encode(): name for name in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE")
}
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_LENGTH = re.compile(rb"[0-9]{1,19}")
_COLON, _SLASH, _HASH = b":/#"

# RFC 9113, section 8.2.2.
_CONNECTION_SPECIFIC = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
)
_CHECKED = _CONNECTION_SPECIFIC | {b"te", b"content-length", b"expect"}

_METHOD_NOT_ALLOWED = "the server does not allow this method on the requested resource"
_NO_WEBSOCKET = "the server does not support extended CONNECT: it serves WebSockets over HTTP/1.1"


class Malformed(Exception):
    """The request breaks a rule of RFC 9113, section 8: stream error PROTOCOL_ERROR."""


class RequestHead(msgspec.Struct):
    """The head of one request. Equal requests share it, so callers must not change it."""

    method: str
    path: str  # as sent: percent-encoded, without the query
    query: str  # as sent, without the question mark
    # Values of repeated headers are joined; contains host, whether sent as Host or :authority.
    headers: dict[bytes, bytes]
    # The separate values of headers sent more than once; never cookies.
    repeated: dict[bytes, list[bytes]] | None
    content_length: int = -1  # -1 if not sent
    expects_continue: bool = False  # the client may wait for 100 Continue before it sends the body
    fault: Fault | None = None  # refuse the request with this; the other fields may then be incomplete
    facts: HeaderFacts | None = None  # of the first request with this head


class RequestHeads:
    __slots__ = ("_cache", "_decoder", "_limits")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._decoder = Decoder(limits.http2_head)
        self._cache: dict[bytes, RequestHead] = {}

    def request(self, block: bytes) -> RequestHead:
        """The head of a request. Raises Malformed, CompressionError or TooManyFields."""
        head = self._cache.get(block)
        return self._decoded(block) if head is None else head

    def trailers(self, block: bytes) -> None:
        """Decode trailers, whose fields are not needed. Raises Malformed, CompressionError or TooManyFields."""
        for name, _, _, allowed in self._fields(block) or ():
            if not allowed or name[0] == _COLON or name in _CONNECTION_SPECIFIC:
                raise Malformed(f"a trailer must not contain {name[:64]!r}")

    def _decoded(self, block: bytes) -> RequestHead:
        decoder, cache = self._decoder, self._cache
        generation = decoder.generation
        fields = self._fields(block)
        if fields is None:
            return _refused(431, f"Request header fields too large: limit is {self._limits.http2_head} bytes")
        head = _head(fields, self._limits)
        if decoder.generation == generation and len(block) <= _CACHED_BLOCK_SIZE:
            if len(cache) >= _CACHED_BLOCKS:
                del cache[next(iter(cache))]
            cache[block] = head
        return head

    def _fields(self, block: bytes) -> list[Field] | None:
        decoder = self._decoder
        generation = decoder.generation
        fields = decoder.decode(block)
        if decoder.generation != generation and self._cache:
            self._cache.clear()
        return fields


def _refused(status: int, message: str, method: str = "") -> RequestHead:
    return RequestHead(method, "", "", {}, None, fault=Fault(status, message))


def _head(fields: list[Field], limits: Limits) -> RequestHead:
    if len(fields) > limits.headers and sum(name[:1] != b":" for name, *_ in fields) > limits.headers:
        return _refused(431, f"Request header fields too large: limit is {limits.headers} fields")
    pseudo: dict[bytes, bytes] = {}
    headers: dict[bytes, bytes] = {}
    repeated: dict[bytes, list[bytes]] = {}
    for name, value, _, allowed in fields:
        if not allowed:
            raise Malformed(f"the request must not contain {name[:64]!r} with such a value")
        if name[0] == _COLON:
            if headers or name in pseudo:
                raise Malformed(f"{name!r} is repeated, or follows a header")
            pseudo[name] = value
        elif name in headers:
            repeated.setdefault(name, [headers[name]]).append(value)
        else:
            headers[name] = value
    if repeated:
        _join(headers, repeated)
    return _request_head(pseudo, headers, repeated or None, limits)


def _join(headers: dict[bytes, bytes], repeated: dict[bytes, list[bytes]]) -> None:
    cookies = repeated.pop(b"cookie", None)
    if cookies is not None:  # clients split one header for better compression (RFC 9113, section 8.2.3)
        headers[b"cookie"] = b"; ".join(cookies)
    for name, values in repeated.items():
        headers[name] = b", ".join(dict.fromkeys(values))
    lengths = repeated.get(b"content-length")
    if lengths is not None and len(set(lengths)) == 1:
        del repeated[b"content-length"]


def _request_head(
    pseudo: dict[bytes, bytes],
    headers: dict[bytes, bytes],
    repeated: dict[bytes, list[bytes]] | None,
    limits: Limits,
) -> RequestHead:
    special = not _CHECKED.isdisjoint(headers)
    if special:
        _check_connection_headers(headers)
    method = _METHODS.get(pseudo.get(b":method", b""))
    target = pseudo.get(b":path")
    if method is None or b":protocol" in pseudo:
        return _unusual_method(pseudo)
    if not target or not pseudo.get(b":scheme"):
        raise Malformed("the request has no :path or no :scheme")
    if target[0] != _SLASH and not (target == b"*" and method == "OPTIONS"):
        raise Malformed("the :path does not start with a slash")
    fault = _set_host(headers, pseudo.get(b":authority"), repeated)
    if len(target) > limits.target or _HASH in target:
        fault = _target_fault(target, limits)
    path, _, query = target.decode("ascii").partition("?")
    if fault is None and "%" in path:
        fault = escape_fault(path)
    length, expects_continue = -1, False
    if special:
        length = _content_length(headers)
        fault = fault or _body_fault(length, path, headers, limits)
        expects_continue = b"expect" in headers and fault is None
    return RequestHead(method, path, query, headers, repeated, length, expects_continue, fault)


def _unusual_method(pseudo: dict[bytes, bytes]) -> RequestHead:
    """Refuse CONNECT, which has its own pseudo-headers (RFC 9113, section 8.5), and unknown methods."""
    method = pseudo.get(b":method", b"")
    complete = bool(pseudo.get(b":path")) and bool(pseudo.get(b":scheme"))
    if b":protocol" in pseudo:
        if method == b"CONNECT" and complete:
            return _refused(501, _NO_WEBSOCKET, "CONNECT")
        raise Malformed(":protocol belongs to a CONNECT with :path and :scheme")
    if method == b"CONNECT":
        if b":path" in pseudo or b":scheme" in pseudo or not pseudo.get(b":authority"):
            raise Malformed("a CONNECT has an :authority, no :path and no :scheme")
    elif not complete or _TOKEN.fullmatch(method) is None:
        raise Malformed("the :method is not a token, or :path or :scheme is missing")
    return _refused(405, _METHOD_NOT_ALLOWED, method.decode("ascii"))


def _target_fault(target: bytes, limits: Limits) -> Fault:
    if len(target) > limits.target:
        return Fault(414, f"Request URI too long: limit is {limits.target} bytes")
    return Fault(400, "the request target has a fragment")


def _set_host(
    headers: dict[bytes, bytes], authority: bytes | None, repeated: dict[bytes, list[bytes]] | None
) -> Fault | None:
    """Merge :authority and Host into one header; both may be sent if they agree (RFC 9113, section 8.3.1)."""
    host = headers.get(b"host")
    if repeated is not None and b"host" in repeated:
        return Fault(400, "the request has more than one Host header")
    if host is None:
        host = authority or b""
    elif authority is not None and authority.lower() != host.lower():
        raise Malformed(":authority and Host differ")
    if not host:
        return Fault(400, "the request has no Host header")
    headers[b"host"] = host
    return None


def _check_connection_headers(headers: dict[bytes, bytes]) -> None:
    if not _CONNECTION_SPECIFIC.isdisjoint(headers):
        raise Malformed("the request has a header that belongs to HTTP/1.1 connections")
    if headers.get(b"te", b"trailers").lower() != b"trailers":
        raise Malformed("TE is other than trailers")


def _content_length(headers: dict[bytes, bytes]) -> int:
    length = headers.get(b"content-length")
    if length is None:
        return -1
    if _LENGTH.fullmatch(length) is None:
        raise Malformed("Content-Length is not one number")
    return int(length)


def _body_fault(length: int, path: str, headers: dict[bytes, bytes], limits: Limits) -> Fault | None:
    if length > limits.body and not limits.forwards(path):
        return Fault(413, f"Request entity too large: limit is {limits.body}")
    if headers.get(b"expect", b"100-continue").lower() != b"100-continue":
        return Fault(417, "Expectation failed: 100-continue is the only one")
    return None
