"""Streams (RFC 9113, section 5.1): which frames each state permits, their identifiers, and how many may be open."""

from collections.abc import Callable

import pytest

from rewound.gateway.connections.limits import Limits
from tests.cases import cases
from tests.gateway.connections.http2.handlers import Gate, Recorder, echo
from tests.gateway.connections.http2.raw_client import (
    RST_STREAM,
    ErrorCode,
    RawClient,
    Setting,
    continuation,
    data,
    headers,
    priority,
    raw_client,
    rst_stream,
    window_update,
)
from tests.gateway.connections.http_server import served

Frames = Callable[[RawClient, int], bytes]

FRAMES: dict[str, Frames] = {
    "DATA": lambda client, stream: data(stream, b"x", end=True),
    "HEADERS": lambda client, stream: headers(stream, client.block()),
    "trailers": lambda client, stream: headers(stream, client.encode([("x-sum", "1")])),
    "CONTINUATION": lambda client, stream: continuation(stream, b"\x82"),
    "WINDOW_UPDATE": lambda client, stream: window_update(stream, 100),
    "RST_STREAM": lambda client, stream: rst_stream(stream),
    "PRIORITY": lambda client, stream: priority(stream),
}


def named(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("frames", [FRAMES[name] for name in names], ids=names)


async def works(client: RawClient) -> bool:
    return (await client.response(await client.request("/works"))).status == 200


@named("DATA", "CONTINUATION", "WINDOW_UPDATE", "RST_STREAM")
async def test_idle_stream_permits_only_headers_and_priority(frames: Frames) -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(frames(client, 5))
        assert await client.connection_error() in (ErrorCode.PROTOCOL_ERROR, ErrorCode.STREAM_CLOSED)


@named("DATA", "WINDOW_UPDATE", "RST_STREAM")
async def test_stream_above_those_in_use_is_idle(frames: Frames) -> None:
    async with served() as host, raw_client(host) as client:
        assert await works(client)
        await client.send(frames(client, 3))
        assert await client.connection_error() in (ErrorCode.PROTOCOL_ERROR, ErrorCode.STREAM_CLOSED)


@named("DATA", "HEADERS", "WINDOW_UPDATE", "RST_STREAM")
async def test_streams_of_the_server_are_always_idle(frames: Frames) -> None:
    async with served() as host, raw_client(host) as client:
        assert (await client.response(await client.request(stream=9))).status == 200
        await client.send(frames(client, 4))
        assert await client.connection_error() in (ErrorCode.PROTOCOL_ERROR, ErrorCode.STREAM_CLOSED)


async def test_priority_leaves_a_stream_idle() -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(priority(1), priority(3), priority(101))
        assert await works(client)


@named("DATA", "HEADERS", "trailers")
async def test_ended_request_permits_no_more_of_it(frames: Frames) -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        stream = await client.request("/wait")
        await client.send(frames(client, stream))
        assert await client.error_on(stream) is ErrorCode.STREAM_CLOSED
        gate.open.set()


async def test_continuation_after_the_end_of_the_request_is_an_error() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        stream = await client.request("/wait")
        await client.send(continuation(stream, b"\x82"))
        assert await client.connection_error() in (ErrorCode.PROTOCOL_ERROR, ErrorCode.STREAM_CLOSED)


@named("WINDOW_UPDATE", "PRIORITY")
async def test_ended_request_permits_control_frames(frames: Frames) -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        stream = await client.request("/wait")
        await client.send(frames(client, stream))
        await client.alive()
        gate.open.set()
        assert (await client.response(stream)).body == b"/wait"


async def test_reset_of_an_ended_request_cancels_its_response() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        stream = await client.request("/wait")
        await client.send(rst_stream(stream))
        await client.alive()
        gate.open.set()
        assert await works(client)
        assert [frame for frame in await client.alive() if frame.stream == stream] == []


@named("DATA", "HEADERS", "trailers")
async def test_stream_that_both_sides_ended_permits_no_request(frames: Frames) -> None:
    async with served() as host, raw_client(host) as client:
        assert await works(client)
        await client.send(frames(client, 1))
        assert await client.error_on(1) is ErrorCode.STREAM_CLOSED


@named("WINDOW_UPDATE", "RST_STREAM", "PRIORITY")
async def test_stream_that_both_sides_ended_permits_late_control_frames(frames: Frames) -> None:
    async with served() as host, raw_client(host) as client:
        assert await works(client)
        await client.send(frames(client, 1))
        assert await client.alive() == []
        assert await works(client)


@named("DATA", "HEADERS", "trailers")
async def test_stream_that_the_client_reset_permits_no_request(frames: Frames) -> None:
    async with served() as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(rst_stream(stream), frames(client, stream))
        assert await client.error_on(stream) is ErrorCode.STREAM_CLOSED


@named("WINDOW_UPDATE", "RST_STREAM", "PRIORITY")
async def test_stream_that_the_client_reset_permits_late_control_frames(frames: Frames) -> None:
    async with served() as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(rst_stream(stream), frames(client, stream))
        assert await client.alive() == []
        assert await works(client)


@named("DATA", "trailers", "WINDOW_UPDATE", "RST_STREAM", "PRIORITY")
async def test_stream_that_the_server_reset_ignores_what_was_on_its_way(frames: Frames) -> None:
    async with served() as host, raw_client(host) as client:
        stream = await client.request(method="PUT", fields=[("upgrade", "x")], end=False)
        assert await client.reset_of(stream) is ErrorCode.PROTOCOL_ERROR
        await client.send(frames(client, stream))
        assert [frame for frame in await client.alive() if frame.kind == RST_STREAM] == []
        assert await works(client)


@cases("stream", [0, 2, 2**31 - 2])
async def test_client_may_not_open_stream_zero_or_even_ones(stream: int) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        await client.request(stream=stream)
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR
        assert recorder.requests == []


@pytest.mark.parametrize("second", [1, 3])
async def test_new_streams_must_have_higher_identifiers(second: int) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        assert (await client.response(await client.request("/first", stream=5))).status == 200
        await client.request("/second", stream=second)
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR
        assert recorder.paths == ["/first"]


@named("DATA", "WINDOW_UPDATE", "RST_STREAM")
async def test_skipped_streams_are_closed(frames: Frames) -> None:
    async with served() as host, raw_client(host) as client:
        assert (await client.response(await client.request(stream=5))).status == 200
        await client.send(frames(client, 3))
        if frames is FRAMES["DATA"]:
            assert await client.error_on(3) in (ErrorCode.STREAM_CLOSED, ErrorCode.PROTOCOL_ERROR)
        else:
            assert await client.alive() == []


async def test_streams_may_be_skipped() -> None:
    async with served() as host, raw_client(host) as client:
        for stream in (7, 9, 1001, 2**31 - 1):
            assert (await client.response(await client.request(stream=stream))).status == 200


async def test_streams_above_the_limit_are_refused() -> None:
    gate = Gate()
    async with served(gate, Limits(streams=3)) as host, raw_client(host) as client:
        assert client.server_settings[Setting.MAX_CONCURRENT_STREAMS] == 3
        running = [await client.request("/wait") for _ in range(3)]
        refused = [await client.request("/late") for _ in range(2)]
        for stream in refused:
            assert await client.reset_of(stream) is ErrorCode.REFUSED_STREAM
        gate.open.set()
        for stream in running:
            assert (await client.response(stream)).body == b"/wait"
        assert await works(client)
        assert "/late" not in gate.paths


async def test_streams_that_still_send_their_request_count() -> None:
    async with served(limits=Limits(streams=2)) as host, raw_client(host) as client:
        open_ = [await client.request(method="PUT", end=False) for _ in range(2)]
        assert await client.reset_of(await client.request()) is ErrorCode.REFUSED_STREAM
        await client.send(data(open_[0], end=True))
        assert (await client.response(open_[0])).status == 200
        assert await works(client)


@named("DATA", "trailers", "WINDOW_UPDATE", "RST_STREAM")
async def test_refused_stream_ignores_what_was_on_its_way(frames: Frames) -> None:
    gate = Gate()
    async with served(gate, Limits(streams=1)) as host, raw_client(host) as client:
        running = await client.request("/wait")
        refused = await client.request("/refused", method="PUT", end=False)
        await client.send(frames(client, refused))
        assert await client.reset_of(refused) is ErrorCode.REFUSED_STREAM
        assert [frame for frame in await client.alive() if frame.kind == RST_STREAM] == []
        gate.open.set()
        assert (await client.response(running)).status == 200


async def test_responses_come_in_the_order_in_which_they_are_ready() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        slow = await client.request("/wait")
        quick = await client.request("/quick")
        assert (await client.response(quick)).body == b"/quick"
        gate.open.set()
        assert (await client.response(slow)).body == b"/wait"


async def test_requests_may_alternate_on_one_connection() -> None:
    async with served(echo) as host, raw_client(host) as client:
        one = await client.request(method="PUT", end=False)
        two = await client.request(method="PUT", end=False)
        for letter in b"abc":
            await client.send(data(one, bytes([letter])), data(two, bytes([letter]).upper()))
        await client.send(data(two, end=True), data(one, end=True))
        assert (await client.response(one)).body == b"abc"
        assert (await client.response(two)).body == b"ABC"
