"""Pipelined requests get their responses in order, however long each takes."""

import trio

from rewound.gateway.message import ReplyLost, Request, Response
from tests.gateway.connections.http_server import served


async def test_responses_keep_the_order_of_requests() -> None:
    async def handle(request: Request) -> Response:
        if request.path == "/0":
            for _ in range(10):
                await trio.lowlevel.checkpoint()
        return Response(200, request.path.encode())

    async with served(handle) as host, host.connect() as client:
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: t\r\n\r\n" % number for number in range(20)))
        assert [(await client.reply()).body for _ in range(20)] == [b"/%d" % number for number in range(20)]


async def test_large_responses_do_not_overtake_small_ones() -> None:
    sizes = [10, 200_000, 30, 70_000, 65_536, 5]

    async def handle(request: Request) -> Response:
        return Response(200, b"x" * int(request.path[1:]))

    async with served(handle) as host, host.connect_tls() as client:
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: t\r\n\r\n" % size for size in sizes))
        assert [len((await client.reply()).body) for _ in sizes] == sizes


async def test_bodies_stay_with_their_pipelined_requests() -> None:
    async def handle(request: Request) -> Response:
        return Response(200, request.path.encode() + b"=" + request.body)

    async with served(handle) as host, host.connect() as client:
        post = b"POST /%d HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc"
        await client.send(post % 1 + b"GET /2 HTTP/1.1\r\nHost: t\r\n\r\n" + post % 3)
        assert [(await client.reply()).body for _ in range(3)] == [b"/1=abc", b"/2=", b"/3=abc"]


async def test_close_of_an_incomplete_request_keeps_the_responses_before_it() -> None:
    async with served() as host, host.connect() as client:
        await client.send(
            b"GET /a HTTP/1.1\r\nHost: t\r\n\r\n"
            b"POST /b HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: 2\r\n\r\nx"
        )
        assert b"connection" not in (await client.reply()).headers
        await client.send(b"y")
        assert (await client.reply()).headers[b"connection"] == b"close"
        assert await client.ended()


async def test_requests_before_a_malformed_one_get_responses() -> None:
    async with served() as host, host.connect() as client:
        await client.send(b"GET /a HTTP/1.1\r\nHost: t\r\n\r\nGET /b HTTP/9.9\r\n\r\n")
        assert (await client.reply()).body == b"GET /a"
        assert (await client.reply()).status == 400
        assert await client.ended()


async def test_lost_response_loses_none_before_it() -> None:
    async def handle(request: Request) -> Response:
        if request.path == "/2":
            raise ReplyLost
        return Response(200, request.path.encode())

    async with served(handle) as host, host.connect() as client:
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: t\r\n\r\n" % number for number in range(4)))
        assert [(await client.reply()).body for _ in range(2)] == [b"/0", b"/1"]
        assert await client.ended()
