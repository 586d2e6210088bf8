"""How an HTTP/2 connection opens (RFC 9113, section 3.4), by prior knowledge and with TLS."""

import pytest

from gateway.requests.request import Request, Response
from tests.gateway.connections.http2.raw_client import (
    PREFACE,
    SETTINGS,
    Setting,
    raw_client,
    settings,
)
from tests.gateway.connections.http_server import served


async def echo(request: Request) -> Response:
    return Response(200, request.body, b"text/plain")


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
async def test_requests_after_the_opening_get_their_responses(tls: bool) -> None:
    async with served(echo) as host, raw_client(host, tls=tls) as client:
        first = await client.request(method="PUT", body=b"content")
        second = await client.request("/path")
        assert (await client.response(second)).body == b""
        status, headers, body = await client.response(first)
        assert (status, headers[b"content-length"], body) == (200, b"7", b"content")


async def test_first_frame_of_the_server_is_settings() -> None:
    async with served() as host, raw_client(host, handshake=False) as client:
        await client.send(PREFACE, settings())
        first = await client.take(lambda frame: True)
        assert first.kind == SETTINGS and not first.ack
        assert first.settings[Setting.MAX_CONCURRENT_STREAMS] > 0


async def test_requests_may_follow_the_preface_at_once() -> None:
    async with served(echo) as host, raw_client(host, handshake=False) as client:
        await client.send(PREFACE, settings())
        stream = await client.request(method="PUT", body=b"early")
        assert (await client.response(stream)).body == b"early"
