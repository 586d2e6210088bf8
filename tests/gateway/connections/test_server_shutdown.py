"""A stopping server completes what it accepted, and accepts nothing new."""

import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.message import Request, Response
from tests.gateway.connections.http_server import served
from tests.settling import advance, settled


class Gate:
    """A handler that responds when a test opens it."""

    def __init__(self) -> None:
        self.entered = trio.Event()
        self.open = trio.Event()

    async def __call__(self, request: Request) -> Response:
        self.entered.set()
        await self.open.wait()
        return Response(200, request.path.encode() + request.body)


@pytest.mark.usefixtures("protocols")
async def test_idle_connections_close_at_once() -> None:
    async with served() as host, host.connect() as used, host.connect() as fresh, host.connect_tls() as tls:
        await used.get()
        await tls.get()
        await settled()
        host.stop.set()
        await host.stopped.wait()
        assert [await client.ended() for client in (used, fresh, tls)] == [True] * 3
        with pytest.raises(OSError, match="all attempts to connect"):
            await trio.open_tcp_stream(*host.insecure)


@pytest.mark.usefixtures("protocols")
async def test_request_in_progress_completes_with_connection_close() -> None:
    gate = Gate()
    async with served(gate) as host, host.connect() as client:
        await client.send(b"GET /a HTTP/1.1\r\nHost: t\r\n\r\n")
        await gate.entered.wait()
        host.stop.set()
        await settled()
        assert host.statistics.draining
        assert not host.stopped.is_set()
        gate.open.set()
        reply = await client.reply()
        assert (reply.body, reply.headers[b"connection"]) == (b"/a", b"close")
        assert await client.ended()
        await host.stopped.wait()


@pytest.mark.usefixtures("protocols")
async def test_incomplete_request_is_read_to_its_end() -> None:
    async with served() as host, host.connect() as client:
        await client.send(b"POST /a HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nab")
        await settled()
        host.stop.set()
        await settled()
        reply = await client.request(b"cd")
        assert (reply.status, reply.headers[b"connection"]) == (200, b"close")
        await host.stopped.wait()


async def test_all_pipelined_requests_complete() -> None:
    gate = Gate()
    async with served(gate) as host, host.connect_tls() as client:
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: t\r\n\r\n" % number for number in range(3)))
        await gate.entered.wait()
        host.stop.set()
        await settled()
        gate.open.set()
        replies = [await client.reply() for _ in range(3)]
        assert [reply.body for reply in replies] == [b"/0", b"/1", b"/2"]
        assert [b"connection" in reply.headers for reply in replies] == [False, False, True]
        assert await client.ended()


async def test_request_that_arrives_as_the_server_stops_completes() -> None:
    async with served() as host, host.connect() as client, host.connect() as fresh:
        await client.get()
        await settled()
        await client.send(b"GET /late HTTP/1.1\r\nHost: t\r\n\r\n")
        await fresh.send(b"GET /first HTTP/1.1\r\nHost: t\r\n\r\n")
        host.stop.set()
        assert (await client.reply()).body == b"GET /late"
        assert (await fresh.reply()).body == b"GET /first"


async def test_connections_in_the_backlog_are_served() -> None:
    async with served() as host:
        stream = trio.socket.socket()
        await stream.connect(host.insecure)
        await stream.send(b"GET /waiting HTTP/1.1\r\nHost: t\r\n\r\n")
        host.stop.set()
        await host.stopped.wait()
        assert b"GET /waiting" in await stream.recv(65536)
        stream.close()


@pytest.mark.usefixtures("protocols")
async def test_request_longer_than_the_grace_is_aborted(mock_clock: MockClock) -> None:
    gate = Gate()
    async with served(gate, grace=7) as host, host.connect() as client:
        await client.send(b"GET /a HTTP/1.1\r\nHost: t\r\n\r\n")
        await gate.entered.wait()
        host.stop.set()
        await advance(mock_clock, 6)
        assert not host.stopped.is_set()
        await advance(mock_clock, 2)
        assert host.stopped.is_set()
        assert await client.ended()
        assert host.statistics.open == 0


@pytest.mark.usefixtures("protocols")
async def test_large_response_in_progress_is_sent_whole() -> None:
    async def handle(request: Request) -> Response:
        return Response(200, b"x" * 20_000_000)

    async with served(handle, grace=120) as host, host.connect_tls() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
        await settled()
        host.stop.set()
        await settled()
        assert not host.stopped.is_set()
        assert len((await client.reply()).body) == 20_000_000
        await host.stopped.wait()
