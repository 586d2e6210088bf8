"""Too much of anything is refused as soon as that is known, without reading the rest."""

from gateway.connections.limits import Limits
from gateway.requests.request import Request, Response
from tests.gateway.connections.http_server import served

MIB = 1024 * 1024


async def length(request: Request) -> Response:
    return Response(200, b"%d" % len(request.body))


async def test_a_body_of_three_mebibytes_passes_and_one_byte_more_does_not() -> None:
    async with served(length) as host, host.connect() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n" % (3 * MIB))
        assert (await client.ask(b"x" * 3 * MIB)).body == b"%d" % (3 * MIB)
        reply = await client.ask(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n" % (3 * MIB + 1))
        assert reply.status == 413
        assert reply.body == b"Request entity too large: limit is 3145728"
        assert await client.ended()
        assert host.statistics.requests == 1


async def test_chunks_are_counted() -> None:
    async with served(length, Limits(body=1000)) as host, host.connect() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"64\r\n" + b"x" * 100 + b"\r\n"
        await client.send(chunk * 10)
        assert (await client.ask(chunk)).status == 413
        assert await client.ended()
        assert host.statistics.requests == 0


async def test_a_client_that_goes_on_sending_still_reads_its_refusal() -> None:
    async with served(length) as host, host.connect() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n" % (64 * MIB))
        for _ in range(64):
            await client.send(b"x" * MIB)
        assert (await client.reply()).status == 413
        assert await client.ended()


async def test_a_long_target() -> None:
    async with served() as host, host.connect() as client:
        reply = await client.ask(b"GET /%b HTTP/1.1\r\nHost: t\r\n\r\n" % (b"a" * 70_000))
        assert reply.status == 414
        assert await client.ended()


async def test_a_target_without_an_end() -> None:
    async with served() as host, host.connect() as client:
        await client.send(b"GET /")
        for _ in range(70):
            await client.send(b"a" * 1000)
        assert (await client.reply()).status == 414


async def test_a_large_head() -> None:
    async with served() as host, host.connect() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: t\r\n")
        for number in range(40):
            await client.send(b"X-%d: %b\r\n" % (number, b"a" * 4000))
        await client.send(b"\r\n")
        assert (await client.reply()).status == 431
        assert await client.ended()


async def test_one_header_without_an_end() -> None:
    async with served() as host, host.connect() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: t\r\nX: ")
        for _ in range(140):
            await client.send(b"a" * 1000)
        assert (await client.reply()).status == 431


async def test_many_headers() -> None:
    async with served() as host, host.connect() as client:
        fields = b"".join(b"X-%d: 1\r\n" % number for number in range(199))
        assert (await client.ask(b"GET / HTTP/1.1\r\nHost: t\r\n" + fields + b"\r\n")).status == 200
        reply = await client.ask(b"GET / HTTP/1.1\r\nHost: t\r\nY: 1\r\n" + fields + b"\r\n")
        assert reply.status == 431


async def test_one_header_many_times() -> None:
    async with served() as host, host.connect() as client:
        reply = await client.ask(b"GET / HTTP/1.1\r\nHost: t\r\n" + b"X: 1\r\n" * 200 + b"\r\n")
        assert reply.status == 431


async def test_a_head_that_follows_a_full_segment_is_not_charged_for_it() -> None:
    async with served() as host, host.connect() as client:
        many = b"GET / HTTP/1.1\r\nHost: t\r\n\r\n" * 3000
        last = b"GET /last HTTP/1.1\r\nHost: t\r\n\r\n"
        await client.send(many + last[:5])
        for _ in range(3000):
            assert (await client.reply()).status == 200
        for byte in last[5:]:
            await client.send(bytes([byte]))
        assert (await client.reply()).body == b"GET /last"
