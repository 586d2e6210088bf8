"""Bytes of one HTTP/1.1 connection to whole `Request`s, by httptools' callbacks.

`http1` feeds it and takes what is `ready`. Requests come out in order and complete; a message that breaks
syntax or a size limit ends the connection as a `Fault`, after the requests before it. llhttp is left in its
strict mode: it refuses both Content-Length with Transfer-Encoding, bare line feeds and folded headers. What
it lets pass and we do not serve (other codings, other versions, CONNECT) is refused here. A request for a
WebSocket stops it: what follows is HTTP only if the upgrade is declined.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import httptools

from gateway.connections.limits import Limits
from gateway.requests.request import Peer, Request

_METHODS = {
    name.encode(): name for name in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE")
}
_METHOD_LIKE = re.compile(rb"[A-Za-z-]{1,32} ")
_SLASH = ord("/")
_AUTHORITY = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why the connection cannot go on, as the client is told."""

    status: int
    message: str


# Headers that say how a message is framed or what follows it.
_FRAMING = frozenset((b"content-length", b"transfer-encoding", b"upgrade", b"expect"))
# A request line that needs no second look; llhttp takes the same characters in a target.
_ORDINARY = re.compile(rb'(GET|HEAD|DELETE) (/[!"$->@-~]*)(?:\?([!"$-~]*))? HTTP/1\.1')


def wants_websocket(headers: Mapping[bytes, bytes]) -> bool:
    return b"websocket" in [word.strip() for word in headers.get(b"upgrade", b"").lower().split(b",")]


class _Stop(Exception):
    """Ends llhttp's run from inside a callback; the fault is already noted."""


