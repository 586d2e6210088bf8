"""An observer gets the stages of every HTTP/2 request, and its end, whatever the reason."""

from __future__ import annotations

import h2.events
import trio
from trio.testing import MockClock

from rewound.gateway.message import Request, Response
from tests.gateway.connections.conftest import limit_receive_buffer
from tests.gateway.connections.http2.raw_client import Setting, raw_client, window_update
from tests.gateway.connections.http2_client import http2_client
from tests.gateway.connections.http_server import served
from tests.gateway.observing import Observer
from tests.settling import advance, eventually, settled

PLAIN = ["received", "complete"]


async def sized(request: Request) -> Response:
    return Response(200, b"x" * int(request.path[1:]))


async def test_observer_gets_streams_of_one_connection() -> None:
    observer = Observer()
    async with served(sized, observer=observer) as host, http2_client(host) as client:
        for size in (0, 5, 60_000):
            number = await client.request(b"/%d" % size)
            await client.until(h2.events.StreamEnded, number)
            head = await client.until(h2.events.ResponseReceived, number)
            assert isinstance(head, h2.events.ResponseReceived)
            assert (b"audit-id", observer.records[-1].audit_id) in (head.headers or ())
        records = await observer.ended(3)
    assert [record.end for record in records] == [(200, size, False) for size in (0, 5, 60_000)]
    assert all(record.stages == PLAIN for record in records)


async def test_handler_that_raises_is_reported_as_panic() -> None:
    bug = RuntimeError("a bug of ours")

    async def handle(request: Request) -> Response:
        raise bug

    observer = Observer()
    async with served(handle, observer=observer) as host, http2_client(host) as client:
        assert await client.status(await client.request()) == b"500"
        [record] = await observer.ended(1)
    assert record.stages == ["received", "panic", "complete"]
    assert (record.error, record.status, record.cut_off) == (bug, 500, False)


async def test_stream_reset_during_handling_is_reported_as_cut_off() -> None:
    async def handle(request: Request) -> Response:
        await trio.sleep_forever()
        raise AssertionError

    observer = Observer()
    async with served(handle, observer=observer) as host, http2_client(host) as client:
        number = await client.request()
        await client.arrived()
        client.connection.reset_stream(number)
        await client.flush()
        [record] = await observer.ended(1)
    assert (record.stages, record.end) == (PLAIN, (0, 0, True))


async def test_stream_reset_with_full_window_is_reported_as_cut_off() -> None:
    observer = Observer()
    async with served(sized, observer=observer) as host, http2_client(host) as client:
        number = await client.request(b"/200000")  # several times the window that a client starts with
        await client.status(number)
        client.connection.reset_stream(number)
        await client.flush()
        [record] = await observer.ended(1)
    assert (record.stages, record.end) == (PLAIN, (200, 0, True))


async def test_lost_connection_is_reported_as_cut_off() -> None:
    observer = Observer()
    async with served(sized, observer=observer) as host:
        async with http2_client(host) as client:
            await client.status(await client.request(b"/200000"))
        [record] = await observer.ended(1)
    assert (record.stages, record.end) == (PLAIN, (200, 0, True))


async def test_incomplete_body_is_reported_as_cut_off() -> None:
    observer = Observer()
    async with served(observer=observer) as host, http2_client(host) as client:
        number = await client.request(method=b"POST", end=False)
        client.connection.send_data(number, b"half of it")
        await client.arrived()
        client.connection.reset_stream(number)
        await client.flush()
        [record] = await observer.ended(1)
    assert (record.stages, record.end) == (PLAIN, (0, 0, True))


async def test_refused_body_is_reported() -> None:
    observer = Observer()
    async with served(observer=observer) as host, http2_client(host) as client:
        number = await client.request(method=b"POST", end=False, extra=((b"content-length", b"9999999999"),))
        assert await client.status(number) == b"413"
        [record] = await observer.ended(1)
    assert (record.stages, record.status, record.cut_off) == (PLAIN, 413, False)


async def test_end_of_grace_is_reported_as_cut_off(mock_clock: MockClock) -> None:
    async def handle(request: Request) -> Response:
        await trio.sleep_forever()
        raise AssertionError

    observer = Observer()
    async with served(handle, observer=observer, grace=5) as host, http2_client(host) as client:
        await client.request()
        await client.arrived()
        host.stop.set()
        await advance(mock_clock, 6)
        [record] = await observer.ended(1)
    assert (record.stages, record.end) == (PLAIN, (0, 0, True))


async def test_responses_that_wait_for_the_socket_at_the_end_of_grace_are_reported_as_cut_off(
    mock_clock: MockClock, small_send_buffers: None
) -> None:
    observer, count = Observer(), 100
    async with (
        served(sized, observer=observer, grace=1) as host,
        raw_client(host, values={Setting.INITIAL_WINDOW_SIZE: 1 << 20}) as client,
    ):
        limit_receive_buffer(client.stream)
        await client.send(window_update(0, 1 << 30))
        for _ in range(count):
            await client.request("/16000")
        await eventually(lambda: len(observer.records) == count)
        await settled()
        host.stop.set()
        await advance(mock_clock, 1.1)
        await host.stopped.wait()
    assert [record.stages for record in observer.records] == [PLAIN] * count
    assert any(record.cut_off for record in observer.records)
