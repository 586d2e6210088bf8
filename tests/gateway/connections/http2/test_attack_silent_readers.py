"""Clients that send requests and never read: a connection holds a bounded amount, then ends; others are served."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Request, Response
from tests.gateway.connections.http2.attacks import Watches, attacked, block, outputs, shrink, small_buffers
from tests.gateway.connections.http2.raw_client import headers, rst_stream, settings, window_update
from tests.gateway.connections.http_server import served
from tests.settling import advance, eventually, settled

__all__ = ["small_buffers"]

BODY = b"x" * 100_000
QUEUE = 300_000  # a burst of bodies, and what was cut off
WINDOWS = settings({4: 1 << 30}) + window_update(0, 1 << 30)


async def large(request: Request) -> Response:
    return Response(200, b"" if request.path == "/other" else BODY)


def gets(first: int, count: int, *, method: str = "GET") -> list[bytes]:
    return [headers(2 * number + 1, block(method=method)) for number in range(first, first + count)]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
async def test_requests_without_reading_are_bounded(
    method: str, tls: bool, small_buffers: None, mock_clock: MockClock
) -> None:
    async with served(large, Limits(streams=50)) as host, attacked(host, tls=tls) as client:
        shrink(client)
        await client.send(WINDOWS, *gets(0, 200, method=method))
        await eventually(lambda: any(output.blocked for output in outputs()))
        await settled()
        (blocked,) = [output for output in outputs() if output.blocked]
        assert blocked.queued < QUEUE
        await client.send(*gets(200, 200, method=method))
        await settled()
        # What the sockets took has ended, and fifty wait.
        assert 50 <= host.statistics.requests < 100
        await advance(mock_clock, Limits().transfer_seconds + 2)
        assert host.statistics.open == 1


async def test_peer_that_causes_refusals_and_does_not_read_is_cut_off(
    small_buffers: None, mock_clock: MockClock
) -> None:
    async with served(large, Limits(streams=5)) as host, attacked(host) as client:
        shrink(client)
        await client.send(WINDOWS, *gets(0, 100))
        await settled()
        for first in range(100, 20_000, 900):
            if host.statistics.open == 1:
                break
            assert max(output.queued for output in outputs()) < QUEUE + 100_000
            await client.send(*gets(first, 900))
            await advance(mock_clock, 1)
        assert host.statistics.open == 1
        assert host.statistics.requests < 100


async def test_nothing_is_handled_after_the_connection_has_failed(
    small_buffers: None, mock_clock: MockClock
) -> None:
    """The peer shuts down its receiving side and continues to send requests."""
    async with served(large) as host, attacked(host) as client:
        shrink(client)
        await client.send(WINDOWS, *gets(0, 20))
        await settled()
        (output,) = [output for output in outputs() if output.blocked]
        before = host.statistics.requests
        output.fail()
        await client.send(*gets(20, 100))
        await settled()
        assert host.statistics.requests == before
        assert host.statistics.open == 1


async def test_watches_opened_and_reset_without_reading_are_bounded(
    small_buffers: None, mock_clock: MockClock
) -> None:
    """The head of every watch is queued, and the socket has no room for it."""
    watches = Watches()

    async def handle(request: Request) -> Response:
        return Response(200, BODY * 20) if request.path == "/large" else await watches(request)

    async with served(handle, Limits(transfer_seconds=10_000)) as host, attacked(host) as client:
        shrink(client)
        await client.send(WINDOWS, headers(1, block("/large")))
        await settled()
        for first in range(3, 20_000, 400):
            numbers = range(first, first + 400, 2)
            await client.send(*(headers(number, block("/?watch=1")) for number in numbers))
            await advance(mock_clock, 3)  # earlier resets would count as an attack
            await client.send(*(rst_stream(number) for number in numbers))
            await settled()
            if host.statistics.open == 1:
                break
            assert max(sum(map(len, output.queue)) for output in outputs()) < QUEUE + 100_000
        assert host.statistics.open == 1
