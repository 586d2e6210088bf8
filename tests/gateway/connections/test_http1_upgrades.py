"""A request for an upgrade is an ordinary request, except for WebSockets, the only other protocol served."""

from rewound.gateway.message import Request, Response
from tests.gateway.connections.http_server import served

UPGRADE = b"Host: t\r\nConnection: Upgrade\r\nUpgrade: other\r\n"


async def echo(request: Request) -> Response:
    return Response(200, request.path.encode() + b" " + request.body)


async def test_upgrade_is_ignored_and_the_connection_continues() -> None:
    async with served(echo) as host, host.connect() as client:
        await client.send(b"GET /a HTTP/1.1\r\n" + UPGRADE + b"\r\nGET /b HTTP/1.1\r\nHost: t\r\n\r\n")
        assert [(await client.reply()).body for _ in range(2)] == [b"/a ", b"/b "]


async def test_body_of_an_upgrade_is_not_the_next_request() -> None:
    async with served(echo) as host, host.connect() as client:
        head = b"POST /a HTTP/1.1\r\n" + UPGRADE + b"Content-Length: 30\r\n\r\n"
        body = b"GET /smuggled HTTP/1.1\r\nX: y\r\n"
        await client.send(head + body[:10])
        await client.send(body[10:] + b"GET /b HTTP/1.1\r\nHost: t\r\n\r\n")
        assert [(await client.reply()).body for _ in range(2)] == [b"/a " + body, b"/b "]


async def test_hundreds_of_upgrades_in_one_segment_get_responses() -> None:
    async with served(echo) as host, host.connect() as client:
        await client.send((b"GET /a HTTP/1.1\r\n" + UPGRADE + b"\r\n") * 800)
        assert {(await client.reply()).body for _ in range(800)} == {b"/a "}


async def test_chunked_body_of_an_upgrade_is_refused() -> None:
    async with served(echo) as host, host.connect() as client:
        reply = await client.request(
            b"POST / HTTP/1.1\r\n" + UPGRADE + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        )
        assert reply.status == 400
        assert await client.ended()


async def test_connect_is_not_allowed() -> None:
    async with served(echo) as host, host.connect() as client:
        reply = await client.request(b"CONNECT other:443 HTTP/1.1\r\nHost: other\r\n\r\n")
        assert reply.status == 405
        assert await client.ended()
