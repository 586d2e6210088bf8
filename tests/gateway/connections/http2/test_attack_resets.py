"""Rapid reset (CVE-2023-44487): requests that are reset right away do not make the server work without bound."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Request, Response
from tests.gateway.connections.http2.attacks import attacked, block, expect_calm
from tests.gateway.connections.http2.raw_client import ErrorCode, data, headers, raw_client, rst_stream
from tests.gateway.connections.http_server import served
from tests.settling import advance, settled

ATTEMPTS = 1000


class Busy:
    """Counts handlers that run at the same time; those of /other return at once."""

    def __init__(self, *, shielded: bool = False) -> None:
        self.started = self.running = self.most = 0
        self.release = trio.Event()
        self._shielded = shielded

    async def __call__(self, request: Request) -> Response:
        if request.path != "/other":
            self.started += 1
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                with trio.CancelScope(shield=self._shielded):
                    await self.release.wait()
            finally:
                self.running -= 1
        return Response(200, b"")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("shielded", [False, True], ids=["cancelled", "shielded"])
async def test_rapid_reset_ends_the_connection(method: str, shielded: bool, mock_clock: MockClock) -> None:
    handle = Busy(shielded=shielded)
    async with served(handle, Limits(streams=20)) as host, attacked(host) as client:
        request = block(method=method)
        streams = range(1, 2 * ATTEMPTS, 2)
        await client.send(*(headers(number, request) + rst_stream(number) for number in streams))
        code, _ = await client.goaway()
        handle.release.set()
        await client.closed()
        assert code is ErrorCode.ENHANCE_YOUR_CALM
        assert handle.started < 250
        assert handle.most <= 20
        assert handle.running == 0


async def test_rapid_reset_of_uploads_ends_the_connection(mock_clock: MockClock) -> None:
    handle = Busy()
    async with served(handle) as host, attacked(host) as client:
        request = block(method="POST")
        await client.send(
            *(
                headers(number, request, end=False) + data(number, b"part") + rst_stream(number)
                for number in range(1, 2 * ATTEMPTS, 2)
            )
        )
        await expect_calm(client)
        assert handle.started == 0


async def test_requests_that_are_reset_before_their_task_begins_are_not_handled() -> None:
    handle = Busy()
    async with served(handle) as host, attacked(host) as client:
        request = block(method="POST")
        await client.send(*(headers(number, request) + rst_stream(number) for number in range(1, 41, 2)))
        await client.alive()
        await settled()
        assert (handle.started, host.statistics.requests) == (0, 20)


async def test_handlers_that_cannot_be_cancelled_count_after_their_reset(mock_clock: MockClock) -> None:
    handle = Busy(shielded=True)
    async with served(handle, Limits(streams=20)) as host, attacked(host) as client:
        streams = range(1, 41, 2)
        await client.send(*(headers(number, block(method="POST")) for number in streams))
        await client.alive()
        await client.send(*(rst_stream(number) for number in streams), headers(101, block("/other")))
        code = await client.reset_of(101)
        running = handle.running
        handle.release.set()
        assert (code, running, handle.most) == (ErrorCode.REFUSED_STREAM, 20, 20)
        await settled()
        assert (await client.response(await client.request("/other", stream=103))).status == 200


async def test_resets_of_long_requests_are_no_attack(mock_clock: MockClock) -> None:
    """A client that stops cancels all of its watches at once, and may start again."""
    handle = Busy()
    async with served(handle) as host, raw_client(host) as client:
        for _ in range(2):
            streams = [client.new_stream() for _ in range(200)]
            await client.send(*(headers(number, block()) for number in streams))
            await client.alive()
            await advance(mock_clock, 3)
            assert handle.running == 200
            await client.send(*(rst_stream(number) for number in streams))
            await client.alive()
            await settled()
            assert handle.running == 0
        assert (await client.response(await client.request("/other"))).status == 200
