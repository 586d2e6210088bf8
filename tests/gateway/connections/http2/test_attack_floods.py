"""Floods of frames that cost work but request nothing end their connection with ENHANCE_YOUR_CALM."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Request, Response
from tests.gateway.connections.http2.attacks import (
    attacked,
    block,
    expect_calm,
    outputs,
    shrink,
    small_buffers,
)
from tests.gateway.connections.http2.handlers import echo
from tests.gateway.connections.http2.raw_client import (
    RawClient,
    data,
    frame,
    goaway,
    headers,
    ping,
    priority,
    raw_client,
    rst_stream,
    settings,
    window_update,
)
from tests.gateway.connections.http_server import served
from tests.settling import advance, eventually, settled

__all__ = ["small_buffers"]

BURST, PER_SECOND = 2000, 500  # of `budget`
LARGE = b"x" * 2_000_000  # more than sockets hold
# Stream 1 is an upload in progress, stream 3 a request with a response, stream 5 was refused and reset.
FLOODS = {
    "empty data": data(1),
    "tiny data": data(1, b"x"),
    "data of padding": data(1, b"", pad=20),
    "data on a closed stream": data(3, b"x"),
    "data on a reset stream": data(5, b"x" * 16),
    "trailers on a reset stream": headers(5, b""),
    "ping": ping(),
    "acknowledged ping": ping(ack=True),
    "settings": settings(),
    "settings with values": settings({4: 65535, 99: 1}),
    "acknowledged settings": settings(ack=True),
    "priority": priority(1),
    "priority of idle streams": priority(101),
    "cycle of dependencies": priority(7, 9) + priority(9, 7),
    "dependency on itself": priority(7, 7, exclusive=True),
    "tiny windows of the connection": window_update(0, 1),
    "tiny windows of a stream": window_update(1, 1),
    "windows of a closed stream": window_update(3, 60_000),
    "unknown frames": frame(0xEE, b"nothing"),
    "unknown frames of a stream": frame(0xEE, stream=1),
    "resets of a closed stream": rst_stream(3),
    "goaway": goaway(),
}


async def prepare(client: RawClient) -> None:
    await client.request(method="POST", end=False)
    await client.response(await client.request())
    refused = await client.request(method="POST", end=False, fields=[("content-length", "99999999")])
    assert (await client.response(refused)).status == 413


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
async def test_flood_ends_the_connection(
    flood: bytes, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(echo) as host, attacked(host) as client:
        await prepare(client)
        await client.send(flood * (BURST + 100))
        await expect_calm(client)
        assert len(client.frames) <= BURST + 10
        assert len(host.handled) == 1
    assert caplog.text == ""


@pytest.mark.parametrize(
    "malformed",
    [b"", b"\x82", b"\x82\x84\x86\x00\x01X\x00", b"\x82\x84\x86\x41\x01t\x5c\x019"],
    ids=["empty", "no path", "upper case", "no body where one is announced"],
)
async def test_flood_of_malformed_requests_ends_the_connection(
    malformed: bytes, mock_clock: MockClock
) -> None:
    async with served() as host, attacked(host) as client:
        await client.send(*(headers(2 * number + 1, malformed) for number in range(BURST + 100)))
        await expect_calm(client)
        assert host.statistics.requests == 0


async def test_flood_of_refused_streams_ends_the_connection(mock_clock: MockClock) -> None:
    async def wait(request: Request) -> Response:
        if request.path != "/other":
            await trio.sleep_forever()
        return Response(200, b"")

    async with served(wait, Limits(streams=2)) as host, attacked(host) as client:
        await client.send(*(headers(2 * number + 1, block()) for number in range(BURST + 100)))
        await expect_calm(client)
        assert host.statistics.requests == 2


async def test_skipped_stream_numbers_earn_nothing(mock_clock: MockClock) -> None:
    async with served() as host, attacked(host) as client:
        for number in range(1, 400_000, 100_000):
            await client.request(stream=number)
            await client.send(ping() * (BURST // 3))
        await expect_calm(client)


async def test_frames_at_a_moderate_rate_are_no_flood(mock_clock: MockClock) -> None:
    async with served() as host, raw_client(host) as client:
        for _ in range(10):
            await client.send(ping() * PER_SECOND)
            await advance(mock_clock, 1)
        await client.alive()


async def test_frames_that_come_with_requests_are_no_flood(mock_clock: MockClock) -> None:
    """A client that does not read small responses to the end resets streams that are already closed."""
    async with served() as host, raw_client(host) as client:
        for first in range(1, 2 * BURST + 400, 200):
            numbers = range(first, first + 200, 2)
            await client.send(*(headers(number, block()) + rst_stream(number) for number in numbers))
            await client.alive()
            client.frames.clear()


async def fill_socket(client: RawClient) -> int:
    """Request a large response, and do not read it."""
    shrink(client)
    await client.send(settings({4: 1 << 30}), window_update(0, 1 << 30))
    stream = await client.request()
    await eventually(lambda: any(output.blocked for output in outputs()))
    return stream


async def test_replies_to_a_peer_that_does_not_read_are_bounded(
    small_buffers: None, mock_clock: MockClock
) -> None:
    async def handle(request: Request) -> Response:
        return Response(200, LARGE if request.path == "/" else b"")

    async with served(handle) as host, attacked(host) as client:
        await fill_socket(client)
        await client.send(ping() * (BURST - 100))
        # A few seconds: the deadline of the response must not be what ends the connection.
        for _ in range(10):
            await advance(mock_clock, 1)
            if host.statistics.open == 1:
                break
            assert max(output.queued for output in outputs()) < 400_000
            await client.send(ping() * (PER_SECOND - 10))
        assert host.statistics.open == 1


async def test_socket_full_of_a_response_leaves_room_for_replies(small_buffers: None) -> None:
    async def handle(request: Request) -> Response:
        return Response(200, LARGE)

    async with served(handle) as host, raw_client(host) as client:
        stream = await fill_socket(client)
        await client.send(ping() * 100)
        await settled()
        assert (await client.response(stream)).body == LARGE
        await client.alive()
