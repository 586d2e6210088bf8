"""Request bodies with a length, in chunks, or with Expect; and responses without a body."""

from rewound.gateway.message import Request, Response
from tests.gateway.connections.http_server import served


async def echo(request: Request) -> Response:
    return Response(200, request.body)


async def test_body_with_content_length() -> None:
    async with served(echo) as host, host.connect() as client:
        reply = await client.request(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nhello")
        assert reply.body == b"hello"


async def test_large_body_over_tls() -> None:
    body = bytes(range(256)) * 8192
    async with served(echo) as host, host.connect_tls() as client:
        await client.send(b"PUT / HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n" % len(body))
        await client.send(body)
        assert (await client.reply()).body == body


async def test_chunks_are_joined() -> None:
    async with served(echo) as host, host.connect() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n")
        await client.send(b"3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\n\r\n")
        assert (await client.reply()).body == b"abcde"


async def test_trailers_are_not_headers_of_this_or_the_next_request() -> None:
    seen = []

    async def handle(request: Request) -> Response:
        seen.append(dict(request.headers))
        return Response(200, b"")

    async with served(handle) as host, host.connect() as client:
        await client.send(
            b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"1\r\nx\r\n0\r\nAuthorization: Bearer late\r\nX-Last: 1\r\n\r\n"
            b"GET / HTTP/1.1\r\nHost: t\r\n\r\n"
        )
        await client.reply()
        await client.reply()
    assert [sorted(headers) for headers in seen] == [[b"host", b"transfer-encoding"], [b"host"]]


async def test_continue_is_sent_only_while_the_body_is_missing() -> None:
    head = b"POST / HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    async with served(echo) as host, host.connect() as client:
        assert (await client.request(head)).status == 100
        assert (await client.request(b"hi")).body == b"hi"
        assert (await client.request(head + b"ho")).body == b"ho"


async def test_too_large_body_gets_413_instead_of_continue() -> None:
    async with served(echo) as host, host.connect() as client:
        reply = await client.request(
            b"POST / HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n"
        )
        assert reply.status == 413
        assert await client.ended()


async def test_other_expectations_fail() -> None:
    async with served(echo) as host, host.connect() as client:
        reply = await client.request(
            b"POST / HTTP/1.1\r\nHost: t\r\nExpect: tea\r\nContent-Length: 2\r\n\r\n"
        )
        assert reply.status == 417


async def test_head_has_the_length_and_no_body() -> None:
    async with served() as host, host.connect() as client:
        await client.send(b"HEAD /abc HTTP/1.1\r\nHost: t\r\n\r\n")
        reply = await client.reply(head=True)
        assert (reply.status, reply.headers[b"content-length"]) == (200, b"9")
        assert (await client.get("/next")).body == b"GET /next"


async def test_no_content_has_neither_body_nor_length() -> None:
    async def handle(request: Request) -> Response:
        return Response(204, b"ignored", b"")

    async with served(handle) as host, host.connect() as client:
        for _ in range(2):
            reply = await client.get()
            assert reply.status == 204
            assert b"content-length" not in reply.headers
            assert b"content-type" not in reply.headers
