"""Flow control (RFC 9113, sections 5.2 and 6.9): windows of responses, windows of uploads, and illegal increments."""

import pytest

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Response
from tests.cases import cases
from tests.gateway.connections.http2.handlers import Gate, Recorder, body_of, echo
from tests.gateway.connections.http2.raw_client import (
    DATA,
    HEADERS,
    RST_STREAM,
    WINDOW_UPDATE,
    ErrorCode,
    RawClient,
    Setting,
    data,
    headers,
    raw_client,
    rst_stream,
    settings,
    window_update,
)
from tests.gateway.connections.http_server import served

MAX_WINDOW = 2**31 - 1
DEFAULT = 65_535
NO_WINDOW = {Setting.INITIAL_WINDOW_SIZE: 0}


async def received(client: RawClient, stream: int) -> tuple[int, bool]:
    """How many bytes of DATA have arrived when a PING is acknowledged, and whether the last one ends the stream."""
    await client.alive()
    mine = [frame for frame in client.frames if frame.stream == stream and frame.kind == DATA]
    for frame in mine:
        client.frames.remove(frame)
    return sum(len(frame.payload) for frame in mine), any(frame.ends_stream for frame in mine)


@cases("size", [0, 1, 100])
async def test_response_of_at_most_the_window_arrives_at_once(size: int) -> None:
    async with served(body_of(size)) as host, raw_client(host, values={4: 100}) as client:
        assert len((await client.response(await client.request())).body) == size


async def test_response_above_the_window_waits_for_it() -> None:
    async with served(body_of(101)) as host, raw_client(host, values={4: 100}) as client:
        stream = await client.request()
        assert await received(client, stream) == (100, False)
        await client.send(window_update(stream, 1))
        assert await received(client, stream) == (1, True)


async def test_window_of_one_byte_is_used() -> None:
    async with served(body_of(3)) as host, raw_client(host, values={4: 1}) as client:
        stream = await client.request()
        assert await received(client, stream) == (1, False)
        for end in (False, True):
            await client.send(window_update(stream, 1))
            assert await received(client, stream) == (1, end)


async def test_head_needs_no_window() -> None:
    async with served(body_of(5)) as host, raw_client(host, values=NO_WINDOW) as client:
        stream = await client.request()
        head = await client.head(stream)
        assert dict(head.fields)[b"content-length"] == b"5" and not head.ends_stream
        assert await received(client, stream) == (0, False)


@pytest.mark.parametrize("response", [Response(204, b""), Response(200, b"")], ids=["204", "empty"])
async def test_response_without_body_needs_no_window(response: Response) -> None:
    async with served(Recorder(response)) as host, raw_client(host, values=NO_WINDOW) as client:
        assert (await client.response(await client.request())).body == b""


async def test_window_update_before_the_response_counts() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host, values=NO_WINDOW) as client:
        stream = await client.request("/wait")
        await client.send(window_update(stream, 3))
        await client.alive()
        gate.open.set()
        await client.head(stream)
        assert (await client.data(stream)).payload == b"/wa"
        await client.send(window_update(stream, 2))
        last = await client.data(stream)
        assert last.payload == b"it" and last.ends_stream


async def test_window_of_the_connection_is_shared() -> None:
    async with served(body_of(40_000)) as host, raw_client(host) as client:
        one, two = await client.request(), await client.request()
        sums = [await received(client, one), await received(client, two)]
        assert sum(size for size, _ in sums) == DEFAULT
        assert sums[0] == (40_000, True)
        await client.send(window_update(0, 80_000 - DEFAULT))
        assert await received(client, two) == (80_000 - DEFAULT, True)


async def test_small_responses_wait_for_the_window_of_the_connection() -> None:
    async with served(body_of(10_000)) as host, raw_client(host) as client:
        streams = [await client.request() for _ in range(8)]
        assert sum([(await received(client, stream))[0] for stream in streams]) == DEFAULT
        await client.send(window_update(0, 80_000 - DEFAULT))
        assert sum([(await received(client, stream))[0] for stream in streams]) == 80_000 - DEFAULT


async def test_both_windows_must_permit() -> None:
    async with served(body_of(70_000)) as host, raw_client(host) as client:
        stream = await client.request()
        assert await received(client, stream) == (DEFAULT, False)
        await client.send(window_update(stream, 10_000))
        assert await received(client, stream) == (0, False)
        await client.send(window_update(0, 10))
        assert await received(client, stream) == (10, False)
        await client.send(window_update(0, 10_000))
        assert await received(client, stream) == (70_000 - DEFAULT - 10, True)


