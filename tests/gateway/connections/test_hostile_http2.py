"""Hostile HTTP/2 peers: each loses at most its own connection."""

import h2.errors
import h2.events
import h2.settings
import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Request, Response
from rewound.gateway.ops import loop_watchdog
from tests.cases import cases
from tests.gateway.connections.http2_client import Http2Client, http2_client
from tests.gateway.connections.http_server import served
from tests.settling import advance, settled

KIB = 1024


async def read_body(request: Request) -> Response:
    return Response(200, b"%d" % len(request.body))


async def fine(client: Http2Client) -> bool:
    return await client.status(await client.request()) == b"200"


@pytest.mark.usefixtures("protocols")
async def test_too_large_content_length_is_refused_at_once() -> None:
    async with served(read_body) as host, http2_client(host) as client:
        number = await client.request(method=b"POST", end=False, extra=((b"content-length", b"99999999"),))
        assert await client.status(number) == b"413"
        assert await fine(client)


@cases("lengths", [(b"4", b"5"), (b"4, 4",), (b"-1",), (b"x",)])
@pytest.mark.usefixtures("protocols")
async def test_invalid_content_lengths_do_not_reach_the_handler(lengths: tuple[bytes, ...]) -> None:
    async with served(read_body) as host, http2_client(host) as other, http2_client(host) as client:
        await client.request(
            method=b"POST", end=False, extra=tuple((b"content-length", length) for length in lengths)
        )
        await settled()
        assert await fine(other)
        assert host.statistics.requests == 1


async def test_body_that_grows_too_large_is_refused_and_its_stream_reset() -> None:
    async with served(read_body, Limits(body=20 * KIB)) as host, http2_client(host) as client:
        number = await client.request(method=b"POST", end=False)
        for _ in range(3):
            client.connection.send_data(number, b"x" * 10 * KIB)
            await client.arrived()
        assert await client.status(number) == b"413"
        reset = await client.until(h2.events.StreamReset, number)
        assert isinstance(reset, h2.events.StreamReset)
        assert reset.error_code == h2.errors.ErrorCodes.NO_ERROR
        assert await fine(client)


@pytest.mark.usefixtures("protocols")
async def test_uploads_after_their_response_do_not_exhaust_the_window() -> None:
    async with served(read_body, Limits(body=KIB)) as host, http2_client(host) as client:
        for _ in range(20):
            number = await client.request(method=b"POST", end=False)
            client.connection.send_data(number, b"x" * 10 * KIB)
            await client.flush()
            assert await client.status(number) == b"413"
        assert await fine(client)


async def test_aborted_upload_is_not_handled() -> None:
    async with served(read_body) as host, http2_client(host) as client:
        number = await client.request(method=b"POST", end=False)
        client.connection.send_data(number, b"part")
        client.connection.reset_stream(number)
        await client.flush()
        assert await fine(client)
        assert len(host.handled) == 1


@pytest.mark.usefixtures("protocols")
async def test_stalled_body_is_refused(mock_clock: MockClock) -> None:
    async with served(read_body) as host, http2_client(host) as client:
        number = await client.request(method=b"POST", end=False)
        await client.arrived()
        await advance(mock_clock, 31)
        assert await client.status(number) == b"408"
        assert host.handled == []


async def test_reset_streams_count_until_their_handlers_end() -> None:
    running, release = 0, trio.Event()

    async def handle(request: Request) -> Response:
        nonlocal running
        running += 1
        with trio.CancelScope(shield=True):
            await release.wait()
        return Response(200, b"")

    async with served(handle, Limits(streams=5)) as host, http2_client(host) as client:
        for _ in range(50):
            number = await client.request()
            client.connection.reset_stream(number)
        await client.arrived()
        assert running == 5
        release.set()
        await settled()
        assert await fine(client)


async def test_reset_cancels_the_handler() -> None:
    cancelled: list[str] = []

    async def handle(request: Request) -> Response:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append(request.method)
        raise AssertionError

    async with served(handle) as host, http2_client(host) as client:
        for method in (b"GET", b"POST"):
            number = await client.request(method=method)
            await client.arrived()
            client.connection.reset_stream(number)
        await client.arrived()
        await settled()
        assert cancelled == ["GET", "POST"]


async def test_response_that_gets_no_window_is_reset(mock_clock: MockClock) -> None:
    async def handle(request: Request) -> Response:
        return Response(200, b"x" * 1_000_000 if request.path == "/large" else b"")

    async with served(handle) as host, http2_client(host) as other, http2_client(host) as client:
        client.connection.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        await client.flush()
        number = await client.request(b"/large")
        await client.arrived()
        await advance(mock_clock, 29)
        await settled()
        assert not [event for event in client.events if isinstance(event, h2.events.StreamReset)]
        await advance(mock_clock, 3)
        reset = await client.until(h2.events.StreamReset, number)
        assert isinstance(reset, h2.events.StreamReset)
        assert reset.error_code == h2.errors.ErrorCodes.CANCEL
        assert await fine(client)
        assert await fine(other)


@pytest.mark.parametrize("path", [b"/\xc3\xa9", b"/\xff"])
async def test_path_beyond_ascii_ends_only_its_stream(path: bytes) -> None:
    async with served() as host, http2_client(host) as other, http2_client(host) as client:
        await client.request(path)
        await client.arrived()
        assert await fine(other)
        assert host.statistics.requests == 1


@pytest.mark.parametrize("extra", [(), ((b":protocol", b"websocket"),)], ids=["plain", "websocket"])
@pytest.mark.usefixtures("protocols")
async def test_connect_ends_only_its_stream(extra: tuple[tuple[bytes, bytes], ...]) -> None:
    async with served() as host, http2_client(host) as other, http2_client(host) as client:
        client.connection.send_headers(
            1,
            [
                (b":method", b"CONNECT"),
                (b":authority", b"t"),
                (b":scheme", b"http"),
                (b":path", b"/"),
                *extra,
            ],
        )
        await client.flush()
        await settled()
        assert await fine(other)


@pytest.mark.parametrize(
    "bytes_",
    [
        b"\x00\x00\x00\xff\xff\xff\xff\xff\xff" * 10,
        b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
        b"\x00\x00\x05\x00\x00\x00\x00\x00\x07hello",
        b"\x00\x00\x04\x01\x04\x00\x00\x00\x01\xff\xff\xff\xff",
        b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x00\x00\x09\x01\x05\x00\x00\x00\x01\x82\x86\x41\x01t\x44\x02/\xff",  # GET, http, t, /\xff
    ],
    ids=[
        "unknown frames",
        "a frame too large",
        "data on no stream",
        "headers that do not unpack",
        "goaway",
        "a path beyond ASCII",
    ],
)
@pytest.mark.usefixtures("protocols")
async def test_unexpected_frames_end_only_their_connection(
    bytes_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as host, http2_client(host) as other, http2_client(host) as client:
        await client.stream.send_all(bytes_)
        await settled()
        assert await fine(other)
    assert [one for one in caplog.records if one.name != loop_watchdog.__name__] == []


@pytest.mark.usefixtures("protocols")
async def test_endless_head_times_out(mock_clock: MockClock) -> None:
    async with served() as host, http2_client(host) as client:
        await client.stream.send_all(b"\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82")
        await advance(mock_clock, 122)
        assert await client.ended()
        await advance(mock_clock, 3)
        assert host.statistics.open == 0
