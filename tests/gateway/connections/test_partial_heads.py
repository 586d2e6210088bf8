"""Incomplete request heads: all connections together hold a bounded amount of them."""

from __future__ import annotations

from rewound.gateway.memory.budget import UNAUTHENTICATED_SHARE, MemoryBudget
from tests.gateway.connections.http2.raw_client import ErrorCode, continuation, headers, raw_client
from tests.gateway.connections.http_server import Client, served
from tests.settling import settled

KIB = 1024
LIMIT = 64 * KIB


def budget() -> MemoryBudget:
    return MemoryBudget(int(LIMIT / UNAUTHENTICATED_SHARE))


async def begin(client: Client, size: int) -> None:
    """Send this many bytes of a head, but not its end."""
    await client.send(b"GET / HTTP/1.1\r\nHost: t\r\nX-Long: ".ljust(size, b"x"))
    await settled()


async def test_largest_partial_head_is_given_up() -> None:
    async with (
        served(memory=budget()) as host,
        host.connect() as large,
        host.connect() as middle,
        host.connect() as small,
    ):
        await begin(large, 40 * KIB)
        await begin(middle, 20 * KIB)
        await begin(small, 10 * KIB)
        assert (await large.reply()).status == 408
        assert await large.ended()
        for client in (middle, small):
            assert (await client.request(b"\r\n\r\n")).status == 200


async def test_heads_that_are_complete_or_lost_are_not_counted() -> None:
    async with served(memory=budget()) as host, host.connect() as client:
        for _ in range(3):
            async with host.connect() as lost:
                await begin(lost, 40 * KIB)
            await settled()
            await begin(client, 40 * KIB)
            assert (await client.request(b"\r\n\r\n")).status == 200


async def test_largest_header_block_is_given_up() -> None:
    async with served(memory=budget()) as host, raw_client(host) as large, host.connect() as small:
        stream = large.new_stream()
        part = bytes(16 * KIB)
        await large.send(headers(stream, part, done=False))
        await large.send(*(continuation(stream, part, done=False) for _ in range(2)))
        await settled()
        await begin(small, 20 * KIB)
        await large.send(continuation(stream, b""))
        assert await large.connection_error() is ErrorCode.ENHANCE_YOUR_CALM
        assert (await small.request(b"\r\n\r\n")).status == 200
