"""HTTP over HTTP/2 (RFC 9113, section 8): what reaches the handler, and what responses look like."""

import pytest

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Response
from tests.cases import cases
from tests.gateway.connections.http2.handlers import Gate, Recorder, echo
from tests.gateway.connections.http2.raw_client import (
    HEADERS,
    ErrorCode,
    continuation,
    data,
    headers,
    raw_client,
)
from tests.gateway.connections.http_server import served


async def test_request_reaches_the_handler_as_over_http_1() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        fields = [("x-a", "1"), ("x-b", "2"), ("x-a", "3"), ("te", "trailers"), ("x-empty", "")]
        stream = await client.request("/a%2Fb?x=%20&y", method="PATCH", fields=fields, body=b"content")
        assert (await client.response(stream)).status == 200
        [request] = recorder.requests
        assert (request.method, request.path, request.query) == ("PATCH", "/a%2Fb", "x=%20&y")
        assert request.body == b"content"
        assert request.headers[b"host"] == b"test"
        assert request.headers[b"x-a"] == b"1, 3" and request.repeated == {b"x-a": [b"1", b"3"]}
        assert request.headers[b"x-empty"] == b""
        assert not any(name.startswith(b":") for name in request.headers)


async def test_split_cookies_are_joined() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        await client.response(await client.request(fields=[("cookie", "a=1"), ("cookie", "b=2; c=3")]))
        assert recorder.requests[0].headers[b"cookie"] == b"a=1; b=2; c=3"


async def test_host_may_stand_for_the_authority() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        block = client.encode([(":method", "GET"), (":scheme", "http"), (":path", "/"), ("host", "other")])
        await client.send(headers(1, block))
        assert (await client.response(1)).status == 200
        assert recorder.requests[0].headers[b"host"] == b"other"


async def test_options_may_ask_for_an_asterisk() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        assert (await client.response(await client.request("*", method="OPTIONS"))).status == 200
        assert recorder.paths == ["*"]


@cases("body", [None, b"", b"content"], ids=["no DATA", "empty DATA", "DATA"])
async def test_trailers_end_a_request(body: bytes | None) -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", body=body, end=False)
        block = client.encode([("x-sum", "1"), ("x-other", "2")])
        await client.send(headers(stream, block[:4], done=False), continuation(stream, block[4:]))
        assert (await client.response(stream)).status == 200
        assert recorder.requests[0].body == (body or b"")


async def test_trailers_are_no_headers() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(headers(stream, client.encode([("authorization", "Bearer late")])))
        assert (await client.response(stream)).status == 200
        assert b"authorization" not in recorder.requests[0].headers


async def test_client_that_expects_100_gets_it_before_the_response() -> None:
    async with served(echo) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", fields=[("expect", "100-continue")], end=False)
        interim = await client.head(stream)
        assert dict(interim.fields) == {b":status": b"100"} and not interim.ends_stream
        await client.send(data(stream, b"content", end=True))
        final = await client.response(stream)
        assert (final.status, final.body) == (200, b"content")


async def test_client_that_expects_100_and_sends_at_once_gets_one_final_response() -> None:
    async with served(echo) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", fields=[("expect", "100-continue")], body=b"at once")
        assert (await client.response(stream)).body == b"at once"
        assert [frame for frame in await client.alive() if frame.stream == stream] == []


async def test_refused_upload_gets_no_100() -> None:
    async with served(echo, Limits(body=10)) as host, raw_client(host) as client:
        fields = [("expect", "100-continue"), ("content-length", "11")]
        stream = await client.request(method="PUT", fields=fields, end=False)
        head = await client.head(stream)
        assert dict(head.fields)[b":status"] == b"413"
        assert await client.reset_of(stream) is ErrorCode.NO_ERROR


async def test_unknown_expectation_is_refused() -> None:
    async with served(echo) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", fields=[("expect", "miracles")], body=b"x")
        assert (await client.response(stream)).status == 417


async def test_head_has_the_length_but_no_body() -> None:
    async with served(Recorder(Response(200, b"four"))) as host, raw_client(host) as client:
        stream = await client.request(method="HEAD")
        head = await client.head(stream)
        assert head.ends_stream and dict(head.fields)[b"content-length"] == b"4"
        assert await client.alive() == []


@pytest.mark.parametrize("status", [204, 304])
async def test_status_without_body_ends_with_its_head(status: int) -> None:
    async with served(Recorder(Response(status, b""))) as host, raw_client(host) as client:
        stream = await client.request()
        head = await client.head(stream)
        assert head.ends_stream and b"content-length" not in dict(head.fields)
        assert await client.alive() == []


