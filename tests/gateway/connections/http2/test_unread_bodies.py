"""Bodies over HTTP/2 that do not arrive together with their head: the handler reads them, or responds without."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.connections.http2 import bodies
from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.message import Request, Response
from tests.gateway.connections.http2.raw_client import (
    ErrorCode,
    RawClient,
    data,
    headers,
    raw_client,
    rst_stream,
)
from tests.gateway.connections.http_server import served
from tests.gateway.observing import Observer
from tests.settling import advance, eventually, settled

KIB, MIB = 1024, 1024 * 1024
FIRST_WINDOW = 65_535


class Reader:
    """Reads bodies of the path's user once `wanted` is set; responds 401 without reading to those under /refused."""

    def __init__(self) -> None:
        self.wanted = trio.Event()
        self.read: list[int] = []

    async def __call__(self, request: Request) -> Response:
        if not request.reserved:
            request.user = request.path
        if request.path.startswith("/refused"):
            return Response(401, b"who?")
        await self.wanted.wait()
        if request.arriving is not None:
            request.body = await request.arriving()
        self.read.append(len(request.body))
        return Response(200, b"%d" % len(request.body))


def length(size: int) -> list[tuple[str, str]]:
    return [("content-length", str(size))]


async def begin(client: RawClient, path: str = "/user", size: int | None = None) -> int:
    """Send the head of a request without its body."""
    fields = length(size) if size is not None else []
    return await client.request(path, method="POST", fields=fields, end=False)


async def test_response_comes_before_the_body() -> None:
    async with served(Reader(), reads=False) as host, raw_client(host) as client:
        stream = await begin(client, "/refused", 3 * MIB)
        assert (await client.response(stream)).status == 401
        assert await client.reset_of(stream) is ErrorCode.NO_ERROR
        await client.send(data(stream, b"late"))
        await client.alive()


async def test_body_with_its_head_is_not_read_again() -> None:
    arriving: list[bool] = []

    async def handle(request: Request) -> Response:
        arriving.append(request.arriving is not None)
        return Response(200, request.body)

    async with served(handle, reads=False) as host, raw_client(host) as client:
        stream = await client.request(method="POST", body=b"x" * 1000)
        assert (await client.response(stream)).body == b"x" * 1000
    assert arriving == [False]


async def test_unwanted_body_gets_no_window_and_no_continue() -> None:
    reader = Reader()
    async with served(reader, reads=False) as host, raw_client(host) as client:
        fields = [*length(MIB), ("expect", "100-continue")]
        stream = await client.request("/user", method="POST", fields=fields, end=False)
        await client.send(*(data(stream, bytes(13_107)) for _ in range(5)))
        assert await client.alive() == []
        assert client.increments(stream) == []
        await client.send(data(stream, b"x"))
        assert await client.reset_of(stream) is ErrorCode.FLOW_CONTROL_ERROR


async def test_wanted_body_gets_continue_and_its_window() -> None:
    reader = Reader()
    async with served(reader, reads=False) as host, raw_client(host) as client:
        fields = [*length(MIB), ("expect", "100-continue")]
        stream = await client.request("/user", method="POST", fields=fields, end=False)
        assert await client.alive() == []
        reader.wanted.set()
        assert dict((await client.head(stream)).fields)[b":status"] == b"100"
        await client.upload(stream, bytes(MIB), end=True)
        assert (await client.response(stream)).body == b"%d" % MIB


