"""Slow senders: each part of a request has its own time limit."""

import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.message import Request, Response
from tests.gateway.connections.http_server import served
from tests.settling import advance

HEAD = b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n"


async def test_incomplete_head_times_out(mock_clock: MockClock) -> None:
    async with served() as host, host.connect() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: t\r\n")
        for _ in range(30):
            await client.send(b"X: y\r\n")
            await advance(mock_clock, 1)
        assert host.statistics.open == 1
        await advance(mock_clock, 4)
        reply = await client.reply()
        assert (reply.status, reply.headers[b"connection"]) == (408, b"close")
        assert await client.ended()
        assert (host.statistics.requests, host.statistics.refused) == (0, 1)


async def test_incomplete_method_times_out(mock_clock: MockClock) -> None:
    async with served() as host, host.connect() as client:
        await client.get()
        await client.send(b"GE")
        await advance(mock_clock, 34)
        assert (await client.reply()).status == 408


async def test_stalled_body_times_out(mock_clock: MockClock) -> None:
    async with served() as host, host.connect() as client:
        await client.send(HEAD + b"x")
        await advance(mock_clock, 29)
        assert host.statistics.open == 1
        await advance(mock_clock, 3)
        assert (await client.reply()).status == 408
        assert await client.ended()
        assert host.handled == []


@pytest.mark.usefixtures("protocols")
async def test_body_below_the_minimum_rate_times_out(mock_clock: MockClock) -> None:
    async with served() as host, host.connect() as client:
        await client.send(HEAD)
        for _ in range(33):
            await client.send(b"x")
            await advance(mock_clock, 1)
        assert (await client.reply()).status == 408


@pytest.mark.usefixtures("protocols")
async def test_slow_but_steady_body_arrives(mock_clock: MockClock) -> None:
    async with served() as host, host.connect_tls() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 2000000\r\n\r\n")
        for _ in range(100):
            await client.send(b"x" * 20_000)
            await advance(mock_clock, 1)
        assert (await client.reply()).status == 200


@pytest.mark.usefixtures("protocols")
async def test_idle_connection_is_closed_without_a_response(mock_clock: MockClock) -> None:
    async with served() as host, host.connect() as client:
        await client.get()
        await advance(mock_clock, 118)
        assert (await client.get()).status == 200
        await advance(mock_clock, 118)
        assert host.statistics.open == 1
        await advance(mock_clock, 4)
        assert await client.ended()
        assert host.statistics.open == 0


async def test_connection_without_bytes_is_closed(mock_clock: MockClock) -> None:
    async with served() as host, host.connect() as client:
        await advance(mock_clock, 34)
        assert await client.ended()
        assert (host.statistics.timed_out, host.statistics.refused) == (1, 0)


@pytest.mark.usefixtures("protocols")
async def test_handler_has_no_time_limit(mock_clock: MockClock) -> None:
    done = trio.Event()

    async def handle(request: Request) -> Response:
        await done.wait()
        return Response(200, b"at last")

    async with served(handle) as host, host.connect() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
        await advance(mock_clock, 3600)
        done.set()
        assert (await client.reply()).body == b"at last"
