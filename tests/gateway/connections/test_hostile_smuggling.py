"""Requests that two parsers could frame differently are refused, and nothing after them is read."""

import pytest

from rewound.gateway.message import Request, Response
from tests.cases import cases
from tests.gateway.connections.http_server import served

SHAPES = {
    "length then chunked": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked then length": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "two equal lengths of which one is signed": b"Content-Length: 4\r\nContent-Length: +4\r\n\r\nabcd",
    "two lengths, written differently": b"Content-Length: 4\r\nContent-Length: 04\r\n\r\nabcd",
    "two equal lengths and chunked": b"Content-Length: 4\r\nContent-Length: 4\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two equal lengths and another": b"Content-Length: 4\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "two equal lengths, folded": b"Content-Length: 4\r\nContent-Length:\r\n 4\r\n\r\nabcd",
    "a list of lengths": b"Content-Length: 4, 4\r\n\r\nabcd",
    "a signed length": b"Content-Length: +4\r\n\r\nabcd",
    "a length that overflows": b"Content-Length: 99999999999999999999\r\n\r\n",
    "a space before the colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a tab after the name": b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
    "a folded header": b"X: a\r\n Transfer-Encoding: chunked\r\n\r\n",
    "a header folded with a tab": b"X: a\r\n\tTransfer-Encoding: chunked\r\n\r\n",
    "a folded first header": b" Transfer-Encoding: chunked\r\n\r\n",
    "bare line feeds": b"X: a\nContent-Length: 4\n\nabcd",
    "one bare line feed": b"X: a\nContent-Length: 4\r\n\r\nabcd",
    "a head that ends with bare line feeds": b"X: a\r\nContent-Length: 4\n\nabcd",
    "bare line feeds in chunks": b"Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
    "a bare carriage return": b"X: a\rContent-Length: 4\r\n\r\nabcd",
    "a zero byte": b"X: a\x00b\r\n\r\n",
    "chunked and then another": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "a space in a chunk size": b"Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n",
    "a chunk size that overflows": b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    "a second host": b"Host: b\r\n\r\n",
}


class Counter:
    def __init__(self) -> None:
        self.paths: list[str] = []

    async def __call__(self, request: Request) -> Response:
        self.paths.append(request.path)
        return Response(200, b"")


@pytest.mark.usefixtures("protocols")
@cases("shape", SHAPES.values(), ids=SHAPES.keys())
async def test_ambiguous_framing_is_refused(shape: bytes) -> None:
    handle = Counter()
    async with served(handle) as host, host.connect() as client:
        reply = await client.request(
            b"POST /a HTTP/1.1\r\nHost: a\r\n" + shape + b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
        )
        assert reply.status == 400
        assert reply.headers[b"connection"] == b"close"
        assert await client.ended()
    assert handle.paths == []


@pytest.mark.usefixtures("protocols")
@cases("coding", [b"gzip, chunked", b"xchunked", b"chunked, gzip", b"identity"])
async def test_unsupported_transfer_coding_is_refused(coding: bytes) -> None:
    handle = Counter()
    async with served(handle) as host, host.connect() as client:
        head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: %b\r\n\r\n" % coding
        reply = await client.request(head + b"0\r\n\r\n")
        assert reply.status in (400, 501)
        assert await client.ended()
    assert handle.paths == []


@pytest.mark.usefixtures("protocols")
async def test_chunked_body_over_http_1_0_is_refused() -> None:
    handle = Counter()
    async with served(handle) as host, host.connect() as client:
        reply = await client.request(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        assert reply.status == 501
    assert handle.paths == []


@pytest.mark.usefixtures("protocols")
async def test_length_repeated_with_the_same_number_counts_once() -> None:
    """As in Go's server; the next request on the connection starts where this one ends."""
    paths: list[tuple[str, bytes]] = []

    async def handle(request: Request) -> Response:
        body = request.body if request.arriving is None else await request.arriving()
        paths.append((request.path, body))
        return Response(200, b"")

    async with served(handle) as host, host.connect() as client:
        for number in range(2):
            lines = b"Content-Length: 4\r\nX: y\r\ncontent-length:4 \r\nContent-Length: 4\r\n\r\n"
            sent = b"POST /%d HTTP/1.1\r\nHost: a\r\n" % number + lines + b"abcd"
            assert (await client.request(sent)).status == 200
        assert (await client.request(b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n")).status == 200
    assert paths == [("/0", b"abcd"), ("/1", b"abcd"), ("/next", b"")]


@pytest.mark.usefixtures("protocols")
async def test_connection_over_tls_does_not_change_to_http2_without_alpn() -> None:
    """A proxy that forwards these fields would pass on requests that it does not see."""
    handle = Counter()
    async with served(handle) as host, host.connect_tls() as client:
        fields = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
        reply = await client.request(b"GET /a HTTP/1.1\r\nHost: a\r\n" + fields)
        assert reply.status in (200, 400)  # ours ignores it
        if reply.status == 400:
            assert await client.ended()
            assert handle.paths == []
