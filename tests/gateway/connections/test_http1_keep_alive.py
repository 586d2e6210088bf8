"""A connection serves request after request until one side closes it."""

from tests.gateway.connections.http_server import served


async def test_requests_follow_each_other_on_one_connection() -> None:
    async with served() as host, host.connect() as client:
        for number in range(3):
            reply = await client.get(f"/{number}")
            assert (reply.status, reply.body) == (200, b"GET /%d" % number)
            assert b"connection" not in reply.headers
        assert host.statistics.accepted == 1
        assert host.statistics.requests == 3


async def test_connection_close_is_honoured_and_echoed() -> None:
    async with served() as host, host.connect() as client:
        reply = await client.request(b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        assert reply.headers[b"connection"] == b"close"
        assert await client.ended()


async def test_bytes_after_connection_close_are_ignored() -> None:
    async with served() as host, host.connect() as client:
        await client.send(
            b"GET /a HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\nGET /b HTTP/1.1\r\nHost: t\r\n\r\n"
        )
        assert (await client.reply()).body == b"GET /a"
        assert await client.ended()


async def test_http_1_0_closes_after_one_response() -> None:
    async with served() as host, host.connect() as client:
        reply = await client.request(b"GET / HTTP/1.0\r\n\r\n")
        assert (reply.status, reply.headers[b"connection"]) == (200, b"close")
        assert await client.ended()


async def test_http_1_0_keep_alive_is_honoured_and_echoed() -> None:
    async with served() as host, host.connect() as client:
        for _ in range(2):
            reply = await client.request(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert reply.headers[b"connection"] == b"keep-alive"
        assert (await client.get("/then-1.1")).body == b"GET /then-1.1"


async def test_every_response_has_a_date() -> None:
    async with served() as host, host.connect() as client:
        assert (await client.get()).headers[b"date"].endswith(b" GMT")


async def test_request_may_arrive_in_pieces() -> None:
    async with served() as host, host.connect() as client:
        for byte in b"GET /pieces HTTP/1.1\r\nHost: test\r\nX-Long: value\r\n\r\n":
            await client.send(bytes([byte]))
        assert (await client.reply()).body == b"GET /pieces"
