"""Frames larger than allowed are refused after their header: their payload is never buffered."""

from __future__ import annotations

from tests.cases import cases
from tests.gateway.connections.http2.attacks import attacked
from tests.gateway.connections.http2.handlers import echo
from tests.gateway.connections.http2.raw_client import (
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    SETTINGS,
    ErrorCode,
    frame,
    raw_client,
)
from tests.gateway.connections.http_server import served

KINDS = [DATA, HEADERS, PRIORITY, SETTINGS, PUSH_PROMISE, GOAWAY, CONTINUATION, 0xEE]


@cases("size", [16_385, (1 << 24) - 1])
@cases("kind", KINDS)
async def test_frame_that_is_too_large_is_refused_from_its_head(kind: int, size: int) -> None:
    async with served(echo) as host, attacked(host) as client:
        stream = await client.request(method="POST", end=False)
        on_stream = kind in (DATA, HEADERS, PRIORITY, PUSH_PROMISE, CONTINUATION)
        await client.send(frame(kind, length=size, stream=stream if on_stream else 0))
        assert await client.connection_error() is ErrorCode.FRAME_SIZE_ERROR


async def test_first_frame_that_is_too_large_is_refused_from_its_head() -> None:
    async with served() as host, raw_client(host, handshake=False) as client:
        await client.send(PREFACE, frame(SETTINGS, length=1 << 20))
        assert await client.connection_error() is ErrorCode.FRAME_SIZE_ERROR
