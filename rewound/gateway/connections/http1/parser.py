"""Parses the bytes of one HTTP/1.1 connection into `Request`s, with httptools' callbacks.

Requests that repeat a header block are found by `RepeatedHeads`, without parsing.

`http1` feeds it and takes the requests that are `ready`, complete and in order. A request whose head is complete but
whose body is not is `incomplete`; once `http1` has taken it (`begin`), its body is completed in place, or discarded.
A message that breaks the syntax or a size limit ends the connection with a `Fault`, after the requests before it.
llhttp stays in its strict mode: it refuses Content-Length together with Transfer-Encoding, bare line feeds and folded
headers. What it accepts but we do not serve (other codings, other versions, CONNECT) is refused here. After a request
for a WebSocket, or any upgrade that is forwarded, it stops parsing: what follows is HTTP only if the upgrade is
declined.

Go's server accepts a Content-Length that is repeated with the same number (RFC 9110, section 8.6); llhttp does not.
If such a head arrives whole at the start of a read, it is parsed again without the repetition; a pipelined one and
one that arrives in parts are refused. Other requests pay nothing for this.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final, NoReturn

import httptools

from rewound.gateway.connections.arriving import Fault, Parts, add_part, escape_fault, join_parts
from rewound.gateway.connections.limits import KIB, Limits
from rewound.gateway.message import Peer, Request, wants_websocket

_NAMES = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE")
_METHODS = {name.encode(): name for name in _NAMES}
_METHOD_LIKE = re.compile(rb"[A-Za-z-]{1,32} ")
_SLASH = ord("/")
_HASH = ord("#")  # searching for an int is five times as fast as for bytes
# If no handler reads a body, a rest of up to this size is discarded, so that the connection can continue.
_DISCARDED = 256 * KIB
_LENGTH_LINE = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)[ \t]*(?=\r\n)", re.IGNORECASE)
_HEAD_END = b"\r\n\r\n"
_AUTHORITY = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)

# Limits of both blocks together and of each request line: unauthenticated clients may have many idle connections.
_MAX_CACHED: Final = 8 * KIB
_MAX_LINE: Final = KIB
_LENGTH: Final = b"content-length"
# Headers other than Content-Length that affect how a message is framed or what follows it.
_FRAMING: Final = frozenset((b"transfer-encoding", b"upgrade", b"expect"))
# A request line that needs no further checks; llhttp accepts the same characters in a target.
_REQUEST_LINE: Final = re.compile(
    rb'(GET|HEAD|DELETE|POST|PUT|PATCH) (/[!"$&->@-~]*(?:%[0-9A-Fa-f]{2}[!"$&->@-~]*)*)(?:\?([!"$-~]*))? HTTP/1\.1'
)
_LENGTH_FIELD: Final = re.compile(rb"(?:\A|\r\n)content-length:[ \t]*([0-9]+)\r\n", re.IGNORECASE)
_CARRIAGE_RETURN: Final = 13
_MAX_DIGITS: Final = 9


class _Head:
    """A header block and its parsed form, with the request line and the length of the last request."""

    __slots__ = (
        "_digits",
        "_rest",
        "block",
        "facts",
        "headers",
        "length",
        "line",
        "method",
        "path",
        "query",
        "repeated",
    )

    def __init__(self, line: bytes, block: bytes, digits: slice, request: Request) -> None:
        self.block, self.length = block, len(request.body)
        # Where the digits of Content-Length begin and end.
        self._digits, self._rest = digits.start, digits.stop
        self.headers = request.headers.copy()
        self.repeated = request.repeated
        self.facts = request.facts
        self.line = line
        self.method, self.path, self.query = request.method, request.path, request.query

    def read_length(self, block: bytes, limit: int) -> bool:
        """Read a different Content-Length; return False if these bytes are not this header block and its whole body."""
        first = self._digits
        after = block.find(_CARRIAGE_RETURN, first, first + _MAX_DIGITS)
        digits, end = block[first:after], self.block[self._rest :]
        if after < 0 or not digits.isdigit() or not block.startswith(end, after):
            return False
        size, length = after + len(end), int(digits)
        if len(block) - size != length or length > limit or not block.startswith(self.block[:first]):
            return False
        self.block, self._rest, self.length = block[:size], after, length
        self.headers[_LENGTH] = digits
        return True


class RepeatedHeads:
    """The last header blocks of a connection: a request that repeats one needs no parsing.

    Clients send a byte-identical header block with every request, except for the number in Content-Length. Two blocks
    are cached: that of the last request without a body, and that of the last one with a Content-Length; never one with
    another header that affects framing or what follows the message. A request found here is exactly what llhttp would
    make of the same bytes (docs/decisions/0004-http1.md); bytes that are not one whole request are never found.
    """

    __slots__ = ("_longest_line", "_max_body", "_peer", "_plain", "_with_body")

    def __init__(self, peer: Peer, limits: Limits) -> None:
        self._peer = peer
        self._max_body = limits.body
        self._longest_line = min(limits.target, _MAX_LINE)
        self._plain: _Head | None = None
        self._with_body: _Head | None = None

    def find(self, data: bytes) -> Request | None:
        """The request if these bytes are one whole request with a cached header block. The hot path: no calls."""
        line, _, block = data.partition(b"\r\n")
        head, body = self._plain, b""
        if head is None or block != head.block:
            head = self._with_body
            if head is None:
                return None
            size = len(head.block)
            if len(block) != size + head.length or not block.startswith(head.block):
                if not head.read_length(block, self._max_body):
                    return None
                size = len(head.block)
            body = block[size:]
        if line != head.line:
            match = _REQUEST_LINE.fullmatch(line) if len(line) <= self._longest_line else None
            if match is None:
                return None
            method, path, query = match.groups()
            head.line, head.method, head.path = line, method.decode(), path.decode()
            head.query = "" if query is None else query.decode()
        return Request(
            head.method,
            head.path,
            head.query,
            head.headers.copy(),
            body,
            self._peer,
            head.repeated,
            head.facts,
        )

    def keep(self, data: bytes, request: Request) -> None:
        """Cache the header block of a request that llhttp parsed from exactly these bytes.

        The request is HTTP/1.1 and complete, and keeps the connection open.
        """
        line, _, block = data.partition(b"\r\n")
        size = block.find(_HEAD_END) + len(_HEAD_END)
        headers = request.headers
        if (
            len(block) - size != len(request.body)
            or size > _MAX_CACHED
            or len(line) > self._longest_line
            or not _FRAMING.isdisjoint(headers)
            or _REQUEST_LINE.fullmatch(line) is None
        ):
            return
        if _LENGTH not in headers:
            self._plain = _Head(line, block, slice(0, 0), request)
            if self._with_body is not None and size + len(self._with_body.block) > _MAX_CACHED:
                self._with_body = None
        elif (field := _LENGTH_FIELD.search(block, 0, size)) is not None and field[1] == headers[_LENGTH]:
            self._with_body = _Head(line, block[:size], slice(*field.span(1)), request)
            if self._plain is not None and size + len(self._plain.block) > _MAX_CACHED:
                self._plain = None

    def clear(self) -> None:
        self._plain = self._with_body = None


class _Stop(Exception):
    """Stops llhttp from inside a callback; `fault` is already set."""


class Parser:
    __slots__ = (
        "_begun",
        "_body",
        "_head",
        "_headers",
        "_http",
        "_limits",
        "_most",
        "_peer",
        "_repeated",
        "_since_body",
        "_upgrade_body_left",
        "_url",
        "after_upgrade",
        "closing",
        "discarding",
        "expects_continue",
        "fault",
        "heads",
        "http10",
        "incomplete",
        "length",
        "mid_message",
        "ready",
        "received",
        "upgrading",
    )

    def __init__(self, peer: Peer, limits: Limits) -> None:
        self.ready: list[Request] = []
        self.fault: Fault | None = None
        self.mid_message = False  # part of a message has been read
        self.expects_continue = False  # the client waits for 100 Continue before it sends the body
        self.closing = False  # the last ready request closes the connection
        self.http10 = False  # the last ready request was HTTP/1.0
        self.incomplete: Request | None = None  # the request whose head is complete but whose body is not
        self.length = 0  # length of its body; -1 if it is chunked
        self.received = 0  # bytes received of the current body
        self.discarding = False  # discarding the rest of the current body, after its response
        self.upgrading = False  # the last ready request asks for an upgrade that may be served
        self.after_upgrade = b""  # bytes received after that request
        self._peer = peer
        self._limits = limits
        self._headers: dict[bytes, bytes] = {}
        self._repeated: dict[bytes, list[bytes]] | None = None
        self._url = b""
        self._head = 0  # bytes of the current head after the first read
        self._body: Parts = []
        self._upgrade_body_left = 0  # body bytes of an upgrade request, which llhttp leaves unparsed
        self._begun = False  # the incomplete request is being handled, and does not become ready
        self._most = limits.body  # limit of the current body
        self._since_body = 0  # bytes since the last body part: chunk extensions, trailers
        self.heads = RepeatedHeads(peer, limits)
        self._http: Any = httptools.HttpRequestParser(self)

    @property
    def fields(self) -> int:
        """How many header fields, or trailers, have arrived; repeated ones count once."""
        return len(self._headers)

    def feed(self, data: bytes) -> None:
        request = None if self.mid_message or self.closing else self.heads.find(data)
        if request is not None:
            self.http10 = False
            self.ready.append(request)
        else:
            self.parse(data)

    def parse(self, data: bytes) -> None:
        """Parse bytes that are not one whole request with a cached head (`heads`)."""
        if self.mid_message:
            self._continue(data)
            return
        before = len(self.ready)
        self._parse_bytes(data)
        if self.fault is not None and len(self.ready) == before and (folded := with_one_length(data)):
            self._reset_parser()
            data = folded
            self._parse_bytes(data)
        self._keep_head(data)

    def _reset_parser(self) -> None:
        """Forget the first message of a read, after its head failed to parse."""
        self.fault, self.mid_message, self.incomplete = None, False, None
        self._headers, self._repeated, self._url = {}, None, b""
        self._http = httptools.HttpRequestParser(self)

    def _keep_head(self, data: bytes) -> None:
        """Cache the header block of these bytes if they were one whole request, because the next may repeat it."""
        if self.mid_message:
            self._check_fields()
        elif len(self.ready) == 1 and not (self.closing or self.http10) and self.fault is None:
            self.heads.keep(data, self.ready[0])

    def _continue(self, data: bytes) -> None:
        """Parse more of a message, within the size limits of a head and of what follows a body."""
        if self.incomplete is None:
            self._head += len(data)
            if self._head > self._limits.head:
                self.fault = self._too_large()
                return
            self._parse_bytes(data)
        else:
            self._since_body += len(data)
            self._parse_bytes(data)
            if self._since_body > self._limits.head and self.incomplete is not None and self.fault is None:
                self.fault = self._too_large()
        if self.mid_message:
            self._check_fields()

    def _check_fields(self) -> None:
        """Refuse too many fields or trailers before all have arrived: each takes many times its bytes."""
        if len(self._headers) > self._limits.headers and self.fault is None:
            self.fault = self._too_large(fields=True)

    def _parse_bytes(self, data: bytes) -> None:
        while data:
            if self._upgrade_body_left:
                data = self._read_upgrade_body(data)
            try:
                self._http.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                if self._may_upgrade():
                    self.upgrading, self.after_upgrade = True, data
                    return
                # No other upgrade is served: the request and those after it are ordinary ones.
            except httptools.HttpParserError as error:
                self._fail(error, data)
                return
            else:
                return

    def _may_upgrade(self) -> bool:
        if not self.ready or self._upgrade_body_left or self.http10:
            return False
        request = self.ready[-1]
        is_websocket = request.method == "GET" and wants_websocket(request.headers)
        return not request.body and (is_websocket or self._limits.forwards(request.path))

    def decline_upgrade(self) -> bytes:
        """Continue with HTTP; return the bytes after the request, to be fed again."""
        self.upgrading = False
        data, self.after_upgrade = self.after_upgrade, b""
        return data

    def begin(self) -> None:
        """Mark the incomplete request as being handled."""
        self._begun = True

    def take_body(self) -> bytes:
        """Take what has arrived of the body of a begun request; the body has no size limit from now on."""
        parts, self._body, self._most = self._body, [], sys.maxsize
        return join_parts(parts)

    def discard(self) -> bool:
        """Discard the rest of the body after the response. Return False if the connection must end instead."""
        self.discarding = True
        self._body.clear()
        self._most = self.received + _DISCARDED
        if self.expects_continue or self.closing or self.fault is not None:
            return False
        return self.length - self.received <= _DISCARDED

    def take_unread(self) -> Request | None:
        """Return the request with an incomplete body that is not being handled yet, if any, and stop reading it."""
        request, self.incomplete = self.incomplete, None
        return None if self._begun else request

    def release(self) -> None:
        """Break the reference cycle of parser and callbacks, so that a closed connection is freed at once."""
        self._http = None
        self.incomplete = None  # refers to the connection
        self._headers, self._url = {}, b""
        self._body.clear()

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

    def _too_large(self, *, fields: bool = False) -> Fault:
        limit = f"{self._limits.headers} fields" if fields else f"{self._limits.head} bytes"
        return Fault(431, f"Request header fields too large: limit is {limit}")

    # Callbacks of llhttp, in order.

    def on_message_begin(self) -> None:
        self.mid_message = True
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
        # A repeated equal line is ignored: clients and proxies send Authorization twice.
        if value not in values:
            self._headers[name] += b", " + value
        values.append(value)
        if len(values) > self._limits.headers:
            self.fault = self._too_large(fields=True)
            raise _Stop

    def on_headers_complete(self) -> None:
        headers, url, repeated, http = self._headers, self._url, self._repeated, self._http
        # Trailers are reported like headers: from here on they go into a dict that nobody reads.
        self._headers, self._url = {}, b""
        if repeated is not None or self._head or len(headers) > self._limits.headers:
            self._check_head(url, headers)
        self.http10 = False
        if b"connection" in headers or not http.should_keep_alive():
            self._check_connection(http)
        if b"host" not in headers and not self.http10:
            self._stop(400, "the request has no Host header")
        if url[0] != _SLASH or _HASH in url:
            url = self._unusual_target(url)
        path, _, query = url.decode("latin-1").partition("?")
        if "%" in path and (fault := escape_fault(path)):
            self._stop(fault.status, fault.message)
        method = _METHODS.get(http.get_method()) or self._unusual_method(http)
        self.incomplete = Request(method, path, query, headers, b"", self._peer, repeated)
        if b"content-length" in headers or b"transfer-encoding" in headers:
            self._check_body(path, headers)

    def _check_head(self, url: bytes, headers: dict[bytes, bytes]) -> None:
        repeated, self._repeated = self._repeated or {}, None
        if b"host" in repeated:
            self._stop(400, "the request has more than one Host header")
        count = len(headers) + sum(len(values) - 1 for values in repeated.values())
        if count > self._limits.headers:
            self.fault = self._too_large(fields=True)
            raise _Stop
        lines = {name: [value] for name, value in headers.items()} | repeated
        size = len(url) + sum(len(name) + len(value) + 4 for name in lines for value in lines[name])
        if size > self._limits.head:
            self.fault = self._too_large()
            raise _Stop

    def _check_connection(self, http: Any) -> None:
        version = http.get_http_version()
        if version not in ("1.0", "1.1"):
            self._stop(505, "HTTP Version not supported: speak HTTP/1.1 or HTTP/2")
        self.http10 = version == "1.0"
        self.closing = not http.should_keep_alive()

    def _unusual_target(self, url: bytes) -> bytes:
        if _HASH in url:
            self._stop(400, "the request target has a fragment")
        # The absolute form, which proxies receive; or the asterisk of OPTIONS.
        path = _AUTHORITY.sub(b"", url, count=1)
        return path if path[:1] in (b"/", b"*") else b"/" + path

    def _unusual_method(self, http: Any) -> str:
        method: str = http.get_method().decode()
        if method == "CONNECT":
            self._stop(405, "the server does not allow this method on the requested resource")
        return method

    def _check_body(self, path: str, headers: dict[bytes, bytes]) -> None:
        length = int(headers.get(b"content-length") or 0)
        coding = headers.get(b"transfer-encoding")
        self.length = length if coding is None else -1
        self._since_body = 0
        if length > self._limits.body and not self._limits.forwards(path):
            self._stop(413, f"Request entity too large: limit is {self._limits.body}")
        if coding is not None and (self.http10 or coding.lower() != b"chunked"):
            self._stop(501, "Unsupported transfer encoding: chunked over HTTP/1.1 is the only one")
        if self._http.should_upgrade():
            if coding is not None:
                self._stop(400, "a request for an upgrade cannot have a chunked body")
            self._upgrade_body_left = length
        if b"expect" in headers:
            self._check_expectation(headers[b"expect"])

    def _check_expectation(self, expectation: bytes) -> None:
        if expectation.lower() != b"100-continue":
            self._stop(417, "Expectation failed: 100-continue is the only one")
        self.expects_continue = not self.http10

    def on_body(self, part: bytes) -> None:
        self._since_body = 0
        self.received += len(part)
        if self.received > self._most:
            self._stop(413, f"Request entity too large: limit is {self._limits.body}")
        if not self.discarding:
            add_part(self._body, part)

    def on_message_complete(self) -> None:
        if self._upgrade_body_left:
            return
        request = self.incomplete
        assert request is not None
        if self._body:
            request.body, self._body = join_parts(self._body), []
        self.received = 0
        if self._headers:
            self._headers, self._repeated = {}, None
        self.incomplete = None
        self.mid_message = self.expects_continue = False
        if self._begun:
            self._begun = self.discarding = False
            self._most = self._limits.body
        else:
            self.ready.append(request)

    def _read_upgrade_body(self, data: bytes) -> bytes:
        """Read the body of an upgrade request, which llhttp does not parse."""
        part, rest = data[: self._upgrade_body_left], data[self._upgrade_body_left :]
        self._upgrade_body_left -= len(part)
        self.on_body(part)
        if not self._upgrade_body_left:
            self.on_message_complete()
        return rest


def with_one_length(data: bytes) -> bytes | None:
    """The same bytes with a single Content-Length, if their head repeats it with the same number; None otherwise."""
    head, end, rest = data.partition(_HEAD_END)
    lines = _LENGTH_LINE.findall(head + b"\r\n")
    if not end or len(lines) < 2 or len(set(lines)) > 1:
        return None
    first = _LENGTH_LINE.search(head + b"\r\n")
    assert first is not None
    begin, after = head[: first.end()], head[first.end() :] + b"\r\n"
    return begin + _LENGTH_LINE.sub(b"", after) + b"\r\n" + rest