async def test_what_a_connection_holds_unread_is_bounded_by_its_window() -> None:
    """The connection's window stays closed while nothing reads the bodies, and opens again when the streams end."""
    async with served(Reader(), reads=False) as host, raw_client(host) as client:
        streams = [await begin(client) for _ in range(20)]
        left, sent = client.connection_window, 0
        for stream in streams:
            size = min(FIRST_WINDOW, left - sent)
            await client.send(*(data(stream, bytes(size // 5)) for _ in range(5)))
            sent += size // 5 * 5
        assert await client.alive() == []
        assert client.increments(0) == []
        for stream in streams:
            await client.send(rst_stream(stream))
        await client.alive()
        assert sum(client.increments(0)) > MIB // 2


async def test_bodies_go_on_while_unread_ones_occupy_most_of_the_window() -> None:
    reader = Reader()

    async def handle(request: Request) -> Response:
        if request.path != "/now":
            return await reader(request)
        assert request.arriving is not None
        return Response(200, b"%d" % len(await request.arriving()))

    async with served(handle, reads=False) as host, raw_client(host) as client:
        for stream in [await begin(client) for _ in range(12)]:
            await client.send(*(data(stream, bytes(FIRST_WINDOW // 5)) for _ in range(5)))
        stream = await begin(client, "/now", MIB)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(client.upload, stream, bytes(MIB), end=True))
            await eventually(lambda: not nursery.child_tasks)
        assert (await client.response(stream)).body == b"%d" % MIB


async def test_wait_for_memory_is_not_the_clients_time(mock_clock: MockClock) -> None:
    memory, reader = MemoryBudget(4 * MIB), Reader()
    others = [Request("POST", "/", "", {}, b"", None, user=user) for user in "ab"]  # type: ignore[arg-type]
    for other in others:
        memory.take(other, 2 * MIB)
    reader.wanted.set()
    async with served(reader, reads=False, memory=memory) as host, raw_client(host) as client:
        stream = await begin(client, size=MIB)
        await settled()
        assert memory.statistics().waiting == 1
        for _ in range(9):
            await advance(mock_clock, 1)
        memory.release(others[0])
        await advance(mock_clock, 25)
        await client.upload(stream, bytes(MIB), end=True)
        assert (await client.response(stream)).body == b"%d" % MIB


async def test_requests_on_other_streams_continue_while_a_body_is_unread() -> None:
    async with served(Reader(), reads=False) as host, raw_client(host) as client:
        await begin(client)
        other = await begin(client, "/refused")
        assert (await client.response(other)).status == 401


async def test_large_body_waits_for_memory() -> None:
    memory, reader = MemoryBudget(4 * MIB), Reader()
    reader.wanted.set()
    async with served(reader, reads=False, memory=memory) as host, raw_client(host) as client:
        first = await begin(client, "/a", 2 * MIB)
        await settled()
        second = await begin(client, "/a", MIB)
        await settled()
        await client.alive()
        assert sum(client.increments(first)) > 0
        assert client.increments(second) == []
        assert (memory.held, memory.statistics().waiting) == (2 * MIB, 1)
        await client.send(rst_stream(first))
        await client.upload(second, bytes(MIB), end=True)
        assert (await client.response(second)).body == b"%d" % MIB
        assert memory.held == 0


async def test_body_of_unknown_length_takes_memory_as_it_grows() -> None:
    memory, reader = MemoryBudget(8 * MIB), Reader()
    reader.wanted.set()
    async with served(reader, reads=False, memory=memory) as host, raw_client(host) as client:
        stream = await begin(client)
        held = []
        for _ in range(10):
            await client.upload(stream, bytes(100 * KIB))
            await client.alive()
            held.append(memory.held)
        assert held == sorted(held)
        assert held[0] <= 256 * KIB
        assert 1000 * KIB - FIRST_WINDOW <= held[-1] <= 1000 * KIB + 256 * KIB
        await client.send(data(stream, end=True))
        assert (await client.response(stream)).body == b"%d" % (1000 * KIB)
        assert memory.held == 0


async def test_small_bodies_take_no_memory_of_the_budget() -> None:
    memory, reader = MemoryBudget(8 * MIB), Reader()
    reader.wanted.set()
    async with served(reader, reads=False, memory=memory) as host, raw_client(host) as client:
        stream = await begin(client)
        await client.send(data(stream, b"x" * 1000))
        await client.alive()
        await client.send(data(stream, b"x" * 1000, end=True))
        assert (await client.response(stream)).body == b"2000"
    assert memory.statistics().most_held == 0


async def test_many_complete_small_bodies_count_while_they_are_handled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bodies, "_UNCOUNTED", 20_000)
    memory, reader = MemoryBudget(160_000), Reader()  # unauthenticated clients may hold 20,000 bytes
    async with served(reader, reads=False, memory=memory) as host, raw_client(host) as client:
        streams = [await client.request("/user", method="POST", body=bytes(10_000)) for _ in range(5)]
        assert (await client.response(streams[4])).status == 429
        assert memory.statistics().most_held == 20_000
        reader.wanted.set()
        assert [(await client.response(stream)).status for stream in streams[:4]] == [200] * 4
        assert memory.held == 0


@pytest.mark.parametrize("end", ["reset", "left", "stalled", "too large", "too much", "malformed", "stopped"])
async def test_memory_is_given_back_however_a_body_ends(end: str, mock_clock: MockClock) -> None:
    memory, reader = MemoryBudget(8 * MIB), Reader()
    reader.wanted.set()
    async with served(reader, reads=False, memory=memory) as host:
        async with raw_client(host) as client:
            stream = await begin(client, size=MIB if end == "too much" else None)
            await client.upload(stream, bytes(300_000))
            await settled()
            assert memory.held > 0
            if end == "reset":
                await client.send(rst_stream(stream))
            elif end == "stalled":
                await advance(mock_clock, 60)
                assert (await client.response(stream)).status == 408
            elif end == "too large":
                await client.upload(stream, bytes(3 * MIB))
                assert (await client.response(stream)).status == 413
            elif end == "too much":
                await client.upload(stream, bytes(MIB))
                assert await client.reset_of(stream) is ErrorCode.PROTOCOL_ERROR
            elif end == "malformed":
                await client.send(headers(stream, b"\x82", end=True))
                assert await client.reset_of(stream) is ErrorCode.PROTOCOL_ERROR
            elif end == "stopped":
                host.stop.set()
                await settled()
                await advance(mock_clock, 5)
            if end != "left":
                await settled()
                assert memory.held == 0
        await settled()
        assert memory.held == 0
    assert reader.read == []


async def test_client_that_leaves_in_its_body_is_cut_off_once() -> None:
    observer, reader = Observer(), Reader()
    reader.wanted.set()
    async with served(reader, reads=False, observer=observer) as host:
        async with raw_client(host) as client:
            await begin(client)
            await client.alive()
        (record,) = await observer.ended(1)
    assert record.end == (0, 0, True)


async def test_child_that_fails_while_its_request_is_reset_ends_nothing_else() -> None:
    async def fail() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("fails when it is cancelled")

    async def handle(request: Request) -> Response:
        if request.path == "/fails":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail)
                nursery.start_soon(trio.sleep_forever)
        return Response(200, b"fine")

    async with served(handle) as host, raw_client(host) as client:
        for method in ("GET", "DELETE"):
            stream = await client.request("/fails", method=method)
            await client.alive()
            await client.send(rst_stream(stream))
            await client.alive()
        assert (await client.response(await client.request("/next"))).body == b"fine"
