"""Hypercorn too refuses more header fields than the limit before the whole head has arrived.

Without the limit, each repeated field is compared with all before it: a head of one megabyte blocked the event loop
for minutes.
"""

from __future__ import annotations

from rewound.gateway.connections.asgi.strict_syntax import StrictSyntax
from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Peer
from tests.cases import cases

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"


@cases("begin", [HEAD, CHUNKED])
@cases("line", [b"a: %d\r\n", b"a%d: b\r\n"])
def test_too_many_fields_or_trailers_are_refused(begin: bytes, line: bytes) -> None:
    syntax = StrictSyntax(Peer(), Limits(headers=20))
    assert syntax.fault(begin + b"".join(line % number for number in range(10))) is None
    fault = syntax.fault(b"".join(line % number for number in range(10, 30)))
    assert fault is not None
    assert fault.status == 431