async def test_response_fields_are_legal() -> None:
    given = [(b"Warning", b'299 - "a"'), (b"X-Break", b"a\r\nb")]
    async with (
        served(Recorder(Response(201, b"made", b"text/plain", given))) as host,
        raw_client(host) as client,
    ):
        head = await client.head(await client.request())
        names = [name for name, _ in head.fields]
        assert head.fields[0] == (b":status", b"201")
        assert names == [name.lower() for name in names]
        assert [name for name in names if name.startswith(b":")] == [b":status"]
        forbidden = {b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"proxy-connection"}
        assert forbidden.isdisjoint(names)
        fields = dict(head.fields)
        assert fields[b"warning"] == b'299 - "a"' and b"\n" not in fields[b"x-break"]
        assert (fields[b"content-length"], fields[b"content-type"]) == (b"4", b"text/plain")
        assert fields[b"date"].endswith(b" GMT")


@cases("status", [200, 201, 204, 206, 302, 400, 404, 409, 410, 422, 500, 503])
async def test_any_status_arrives(status: int) -> None:
    async with served(Recorder(Response(status, b""))) as host, raw_client(host) as client:
        assert (await client.response(await client.request())).status == status


async def test_connect_is_not_allowed() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        stream = client.new_stream()
        await client.send(
            headers(stream, client.encode([(":method", "CONNECT"), (":authority", "other:443")]), end=False)
        )
        assert (await client.response(stream)).status == 405
        assert recorder.requests == []


async def test_extended_connect_is_not_implemented() -> None:
    recorder = Recorder()
    async with served(recorder) as host, raw_client(host) as client:
        stream = client.new_stream()
        fields = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":path", "/")]
        await client.send(headers(stream, client.encode([*fields, (":authority", "test")]), end=False))
        assert (await client.response(stream)).status == 501
        assert recorder.requests == []


async def test_unknown_method_is_not_allowed() -> None:
    async with served() as host, raw_client(host) as client:
        assert (await client.response(await client.request(method="BREW"))).status == 405


async def test_early_response_asks_the_client_to_stop_its_upload() -> None:
    async with served(limits=Limits(body=1000)) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", fields=[("content-length", "5000")], end=False)
        assert (await client.response(stream)).status == 413
        assert await client.reset_of(stream) is ErrorCode.NO_ERROR
        await client.send(data(stream, bytes(1000)))
        assert await client.alive() == []


async def test_body_that_grows_above_the_limit_is_refused() -> None:
    recorder = Recorder()
    async with served(recorder, Limits(body=1000)) as host, raw_client(host) as client:
        stream = await client.request(method="PUT", end=False)
        await client.send(data(stream, bytes(600)), data(stream, bytes(600)))
        assert (await client.response(stream)).status == 413
        assert await client.reset_of(stream) is ErrorCode.NO_ERROR
        assert recorder.requests == []


async def test_header_list_above_the_limit_is_refused_with_431() -> None:
    recorder = Recorder()
    async with served(recorder, Limits(http2_head=4000)) as host, raw_client(host) as client:
        stream = await client.request(fields=[("x-large", "~" * 4001)])
        assert (await client.response(stream)).status == 431
        stream = await client.request(fields=[("x-many", str(number)) for number in range(120)])
        assert (await client.response(stream)).status == 431
        assert (await client.response(await client.request("/good"))).status == 200
        assert recorder.paths == ["/good"]


async def test_endless_header_block_is_cut_off() -> None:
    recorder = Recorder()
    async with served(recorder, Limits(http2_head=4000)) as host, raw_client(host) as client:
        await client.send(headers(1, b"\x82", done=False))
        for _ in range(200):
            await client.send(continuation(1, b"\x00\x01a\x7f\x80\x07" + bytes(1023), done=False))
        assert await client.connection_error() is ErrorCode.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    ("size", "code"), [(4000, ErrorCode.COMPRESSION_ERROR), (4001, ErrorCode.ENHANCE_YOUR_CALM)]
)
async def test_header_block_above_the_limit_is_not_decoded(size: int, code: ErrorCode) -> None:
    async with served(limits=Limits(http2_head=4000)) as host, raw_client(host) as client:
        block = b"\x00\x01a\x7f\xff\x7f".ljust(
            size, b"v"
        )  # a value longer than the block: it does not decode
        await client.send(headers(1, block[:3000], done=False), continuation(1, block[3000:]))
        assert await client.connection_error() is code


async def test_endless_empty_continuations_are_cut_off() -> None:
    async with served() as host, raw_client(host) as client:
        await client.send(headers(1, client.block(), done=False))
        for _ in range(200):
            await client.send(continuation(1, b"", done=False) * 100)
        assert await client.connection_error() is ErrorCode.ENHANCE_YOUR_CALM


async def test_responses_of_requests_in_one_write_all_arrive() -> None:
    gate = Gate()
    async with served(gate) as host, raw_client(host) as client:
        blocks = [(client.new_stream(), f"/{number}") for number in range(50)]
        await client.send(*(headers(stream, client.block(path)) for stream, path in blocks))
        for stream, path in blocks:
            assert (await client.response(stream)).body == path.encode()
        assert [frame for frame in await client.alive() if frame.kind == HEADERS] == []
