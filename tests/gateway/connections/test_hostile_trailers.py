"""Trailers, chunk extensions, tiny chunks and many header fields never make a connection hold more than a head may."""

from __future__ import annotations

import tracemalloc

import pytest

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Request, Response
from tests.gateway.connections.http_server import served
from tests.settling import settled

# Less than the defaults, because large heads take long to send.
SMALL = Limits(target=64 * 1024, head=128 * 1024, headers=200)

KIB = 1024
PARTS = 12  # more than a head may have, and just more than Hypercorn may buffer, which then stops reading
CHUNKED = b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"5\r\nhello\r\n0\r\n"


async def measure(request: Request) -> Response:
    return Response(200, b"%d" % len(request.body))


@pytest.mark.usefixtures("protocols")
async def test_endless_trailers_are_refused() -> None:
    async with (
        served(measure, SMALL, h11_max_incomplete_size=PARTS * 16 * KIB) as host,
        host.connect() as client,
    ):
        await client.send(CHUNKED + LAST)
        for _ in range(PARTS):
            await client.send(b"a: " + b"x" * 16 * KIB + b"\r\n")
            await settled()
        assert (await client.reply()).status == 431
        assert await client.ended()


@pytest.mark.usefixtures("protocols")
async def test_one_endless_trailer_is_refused() -> None:
    async with (
        served(measure, SMALL, h11_max_incomplete_size=PARTS * 16 * KIB) as host,
        host.connect() as client,
    ):
        await client.send(CHUNKED + LAST + b"a: ")
        for _ in range(PARTS):
            await client.send(b"x" * 16 * KIB)
            await settled()
        assert (await client.reply()).status == 431
        assert await client.ended()


async def test_many_trailers_are_refused() -> None:
    async with served(measure, SMALL) as host, host.connect() as client:
        await client.send(CHUNKED + LAST)
        await client.send(b"".join(b"a%d:\r\n" % number for number in range(202)))
        assert (await client.reply()).status == 431
        assert await client.ended()


async def test_one_trailer_repeated_too_often_is_refused() -> None:
    async with served(measure, SMALL) as host, host.connect() as client:
        await client.send(CHUNKED + LAST + b"a:\r\n" * 300)
        assert (await client.reply()).status == 431
        assert await client.ended()


@pytest.mark.usefixtures("protocols")
async def test_endless_chunk_extension_is_refused() -> None:
    async with (
        served(measure, SMALL, h11_max_incomplete_size=PARTS * 16 * KIB) as host,
        host.connect() as client,
    ):
        await client.send(CHUNKED + b"5;a=")
        for _ in range(PARTS):
            await client.send(b"x" * 16 * KIB)
            await settled()
        assert (await client.reply()).status == 431
        assert await client.ended()


@pytest.mark.usefixtures("protocols")
async def test_trailers_within_the_limits_are_ignored() -> None:
    trailers = b"".join(b"a%d: b\r\n" % number for number in range(200))
    async with served(measure, SMALL) as host, host.connect() as client:
        await client.send(CHUNKED + LAST)
        await settled()
        await client.send(trailers + b"\r\n")
        assert (await client.reply()).body == b"5"


async def test_body_in_tiny_chunks_takes_no_more_memory_than_its_bytes() -> None:
    chunks = b"1\r\nx\r\n" * 2000
    async with served(measure, SMALL) as host, host.connect() as client:
        await client.send(CHUNKED + chunks)
        await settled()
        tracemalloc.start()
        try:
            for _ in range(20):
                await client.send(chunks)
                await settled()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held < 6 * 20 * 2000  # each byte as a separate object takes at least 34 bytes
        await client.send(b"0\r\n\r\n")
        assert (await client.reply()).body == b"%d" % (21 * 2000)


async def test_many_fields_are_refused_before_the_head_is_complete() -> None:
    async with served(measure, SMALL) as host, host.connect() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: t\r\n")
        await settled()
        await client.send(b"".join(b"a%d:\r\n" % number for number in range(201)))
        assert (await client.reply()).status == 431
        assert await client.ended()


async def test_a_field_repeated_too_often_is_refused_before_the_head_is_complete() -> None:
    async with served(measure, Limits(headers=20)) as host, host.connect() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: t\r\n" + b"a:\r\n" * 22)
        assert (await client.reply()).status == 431
        assert await client.ended()
