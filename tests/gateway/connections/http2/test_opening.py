"""How an HTTP/2 connection opens (RFC 9113, section 3.4), by prior knowledge and with TLS."""

import pytest
from trio.testing import MockClock

from tests.cases import cases
from tests.gateway.connections.http2.handlers import echo
from tests.gateway.connections.http2.raw_client import (
    PREFACE,
    SETTINGS,
    Setting,
    raw_client,
    settings,
)
from tests.gateway.connections.http_server import served
from tests.settling import advance, settled


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


@cases("cut", [1, 3, 13, 14, 20, 23, 24, 28])
async def test_preface_may_arrive_in_parts(cut: int) -> None:
    async with served(echo) as host, raw_client(host, handshake=False) as client:
        opening = PREFACE + settings()
        await client.send(opening[:cut])
        await settled()
        await client.send(opening[cut:])
        stream = await client.request(method="PUT", body=b"whole")
        assert (await client.response(stream)).body == b"whole"


@cases("cut", [1, 2, 3])
async def test_http_1_request_that_begins_like_the_preface(cut: int) -> None:
    async with served() as host, host.connect() as client:
        request = (
            b"PRI /path HTTP/1.1\r\nHost: test\r\n\r\n"
            if cut > 1
            else b"PUT / HTTP/1.1\r\nHost: test\r\n\r\n"
        )
        await client.send(request[:cut])
        await settled()
        reply = await client.request(request[cut:])
        assert reply.status == (200 if cut == 1 else 400)


async def test_beginning_of_a_preface_times_out(mock_clock: MockClock) -> None:
    async with served() as host, host.connect() as client:
        await client.send(b"PRI * HT")
        await advance(mock_clock, 33)
        assert (await client.reply()).status == 408
        assert await client.ended()


async def test_client_that_ends_within_the_preface_is_forgotten() -> None:
    async with served() as host:
        async with host.connect() as client:
            await client.send(b"PRI * HT")
            await settled()
            assert host.statistics.open == 1
        while host.statistics.open:
            await settled()
