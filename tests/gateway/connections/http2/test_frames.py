"""Frames (RFC 9113, section 4): their header, their size, and header blocks as one uninterrupted sequence."""

import struct

import pytest
from trio.testing import MockClock

from tests.cases import cases
from tests.gateway.connections.http2.handlers import Recorder, echo
from tests.gateway.connections.http2.raw_client import (
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    PING,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ErrorCode,
    continuation,
    data,
    frame,
    goaway,
    headers,
    ping,
    priority,
    raw_client,
    rst_stream,
    settings,
    window_update,
)
from tests.gateway.connections.http_server import served
from tests.settling import advance

RESERVED = 2**31
MAX_FRAME = 16_384


@pytest.mark.parametrize("stream", [1, RESERVED | 1], ids=["clear", "set"])
async def test_reserved_bit_of_the_stream_identifier_is_ignored(stream: int) -> None:
    async with served(echo) as host, raw_client(host) as client:
        await client.send(
            headers(stream, client.block(method="PUT"), end=False), data(stream, b"x", end=True)
        )
        assert (await client.response(1)).body == b"x"


@cases(
    "reserved",
    [
        frame(PING, b"pingpong", stream=RESERVED),
        frame(SETTINGS, stream=RESERVED),
        frame(WINDOW_UPDATE, struct.pack(">I", RESERVED | 1), stream=RESERVED),
    ],
    ids=["PING", "SETTINGS", "WINDOW_UPDATE"],
)
async def test_reserved_bits_of_connection_frames_are_ignored(reserved: bytes) -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(reserved)
        assert (await client.response(await client.request())).status == 200


async def test_undefined_flags_are_ignored() -> None:
    async with served(echo) as host, raw_client(host) as client:
        await client.send(
            frame(SETTINGS, flags=0xFE),
            frame(PING, b"flagged!", flags=0xFE),
            frame(WINDOW_UPDATE, b"\0\0\0\1", flags=0xFF),
            frame(HEADERS, client.block(method="PUT"), flags=0xD6, stream=1),  # END_HEADERS is 0x4
            frame(PRIORITY, bytes(5), flags=0xFF, stream=1),
            frame(DATA, b"flags", flags=0xF7, stream=1),  # all but PADDED
        )
        assert (await client.response(1)).body == b"flags"
        await client.take(lambda frame: frame.ack and frame.payload == b"flagged!")


@cases("flags", [0x5, 0x25, 0x41])
async def test_flags_of_other_frames_mean_nothing_on_data(flags: int) -> None:
    async with served(echo) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(frame(DATA, client.block(), flags=flags, stream=stream))
        assert (await client.response(stream)).status == 200


async def test_data_frame_of_the_maximum_size_is_accepted() -> None:
    async with served(echo) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", body=b"x" * MAX_FRAME)
        assert len((await client.response(stream)).body) == MAX_FRAME


async def test_headers_frame_of_the_maximum_size_is_accepted() -> None:
    async with served() as host, raw_client(host) as client:
        block = client.block(fields=[("x-large", "~" * 20_000)], huffman=False)
        await client.send(
            headers(1, block[:MAX_FRAME], done=False),
            continuation(1, block[MAX_FRAME:]),
        )
        assert (await client.response(1)).status == 200


@cases("kind", [DATA, HEADERS, SETTINGS, PING, GOAWAY, CONTINUATION, 0xBE])
@cases("length", [MAX_FRAME + 1, 2**24 - 1])
async def test_frame_above_the_maximum_size_is_refused_from_its_header(kind: int, length: int) -> None:
    async with served() as host, raw_client(host) as client:
        stream = await client.request("/", method="PUT", end=False)
        on = stream if kind in (DATA, HEADERS, CONTINUATION) else 0
        await client.send(frame(kind, length=length, stream=on))
        assert await client.connection_error() is ErrorCode.FRAME_SIZE_ERROR


WRONG_SIZES = [
    (PING, 0, 7),
    (PING, 0, 9),
    (PING, 0, 0),
    (SETTINGS, 0, 5),
    (SETTINGS, 0, 7),
    (GOAWAY, 0, 7),
    (GOAWAY, 0, 0),
    (WINDOW_UPDATE, 0, 3),
    (WINDOW_UPDATE, 0, 5),
    (WINDOW_UPDATE, 1, 3),
    (WINDOW_UPDATE, 1, 5),
    (RST_STREAM, 1, 3),
    (RST_STREAM, 1, 5),
    (RST_STREAM, 1, 0),
]


