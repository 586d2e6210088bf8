"""DATA and HEADERS (RFC 9113, sections 6.1 and 6.2): padding, priority fields, and streams that permit neither."""

from tests.cases import cases
from tests.gateway.connections.http2.handlers import Recorder, echo
from tests.gateway.connections.http2.raw_client import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PRIORITIZED,
    ErrorCode,
    continuation,
    data,
    frame,
    headers,
    priority_fields,
    raw_client,
)
from tests.gateway.connections.http_server import served


@cases("pad", [0, 1, 100, 255])
@cases("body", [b"", b"content"], ids=["empty", "content"])
async def test_padding_is_no_part_of_the_body(pad: int, body: bytes) -> None:
    async with served(echo) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(data(stream, body, pad=pad), data(stream, b"!", pad=pad, end=True))
        assert (await client.response(stream)).body == body + b"!"


async def test_empty_data_frames_may_precede_the_end() -> None:
    async with served(echo) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(data(stream), data(stream, b"x"), data(stream), data(stream, end=True))
        assert (await client.response(stream)).body == b"x"


@cases(
    ("payload", "permitted"),
    [(b"\x01", False), (b"\x03xy", False), (b"\xffxy", False), (b"\x02xy", True), (b"\x00", True)],
    ids=["pad of 1 in 1", "pad of 3 in 3", "pad of 255 in 3", "all padding", "no padding"],
)
async def test_padding_of_data_must_fit(payload: bytes, permitted: bool) -> None:
    async with served(echo) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(frame(DATA, payload, flags=PADDED | END_STREAM, stream=stream))
        if permitted:
            assert (await client.response(stream)).body == b""
        else:
            assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR


async def test_data_on_stream_zero_is_a_connection_error() -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(data(0, b"x"))
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR


@cases("pad", [None, 0, 1, 255])
@cases("fields", [b"", priority_fields(3, exclusive=True)], ids=["plain", "priority"])
async def test_padding_and_priority_are_no_part_of_the_header_block(pad: int | None, fields: bytes) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        for path in ("/one", "/two"):
            stream = client.new_stream()
            await client.send(headers(stream, client.block(path), pad=pad, priority=fields))
            assert (await client.response(stream)).status == 200
        assert recorder.paths == ["/one", "/two"]


async def test_padding_may_be_followed_by_continuations() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        block = client.block("/continued")
        await client.send(
            headers(1, block[:3], pad=9, priority=priority_fields(), done=False), continuation(1, block[3:])
        )
        assert (await client.response(1)).status == 200
        assert recorder.paths == ["/continued"]


@cases(
    ("flags", "payload"),
    [
        (PADDED, b"\x01"),
        (PADDED, b"\x07\x82\x86\x84"),
        (PADDED | PRIORITIZED, b"\x01" + bytes(5)),
        (PADDED | PRIORITIZED, b"\x04" + bytes(5) + b"\x82\x86\x84"),
    ],
)
async def test_padding_of_headers_must_fit(flags: int, payload: bytes) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        await client.send(frame(HEADERS, payload, flags=flags | END_HEADERS | END_STREAM, stream=1))
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR
        assert recorder.requests == []


async def test_headers_on_stream_zero_are_a_connection_error() -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(headers(0, client.block()))
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR


async def test_request_without_body_may_end_with_an_empty_data_frame() -> None:
    async with served(echo) as host, raw_client(host) as client:
        stream = await client.request(end=False)
        await client.send(data(stream, end=True))
        assert (await client.response(stream)).status == 200


async def test_get_may_have_a_body() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        stream = await client.request(body=b"unusual")
        assert (await client.response(stream)).status == 200
        assert recorder.requests[0].body == b"unusual"