async def test_stream_without_window_does_not_hold_up_others() -> None:
    async with served(body_of(100)) as host, raw_client(host, values=NO_WINDOW) as client:
        stalled = await client.request()
        await client.head(stalled)
        other = await client.request()
        await client.send(window_update(other, 100))
        assert len((await client.response(other)).body) == 100
        assert await received(client, stalled) == (0, False)
        await client.send(window_update(stalled, 100))
        assert await received(client, stalled) == (100, True)


async def test_reset_stream_gives_back_nothing_to_wait_for() -> None:
    async with served(body_of(100)) as host, raw_client(host, values=NO_WINDOW) as client:
        stalled = await client.request()
        await client.head(stalled)
        await client.send(rst_stream(stalled), window_update(stalled, 100))
        assert await received(client, stalled) == (0, False)
        await client.send(settings({Setting.INITIAL_WINDOW_SIZE: 1000}))
        assert (await client.response(await client.request())).status == 200
        assert await received(client, stalled) == (0, False)


async def test_stream_error_ends_a_response_in_progress() -> None:
    async with served(body_of(100)) as host, raw_client(host, values={4: 40}) as client:
        stream = await client.request()
        assert await received(client, stream) == (40, False)
        await client.send(window_update(stream, 0), window_update(stream, 100))
        assert await client.reset_of(stream) is ErrorCode.PROTOCOL_ERROR
        assert await received(client, stream) == (0, False)
        other = await client.request()
        await client.send(window_update(other, 60))
        assert len((await client.response(other)).body) == 100


async def test_upload_that_ends_before_its_refusal_gets_no_reset() -> None:
    async with served(limits=Limits(body=1000)) as host, raw_client(host, values=NO_WINDOW) as client:
        for end in (data(1, b"x", end=True), headers(3, client.encode([("x-sum", "1")]))):
            stream = await client.request(method="PUT", fields=[("content-length", "5000")], end=False)
            await client.head(stream)
            await client.send(end, window_update(stream, 10_000))
            assert (await client.data(stream)).ends_stream
            assert [frame for frame in await client.alive() if frame.kind == RST_STREAM] == []


async def test_many_small_increments_add_up() -> None:
    async with served(body_of(50)) as host, raw_client(host, values=NO_WINDOW) as client:
        stream = await client.request()
        await client.head(stream)
        await client.send(*(window_update(stream, 1) for _ in range(49)))
        assert await received(client, stream) == (49, False)
        await client.send(window_update(stream, 1))
        assert await received(client, stream) == (1, True)


async def test_increment_of_zero_on_the_connection_is_a_connection_error() -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(window_update(0, 0))
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR


async def test_increment_of_zero_on_a_stream_is_a_stream_error() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        stream = await client.request("/wait")
        await client.send(window_update(stream, 0))
        assert await client.error_on(stream) is ErrorCode.PROTOCOL_ERROR


@pytest.mark.parametrize("increments", [[MAX_WINDOW], [MAX_WINDOW - DEFAULT, 1]], ids=["one", "two"])
async def test_connection_window_above_the_maximum_is_a_connection_error(increments: list[int]) -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(*(window_update(0, increment) for increment in increments))
        assert await client.connection_error() is ErrorCode.FLOW_CONTROL_ERROR


@pytest.mark.parametrize("increments", [[MAX_WINDOW], [MAX_WINDOW - DEFAULT, 1]], ids=["one", "two"])
async def test_stream_window_above_the_maximum_is_a_stream_error(increments: list[int]) -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        stream = await client.request("/wait")
        await client.send(*(window_update(stream, increment) for increment in increments))
        assert await client.error_on(stream) is ErrorCode.FLOW_CONTROL_ERROR


async def test_windows_at_the_maximum_are_permitted() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        stream = await client.request("/wait")
        await client.send(window_update(0, MAX_WINDOW - DEFAULT), window_update(stream, MAX_WINDOW - DEFAULT))
        await client.alive()
        gate.open.set()
        assert (await client.response(stream)).body == b"/wait"


