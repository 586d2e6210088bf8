"""A stopping server sends GOAWAY over HTTP/2 and completes the requests up to its last stream."""

import h2.errors
import h2.events
import h2.settings
import pytest
import trio
from hyperframe.frame import DataFrame, GoAwayFrame, RstStreamFrame
from trio.testing import MockClock

from rewound.gateway.message import Request, Response
from tests.gateway.connections.http2.raw_client import ErrorCode, RawClient, headers, raw_client
from tests.gateway.connections.http2_client import http2_client
from tests.gateway.connections.http_server import served
from tests.settling import advance, seconds_to_stop, settled


class Gate:
    def __init__(self) -> None:
        self.entered = trio.Event()
        self.open = trio.Event()

    async def __call__(self, request: Request) -> Response:
        self.entered.set()
        await self.open.wait()
        return Response(200, request.path.encode())


async def test_idle_connection_gets_goaway_and_closes(mock_clock: MockClock) -> None:
    async with served() as host, http2_client(host) as client:
        await client.status(await client.request())
        host.stop.set()
        goaway = await client.until(h2.events.ConnectionTerminated)
        assert isinstance(goaway, h2.events.ConnectionTerminated)
        assert (goaway.error_code, goaway.last_stream_id) == (h2.errors.ErrorCodes.NO_ERROR, 1)
        assert await client.ended()
        assert await seconds_to_stop(host, mock_clock) < 2


async def test_requests_in_progress_complete_after_goaway(mock_clock: MockClock) -> None:
    gate = Gate()
    async with served(gate) as host, http2_client(host) as client:
        await client.request(b"/under-way")
        await gate.entered.wait()
        host.stop.set()
        goaway = (await client.raw(GoAwayFrame))[-1]
        assert isinstance(goaway, GoAwayFrame)
        assert goaway.last_stream_id == 1
        gate.open.set()
        response = await client.raw()
        assert b"".join(frame.data for frame in response if isinstance(frame, DataFrame)) == b"/under-way"
        assert await seconds_to_stop(host, mock_clock) < 2


async def test_requests_after_goaway_get_refused_stream(mock_clock: MockClock) -> None:
    gate = Gate()
    async with served(gate) as host, http2_client(host) as client:
        await client.request()
        await gate.entered.wait()
        host.stop.set()
        await settled()
        late = await client.request(b"/late")
        refusal = (await client.raw(RstStreamFrame))[-1]
        assert isinstance(refusal, RstStreamFrame)
        assert (refusal.stream_id, refusal.error_code) == (late, h2.errors.ErrorCodes.REFUSED_STREAM)
        gate.open.set()
        assert await seconds_to_stop(host, mock_clock) < 2
        assert host.statistics.requests == 1


async def test_client_that_goes_on_sending_requests_gets_goaway() -> None:
    count = 5000

    async def handle(request: Request) -> Response:
        host.stop.set()
        return Response(200, b"")

    async def send(client: RawClient) -> None:
        rest = 100 * "x"
        blocks = [client.block(f"/{number}{rest}", huffman=False) for number in range(count)]
        await client.send(*(headers(client.new_stream(), block, end=True) for block in blocks))

    async with served(handle) as host, raw_client(host) as client, trio.open_nursery() as nursery:
        nursery.start_soon(send, client)
        code, last = await client.goaway()
        assert code is ErrorCode.NO_ERROR
        assert last < count  # half of them
        assert host.statistics.requests == (last + 1) // 2
        nursery.cancel_scope.cancel()


async def test_idle_connection_times_out(mock_clock: MockClock) -> None:
    async with served() as host, http2_client(host) as client:
        await client.status(await client.request())
        await advance(mock_clock, 119)
        assert host.statistics.open == 1
        await advance(mock_clock, 2)
        await client.until(h2.events.ConnectionTerminated)
        assert await client.ended()
        await advance(mock_clock, 3)  # for a client that never ends its side
        assert host.statistics.open == 0


@pytest.mark.usefixtures("protocols")
async def test_request_longer_than_the_grace_is_aborted(mock_clock: MockClock) -> None:
    gate = Gate()
    async with served(gate, grace=7) as host, http2_client(host) as client:
        await client.request()
        await gate.entered.wait()
        host.stop.set()
        await advance(mock_clock, 8)
        await host.stopped.wait()
        assert await client.ended()


@pytest.mark.usefixtures("protocols")
async def test_client_close_frees_the_connection_at_once() -> None:
    async with served() as host:
        async with http2_client(host) as client:
            await client.status(await client.request())
        while host.statistics.open:
            await settled()


@pytest.mark.usefixtures("protocols")
async def test_client_that_does_not_read_cannot_delay_the_stop(mock_clock: MockClock) -> None:
    async def handle(request: Request) -> Response:
        return Response(200, b"x" * 50_000_000)

    async with served(handle, grace=7) as host, http2_client(host) as client:
        client.connection.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1})
        client.connection.increment_flow_control_window(2**30)
        await client.flush()
        await client.request()
        await client.arrived()
        host.stop.set()
        await advance(mock_clock, 8)
        await host.stopped.wait()
        assert host.statistics.open == 0