@cases(("kind", "stream", "size"), WRONG_SIZES)
async def test_frame_of_a_wrong_fixed_size_is_a_connection_error(kind: int, stream: int, size: int) -> None:
    async with served() as host, raw_client(host) as client:
        await client.request(method="PUT", end=False)
        await client.send(frame(kind, b"\1" * size, stream=stream))
        assert await client.connection_error() is ErrorCode.FRAME_SIZE_ERROR


@cases(
    ("kind", "flags", "payload"),
    [(DATA, 0x8, b""), (HEADERS, 0x8, b""), (HEADERS, 0x24, bytes(4)), (HEADERS, 0x2C, b"\0" + bytes(4))],
    ids=["padded data", "padded headers", "headers with priority", "padded headers with priority"],
)
async def test_frame_too_small_for_what_its_flags_announce(kind: int, flags: int, payload: bytes) -> None:
    async with served() as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False) if kind == DATA else 1
        await client.send(frame(kind, payload, flags=flags, stream=stream))
        assert await client.connection_error() in (ErrorCode.FRAME_SIZE_ERROR, ErrorCode.PROTOCOL_ERROR)


@cases("size", [1, 7, 10_000])
async def test_header_block_may_be_cut_anywhere(size: int) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        block = client.block("/cut", fields=[("x-cut", "one"), ("x-cut", "two")])
        pieces = [block[at : at + size] for at in range(0, len(block), size)]
        await client.send(
            headers(1, pieces[0], done=False),
            *(continuation(1, piece, done=False) for piece in pieces[1:]),
            continuation(1, b""),
        )
        assert (await client.response(1)).status == 200
        assert recorder.requests[0].headers[b"x-cut"] == b"one, two"


async def test_headers_frame_may_be_empty_when_a_continuation_follows() -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(headers(1, b"", done=False), continuation(1, client.block()))
        assert (await client.response(1)).status == 200


async def test_stream_ends_with_its_headers_even_when_continuations_follow() -> None:
    async with served(echo) as host, raw_client(host) as client:
        block = client.block(method="PUT")
        await client.send(headers(1, block[:5], done=False, end=True), continuation(1, block[5:]))
        assert (await client.response(1)).body == b""


INTERRUPTIONS = {
    "DATA": data(1, b"x"),
    "HEADERS of the stream": headers(1, b"\x82"),
    "HEADERS of another": headers(3, b"\x82"),
    "PRIORITY": priority(1),
    "RST_STREAM": rst_stream(1),
    "SETTINGS": settings(),
    "SETTINGS acknowledged": settings(ack=True),
    "PUSH_PROMISE": frame(5, b"\0\0\0\2\x82", flags=4, stream=1),
    "PING": ping(),
    "GOAWAY": goaway(),
    "WINDOW_UPDATE": window_update(0, 1),
    "CONTINUATION of another": continuation(3, b"\x82"),
    "CONTINUATION of no stream": continuation(0, b"\x82"),
    "an unknown type": frame(0xBE, b"x", stream=1),
}


@cases("interruption", INTERRUPTIONS.values(), ids=INTERRUPTIONS)
async def test_nothing_may_interrupt_a_header_block(interruption: bytes) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        block = client.block()
        await client.send(headers(1, block[:4], done=False), interruption, continuation(1, block[4:]))
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR
        assert recorder.requests == []


async def test_nothing_may_interrupt_a_block_of_several_continuations() -> None:
    async with served() as host, raw_client(host) as client:
        block = client.block()
        await client.send(
            headers(1, block[:2], done=False),
            continuation(1, block[2:4], done=False),
            ping(),
            continuation(1, b""),
        )
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR


@cases("stream", [0, 1, 3])
async def test_continuation_without_open_header_block_is_an_error(stream: int) -> None:
    async with served() as host, raw_client(host) as client:
        await client.request(method="PUT", end=False)
        await client.send(continuation(stream, b"\x82"))
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR


@pytest.mark.parametrize(
    "part", [b"\0", ping()[:8], ping()[:-1]], ids=["a byte", "its head", "all but a byte"]
)
async def test_frame_whose_rest_does_not_arrive_times_out(part: bytes, mock_clock: MockClock) -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(part)
        await advance(mock_clock, 31)
        assert host.statistics.open == 1
        await advance(mock_clock, 3)
        await client.closed()


async def test_frames_may_arrive_byte_by_byte() -> None:
    async with served(echo) as host, raw_client(host) as client:
        sent = headers(1, client.block(method="PUT"), end=False) + data(1, b"slowly", end=True)
        for index in range(len(sent)):
            await client.send(sent[index : index + 1])
        assert (await client.response(1)).body == b"slowly"