class Parser:
    __slots__ = (
        "_body",
        "_head",
        "_headers",
        "_http",
        "_known",
        "_known_block",
        "_known_repeated",
        "_limits",
        "_owed",
        "_peer",
        "_repeated",
        "_request",
        "_url",
        "beyond",
        "closing",
        "expecting",
        "fault",
        "midway",
        "old",
        "ready",
        "received",
        "upgrading",
    )

    def __init__(self, peer: Peer, limits: Limits) -> None:
        self.ready: list[Request] = []
        self.fault: Fault | None = None
        self.midway = False  # part of a message has been read
        self.expecting = False  # the client waits for 100 Continue before it sends the body
        self.closing = False  # the last ready request asked for the connection to end
        self.old = False  # the last ready request spoke HTTP/1.0
        self.received = 0  # bytes of the body under way
        self.upgrading = False  # the last ready request asks for a WebSocket
        self.beyond = b""  # what came behind that request
        self._peer = peer
        self._limits = limits
        self._headers: dict[bytes, bytes] = {}
        self._repeated: dict[bytes, list[bytes]] | None = None
        self._url = b""
        self._head = 0  # bytes of the head under way, without those that came together with its first
        self._body: list[bytes] = []
        self._owed = 0  # body bytes that llhttp would take for another protocol
        self._request: Request | None = None
        # The header block of the last request without a body, and what it came to: clients repeat theirs
        # to the byte, so most requests of a connection are their request line and a comparison.
        self._known_block: bytes | None = None
        self._known: dict[bytes, bytes] = {}
        self._known_repeated: dict[bytes, list[bytes]] | None = None
        self._http: Any = httptools.HttpRequestParser(self)

    @property
    def in_body(self) -> bool:
        return self._request is not None

    def feed(self, data: bytes) -> None:
        if self.midway:
            if self._request is None:
                self._head += len(data)
                if self._head > self._limits.head:
                    self.fault = self._head_too_large()
                    return
            self._parse(data)
            return
        line, _, block = data.partition(b"\r\n")
        if block == self._known_block and len(line) <= self._limits.target:
            match = _ORDINARY.fullmatch(line)
            if match is not None:
                self._recognize(*match.groups())
                return
        self._parse(data)
        self._remember(line, block)

    def _parse(self, data: bytes) -> None:
        while data:
            if self._owed:
                data = self._pay(data)
            try:
                self._http.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                if self._asks_for_websocket():
                    self.upgrading, self.beyond = True, data
                    return
                # No other protocol is spoken here: the request is an ordinary one and so is what follows it.
            except httptools.HttpParserError as error:
                self._fail(error, data)
                return
            else:
                return

    def _recognize(self, method: bytes, path: bytes, query: bytes | None) -> None:
        self.old = False
        self.ready.append(
            Request(
                _METHODS[method],
                path.decode("latin-1"),
                "" if query is None else query.decode("latin-1"),
                self._known.copy(),
                b"",
                self._peer,
                self._known_repeated,
            )
        )

    def _remember(self, line: bytes, block: bytes) -> None:
        """Keep the block if it made one whole request that goes on under the rules of HTTP/1.1, bodiless."""
        if len(self.ready) != 1 or self.midway or self.closing or self.old or self.fault is not None:
            return
        request = self.ready[0]
        alone = block.find(b"\r\n\r\n") == len(block) - 4
        if alone and _FRAMING.isdisjoint(request.headers) and _ORDINARY.fullmatch(line) is not None:
            self._known_block = block
            self._known, self._known_repeated = request.headers.copy(), request.repeated

    def _asks_for_websocket(self) -> bool:
        if not self.ready or self._owed or self.old:
            return False
        request = self.ready[-1]
        return request.method == "GET" and not request.body and wants_websocket(request.headers)

    def decline(self) -> bytes:
        """Go on with HTTP; what came behind the request is to be fed again."""
        self.upgrading = False
        data, self.beyond = self.beyond, b""
        return data

    def abandon(self) -> Request | None:
        """The request whose head is whole and whose body is not, if there is one: it will not be read on."""
        request, self._request = self._request, None
        return request

    def release(self) -> None:
        """Cut the cycle of parser and callbacks, so that a closed connection is freed at once."""
        self._http = None

    def _fail(self, error: Exception, data: bytes) -> None:
        if self.fault is not None or self.closing:
            return
        if isinstance(error, httptools.HttpParserInvalidMethodError) and _METHOD_LIKE.match(data):
            self.fault = Fault(405, "the server does not allow this method on the requested resource")
        else:
            self.fault = Fault(400, f"the request is not well-formed HTTP/1.1: {error}")

    def _stop(self, status: int, message: str) -> NoReturn:
        self.fault = Fault(status, message)
        raise _Stop

    def _head_too_large(self) -> Fault:
        return Fault(431, f"Request header fields too large: limit is {self._limits.head} bytes")

    # What llhttp calls, in order.

    def on_message_begin(self) -> None:
        self.midway = True
        self._head = 0

    def on_url(self, url: bytes) -> None:
        self._url = self._url + url if self._url else url
        if len(self._url) > self._limits.target:
            self._stop(414, f"Request URI too long: limit is {self._limits.target} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        value = value.strip()
        headers = self._headers
        if name in headers:
            self._repeat(name, value)
        else:
            headers[name] = value

    def _repeat(self, name: bytes, value: bytes) -> None:
        if self._repeated is None:
            self._repeated = {}
        values = self._repeated.setdefault(name, [self._headers[name]])
        values.append(value)
        self._headers[name] += b", " + value

    def on_headers_complete(self) -> None:
        headers, url, repeated, http = self._headers, self._url, self._repeated, self._http
        # Trailers are reported like headers: from here on they fall into a dict that nobody reads.
        self._headers, self._url = {}, b""
        if repeated is not None or self._head or len(headers) > self._limits.headers:
            self._check_head(url, headers)
        self.old = False
        if b"connection" in headers or not http.should_keep_alive():
            self._check_connection(http)
        if b"host" not in headers and not self.old:
            self._stop(400, "the request has no Host header")
        if url[0] != _SLASH or b"#" in url:
            url = self._odd_target(url)
        path, _, query = url.decode("latin-1").partition("?")
        method = _METHODS.get(http.get_method()) or self._odd_method(http)
        self._request = Request(method, path, query, headers, b"", self._peer, repeated)
        if b"content-length" in headers or b"transfer-encoding" in headers:
            self._check_body(headers)

    def _check_head(self, url: bytes, headers: dict[bytes, bytes]) -> None:
        repeated, self._repeated = self._repeated or {}, None
        if b"host" in repeated:
            self._stop(400, "the request has more than one Host header")
        count = len(headers) + sum(len(values) - 1 for values in repeated.values())
        if count > self._limits.headers:
            self._stop(431, f"Request header fields too large: limit is {self._limits.headers} fields")
        size = len(url) + sum(len(name) + len(value) + 4 for name, value in headers.items())
        if size > self._limits.head:
            self.fault = self._head_too_large()
            raise _Stop

    def _check_connection(self, http: Any) -> None:
        version = http.get_http_version()
        if version not in ("1.0", "1.1"):
            self._stop(505, "HTTP Version not supported: speak HTTP/1.1 or HTTP/2")
        self.old = version == "1.0"
        self.closing = not http.should_keep_alive()

    def _odd_target(self, url: bytes) -> bytes:
        if b"#" in url:
            self._stop(400, "the request target has a fragment")
        # The absolute form, as proxies get it; or the asterisk of OPTIONS.
        path = _AUTHORITY.sub(b"", url, count=1)
        return path if path[:1] in (b"/", b"*") else b"/" + path

    def _odd_method(self, http: Any) -> str:
        method: str = http.get_method().decode()
        if method == "CONNECT":
            self._stop(405, "the server does not allow this method on the requested resource")
        return method

    def _check_body(self, headers: dict[bytes, bytes]) -> None:
        length = int(headers.get(b"content-length") or 0)
        coding = headers.get(b"transfer-encoding")
        if length > self._limits.body:
            self._stop(413, f"Request entity too large: limit is {self._limits.body}")
        if coding is not None and (self.old or coding.lower() != b"chunked"):
            self._stop(501, "Unsupported transfer encoding: chunked over HTTP/1.1 is the only one")
        if self._http.should_upgrade():
            if coding is not None:
                self._stop(400, "a request for an upgrade cannot have a chunked body")
            self._owed = length
        if b"expect" in headers:
            self._check_expectation(headers[b"expect"])

    def _check_expectation(self, expectation: bytes) -> None:
        if expectation.lower() != b"100-continue":
            self._stop(417, "Expectation failed: 100-continue is the only one")
        self.expecting = not self.old

    def on_body(self, part: bytes) -> None:
        self._body.append(part)
        self.received += len(part)
        if self.received > self._limits.body:
            self._stop(413, f"Request entity too large: limit is {self._limits.body}")

    def on_message_complete(self) -> None:
        if self._owed:
            return
        request = self._request
        assert request is not None
        if self._body:
            request.body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._body = []
            self.received = 0
        if self._headers:
            self._headers, self._repeated = {}, None
        self._request = None
        self.midway = self.expecting = False
        self.ready.append(request)

    def _pay(self, data: bytes) -> bytes:
        """Take the body of a request for an upgrade, which llhttp leaves where it is."""
        part, rest = data[: self._owed], data[self._owed :]
        self._owed -= len(part)
        self.on_body(part)
        if not self._owed:
            self.on_message_complete()
        return rest
