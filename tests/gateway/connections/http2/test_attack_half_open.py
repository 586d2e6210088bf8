"""Connections that start HTTP/2 and send nothing more are closed, and make room for other clients."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from trio.testing import MockClock

from rewound.gateway.connections.limits import Limits
from tests.gateway.connections.http2.attacks import attacked, block, is_served
from tests.gateway.connections.http2.handlers import Gate
from tests.gateway.connections.http2.raw_client import (
    PREFACE,
    SETTINGS,
    ErrorCode,
    frame,
    goaway,
    headers,
    ping,
    raw_client,
    rst_stream,
    settings,
)
from tests.gateway.connections.http_server import hello, served
from tests.settling import advance, settled

BEGINNINGS = {
    "part of the preface": PREFACE[:18],
    "the preface": PREFACE,
    "the preface and part of a frame": PREFACE + settings()[:5],
    "settings that do not arrive": PREFACE + frame(SETTINGS, length=600),
    "part of a second frame": PREFACE + settings() + ping()[:12],
    "part of a header block": PREFACE + settings() + headers(1, block(), done=False),
}


@pytest.mark.parametrize("sent", BEGINNINGS.values(), ids=BEGINNINGS.keys())
async def test_half_open_connections_are_closed(sent: bytes, mock_clock: MockClock) -> None:
    async with served() as host, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw_client(host, handshake=False)) for _ in range(20)]
        for client in clients:
            await client.send(sent)
        await advance(mock_clock, 1)
        assert host.statistics.open == 20
        async with raw_client(host) as other:
            await is_served(other)
        await advance(mock_clock, Limits().head_seconds + 1)
        await advance(mock_clock, Limits().linger_seconds + 1)
        assert host.statistics.open == 0
        for client in clients:
            await client.closed()


async def test_piece_by_piece_does_not_extend_the_deadline(mock_clock: MockClock) -> None:
    async with served() as host, attacked(host, handshake=False) as client:
        # The limit applies to the line that looks like HTTP/1.1, and again to the rest.
        for byte in PREFACE + settings():
            await client.send(bytes([byte]))
            await advance(mock_clock, 2)
        await advance(mock_clock, Limits().linger_seconds + 1)
        await client.closed()


USES = {
    "nothing": b"",
    "ping": ping(),
    "request": headers(1, block()),
    "request with a task": headers(1, block(method="DELETE")),
    "request that waits": headers(1, block("/wait")),
    "reset": headers(1, block("/wait")) + rst_stream(1),
}


@pytest.mark.parametrize("sent", USES.values(), ids=USES.keys())
async def test_idle_connection_is_closed_with_goaway(sent: bytes, mock_clock: MockClock) -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        await client.send(sent)
        await client.alive()
        await settled()
        gate.open.set()
        await advance(mock_clock, Limits().idle_seconds - 2)
        assert host.statistics.open == 1
        await advance(mock_clock, 4)
        assert (await client.goaway())[0] is ErrorCode.NO_ERROR
        await client.closed()


async def test_idle_connections_give_way_to_new_clients(mock_clock: MockClock) -> None:
    async with served(hello, Limits(connections=3)) as host, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw_client(host)) for _ in range(3)]
        await advance(mock_clock, 1)
        for client in clients[1:]:
            await is_served(client)
        async with host.connect() as new:
            assert (await new.get()).status == 200
        assert (await clients[0].goaway())[0] is ErrorCode.NO_ERROR
        await is_served(clients[1])


async def test_connection_with_a_request_does_not_give_way(mock_clock: MockClock) -> None:
    gate = Gate()
    async with served(gate, Limits(connections=1)) as host, raw_client(host) as busy:
        stream = await busy.request("/wait")
        await gate.entered.wait()
        async with host.connect() as new:
            await new.send(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
            await advance(mock_clock, 2)
            assert host.statistics.accepted == 1
            gate.open.set()
            assert (await busy.response(stream)).status == 200
            await advance(mock_clock, 2)
            assert (await new.reply()).status == 200


async def test_streams_after_the_clients_goaway_are_served() -> None:
    """It only concerns streams that a server opens, and this server opens none."""
    async with served() as host, attacked(host) as client:
        await client.send(goaway(0), *(headers(number, block()) for number in range(1, 20, 2)))
        for number in range(1, 20, 2):
            assert (await client.response(number)).status == 200


async def test_streams_after_the_servers_goaway_are_refused(mock_clock: MockClock) -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        stream = await client.request("/wait")
        await gate.entered.wait()
        host.stop.set()
        assert await client.goaway() == (ErrorCode.NO_ERROR, stream)
        await client.send(*(headers(number, block("/late")) for number in range(3, 103, 2)))
        for number in range(3, 103, 2):
            assert await client.reset_of(number) is ErrorCode.REFUSED_STREAM
        gate.open.set()
        assert (await client.response(stream)).status == 200
        await client.closed()
        await settled()
        assert gate.paths == ["/wait"]
