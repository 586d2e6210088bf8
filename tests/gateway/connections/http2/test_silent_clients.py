"""A stopping server waits for handlers, but not for silent HTTP/2 clients, whatever state they are in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.connections.limits import DRAIN_TICK, Limits
from rewound.gateway.message import Request, Response
from tests.gateway.connections.conftest import BUFFER, limit_receive_buffer
from tests.gateway.connections.http2.raw_client import (
    DATA,
    PING,
    PREFACE,
    ErrorCode,
    RawClient,
    Setting,
    continuation,
    data,
    frame,
    headers,
    raw_client,
    rst_stream,
    settings,
    window_update,
)
from tests.gateway.connections.http_server import served
from tests.settling import advance, seconds_to_stop, settled

pytestmark = pytest.mark.usefixtures("small_send_buffers")

LARGE = b"x" * 3_000_000  # more than the kernel buffers for a peer that does not read
SLOW = 3
FRAME = 16384
LONGEST = 4
NO_WINDOW = {Setting.INITIAL_WINDOW_SIZE: 0}
MAX_WINDOW = 2**31 - 1
WINDOW = {Setting.INITIAL_WINDOW_SIZE: MAX_WINDOW}


async def handle(request: Request) -> Response:
    if request.path == "/slow":
        await trio.sleep(SLOW)
    return Response(200, LARGE if request.path == "/large" else request.path.encode())


async def nothing(client: RawClient) -> None:
    """Never start HTTP/2 on the connection."""


async def half_a_preface(client: RawClient) -> None:
    await client.send(PREFACE[:20])


async def preface_only(client: RawClient) -> None:
    await client.send(PREFACE)


async def preface_and_settings(client: RawClient) -> None:
    """Never acknowledge the server's SETTINGS."""
    await client.send(PREFACE, settings())


async def half_a_frame_head(client: RawClient) -> None:
    await client.open()
    await client.send(frame(PING, b"pingpong")[:5])


async def half_a_frame(client: RawClient) -> None:
    await client.open()
    await client.send(headers(1, client.block())[:-3])


async def headers_without_a_body(client: RawClient) -> None:
    await client.open()
    await client.request(method="POST", end=False)


async def half_a_body(client: RawClient) -> None:
    await client.open()
    await client.request(method="POST", body=b"half", end=False)


async def half_a_data_frame(client: RawClient) -> None:
    await client.open()
    await client.request(method="POST", end=False)
    await client.send(data(1, b"x" * 1000)[:500])


async def no_continuation(client: RawClient) -> None:
    await client.open()
    await client.send(headers(1, client.block(), done=False))


async def half_a_continuation(client: RawClient) -> None:
    await client.open()
    block = client.block()
    await client.send(headers(1, block[:5], done=False), continuation(1, block[5:])[:-1])


async def no_window(client: RawClient) -> None:
    await client.open(NO_WINDOW)
    await client.head(await client.request("/large"))


async def no_window_of_the_connection(client: RawClient) -> None:
    await client.open(WINDOW)
    for _ in range(3):
        await client.request("/large")


async def no_reading(client: RawClient) -> None:
    await client.open(WINDOW)
    await client.send(window_update(0, MAX_WINDOW - 65535))
    await client.request("/large")


async def reset_of_a_request(client: RawClient) -> None:
    await client.open()
    stream = await client.request("/large")
    await client.send(rst_stream(stream))


Behave = Callable[[RawClient], Awaitable[None]]
BEHAVIOURS = [
    nothing,
    half_a_preface,
    preface_only,
    preface_and_settings,
    half_a_frame_head,
    half_a_frame,
    headers_without_a_body,
    half_a_body,
    half_a_data_frame,
    no_continuation,
    half_a_continuation,
    no_window,
    no_window_of_the_connection,
    no_reading,
    reset_of_a_request,
]


@pytest.mark.parametrize("behave", BEHAVIOURS)
async def test_silent_client_delays_the_stop_by_seconds(behave: Behave, mock_clock: MockClock) -> None:
    async with served(handle, grace=60) as host, raw_client(host, handshake=False) as client:
        limit_receive_buffer(client.stream)
        await behave(client)
        assert await seconds_to_stop(host, mock_clock) <= LONGEST


@pytest.mark.parametrize("behave", [preface_and_settings, no_window, no_reading, half_a_body])
async def test_silent_client_over_tls_delays_the_stop_by_seconds(
    behave: Behave, mock_clock: MockClock
) -> None:
    async with served(handle, grace=60) as host, raw_client(host, tls=True, handshake=False) as client:
        limit_receive_buffer(client.stream)
        await behave(client)
        assert await seconds_to_stop(host, mock_clock) <= LONGEST


