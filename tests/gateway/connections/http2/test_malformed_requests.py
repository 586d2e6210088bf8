"""Malformed requests (RFC 9113, sections 8.1.1 to 8.3): each is a stream error, and none reaches the handler."""

import pytest

from tests.cases import cases
from tests.gateway.connections.http2.handlers import Recorder
from tests.gateway.connections.http2.raw_client import ErrorCode, data, headers, raw_client
from tests.gateway.connections.http_server import served

Fields = list[tuple[bytes, bytes]]

METHOD = (b":method", b"PUT")
SCHEME = (b":scheme", b"http")
AUTHORITY = (b":authority", b"test")
PATH = (b":path", b"/")
GOOD: Fields = [METHOD, SCHEME, AUTHORITY, PATH]

MALFORMED: dict[str, Fields] = {
    "no fields": [],
    "no :method": [SCHEME, AUTHORITY, PATH],
    "no :scheme": [METHOD, AUTHORITY, PATH],
    "no :path": [METHOD, SCHEME, AUTHORITY],
    "empty :method": [(b":method", b""), SCHEME, AUTHORITY, PATH],
    "empty :path": [METHOD, SCHEME, AUTHORITY, (b":path", b"")],
    "relative :path": [METHOD, SCHEME, AUTHORITY, (b":path", b"relative")],
    "asterisk without OPTIONS": [METHOD, SCHEME, AUTHORITY, (b":path", b"*")],
    "space in :path": [METHOD, SCHEME, AUTHORITY, (b":path", b"/a b")],
    "line break in :path": [METHOD, SCHEME, AUTHORITY, (b":path", b"/a\r\nx: y")],
    ":path beyond ASCII": [METHOD, SCHEME, AUTHORITY, (b":path", b"/\xff")],
    "space in :method": [(b":method", b"PU T"), SCHEME, AUTHORITY, PATH],
    "user information in :authority": [METHOD, SCHEME, (b":authority", b"user@test"), PATH],
    "two :method": [METHOD, METHOD, SCHEME, AUTHORITY, PATH],
    "two :scheme": [METHOD, SCHEME, SCHEME, AUTHORITY, PATH],
    "two :authority": [METHOD, SCHEME, AUTHORITY, AUTHORITY, PATH],
    "two :path": [METHOD, SCHEME, AUTHORITY, PATH, PATH],
    "unknown pseudo-header": [*GOOD, (b":unknown", b"x")],
    "pseudo-header of responses": [*GOOD, (b":status", b"200")],
    ":protocol without CONNECT": [*GOOD, (b":protocol", b"websocket")],
    "pseudo-header after a header": [METHOD, SCHEME, AUTHORITY, (b"x-a", b"b"), PATH],
    ":authority and host differ": [*GOOD, (b"host", b"other")],
    "upper-case name": [*GOOD, (b"X-Upper", b"x")],
    "one upper-case letter": [*GOOD, (b"x-uppeR", b"x")],
    "empty name": [*GOOD, (b"", b"x")],
    "space in a name": [*GOOD, (b"x a", b"x")],
    "colon in a name": [*GOOD, (b"x:a", b"x")],
    "line break in a name": [*GOOD, (b"x\na", b"x")],
    "NUL in a name": [*GOOD, (b"x\0", b"x")],
    "name beyond ASCII": [*GOOD, (b"x\xe9", b"x")],
    "NUL in a value": [*GOOD, (b"x-a", b"a\0b")],
    "CR in a value": [*GOOD, (b"x-a", b"a\rb")],
    "LF in a value": [*GOOD, (b"x-a", b"a\nb")],
    "connection": [*GOOD, (b"connection", b"close")],
    "keep-alive": [*GOOD, (b"keep-alive", b"timeout=5")],
    "proxy-connection": [*GOOD, (b"proxy-connection", b"keep-alive")],
    "transfer-encoding": [*GOOD, (b"transfer-encoding", b"chunked")],
    "upgrade": [*GOOD, (b"upgrade", b"websocket")],
    "te other than trailers": [*GOOD, (b"te", b"gzip")],
    "te with more than trailers": [*GOOD, (b"te", b"trailers, gzip")],
    "content-length that is no number": [*GOOD, (b"content-length", b"x")],
    "negative content-length": [*GOOD, (b"content-length", b"-1")],
    "two content-lengths": [*GOOD, (b"content-length", b"0"), (b"content-length", b"1")],
    "content-length without body": [*GOOD, (b"content-length", b"1")],
}


