"""A process that stops while other processes serve the same port still responds on its open connections."""

from __future__ import annotations

from contextlib import suppress

import trio
from trio.testing import MockClock

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Request, Response
from tests.gateway.connections.http2.raw_client import GOAWAY, PING, Frame, ping, raw_client
from tests.gateway.connections.http_server import served
from tests.settling import advance, seconds_to_stop, settled

GENTLE = Limits(drain_idle_seconds=1.0)


async def test_request_on_a_kept_connection_is_answered_after_the_stop(mock_clock: MockClock) -> None:
    async with served(limits=GENTLE) as host, host.connect() as used, host.connect_tls() as tls:
        for client in (used, tls):
            assert b"connection" not in (await client.get()).headers
        await settled()
        host.stop.set()
        await settled()
        await advance(mock_clock, 0.5)
        for client in (used, tls):
            reply = await client.get()
            assert (reply.status, reply.headers[b"connection"]) == (200, b"close")
            assert await client.ended()
        assert await seconds_to_stop(host, mock_clock) < 2


async def test_connection_without_a_request_ends_after_a_moment(mock_clock: MockClock) -> None:
    async with served(limits=GENTLE) as host, host.connect() as used, host.connect():
        await used.get()
        await settled()
        host.stop.set()
        await settled()
        assert not host.stopped.is_set()
        assert await seconds_to_stop(host, mock_clock) < 2
        assert await used.ended()


async def test_blank_lines_do_not_keep_a_connection_of_a_stopping_server(mock_clock: MockClock) -> None:
    """HTTP allows empty lines before a request; they are not part of it."""
    async with served(limits=GENTLE) as host, host.connect() as client:
        await client.get()
        # The server checks its connections once a second, and more often after that.
        await advance(mock_clock, 0.5)
        host.stop.set()
        for _ in range(12):
            await advance(mock_clock, 0.25)
            with suppress(trio.BrokenResourceError):
                await client.send(b"\r\n")
        await settled()
        assert host.stopped.is_set()


async def test_client_whose_stream_ends_with_the_stop_may_send_another_request(mock_clock: MockClock) -> None:
    """The head of its response was already sent without Connection: close."""
    gate = trio.Event()

    async def parts() -> object:
        yield b"one"
        await gate.wait()
        yield b"two"

    async def handle(request: Request) -> Response:
        if request.path == "/stream":
            return Response(200, b"", b"text/plain", parts=parts())  # type: ignore[arg-type]
        return Response(200, b"next")

    async with served(handle, limits=GENTLE) as host, host.connect() as client:
        await client.send(b"GET /stream HTTP/1.1\r\nHost: t\r\n\r\n")
        await settled()
        host.stop.set()
        await settled()
        gate.set()
        assert (await client.reply()).headers[b"transfer-encoding"] == b"chunked"
        chunks = b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
        assert await client.receive(len(chunks)) == chunks
        assert (await client.get()).body == b"next"
        assert await seconds_to_stop(host, mock_clock) < 2


def is_goaway(frame: Frame) -> bool:
    return frame.kind == GOAWAY


def last_of(frame: Frame) -> int:
    return int.from_bytes(frame.payload[:4], "big")


async def test_http2_peer_gets_goaway_after_its_last_response_and_nothing_follows(
    mock_clock: MockClock,
) -> None:
    """Clients with h2 fail to read anything that follows a GOAWAY."""
    gate = trio.Event()
    paths = []

    async def handle(request: Request) -> Response:
        paths.append(request.path)
        await gate.wait()
        return Response(200, b"done")

    async with served(handle, limits=GENTLE) as host, raw_client(host) as client:
        running = await client.request("/running")
        await settled()
        host.stop.set()
        await settled()
        late = await client.request("/late")  # it was on its way
        await client.send(ping(b"12345678"))
        await client.take(lambda frame: frame.kind == PING)
        await advance(mock_clock, 0.5)
        assert not any(map(is_goaway, client.frames)), "a request is running"
        gate.set()
        assert (await client.response(running)).status == 200
        goaway = await client.take(is_goaway)
        assert last_of(goaway) == running < late, "the peer may send the late one to another process"
        await client.closed()
        assert client.frames == []
        assert paths == ["/running"]
        assert await seconds_to_stop(host, mock_clock) < 2


async def test_goaway_waits_until_no_request_arrives(mock_clock: MockClock) -> None:
    async with served(limits=GENTLE) as host, raw_client(host) as client:
        assert (await client.response(await client.request("/first"))).status == 200
        host.stop.set()
        await settled()
        for _ in range(5):
            await client.request("/late")
            await advance(mock_clock, 0.06)
        assert not any(map(is_goaway, client.frames))
        await advance(mock_clock, 0.5)
        assert last_of(await client.take(is_goaway)) == 1
        await client.closed()


async def test_request_that_takes_long_is_completed_after_goaway(mock_clock: MockClock) -> None:
    gate = trio.Event()

    async def handle(request: Request) -> Response:
        await gate.wait()
        return Response(200, b"done")

    async with served(handle, limits=GENTLE) as host, raw_client(host) as client:
        stream = await client.request("/slow")
        await settled()
        host.stop.set()
        await advance(mock_clock, 3)
        assert last_of(await client.take(is_goaway)) == stream
        gate.set()
        assert (await client.response(stream)).status == 200
        await client.closed()
