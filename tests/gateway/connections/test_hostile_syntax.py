"""Bytes that are not HTTP/1.1 get an error response, and no other client is affected."""

import pytest

from tests.cases import cases
from tests.gateway.connections.http_server import served

MALFORMED = {
    "garbage": (b"\x00\x01\x02\x03\r\n\r\n", 400),
    "a TLS greeting": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "no version": (b"GET /\r\n\r\n", 505),
    "version 0.9": (b"GET / HTTP/0.9\r\nHost: t\r\n\r\n", 505),
    "version 2.0": (b"GET / HTTP/2.0\r\nHost: t\r\n\r\n", 505),
    "version 1.2": (b"GET / HTTP/1.2\r\nHost: t\r\n\r\n", 400),
    "version 3.0": (b"GET / HTTP/3.0\r\nHost: t\r\n\r\n", 400),
    "version 9.9": (b"GET / HTTP/9.9\r\nHost: t\r\n\r\n", 400),
    "a bare line feed after the version": (b"GET / HTTP/1.1\nHost: t\r\n\r\n", 400),
    "a bare line feed after a header": (b"GET / HTTP/1.1\r\nHost: t\n\r\n", 400),
    "bare line feeds alone": (b"GET / HTTP/1.1\nHost: t\n\n", 400),
    "a folded host": (b"GET / HTTP/1.1\r\nHost:\r\n t\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "a fragment": (b"GET /a#b HTTP/1.1\r\nHost: t\r\n\r\n", 400),
    "a space in the target": (b"GET /a b HTTP/1.1\r\nHost: t\r\n\r\n", 400),
    "a raw byte in the target": (b"GET /\xc3\xa9 HTTP/1.1\r\nHost: t\r\n\r\n", 400),
    "a bad escape in the path": (b"GET /a%zz HTTP/1.1\r\nHost: t\r\n\r\n", 400),
    "half an escape in the path": (b"GET /a%2 HTTP/1.1\r\nHost: t\r\n\r\n", 400),
    "a bad escape in an absolute target": (b"GET http://t/%?a HTTP/1.1\r\nHost: t\r\n\r\n", 400),
    "a target without a slash": (b"GET a HTTP/1.1\r\nHost: t\r\n\r\n", 400),
    "an unknown method": (b"BREW / HTTP/1.1\r\nHost: t\r\n\r\n", 405),
    "a method in small letters": (b"get / HTTP/1.1\r\nHost: t\r\n\r\n", 405),
    "a header without a colon": (b"GET / HTTP/1.1\r\nHost\r\n\r\n", 400),
    "a header without a name": (b"GET / HTTP/1.1\r\n: t\r\n\r\n", 400),
    "half of HTTP/2's preface": (b"PRI * HT", 400),
}


@pytest.mark.usefixtures("protocols")
@cases(("sent", "status"), MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_request_is_refused_and_the_connection_closed(sent: bytes, status: int) -> None:
    async with served() as host, host.connect() as other:
        await other.get()
        async with host.connect() as client:
            await client.send(sent)
            await client.stream.send_eof()  # type: ignore[attr-defined]
            if sent.startswith(b"PRI"):
                assert await client.ended()
            else:
                reply = await client.reply()
                assert reply.status == status
                assert reply.headers[b"connection"] == b"close"
                assert b"date" in reply.headers
                assert int(reply.headers[b"content-length"]) == len(reply.body) > 0
                assert await client.ended()
        assert (await other.get()).status == 200
        assert host.statistics.requests == 2


async def test_line_breaks_before_a_request_are_skipped() -> None:
    async with served() as host, host.connect() as client:
        assert (await client.request(b"\r\n\r\nGET /a HTTP/1.1\r\nHost: t\r\n\r\n")).body == b"GET /a"
