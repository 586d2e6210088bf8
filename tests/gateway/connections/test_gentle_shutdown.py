"""A process that stops while other processes serve the same port still responds on its open connections."""

from __future__ import annotations

from contextlib import suppress

import trio
from trio.testing import MockClock

from rewound.gateway.connections.limits import AcceptShare, Limits
from rewound.gateway.message import Request, Response
from tests.gateway.connections.http2.raw_client import GOAWAY, PING, Frame, ping, raw_client
from tests.gateway.connections.http_server import served
from tests.settling import advance, seconds_to_stop, settled

GENTLE = Limits(drain_idle_seconds=1.0)
LAST = 2**31 - 1


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


async def test_http2_peer_is_warned_before_requests_are_refused(mock_clock: MockClock) -> None:
    async with served(limits=GENTLE) as host, raw_client(host) as client:
        assert (await client.response(await client.request("/first"))).status == 200
        host.stop.set()
        warning = await client.take(is_goaway)
        assert last_of(warning) == LAST
        asked = await client.take(lambda frame: frame.kind == PING)
        # It was on its way.
        late = await client.request("/late")
        assert (await client.response(late)).status == 200
        await client.send(ping(asked.payload, ack=True))
        assert last_of(await client.take(is_goaway)) == late
        await client.closed()
        assert await seconds_to_stop(host, mock_clock) < 2


async def test_http2_peer_that_acknowledges_nothing_is_left_after_a_while(mock_clock: MockClock) -> None:
    async with served(limits=GENTLE) as host, raw_client(host) as client:
        stream = await client.request("/first")
        assert (await client.response(stream)).status == 200
        host.stop.set()
        assert last_of(await client.take(is_goaway)) == LAST
        await advance(mock_clock, 3)
        assert last_of(await client.take(is_goaway)) == stream
        assert await seconds_to_stop(host, mock_clock) < 3


async def test_goaway_chance_ends_a_connection_and_none_of_its_requests(mock_clock: MockClock) -> None:
    """--goaway-chance: the client reconnects, perhaps to another process."""
    gate = trio.Event()

    async def handle(request: Request) -> Response:
        if request.path == "/long":
            await gate.wait()
        return Response(200, request.path.encode())

    async with served(handle, limits=Limits(goaway_chance=1.0)) as host, raw_client(host) as client:
        long = await client.request("/long")
        assert last_of(await client.take(is_goaway)) == LAST
        asked = await client.take(lambda frame: frame.kind == PING)
        late = await client.request("/late")
        assert (await client.response(late)).body == b"/late"
        await client.send(ping(asked.payload, ack=True))
        assert last_of(await client.take(is_goaway)) == late
        await advance(mock_clock, 20)
        gate.set()
        assert (await client.response(long)).body == b"/long"
        await client.closed()


async def test_stop_shortens_the_wait_of_a_connection_that_was_already_closing(
    mock_clock: MockClock,
) -> None:
    """The client reads nothing: a stopping server waits for it no longer than for others."""

    async def handle(request: Request) -> Response:
        return Response(200, b"x" * (1 << 20))

    async with served(handle, limits=Limits(goaway_chance=1.0)) as host, raw_client(host) as client:
        stream = await client.request("/large")
        asked = await client.take(lambda frame: frame.kind == PING)
        await client.send(ping(asked.payload, ack=True))
        with trio.fail_after(60):
            while last_of(await client.take(is_goaway)) != stream:
                pass
        await settled()
        host.stop.set()
        assert await seconds_to_stop(host, mock_clock) < 4


async def test_no_client_is_accepted_before_all_processes_are_ready() -> None:
    begin = trio.Event()
    share = AcceptShare(lambda _: None, lambda: False, begin)
    async with served(limits=Limits(share=share)) as host, host.connect() as client:
        await client.send(b"GET /early HTTP/1.1\r\nHost: t\r\n\r\n")
        await settled()
        assert host.statistics.accepted == 0
        begin.set()
        assert (await client.reply()).body == b"GET /early"
