"""Refuses HTTP/1.1 bytes that Hypercorn's parser accepts but that a proxy in front may frame differently.

h11 accepts a bare line feed as a line break, unfolds folded headers, serves HTTP/0.9 to 9.9, and accepts
Content-Length beside Transfer-Encoding: where two parsers disagree, bytes of one client become the request of
another. So our own parser, whose llhttp is strict, reads every connection first. What it refuses never reaches
Hypercorn, and the connection ends. Sizes are limited by Hypercorn and the application, which can respond in the
middle of a body. The number of fields is limited here too, because each takes many times its bytes, and each repeated
one a comparison with those before it.

Hypercorn also switches to HTTP/2 if a request asks for h2c. Over TLS no client does (RFC 9113, section 3.1), except
to smuggle bytes through a proxy that forwards the fields and then cannot read what follows: such requests are
refused.

Rejected: checking the scope. It shows neither line breaks nor folds, and an application cannot close its connection.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from rewound.gateway.connections.arriving import Fault
from rewound.gateway.connections.http1.parser import Parser
from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Peer, Request

HTTP2_PREFACE: Final = b"PRI * HTTP/2.0"
_SWITCHING: Final = b"HTTP/1.1 101"
_H2C: Final = Fault(
    400, "over TLS a connection does not change to h2c: offer h2 by ALPN, or leave Upgrade out"
)
_TOO_EARLY: Final = Fault(400, "the request asks for an upgrade: nothing may follow before its response")


class StrictSyntax:
    """The strict parser of one connection."""

    def __init__(self, peer: Peer, limits: Limits) -> None:
        self._parser = Parser(peer, _without_sizes(limits))
        self._secure = peer.secure
        self._asks_upgrade = False  # the last request, which has no response yet
        self.in_body = False  # the last bytes belong to the body of a request whose head was passed on

    def fault(self, data: bytes) -> Fault | None:
        """Why these bytes are refused and the connection ends; None if they are accepted."""
        parser = self._parser
        if parser.upgrading:
            return _TOO_EARLY
        before = parser.incomplete
        parser.parse(data)
        self.in_body = before is not None and parser.incomplete is before
        if parser.incomplete is not None:
            parser.begin()
            parser.take_body()
        asks_h2c = False
        if parser.ready:
            asks_h2c = self._secure and any(map(_asks_h2c, parser.ready))
            self._asks_upgrade = b"upgrade" in parser.ready[-1].headers
            parser.ready.clear()
        if asks_h2c:
            return _H2C
        return _TOO_EARLY if parser.after_upgrade else parser.fault

    def switches(self, sent: bytes) -> bool:
        """Whether these response bytes switch to another protocol."""
        asked, self._asks_upgrade = self._asks_upgrade, False
        self._parser.decline_upgrade()
        return asked and sent.startswith(_SWITCHING)

    def release(self) -> None:
        self._parser.release()


def _asks_h2c(request: Request) -> bool:
    return b"h2c" in request.headers.get(b"upgrade", b"").lower()


@lru_cache(maxsize=4)  # a server has one set of limits
def _without_sizes(limits: Limits) -> Limits:
    most = sys.maxsize
    return replace(limits, body=most, head=most, target=most)
