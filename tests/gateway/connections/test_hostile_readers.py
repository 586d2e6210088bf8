"""Clients that do not read their responses delay no other client, use little memory, and time out."""

import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.message import Request, Response
from tests.gateway.connections.http_server import served
from tests.settling import advance, settled

LARGE = b"x" * 32_000_000


async def handle(request: Request) -> Response:
    return Response(200, LARGE if request.path == "/large" else b"small")


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
async def test_stalled_reader_is_disconnected_and_blocks_no_other_client(
    mock_clock: MockClock, secure: bool
) -> None:
    async with (
        served(handle) as host,
        host.connect() as other,
        host.connect_tls() if secure else host.connect() as client,
    ):
        await client.send(b"GET /large HTTP/1.1\r\nHost: t\r\n\r\n")
        await settled()
        assert (await other.get()).body == b"small"
        assert host.statistics.open == 2
        # Bytes that the kernel buffered count as progress and extend the deadline.
        for _ in range(60):
            await advance(mock_clock, 30)
            assert (await other.get()).body == b"small"
        assert (host.statistics.open, host.statistics.timed_out) == (1, 1)


@pytest.mark.usefixtures("protocols")
async def test_slow_reader_gets_everything() -> None:
    async with served(handle) as host, host.connect_tls() as client:
        await client.send(b"GET /large HTTP/1.1\r\nHost: t\r\n\r\n")
        await settled()
        reply = await client.reply()
        assert reply.body == LARGE
        assert (await client.get("/small")).body == b"small"


@pytest.mark.usefixtures("protocols")
async def test_pipelined_requests_wait_until_their_client_reads() -> None:
    handled = 0

    async def count(request: Request) -> Response:
        nonlocal handled
        handled += 1
        return Response(200, b"x" * 1_000_000)

    async with served(count) as host, host.connect() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, b"GET / HTTP/1.1\r\nHost: t\r\n\r\n" * 200)
            await settled()
            assert handled < 50
            for _ in range(200):
                assert len((await client.reply()).body) == 1_000_000
        assert handled == 200
