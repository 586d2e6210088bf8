"""Attacks with windows (zero, tiny, changing): work and memory stay bounded, and clients that read get everything."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Request, Response
from tests.gateway.connections.http2.attacks import (
    Watches,
    attacked,
    block,
    counted_calls,
    expect_calm,
    outputs,
)
from tests.gateway.connections.http2.raw_client import (
    DATA,
    RST_STREAM,
    ErrorCode,
    Setting,
    headers,
    raw_client,
    settings,
    window_update,
)
from tests.gateway.connections.http_server import served
from tests.settling import advance, settled

STREAMS = 250
LARGEST = (1 << 31) - 1
BODY = b"x" * 100_000
NO_WINDOW = {Setting.INITIAL_WINDOW_SIZE: 0}


async def large(request: Request) -> Response:
    return Response(200, b"" if request.path == "/other" else BODY)


def gets(count: int = STREAMS) -> bytes:
    return b"".join(headers(2 * number + 1, block()) for number in range(count))


async def test_responses_without_a_window_are_bounded_and_reset(mock_clock: MockClock) -> None:
    async with served(large) as host, attacked(host, values=NO_WINDOW) as client:
        await client.send(gets(STREAMS + 50))
        await client.alive()
        refused = [frame for frame in client.frames if frame.kind == RST_STREAM]
        assert [frame.code for frame in refused] == [ErrorCode.REFUSED_STREAM] * 50
        assert host.statistics.requests == STREAMS
        await advance(mock_clock, Limits().transfer_seconds + 2)
        await client.alive()
        resets = [frame.code for frame in client.frames if frame.kind == RST_STREAM]
        assert resets.count(ErrorCode.CANCEL) == STREAMS
        assert not [frame for frame in client.frames if frame.kind == DATA]


@pytest.mark.parametrize("stream", [0, 1], ids=["connection", "stream"])
async def test_windows_that_open_byte_by_byte_are_a_flood(stream: int, mock_clock: MockClock) -> None:
    async with served(large) as host, attacked(host) as client:
        await client.send(settings(NO_WINDOW), gets(), settings({Setting.INITIAL_WINDOW_SIZE: 1 << 20}))
        await client.alive()
        sent = sum(len(frame.payload) for frame in client.frames if frame.kind == DATA)
        assert sent == 65_535  # the window of the connection
        with counted_calls() as calls:
            await client.send(window_update(stream, 1) * (2100 + STREAMS))
            await expect_calm(client)
        assert sum(calls.values()) < 50_000


@pytest.mark.parametrize("seconds", [1, 5])
async def test_response_read_too_slowly_is_reset(seconds: int, mock_clock: MockClock) -> None:
    """Every byte that the peer takes extends its deadline, as over HTTP/1.1, but in proportion."""
    async with served(large) as host, attacked(host, values=NO_WINDOW) as client:
        stream = await client.request()
        for _ in range(40 // seconds):
            await client.send(window_update(stream, 100 * seconds))
            await advance(mock_clock, seconds)
        assert await client.reset_of(stream) is ErrorCode.CANCEL


async def test_slow_responses_share_the_rate_of_their_connection(mock_clock: MockClock) -> None:
    """Ten responses on a connection that takes 20 kB a second: each gets 2 kB a second, which alone would be too
    slow.
    """
    async with served(large) as host, raw_client(host, values=NO_WINDOW) as client:
        await client.send(window_update(0, 1 << 30), gets(10))
        streams = range(1, 20, 2)
        for _ in range(51):
            await client.send(*(window_update(stream, 2_000) for stream in streams))
            await advance(mock_clock, 1)
        for stream in streams:
            assert (await client.response(stream)).body == BODY


def swings(count: int, last: int) -> bytes:
    sizes = [LARGEST if number % 2 else 0 for number in range(count)]
    return settings([(Setting.INITIAL_WINDOW_SIZE, size) for size in (*sizes, last)])


async def test_swings_of_the_initial_window_in_one_frame_change_each_stream_once(
    mock_clock: MockClock,
) -> None:
    async with served(large) as host, attacked(host, values=NO_WINDOW) as client:
        await client.send(gets())
        await client.alive()
        with counted_calls() as calls:
            await client.send(swings(2700, 10))
            await client.settings_ack()
        assert sum(calls.values()) < 50 * STREAMS
        await client.alive()
        parts = [frame for frame in client.frames if frame.kind == DATA]
        assert [len(part.payload) for part in parts] == [10] * STREAMS


async def test_swings_of_the_initial_window_are_a_flood(mock_clock: MockClock) -> None:
    async with served(large) as host, attacked(host, values=NO_WINDOW) as client:
        await client.send(gets())
        await client.alive()
        await client.send((settings({4: 1}) + settings({4: 0})) * 40)
        await expect_calm(client)


async def test_swings_below_zero_lose_nothing() -> None:
    async with served(large) as host, raw_client(host) as client:
        await client.send(window_update(0, 1 << 20))
        stream = await client.request()
        await client.alive()
        for size in (0, 10, 0, 50_000, 0, 65_535, 1):
            await client.send(settings({Setting.INITIAL_WINDOW_SIZE: size}))
            await client.settings_ack()
        await client.send(window_update(stream, 200_000))
        assert (await client.response(stream)).body == BODY


def watches(count: int = STREAMS) -> bytes:
    return b"".join(headers(2 * number + 1, block("/?watch=1")) for number in range(count))


async def test_window_of_the_connection_wakes_as_many_watches_as_it_serves() -> None:
    handle = Watches()
    async with served(handle) as host, attacked(host) as client:
        await client.send(watches())
        await client.alive()
        await settled()
        complete = handle.complete
        assert complete == 32  # of 2,000 bytes each, in 65,535
        handle.woken = 0
        for _ in range(20):
            await client.send(window_update(0, 2000))
            await client.alive()
            await settled()
        assert handle.complete == complete + 20
        assert handle.woken <= 20 * 4
        await client.send(window_update(0, 1 << 20))
        await client.alive()
        await settled()
        assert handle.complete == STREAMS
        received = sum(len(frame.payload) for frame in await client.alive() if frame.kind == DATA)
        assert received == STREAMS * 2000


async def test_windows_of_streams_wake_no_watch_while_the_connection_has_none() -> None:
    handle = Watches()
    async with served(handle) as host, attacked(host) as client:
        await client.send(watches())
        await client.alive()
        await settled()
        handle.woken = 0
        for _ in range(3):
            await client.send(*(window_update(2 * number + 1, 5000) for number in range(STREAMS)))
            await client.alive()
            await settled()
        assert handle.woken == 0
        assert max(len(output.waiting) for output in outputs()) == STREAMS - handle.complete


async def test_many_stalled_watches_get_everything_when_they_read() -> None:
    handle = Watches()
    async with served(handle) as host, attacked(host, values=NO_WINDOW) as client:
        await client.send(watches(), window_update(0, 1 << 30))
        await client.alive()
        await settled()
        assert handle.complete == 0
        assert max(output.queued for output in outputs()) == 0
        await client.send(*(window_update(2 * number + 1, 1500) for number in range(STREAMS)))
        await client.send(settings({Setting.INITIAL_WINDOW_SIZE: 500}))
        await client.alive()
        await settled()
        assert handle.complete == STREAMS
