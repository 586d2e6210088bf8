"""The last header blocks of a connection: a request that repeats one needs no parsing.

Clients send a byte-identical header block with every request, except for the number in Content-Length. `Parser` calls
`find` first, and passes what llhttp accepted to `keep`. Two blocks are cached: that of the last request without a
body, and that of the last one with a Content-Length; never one with another header that affects framing or what
follows the message. A request found here is exactly what llhttp would make of the same bytes
(docs/decisions/0004-http1.md); bytes that are not one whole request are never found.
"""

from __future__ import annotations

import re
from typing import Final

from rewound.gateway.connections.limits import KIB, Limits
from rewound.gateway.message import Peer, Request

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
_HEAD_END: Final = b"\r\n\r\n"
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

    def read_line(self, line: bytes) -> bool:
        """Read a different request line; return False if it needs further checks."""
        match = _REQUEST_LINE.fullmatch(line)
        if match is None:
            return False
        method, path, query = match.groups()
        self.line, self.method, self.path = line, method.decode(), path.decode()
        self.query = "" if query is None else query.decode()
        return True


class RepeatedHeads:
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
        if line != head.line and (len(line) > self._longest_line or not head.read_line(line)):
            return None
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
