"""Turns the scope of an ASGI connection into a `Request`: checks its target and headers, and reads its peer.

Servers differ in what they check and pass on, so everything that the rest of the gateway relies on is checked here:
limits of a head, escapes of a path, a single Host.

The identity of the peer comes from the server, never from a header: our own worker passes the accepted connection in
the state of the scope; others may use ASGI's TLS extension, with the certificate that they verified.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from datetime import UTC
from functools import lru_cache
from math import inf
from typing import Any, Final
from urllib.parse import quote

import trio

from rewound.actors.certificates.pools import TrustPools
from rewound.gateway.connections.arriving import Fault, escape_fault
from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.transport import Transport
from rewound.gateway.message import Peer, Request

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

CONNECTION: Final = "rewound.connection"  # key in the state of a scope: its `AcceptedConnection`
_AUTHORITY: Final = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)
_METHODS: Final = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"))
_LENGTH: Final = re.compile(rb"[0-9]{1,19}")
_PATH_SAFE: Final = "/:@!$&'()*+,;=-._~"
_ANY_KEY: Final = b"A" * 22 + b"=="  # a placeholder: the server has checked the real one, or needs none
_VERSIONS: Final = frozenset(("1.0", "1.1", "2", "2.0", "3"))
# Forbidden by RFC 9113, section 8.2.2, and RFC 9114, section 4.2. Servers set Connection and Upgrade of a WebSocket
# themselves.
_CONNECTION_SPECIFIC: Final = frozenset((b"proxy-connection", b"keep-alive", b"transfer-encoding"))
_NOT_ALLOWED: Final = "the server does not allow this method on the requested resource"


@dataclass(slots=True)
class AcceptedConnection:
    """What our own worker knows about the connection of a request; one without a transport is HTTP/3."""

    peer: Peer
    transport: Transport | None = None
    running: int = 0  # requests in progress
    _idle: trio.Event = field(default_factory=trio.Event)

    def begin(self) -> None:
        self.running += 1
        if self.transport is not None:
            self.transport.idle = False
            self.transport.deadline = inf  # the head of a request has arrived

    def end(self) -> None:
        self.running -= 1
        if self.transport is not None:
            self.transport.idle = not self.running
        if not self.running:
            self._idle.set()

    async def wait_idle(self) -> None:
        """Return when no request is in progress."""
        while self.running:
            self._idle = trio.Event()
            await self._idle.wait()


@dataclass(slots=True)
class Head:
    """A request without its body, and the fault if it is refused."""

    request: Request
    length: int = 0  # length of its body; -1 if unknown
    fault: Fault | None = None


def read_head(scope: Scope, limits: Limits, peer: Peer) -> Head:
    """Read a scope of type http, or of type websocket, which is a GET that asks for an upgrade."""
    is_websocket = scope["type"] == "websocket"
    fields = [(bytes(name).lower(), bytes(value).strip()) for name, value in scope["headers"]]
    version = str(scope.get("http_version", "1.1"))
    headers, repeated = _join(fields, cookies=version[:1] in ("2", "3"))
    if is_websocket:  # HTTP/2 and HTTP/3 use CONNECT instead
        headers.setdefault(b"connection", b"Upgrade")
        headers.setdefault(b"upgrade", b"websocket")
        headers.setdefault(b"sec-websocket-key", _ANY_KEY)
        headers.setdefault(b"sec-websocket-version", b"13")
    path, query = _target(scope)
    method = "GET" if is_websocket else str(scope["method"])
    request = Request(
        method, path.decode("latin-1"), query.decode("latin-1"), headers, b"", peer, repeated or None
    )
    head = Head(request, 0 if is_websocket else _length(scope, headers))
    head.fault = (
        _size_fault(fields, len(path) + len(query), limits)
        or _target_fault(request, path + query)
        or _framing_fault(version, headers)
        or _field_fault(head, repeated, limits)
    )
    return head


def _join(
    fields: list[tuple[bytes, bytes]], *, cookies: bool
) -> tuple[dict[bytes, bytes], dict[bytes, list[bytes]]]:
    """The joined values of each header; and the separate values of headers that were sent more than once."""
    found: dict[bytes, list[bytes]] = {}
    for name, value in fields:
        found.setdefault(name, []).append(value)
    # A repeated equal line is ignored: clients and proxies send Authorization twice.
    headers = {name: b", ".join(dict.fromkeys(values)) for name, values in found.items()}
    repeated = {name: values for name, values in found.items() if len(values) > 1}
    if cookies and b"cookie" in repeated:  # clients split this header for better compression
        headers[b"cookie"] = b"; ".join(repeated.pop(b"cookie"))
    return headers, repeated


def _target(scope: Scope) -> tuple[bytes, bytes]:
    """The path and query as they were sent; a server need not pass on the path in that form."""
    raw = scope.get("raw_path")
    path = bytes(raw) if raw is not None else quote(scope["path"], safe=_PATH_SAFE).encode()
    if path[:1] != b"/":  # the absolute form, which proxies receive
        path = _AUTHORITY.sub(b"", path, count=1)
        path = path if path[:1] in (b"/", b"*") else b"/" + path
    return path, bytes(scope.get("query_string", b""))


def _length(scope: Scope, headers: dict[bytes, bytes]) -> int:
    """The length of the body; -1 if only its end tells, because HTTP/2 and HTTP/3 need no header for a body."""
    length = headers.get(b"content-length")
    if length is not None and _LENGTH.fullmatch(length):
        return int(length)
    chunked = b"transfer-encoding" in headers or scope.get("http_version", "1.1")[0] in "23"
    return -1 if chunked else 0


def _size_fault(fields: list[tuple[bytes, bytes]], target: int, limits: Limits) -> Fault | None:
    if target > limits.target:
        return Fault(414, f"Request URI too long: limit is {limits.target} bytes")
    if len(fields) > limits.headers:
        return Fault(431, f"Request header fields too large: limit is {limits.headers} fields")
    if target + sum(len(name) + len(value) + 4 for name, value in fields) > limits.head:
        return Fault(431, f"Request header fields too large: limit is {limits.head} bytes")
    return None


def _target_fault(request: Request, target: bytes) -> Fault | None:
    if b"#" in target:
        return Fault(400, "the request target has a fragment")
    if request.method not in _METHODS:
        return Fault(405, _NOT_ALLOWED)
    return escape_fault(request.path) if "%" in request.path else None


def _framing_fault(version: str, headers: dict[bytes, bytes]) -> Fault | None:
    """Refuse what another server may frame differently: not every ASGI server does."""
    if version not in _VERSIONS:
        return Fault(505, "HTTP Version not supported: speak HTTP/1.1, HTTP/2 or HTTP/3")
    if version[0] != "1":
        found = sorted(_CONNECTION_SPECIFIC & headers.keys())
        return Fault(400, f"HTTP/{version[0]} has no field {found[0].decode()}") if found else None
    if b"transfer-encoding" in headers and b"content-length" in headers:
        return Fault(400, "the request has both Content-Length and Transfer-Encoding")
    return None


def _field_fault(head: Head, repeated: dict[bytes, list[bytes]], limits: Limits) -> Fault | None:
    headers = head.request.headers
    if b"host" in repeated:
        return Fault(400, "the request has more than one Host header")
    if head.length > limits.body and not limits.forwards(head.request.path):
        return Fault(413, f"Request entity too large: limit is {limits.body}")
    if headers.get(b"expect", b"100-continue").lower() != b"100-continue":
        return Fault(417, "Expectation failed: 100-continue is the only one")
    return None


# The peer.


def accepted_connection(scope: Scope) -> AcceptedConnection | None:
    found = (scope.get("state") or {}).get(CONNECTION)
    return found if isinstance(found, AcceptedConnection) else None


def read_peer(scope: Scope, pools: TrustPools | None) -> Peer:
    """The peer as the server reports it. With trust pools, a certificate counts only in the roles of its issuing CA."""
    accepted = accepted_connection(scope)
    if accepted is not None:
        return accepted.peer
    client = scope.get("client")
    peer = Peer(
        address=str(client[0]) if client else "", secure=scope.get("scheme", "http") in ("https", "wss")
    )
    tls = (scope.get("extensions") or {}).get("tls") or {}
    chain = tuple(tls.get("client_cert_chain") or ())
    if chain and not tls.get("client_cert_error"):
        _set_certificate(peer, chain, pools)
    return peer


def _set_certificate(peer: Peer, chain: tuple[str, ...], pools: TrustPools | None) -> None:
    peer.certificate, peer.certificate_expires, ders = _parsed(chain)
    if pools is not None:
        roles = pools.of(ders[0], ders)
        peer.proxy_certificate = peer.certificate if roles.proxy else None
        peer.certificate = peer.certificate if roles.client else None


@lru_cache(maxsize=256)
def _parsed(chain: tuple[str, ...]) -> tuple[dict[str, Any], int, list[bytes]]:
    """Parse a chain in PEM: the subject of the first as `ssl.getpeercert()` has it, its expiry (ns), and all in DER."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    certificates = [x509.load_pem_x509_certificate(one.encode()) for one in chain]
    first = certificates[0]
    kinds = {NameOID.COMMON_NAME: "commonName", NameOID.ORGANIZATION_NAME: "organizationName"}
    subject = tuple(
        tuple((kinds.get(one.oid, one.oid.dotted_string), one.value) for one in part)
        for part in first.subject.rdns
    )
    expires = int(first.not_valid_after_utc.astimezone(UTC).timestamp()) * 1_000_000_000
    return {"subject": subject}, expires, [one.public_bytes(Encoding.DER) for one in certificates]
