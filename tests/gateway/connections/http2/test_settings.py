"""SETTINGS (RFC 9113, section 6.5): what the server announces, acknowledgements, illegal values, and effects."""

import pytest

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Response
from tests.cases import cases
from tests.gateway.connections.http2.handlers import Gate, Recorder, body_of
from tests.gateway.connections.http2.raw_client import (
    ACK,
    DATA,
    PREFACE,
    SETTINGS,
    ErrorCode,
    RawClient,
    Setting,
    frame,
    raw_client,
    settings,
    window_update,
)
from tests.gateway.connections.http_server import served

MAX_WINDOW = 2**31 - 1


async def works(client: RawClient) -> bool:
    return (await client.response(await client.request())).status == 200


async def test_server_announces_its_limits() -> None:
    async with served(limits=Limits(streams=17, http2_head=50_000)) as host, raw_client(host) as client:
        announced = client.server_settings
        assert announced[Setting.MAX_CONCURRENT_STREAMS] == 17
        assert announced[Setting.MAX_HEADER_LIST_SIZE] == 50_000
        assert announced[Setting.INITIAL_WINDOW_SIZE] == 65_535
        assert announced.get(Setting.MAX_FRAME_SIZE, 16_384) == 16_384
        assert announced.get(Setting.ENABLE_CONNECT_PROTOCOL, 0) == 0


async def test_settings_of_the_server_come_before_those_of_the_client() -> None:
    async with served() as host, raw_client(host, handshake=False) as client:
        await client.send(PREFACE)
        first = await client.take(lambda frame: True)
        assert (first.kind, first.flags, first.stream) == (SETTINGS, 0, 0)


async def test_each_settings_frame_gets_one_empty_acknowledgement() -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(settings(), settings({Setting.MAX_FRAME_SIZE: 20_000}), settings())
        acknowledgements = [frame for frame in await client.alive() if frame.kind == SETTINGS]
        assert [(frame.flags, frame.stream, frame.payload) for frame in acknowledgements] == [
            (ACK, 0, b"")
        ] * 3


async def test_acknowledgement_is_not_acknowledged() -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(settings(ack=True))
        assert await client.alive() == []


async def test_settings_are_acknowledged_while_requests_run() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        stream = await client.request("/wait")
        await client.send(settings({Setting.INITIAL_WINDOW_SIZE: 1000}))
        await client.settings_ack()
        gate.open.set()
        assert (await client.response(stream)).status == 200


ILLEGAL = [
    (Setting.ENABLE_PUSH, 2, ErrorCode.PROTOCOL_ERROR),
    (Setting.ENABLE_PUSH, 2**32 - 1, ErrorCode.PROTOCOL_ERROR),
    (Setting.INITIAL_WINDOW_SIZE, MAX_WINDOW + 1, ErrorCode.FLOW_CONTROL_ERROR),
    (Setting.INITIAL_WINDOW_SIZE, 2**32 - 1, ErrorCode.FLOW_CONTROL_ERROR),
    (Setting.MAX_FRAME_SIZE, 0, ErrorCode.PROTOCOL_ERROR),
    (Setting.MAX_FRAME_SIZE, 16_383, ErrorCode.PROTOCOL_ERROR),
    (Setting.MAX_FRAME_SIZE, 2**24, ErrorCode.PROTOCOL_ERROR),
    (Setting.MAX_FRAME_SIZE, 2**32 - 1, ErrorCode.PROTOCOL_ERROR),
]


@cases(("setting", "value", "code"), ILLEGAL)
async def test_illegal_values_are_connection_errors(setting: Setting, value: int, code: ErrorCode) -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(settings({Setting.MAX_CONCURRENT_STREAMS: 1, setting: value}))
        assert await client.connection_error() is code


async def test_illegal_value_in_the_opening_is_a_connection_error() -> None:
    async with served() as host, raw_client(host, handshake=False) as client:
        await client.send(PREFACE, settings({Setting.MAX_FRAME_SIZE: 1}))
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR


LEGAL = [
    (Setting.HEADER_TABLE_SIZE, 2**32 - 1),
    (Setting.ENABLE_PUSH, 0),
    (Setting.ENABLE_PUSH, 1),
    (Setting.MAX_CONCURRENT_STREAMS, 0),  # of streams that the server would open: pushes
    (Setting.MAX_CONCURRENT_STREAMS, 2**32 - 1),
    (Setting.INITIAL_WINDOW_SIZE, MAX_WINDOW),
    (Setting.MAX_FRAME_SIZE, 16_384),
    (Setting.MAX_FRAME_SIZE, 2**24 - 1),
    (Setting.MAX_HEADER_LIST_SIZE, 2**32 - 1),
]


@cases(("setting", "value"), LEGAL)
async def test_legal_values_are_accepted(setting: Setting, value: int) -> None:
    async with served() as host, raw_client(host, values={setting: value}) as client:
        assert await works(client)
        await client.send(settings({setting: value}))
        await client.settings_ack()
        assert await works(client)


