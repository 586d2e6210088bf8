"""Errors (RFC 9113, sections 5.4 and 7): what ends with a stream error, what with a connection error."""

import pytest

from rewound.gateway.message import Request, Response
from tests.cases import cases
from tests.gateway.connections.http2.handlers import Gate, Recorder, echo
from tests.gateway.connections.http2.raw_client import (
    GOAWAY,
    PING,
    PREFACE,
    ErrorCode,
    data,
    frame,
    goaway,
    headers,
    ping,
    raw_client,
    rst_stream,
    settings,
    window_update,
)
from tests.gateway.connections.http_server import served

BROKEN = frame(PING, b"short")


async def test_connection_error_names_the_last_stream_and_closes() -> None:
    async with served() as host, raw_client(host) as client:
        for _ in range(3):
            last = await client.request()
            assert (await client.response(last)).status == 200
        await client.send(BROKEN)
        assert await client.goaway() == (ErrorCode.FRAME_SIZE_ERROR, last)
        await client.closed()


async def test_connection_error_before_any_stream_names_stream_zero() -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(BROKEN)
        assert await client.goaway() == (ErrorCode.FRAME_SIZE_ERROR, 0)
        await client.closed()


async def test_nothing_after_a_connection_error_is_handled() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        await client.send(BROKEN, headers(1, client.block()), ping())
        await client.goaway()
        await client.closed()
        assert recorder.requests == []
        assert client.frames == []


async def test_responses_before_a_connection_error_arrive() -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(headers(1, client.block("/before")), BROKEN)
        assert (await client.response(1)).body == b"GET /before"
        assert await client.connection_error() is ErrorCode.FRAME_SIZE_ERROR


async def test_connection_error_is_reported_once() -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(BROKEN, frame(PING, b"again"), settings({2: 9}))
        await client.closed()
        assert [frame.kind for frame in client.frames] == [GOAWAY]


async def test_connection_error_ends_only_its_connection() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as other, raw_client(host) as client:
        stream = await other.request("/wait")
        await client.send(BROKEN)
        await client.connection_error()
        gate.open.set()
        assert (await other.response(stream)).status == 200


async def test_server_closes_when_requests_still_run_at_a_connection_error() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        await client.request("/wait")
        await gate.entered.wait()
        await client.send(BROKEN)
        assert await client.goaway() == (ErrorCode.FRAME_SIZE_ERROR, 1)
        await client.closed()


async def test_stream_error_leaves_other_streams_alone() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        running = await client.request("/wait")
        upload = await client.request(method="PUT", end=False)
        broken = await client.request("/broken", fields=[("upgrade", "x")])
        assert await client.reset_of(broken) is ErrorCode.PROTOCOL_ERROR
        await client.send(data(upload, b"x", end=True))
        gate.open.set()
        assert (await client.response(upload)).status == 200
        assert (await client.response(running)).status == 200
        assert "/broken" not in gate.paths


async def test_stream_error_is_reported_once_and_is_the_last_frame_of_the_stream() -> None:
    async with served() as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(window_update(stream, 0), data(stream, b"x"), data(stream, b"x", end=True))
        assert await client.reset_of(stream) is ErrorCode.PROTOCOL_ERROR
        assert [frame for frame in await client.alive() if frame.stream == stream] == []


@cases("code", [*range(14), 14, 0xFF, 2**32 - 1])
async def test_reset_with_any_code_ends_the_stream_without_response(code: int) -> None:
    async with served() as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(rst_stream(stream, code))
        assert await client.alive() == []
        assert (await client.response(await client.request())).status == 200


@cases("code", [0, 2, 14, 2**32 - 1])
async def test_goaway_with_any_code_lets_running_requests_complete(code: int) -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        stream = await client.request("/wait")
        await client.send(goaway(0, code, b"some debug data"))
        await gate.entered.wait()
        gate.open.set()
        assert (await client.response(stream)).body == b"/wait"


async def test_handler_that_fails_is_no_protocol_error(caplog: pytest.LogCaptureFixture) -> None:
    async def handle(request: Request) -> Response:
        raise RuntimeError("a bug of ours")

    async with served(handle) as host, raw_client(host) as client:
        assert (await client.response(await client.request())).status == 500
        assert (await client.response(await client.request(method="PUT", body=b"x"))).status == 500
        assert "a bug of ours" in caplog.text
        caplog.clear()


@cases(
    "opening",
    [
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        PREFACE[:-1] + b"x",
        b"PRI * HTTP/2.0\r\n\r\n" + bytes(60),
    ],
    ids=["other text", "last byte differs", "cut"],
)
async def test_wrong_preface_closes_the_connection(opening: bytes) -> None:
    async with served() as host, raw_client(host, handshake=False) as client:
        try:
            await client.stream.send_all(opening + settings())
            while await client.stream.receive_some(65536):
                pass
        except OSError:
            pass
        assert host.statistics.requests == 0


FIRST = {
    "PING": ping(),
    "WINDOW_UPDATE": window_update(0, 1),
    "acknowledgement": settings(ack=True),
    "GOAWAY": goaway(),
    "DATA": data(1, b"x"),
    "HEADERS": headers(1, b"\x82\x86\x84"),
    "unknown": frame(0xBE, b"x"),
}


@cases("first", FIRST.values(), ids=FIRST)
async def test_first_frame_must_be_settings(first: bytes) -> None:
    async with served() as host, raw_client(host, handshake=False) as client:
        await client.send(PREFACE, first)
        assert await client.connection_error() is ErrorCode.PROTOCOL_ERROR


async def test_wrong_preface_after_alpn_closes_the_connection() -> None:
    async with served(echo) as host, raw_client(host, tls=True, handshake=False) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n" + bytes(100))
        await client.closed()
        assert host.statistics.requests == 0
