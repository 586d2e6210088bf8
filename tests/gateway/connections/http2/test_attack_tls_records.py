"""How frames are divided into TLS records makes no difference."""

from __future__ import annotations

from trio.testing import MockClock

from tests.cases import cases
from tests.gateway.connections.http2.attacks import attacked, block, expect_calm
from tests.gateway.connections.http2.handlers import echo
from tests.gateway.connections.http2.raw_client import (
    PREFACE,
    ErrorCode,
    data,
    frame,
    headers,
    ping,
    settings,
)
from tests.gateway.connections.http_server import served

OPENING = PREFACE + settings() + settings(ack=True)
REQUESTS = (
    headers(1, block(method="PUT"), end=False)
    + data(1, b"first", end=True)
    + headers(3, block("/second"))
    + ping()
)


@cases("size", [1, 7, 10_000])
async def test_requests_in_records_of_any_size(size: int) -> None:
    sent = OPENING + REQUESTS
    async with served(echo) as host, attacked(host, tls=True, handshake=False) as client:
        for at in range(0, len(sent), size):
            await client.send(sent[at : at + size])
        assert (await client.response(1)).body == b"first"
        assert (await client.response(3)).status == 200


async def test_flood_in_tiny_records_ends_the_connection(mock_clock: MockClock) -> None:
    async with served(echo) as host, attacked(host, tls=True) as client:
        for _ in range(105):
            await client.send(ping() * 20)
        await expect_calm(client)


async def test_head_of_a_frame_that_is_too_large_in_tiny_records() -> None:
    async with served(echo) as host, attacked(host, tls=True) as client:
        for byte in frame(0, length=1 << 20, stream=1):
            await client.send(bytes([byte]))
        assert await client.connection_error() is ErrorCode.FRAME_SIZE_ERROR
