"""Slow, tiny, many and too large request bodies: each connection holds a bounded amount."""

from __future__ import annotations

import tracemalloc

import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.connections.http2 import bodies
from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Request, Response
from tests.gateway.connections.http2.attacks import attacked, block
from tests.gateway.connections.http2.raw_client import (
    HEADERS,
    ErrorCode,
    RawClient,
    data,
    frame,
    headers,
    raw_client,
    window_update,
)
from tests.gateway.connections.http_server import served
from tests.settling import advance, settled

STREAMS = 250
FRAME = 16_384
MIB = 1024 * 1024


async def read_body(request: Request) -> Response:
    return Response(200, b"%d" % len(request.body))


def posts(count: int) -> bytes:
    return b"".join(headers(2 * number + 1, block(method="POST"), end=False) for number in range(count))


def statuses(client: RawClient) -> list[int]:
    heads = [dict(found.fields) for found in client.frames if found.kind == HEADERS]
    return [int(fields[b":status"]) for fields in heads]


async def test_slow_bodies_on_all_streams_time_out(mock_clock: MockClock) -> None:
    async with served(read_body) as host, attacked(host) as client:
        await client.send(posts(STREAMS + 1))
        assert await client.reset_of(2 * STREAMS + 1) is ErrorCode.REFUSED_STREAM
        for _ in range(32):
            await client.send(*(data(2 * number + 1, b"few bytes", pad=50) for number in range(0, 250, 10)))
            await advance(mock_clock, 1)
        await client.alive()
        assert statuses(client) == [408] * STREAMS
        assert host.handled == []
        stream = await client.request(method="POST", body=b"quick", stream=2 * STREAMS + 3)
        assert (await client.response(stream)).body == b"5"


async def test_deadlines_hold_while_the_peer_keeps_sending(mock_clock: MockClock) -> None:
    """The socket always has more to read when the deadline of the body passes."""
    more = window_update(0, 1024) * 10_000
    async with served(read_body) as host, attacked(host) as client:
        await client.send(posts(1))
        await advance(mock_clock, Limits().transfer_seconds - 1)
        for _ in range(20):  # the watchdog and the reading task take turns in any order
            await client.send(more)
            mock_clock.jump(1)
            await client.alive()
            if statuses(client):
                break
        assert statuses(client) == [408]


async def test_steady_upload_in_pieces_of_frames_is_not_cut_off(mock_clock: MockClock) -> None:
    """Every read ends in the middle of a frame; none of the frames takes long."""
    async with served(read_body) as host, raw_client(host) as client:
        body = b"".join(data(1, b"x" * 16_000) for _ in range(130))
        await client.send(
            headers(1, client.block(method="POST", fields=[("content-length", "2080000")]), end=False)
        )
        for at in range(0, len(body), 40_003):
            await client.send(body[at : at + 40_003])
            await advance(mock_clock, 1)
        await client.send(data(1, end=True))
        assert (await client.response(1)).body == b"2080000"


async def test_frame_without_its_rest_times_out(mock_clock: MockClock) -> None:
    async with served(read_body) as host, attacked(host) as client:
        await client.send(posts(1), frame(0, length=FRAME, stream=1))
        for _ in range(4):
            await client.send(b"a piece")
            await advance(mock_clock, 9)
        await client.goaway()


# What measures the event loop of every test keeps stacks meanwhile.
NOT_THE_METER = tracemalloc.Filter(False, "*/tests/loop_holds.py")


async def test_body_in_tiny_parts_takes_no_more_memory_than_its_bytes() -> None:
    size = 64
    parts = 1000  # within the first window of a stream: nothing depends on when the server grants more
    async with served(read_body) as host, attacked(host) as client:
        sent = data(1, b"x" * size) * 250
        await client.send(posts(1))
        tracemalloc.start()
        try:
            for _ in range(parts // 250):
                await client.send(sent)
            await client.alive()
            traced = tracemalloc.take_snapshot().filter_traces([NOT_THE_METER])
        finally:
            tracemalloc.stop()
        assert sum(trace.size for trace in traced.traces) < 1.5 * parts * size
        await client.send(data(1, end=True))
        assert (await client.response(1)).body == b"%d" % (parts * size)


async def test_body_of_small_and_large_parts_arrives_in_order() -> None:
    received: list[bytes] = []

    async def keep(request: Request) -> Response:
        received.append(request.body)
        return Response(200, b"")

    pieces = [bytes([65 + index]) * size for index, size in enumerate((1, 0, 5, 9000, 3, 4, 4096, 16_384, 2))]
    async with served(keep) as host, raw_client(host) as client:
        await client.send(posts(1), *(data(1, piece) for piece in pieces), data(1, b"end", end=True))
        assert (await client.response(1)).status == 200
        assert received == [b"".join(pieces) + b"end"]


async def upload(client: RawClient, stream: int, size: int) -> None:
    await client.upload(stream, b"x" * size)


async def test_incomplete_bodies_of_a_connection_are_bounded() -> None:
    async with served(read_body) as host, attacked(host) as client:
        await client.send(posts(7))
        for stream in range(1, 12, 2):
            await upload(client, stream, 2880 * 1024)
        await client.alive()
        assert statuses(client) == [429]
        for stream in range(1, 10, 2):
            await client.send(data(stream, end=True))
            assert (await client.response(stream)).body == b"%d" % (2880 * 1024)
        await client.send(data(13, b"later", end=True))
        assert (await client.response(13)).body == b"5"


async def test_bodies_that_are_being_handled_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_MAX_HELD", 10 * FRAME)
    release = trio.Event()

    async def wait(request: Request) -> Response:
        if request.path != "/other":
            await release.wait()
        return Response(200, b"")

    async with served(wait) as host, attacked(host) as client:
        await client.send(posts(4))
        for stream in (1, 3, 5):
            await upload(client, stream, 4 * FRAME)
            await client.send(data(stream, end=True))
        assert (await client.response(5)).status == 429
        assert len(host.handled) == 2
        release.set()
        assert [(await client.response(stream)).status for stream in (1, 3)] == [200, 200]
        await upload(client, 7, 8 * FRAME)
        await client.send(data(7, end=True))
        assert (await client.response(7)).status == 200


async def test_bodies_beyond_the_limit_on_many_streams_are_refused() -> None:
    async with served(read_body, Limits(body=FRAME)) as host, attacked(host) as client:
        await client.send(posts(100))
        await client.send(*(data(2 * number + 1, b"x" * 9000) * 2 for number in range(100)))
        await client.alive()
        for number in range(100):
            assert await client.reset_of(2 * number + 1) is ErrorCode.NO_ERROR
        assert statuses(client) == [413] * 100
        stream = await client.request(method="POST", body=b"x" * FRAME, stream=201)
        assert (await client.response(stream)).body == b"%d" % FRAME
        await settled()
