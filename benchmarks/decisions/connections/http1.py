"""docs/decisions/0004-http1.md: the cost of parsing one request."""

from __future__ import annotations

import h11

from benchmarks.decisions.measure import Effort, compare, effort_of_command_line
from rewound.gateway.connections.http1.parser import Parser
from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Peer

PATH = "/api/v1/namespaces/default/configmaps"
BODY = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"payload":"%b"}}' % (
    b"x" * 1000
)
# What kubectl and client-go send.
FIELDS = (
    "Host: 127.0.0.1:6443\r\n"
    "User-Agent: kubectl/v1.25.0 (linux/amd64) kubernetes/a866cbe\r\n"
    "Accept: application/json\r\n"
    "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n"
    "Accept-Encoding: gzip\r\n"
)
GET = f"GET {PATH}/a?pretty=false HTTP/1.1\r\n{FIELDS}\r\n".encode()
POST = (
    f"POST {PATH} HTTP/1.1\r\n{FIELDS}Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
).encode() + BODY


class Ours:
    """One connection's parser, fed the same request repeatedly."""

    def __init__(self, *, caches: bool) -> None:
        self._parser = Parser(Peer(address="127.0.0.1", secure=False), Limits())
        self._caches = caches

    def parse(self, request: bytes) -> None:
        parser = self._parser
        if not self._caches:
            parser.heads.clear()
        parser.feed(request)
        assert len(parser.ready) == 1
        parser.ready.clear()


class ByH11:
    def __init__(self) -> None:
        self._connection = h11.Connection(h11.SERVER)

    def parse(self, request: bytes) -> None:
        connection = self._connection
        connection.receive_data(request)
        while type(connection.next_event()) is not h11.EndOfMessage:
            pass
        connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
        connection.send(h11.EndOfMessage())
        connection.start_next_cycle()


class ByH11Reading:
    """Without the response, which h11 wants before the next request: a connection for each request."""

    def parse(self, request: bytes) -> None:
        connection = h11.Connection(h11.SERVER)
        connection.receive_data(request)
        while type(connection.next_event()) is not h11.EndOfMessage:
            pass


def main(effort: Effort) -> None:
    for title, request in (("get", GET), ("create of 1 kB", POST)):
        known, unknown, both, reading = Ours(caches=True), Ours(caches=False), ByH11(), ByH11Reading()
        compare(
            title,
            {
                "with the cached header block": lambda: known.parse(request),  # noqa: B023
                "httptools alone": lambda: unknown.parse(request),  # noqa: B023
                "h11, reading alone": lambda: reading.parse(request),  # noqa: B023
                "h11, with an empty response": lambda: both.parse(request),  # noqa: B023
            },
            effort,
        )


if __name__ == "__main__":
    main(effort_of_command_line())
