"""An observer gets the stages of every request over HTTP/1.1, and its end, whatever the reason."""

from __future__ import annotations

import socket
import struct

import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Request, Response
from tests.cases import cases
from tests.gateway.connections.http_server import hello, served
from tests.gateway.observing import Observer
from tests.settling import advance, settled

POST = b"POST /p HTTP/1.1\r\nHost: t\r\n"
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
PLAIN = ["received", "complete"]


async def large(request: Request) -> Response:
    return Response(200, b"x" * 20_000_000)


def reset(stream: trio.abc.Stream) -> None:
    assert isinstance(stream, trio.SocketStream)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    stream.socket.close()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_observer_gets_requests_of_one_connection(tls: bool) -> None:
    observer = Observer()
    async with served(observer=observer) as host, host.connect_tls() if tls else host.connect() as client:
        for path in ("/a", "/long"):
            await client.get(path)
            [record] = await observer.ended(1, path)
            assert (record.stages, record.end) == (PLAIN, (200, len(f"GET {path}"), False))


async def test_pipelined_requests_complete_in_order_each_with_its_size() -> None:
    async def handle(request: Request) -> Response:
        return Response(200, b"x" * int(request.path[1:]))

    observer = Observer()
    sizes = [1, 70_000, 0, 40_000, 3]  # above and below the size up to which responses are joined
    async with served(handle, observer=observer) as host, host.connect() as client:
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: t\r\n\r\n" % size for size in sizes))
        for size in sizes:
            assert len((await client.reply()).body) == size
        records = await observer.ended(len(sizes))
    assert [record.end for record in records] == [(200, size, False) for size in sizes]
    assert all(record.stages == PLAIN for record in records)


async def test_head_response_has_size_zero() -> None:
    observer = Observer()
    async with served(observer=observer) as host, host.connect() as client:
        await client.send(b"HEAD / HTTP/1.1\r\nHost: t\r\n\r\n")
        await client.reply(head=True)
        [record] = await observer.ended(1)
    assert record.end == (200, 0, False)


async def test_handler_that_raises_is_reported_as_panic() -> None:
    bug = RuntimeError("a bug of ours")

    async def handle(request: Request) -> Response:
        raise bug

    observer = Observer()
    async with served(handle, observer=observer) as host, host.connect() as client:
        reply = await client.get()
        [record] = await observer.ended(1)
    assert record.stages == ["received", "panic", "complete"]
    assert record.error is bug
    assert record.end == (500, len(reply.body), False)


@cases(
    ("rest", "status"),
    [
        (b"Content-Length: 9999999999\r\n\r\n", 413),
        (b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n", 400),
        (b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"Content-Length: 5\r\nExpect: wonders\r\n\r\n", 417),
    ],
)
async def test_refused_body_is_reported(rest: bytes, status: int) -> None:
    observer = Observer()
    async with served(observer=observer) as host, host.connect() as client:
        await client.send(b"GET /before HTTP/1.1\r\nHost: t\r\n\r\n" + POST + rest)
        assert (await client.reply()).status == 200
        reply = await client.reply()
        before, record = await observer.ended(2)
    assert before.end == (200, len("GET /before"), False)
    assert (record.method, record.stages) == ("POST", PLAIN)
    assert reply.headers[b"audit-id"] == record.audit_id
    assert record.end == (status, len(reply.body), False)


async def test_body_that_times_out_is_reported(mock_clock: MockClock) -> None:
    observer = Observer()
    async with served(observer=observer) as host, host.connect() as client:
        await client.send(POST + b"Content-Length: 100000\r\n\r\nx")
        await advance(mock_clock, 40)
        reply = await client.reply()
        [record] = await observer.ended(1)
    assert (record.stages, record.end) == (PLAIN, (408, len(reply.body), False))


async def test_incomplete_body_is_reported_as_cut_off() -> None:
    observer = Observer()
    async with served(observer=observer) as host:
        async with host.connect() as client:
            await client.send(POST + b"Content-Length: 100\r\n\r\nhalf of it")
        [record] = await observer.ended(1)
    assert (record.stages, record.end) == (PLAIN, (0, 0, True))


@cases("head", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HT"])
async def test_malformed_request_is_not_reported(head: bytes) -> None:
    observer = Observer()
    async with served(observer=observer) as host:
        async with host.connect() as client:
            await client.send(head)
            await settled()
        await settled()
    assert observer.records == []


async def test_disconnect_during_the_response_is_reported_as_cut_off() -> None:
    observer = Observer()
    async with served(large, observer=observer) as host:
        async with host.connect() as client:
            await client.send(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
            await client.stream.receive_some(1)
            reset(client.stream)
        [record] = await observer.ended(1)
    assert (record.stages, record.end) == (PLAIN, (200, 0, True))


async def test_client_that_does_not_read_is_reported_as_cut_off(mock_clock: MockClock) -> None:
    observer = Observer()
    async with served(large, Limits(), observer=observer) as host, host.connect() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
        for _ in range(5):
            await advance(mock_clock, 60)
        [record] = await observer.ended(1)
    assert (record.stages, record.end) == (PLAIN, (200, 0, True))


async def test_end_of_grace_is_reported_as_cut_off(mock_clock: MockClock) -> None:
    async def handle(request: Request) -> Response:
        await trio.sleep_forever()
        raise AssertionError

    observer = Observer()
    async with served(handle, observer=observer, grace=5) as host, host.connect() as client:
        await client.send(b"GET /a HTTP/1.1\r\nHost: t\r\n\r\n")
        await settled()
        assert [record.stages for record in observer.records] == [["received"]]
        host.stop.set()
        await advance(mock_clock, 6)
        [record] = await observer.ended(1)
    assert (record.stages, record.end) == (PLAIN, (0, 0, True))


async def test_without_an_observer_nothing_is_recorded() -> None:
    seen: list[Request] = []

    async def handle(request: Request) -> Response:
        seen.append(request)
        return await hello(request)

    async with served(handle) as host, host.connect() as client:
        await client.get()
    assert [request.exchange for request in seen] == [None]