@pytest.mark.parametrize("payload", [b"\0", b"\0\4\0\0\0\1"], ids=["a byte", "a setting"])
async def test_acknowledgement_must_be_empty(payload: bytes) -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(frame(SETTINGS, payload, flags=ACK))
        assert await client.connection_error() is ErrorCode.FRAME_SIZE_ERROR


@pytest.mark.parametrize("flags", [0, ACK])
async def test_settings_belong_to_stream_zero(flags: int) -> None:
    async with served() as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(frame(SETTINGS, flags=flags, stream=stream))
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR


async def test_last_value_of_a_setting_in_a_frame_counts() -> None:
    async with served(body_of(100)) as host, raw_client(host) as client:
        await client.send(settings([(4, 7), (0xABC, 1), (4, 30), (4, 50)]))
        stream = await client.request()
        await client.head(stream)
        assert len((await client.data(stream)).payload) == 50


async def test_initial_window_of_the_opening_holds() -> None:
    async with (
        served(body_of(100)) as host,
        raw_client(host, values={Setting.INITIAL_WINDOW_SIZE: 33}) as client,
    ):
        stream = await client.request()
        await client.head(stream)
        assert len((await client.data(stream)).payload) == 33
        assert await client.alive() == []


async def test_larger_initial_window_lets_waiting_responses_continue() -> None:
    async with (
        served(body_of(100)) as host,
        raw_client(host, values={Setting.INITIAL_WINDOW_SIZE: 0}) as client,
    ):
        streams = [await client.request() for _ in range(3)]
        for stream in streams:
            await client.head(stream)
        assert await client.alive() == []
        await client.send(settings({Setting.INITIAL_WINDOW_SIZE: 60}))
        for stream in streams:
            assert len((await client.data(stream)).payload) == 60
        await client.send(settings({Setting.INITIAL_WINDOW_SIZE: 100}))
        for stream in streams:
            last = await client.data(stream)
            assert len(last.payload) == 40 and last.ends_stream


async def test_smaller_initial_window_makes_windows_negative() -> None:
    async with (
        served(body_of(100)) as host,
        raw_client(host, values={Setting.INITIAL_WINDOW_SIZE: 50}) as client,
    ):
        stream = await client.request()
        await client.head(stream)
        assert len((await client.data(stream)).payload) == 50
        await client.send(settings({Setting.INITIAL_WINDOW_SIZE: 20}))  # the window is now -30
        await client.send(window_update(stream, 30))  # and now 0
        assert [frame for frame in await client.alive() if frame.kind == DATA] == []
        await client.send(window_update(stream, 1))
        assert len((await client.data(stream)).payload) == 1
        await client.send(settings({Setting.INITIAL_WINDOW_SIZE: 69}))
        assert (await client.data(stream)).ends_stream


async def test_initial_window_does_not_change_the_connection_window() -> None:
    values = {Setting.INITIAL_WINDOW_SIZE: 1_000_000}
    async with served(body_of(70_000)) as host, raw_client(host, values=values) as client:
        stream = await client.request()
        await client.head(stream)
        received = sum(len(frame.payload) for frame in await client.alive() if frame.kind == DATA)
        assert received == 65_535


async def test_initial_window_that_overflows_an_open_stream_is_a_connection_error() -> None:
    values = {Setting.INITIAL_WINDOW_SIZE: 100}
    gate = Gate()
    async with served(gate) as host, raw_client(host, values=values) as client:
        stream = await client.request("/wait")
        await client.send(
            window_update(stream, MAX_WINDOW - 100), settings({Setting.INITIAL_WINDOW_SIZE: 101})
        )
        assert await client.connection_error() is ErrorCode.FLOW_CONTROL_ERROR


async def test_window_at_the_maximum_is_no_overflow() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host, values={Setting.INITIAL_WINDOW_SIZE: 100}) as client:
        stream = await client.request("/wait")
        await client.send(
            window_update(stream, MAX_WINDOW - 200), settings({Setting.INITIAL_WINDOW_SIZE: 200})
        )
        await client.settings_ack()
        gate.open.set()
        assert (await client.response(stream)).status == 200


@cases("size", [16_384, 16_385, 40_000])
async def test_frames_of_the_server_respect_the_maximum_frame_size(size: int) -> None:
    async with (
        served(body_of(60_000)) as host,
        raw_client(host, values={Setting.MAX_FRAME_SIZE: size}) as client,
    ):
        stream = await client.request()
        await client.head(stream)
        sizes: list[int] = []
        while sum(sizes) < 60_000:
            sizes.append(len((await client.data(stream)).payload))
        assert max(sizes) <= size


async def test_response_head_above_the_frame_size_continues() -> None:
    response = Response(200, b"", headers=[(b"x-large", b"~" * 40_000)])
    async with served(Recorder(response)) as host, raw_client(host) as client:
        assert len((await client.response(await client.request())).headers[b"x-large"]) == 40_000