async def upload(client: RawClient, size: int, *, pad: int | None = None) -> int:
    """Send a body of this size in full frames, never more than both windows permit; wait for WINDOW_UPDATE."""
    stream = await client.request(method="PUT", end=False)
    window = client.server_settings[Setting.INITIAL_WINDOW_SIZE]
    while size:
        piece = min(size, 16_000)
        cost = piece + (0 if pad is None else pad + 1)
        while min(window, client.connection_window) < cost:
            update = await client.take(lambda frame: frame.kind == WINDOW_UPDATE)
            assert update.stream in (0, stream)
            increment = int.from_bytes(update.payload)
            if update.stream:
                window += increment
            else:
                client.connection_window += increment
        size -= piece
        window -= cost
        client.connection_window -= cost
        await client.send(data(stream, bytes(piece), pad=pad, end=not size))
    return stream


@pytest.mark.parametrize("pad", [None, 255], ids=["plain", "padded"])
async def test_upload_above_the_windows_completes(pad: int | None) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        for _ in range(2):
            stream = await upload(client, 1_000_000, pad=pad)
            assert (await client.response(stream)).status == 200
            client.connection_window += sum(client.increments(0))
            client.increments(stream)
        assert [len(request.body) for request in recorder.requests] == [1_000_000] * 2


async def test_padding_is_given_back_to_both_windows() -> None:
    async with served(echo) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        windows = {0: client.connection_window, stream: client.server_settings[Setting.INITIAL_WINDOW_SIZE]}
        for _ in range(2500):
            if min(windows.values()) < 257:
                await client.alive()
                for number in windows:
                    windows[number] += sum(client.increments(number))
                assert min(windows.values()) >= 257, "the server gives nothing back"
            await client.send(data(stream, b"x", pad=255))
            windows[0] -= 257
            windows[stream] -= 257
        await client.send(data(stream, end=True))
        assert (await client.response(stream)).body == b"x" * 2500


async def test_data_above_the_window_of_its_stream_is_a_stream_error() -> None:
    # The server discards the body and grants nothing more while it cannot send its whole refusal.
    async with served(limits=Limits(body=1000)) as host, raw_client(host, values=NO_WINDOW) as client:
        stream = await client.request(method="PUT", fields=[("content-length", "4000000")], end=False)
        await client.head(stream)
        await client.send(*(data(stream, bytes(13_107)) for _ in range(5)))
        assert [frame for frame in await client.alive() if frame.stream == stream] == []
        await client.send(data(stream, b"x"))
        assert await client.error_on(stream) is ErrorCode.FLOW_CONTROL_ERROR


async def spend(client: RawClient, stream: int, amount: int) -> None:
    """Send DATA on a stream that takes none, within the connection's window."""
    for _ in range(amount // 16_000):
        if client.connection_window < 16_000:
            await client.alive()
            client.connection_window += sum(client.increments(0))
        assert client.connection_window >= 16_000, "the server gives nothing back"
        client.connection_window -= 16_000
        await client.send(data(stream, bytes(16_000)))


async def test_data_on_streams_that_the_server_has_reset_is_given_back_to_the_connection() -> None:
    async with served() as host, raw_client(host) as client:
        stream = await client.request(method="PUT", fields=[("upgrade", "x")], end=False)
        assert await client.reset_of(stream) is ErrorCode.PROTOCOL_ERROR
        await spend(client, stream, 4_000_000)
        assert [frame for frame in client.frames if frame.kind in (HEADERS, RST_STREAM)] == []


async def test_data_on_refused_streams_is_given_back_to_the_connection() -> None:
    gate = Gate()
    async with served(gate, Limits(streams=1)) as host, raw_client(host) as client:
        await client.request("/wait")
        refused = await client.request(method="PUT", end=False)
        assert await client.reset_of(refused) is ErrorCode.REFUSED_STREAM
        await spend(client, refused, 4_000_000)
        gate.open.set()


async def test_data_after_an_early_response_is_given_back_to_the_connection() -> None:
    async with served(limits=Limits(body=1000)) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", fields=[("content-length", "4000000")], end=False)
        assert (await client.response(stream)).status == 413
        assert await client.reset_of(stream) is ErrorCode.NO_ERROR
        await spend(client, stream, 4_000_000)


async def test_data_on_streams_that_the_client_has_reset_is_given_back_to_the_connection() -> None:
    """A stream error for each DATA is permitted, or a connection error; the window must not leak in the first case."""
    async with served() as host, raw_client(host) as client:
        for _ in range(100):
            stream = client.new_stream()
            await client.send(headers(stream, client.block(method="PUT"), end=False))
            client.connection_window -= 16_000
            await client.send(data(stream, bytes(16_000)), rst_stream(stream))
            if client.connection_window < 16_000:
                await client.alive()
                client.connection_window += sum(client.increments(0))
            assert client.connection_window >= 16_000, "the server gives nothing back"
