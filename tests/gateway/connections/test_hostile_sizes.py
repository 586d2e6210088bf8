"""Requests above a size limit are refused at once, without reading the rest."""

import pytest

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Request, Response
from tests.gateway.connections.http_server import served

# Less than the defaults, because large heads take long to send.
SMALL = Limits(target=64 * 1024, head=128 * 1024, headers=200)

MIB = 1024 * 1024


async def length(request: Request) -> Response:
    return Response(200, b"%d" % len(request.body))


@pytest.mark.usefixtures("protocols")
async def test_body_of_three_mebibytes_is_the_largest_accepted() -> None:
    async with served(length) as host, host.connect() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n" % (3 * MIB))
        assert (await client.request(b"x" * 3 * MIB)).body == b"%d" % (3 * MIB)
        reply = await client.request(
            b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n" % (3 * MIB + 1)
        )
        assert reply.status == 413
        assert reply.body == b"Request entity too large: limit is 3145728"
        assert await client.ended()
        assert host.statistics.requests == 1


@pytest.mark.usefixtures("protocols")
async def test_chunked_body_above_the_limit_is_refused() -> None:
    async with served(length, Limits(body=1000)) as host, host.connect() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"64\r\n" + b"x" * 100 + b"\r\n"
        await client.send(chunk * 10)
        assert (await client.request(chunk)).status == 413
        assert await client.ended()
        assert host.handled == []


async def test_client_that_keeps_sending_can_read_its_refusal() -> None:
    patient = Limits(linger_seconds=120)  # a busy machine takes seconds for the whole body
    async with served(length, limits=patient) as host, host.connect() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n" % (64 * MIB))
        for _ in range(64):
            await client.send(b"x" * MIB)
        assert (await client.reply()).status == 413


async def test_long_target_is_refused() -> None:
    async with served(limits=SMALL) as host, host.connect() as client:
        reply = await client.request(b"GET /%b HTTP/1.1\r\nHost: t\r\n\r\n" % (b"a" * 70_000))
        assert reply.status == 414
        assert await client.ended()


async def test_endless_target_is_refused() -> None:
    async with served(limits=SMALL) as host, host.connect() as client:
        await client.send(b"GET /")
        for _ in range(70):
            await client.send(b"a" * 1000)
        assert (await client.reply()).status == 414


async def test_large_head_is_refused() -> None:
    async with served(limits=SMALL) as host, host.connect() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: t\r\n")
        for number in range(40):
            await client.send(b"X-%d: %b\r\n" % (number, b"a" * 4000))
        await client.send(b"\r\n")
        assert (await client.reply()).status == 431
        assert await client.ended()


async def test_endless_header_is_refused() -> None:
    async with served(limits=SMALL) as host, host.connect() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: t\r\nX: ")
        for _ in range(140):
            await client.send(b"a" * 1000)
        assert (await client.reply()).status == 431


@pytest.mark.usefixtures("protocols")
async def test_too_many_headers_are_refused() -> None:
    async with served(limits=SMALL) as host, host.connect() as client:
        fields = b"".join(b"X-%d: 1\r\n" % number for number in range(199))
        assert (await client.request(b"GET / HTTP/1.1\r\nHost: t\r\n" + fields + b"\r\n")).status == 200
        reply = await client.request(b"GET / HTTP/1.1\r\nHost: t\r\nY: 1\r\n" + fields + b"\r\n")
        assert reply.status == 431


async def test_repeated_header_counts_each_time() -> None:
    async with served(limits=SMALL) as host, host.connect() as client:
        reply = await client.request(b"GET / HTTP/1.1\r\nHost: t\r\n" + b"X: 1\r\n" * 200 + b"\r\n")
        assert reply.status == 431


async def test_equal_lines_of_a_header_count_with_all_their_bytes() -> None:
    line = b"X: " + b"a" * 60_000 + b"\r\n"
    async with served(limits=SMALL) as host, host.connect() as client:
        assert (await client.request(b"GET / HTTP/1.1\r\nHost: t\r\n" + line * 2 + b"\r\n")).status == 200
        assert (await client.request(b"GET / HTTP/1.1\r\nHost: t\r\n" + line * 20 + b"\r\n")).status == 431


async def test_bytes_before_a_head_do_not_count_to_it() -> None:
    async with served(limits=SMALL) as host, host.connect() as client:
        many = b"GET / HTTP/1.1\r\nHost: t\r\n\r\n" * 3000
        last = b"GET /last HTTP/1.1\r\nHost: t\r\n\r\n"
        await client.send(many + last[:5])
        for _ in range(3000):
            assert (await client.reply()).status == 200
        for byte in last[5:]:
            await client.send(bytes([byte]))
        assert (await client.reply()).body == b"GET /last"