async def test_response_after_the_stop_waits_seconds_for_a_window(mock_clock: MockClock) -> None:
    async with served(handle, grace=60) as host, raw_client(host, values=NO_WINDOW) as client:
        await client.request("/slow")
        assert SLOW < await seconds_to_stop(host, mock_clock) <= SLOW + LONGEST


async def test_clients_get_goaway_at_once_also_during_a_request(mock_clock: MockClock) -> None:
    async with served(handle, grace=60) as host, raw_client(host) as client, raw_client(host) as idle:
        stream = await client.request("/slow")
        await settled()
        host.stop.set()
        await settled()
        assert await client.goaway() == (ErrorCode.NO_ERROR, stream)
        assert await idle.goaway() == (ErrorCode.NO_ERROR, 0)
        await idle.closed()
        await advance(mock_clock, 4)
        assert (await client.response(stream)).body == b"/slow"
        await client.closed()


async def test_rest_of_a_request_is_read_after_goaway(mock_clock: MockClock) -> None:
    async with served(handle, grace=60) as host, raw_client(host) as client:
        stream = await client.request("/body", method="POST", end=False)
        await settled()
        host.stop.set()
        await advance(mock_clock, 1)
        await client.send(data(stream, b"late", end=True))
        assert (await client.response(stream)).body == b"/body"
        await client.closed()


async def test_client_of_half_a_request_gets_408(mock_clock: MockClock) -> None:
    async with served(handle, grace=60) as host, raw_client(host) as client:
        stream = await client.request(method="POST", body=b"half", end=False)
        await settled()
        host.stop.set()
        await advance(mock_clock, Limits().drain_seconds - DRAIN_TICK)
        assert host.statistics.open == 1
        await advance(mock_clock, 1)
        assert (await client.response(stream)).status == 408


async def test_half_a_frame_does_not_end_requests_that_are_handled(mock_clock: MockClock) -> None:
    async with served(handle, grace=60) as host, raw_client(host) as client:
        stream = await client.request("/slow")
        await client.send(frame(PING, b"pingpong")[:5])
        await settled()
        host.stop.set()
        for _ in range(4):
            await advance(mock_clock, 1)
        assert (await client.response(stream)).body == b"/slow"
        await client.closed()


async def test_steady_upload_outlasts_the_limit_of_silent_clients(mock_clock: MockClock) -> None:
    async with served(handle, grace=60) as host, raw_client(host) as client:
        stream = await client.request("/body", method="POST", end=False)
        body = b"".join(data(stream, b"x" * 10_000) for _ in range(20)) + data(stream, end=True)
        await settled()
        host.stop.set()
        for at in range(0, len(body), 20_000):  # never at the end of a frame
            await advance(mock_clock, 1)
            await client.send(body[at : at + 20_000])
        assert (await client.response(stream)).status == 200
        await client.closed()


async def test_steady_reader_outlasts_the_limit_of_silent_clients(mock_clock: MockClock) -> None:
    async with served(handle, grace=600) as host, raw_client(host, values=NO_WINDOW) as client:
        stream = await client.request("/large")
        await client.head(stream)
        host.stop.set()
        await client.send(window_update(0, MAX_WINDOW - 65535))
        for _ in range(5):
            await advance(mock_clock, 1)
            await client.send(window_update(stream, 100_000))
            received = 0
            while received < 100_000:
                received += len((await client.data(stream)).payload)
        assert not host.stopped.is_set()
        await client.send(window_update(stream, len(LARGE)))
        last = await client.take(lambda one: one.kind == DATA and one.ends_stream)
        assert last.stream == stream
        await client.closed()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_steady_reader_gets_also_the_last_bytes(tls: bool, mock_clock: MockClock) -> None:
    async with served(handle, grace=60) as host, raw_client(host, tls=tls, values=WINDOW) as client:
        limit_receive_buffer(client.stream)
        await client.send(window_update(0, MAX_WINDOW - 65535))
        stream = await client.request("/large")
        await client.head(stream)
        await settled()
        host.stop.set()
        received, ended = 0, False
        while not ended:
            await advance(mock_clock, 0.5)  # slow, but on a busy machine not slower than the limit
            for _ in range(2 * BUFFER // FRAME):
                part = await client.data(stream)
                received, ended = received + len(part.payload), part.ends_stream
                if ended:
                    break
        assert received == len(LARGE)