@cases("fields", MALFORMED.values(), ids=MALFORMED)
async def test_malformed_request_is_a_stream_error(fields: Fields) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        for indexed in (True, False):
            stream = client.new_stream()
            block = client.encoder.encode([(name, value, not indexed) for name, value in fields])
            await client.send(headers(stream, block))
            assert await client.error_on(stream) is ErrorCode.PROTOCOL_ERROR
        assert (await client.response(await client.request("/good"))).status == 200
        assert recorder.paths == ["/good"]


@cases("value", [b" a", b"a ", b"a\t", b" \t a\t "])
async def test_spaces_around_a_value_are_removed_as_in_http1(value: bytes) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        for indexed in (True, False):
            # Twice: the second request refers to entries of the connection's table, if there are any.
            for _ in range(2):
                stream = client.new_stream()
                fields = [*GOOD, (b"x-a", value), (b"x-b", b"c")]
                block = client.encoder.encode([(name, one, not indexed) for name, one in fields])
                await client.send(headers(stream, block))
                assert (await client.response(stream)).status == 200
        assert [one.headers[b"x-a"] for one in recorder.requests] == [b"a"] * 4


@cases(
    ("announced", "parts"),
    [(1, [b""]), (5, [b"four"]), (5, [b"fo", b"ur", b""]), (3, [b"four"]), (3, [b"fo", b"ur"]), (0, [b"x"])],
    ids=["nothing", "too little", "too little in parts", "too much", "too much in parts", "none expected"],
)
async def test_body_that_differs_from_its_content_length_is_a_stream_error(
    announced: int, parts: list[bytes]
) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", fields=[("content-length", str(announced))], end=False)
        await client.send(*(data(stream, part) for part in parts[:-1]), data(stream, parts[-1], end=True))
        assert await client.error_on(stream) is ErrorCode.PROTOCOL_ERROR
        assert recorder.requests == []


async def test_body_above_its_content_length_is_refused_before_its_end() -> None:
    async with served() as host, raw_client(host) as client:
        stream = await client.request(method="PUT", fields=[("content-length", "3")], end=False)
        await client.send(data(stream, b"four"))
        assert await client.error_on(stream) is ErrorCode.PROTOCOL_ERROR


async def test_trailers_that_end_a_body_below_its_content_length_are_a_stream_error() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", fields=[("content-length", "5")], end=False)
        await client.send(data(stream, b"four"), headers(stream, client.encode([("x-sum", "4")])))
        assert await client.error_on(stream) is ErrorCode.PROTOCOL_ERROR
        assert recorder.requests == []


@pytest.mark.parametrize("body", [b"", b"four"], ids=["empty", "content"])
async def test_body_of_its_content_length_is_accepted(body: bytes) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        fields = [("content-length", str(len(body)))]
        assert (
            await client.response(await client.request(method="PUT", fields=fields, body=body))
        ).status == 200
        assert recorder.requests[0].body == body
        if not body:
            assert (await client.response(await client.request(method="PUT", fields=fields))).status == 200


async def test_padding_does_not_count_for_the_content_length() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", fields=[("content-length", "4")], end=False)
        await client.send(data(stream, b"four", pad=100, end=True))
        assert (await client.response(stream)).status == 200


MALFORMED_TRAILERS = {
    "pseudo-header": [(b":path", b"/")],
    "pseudo-header of responses": [(b":status", b"200")],
    "unknown pseudo-header": [(b":x", b"y")],
    "upper-case name": [(b"X-Sum", b"1")],
    "connection": [(b"connection", b"close")],
    "line break in a value": [(b"x-sum", b"1\n2")],
}


@cases("fields", MALFORMED_TRAILERS.values(), ids=MALFORMED_TRAILERS)
async def test_malformed_trailers_are_a_stream_error(fields: Fields) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(data(stream, b"x"), headers(stream, client.encode(fields)))
        assert await client.error_on(stream) is ErrorCode.PROTOCOL_ERROR
        assert recorder.requests == []


async def test_trailers_must_end_the_stream() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(headers(stream, client.encode([("x-sum", "1")]), end=False), data(stream, end=True))
        assert await client.error_on(stream) is ErrorCode.PROTOCOL_ERROR
        assert recorder.requests == []


async def test_malformed_request_with_a_body_to_come_is_reset_at_once() -> None:
    async with served() as host, raw_client(host) as client:
        stream = await client.request(method="PUT", fields=[("connection", "close")], end=False)
        assert await client.error_on(stream) is ErrorCode.PROTOCOL_ERROR
