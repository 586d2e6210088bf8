"""A stopping server waits for handlers; silent clients in any state delay it only by seconds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.connections.limits import DRAIN_TICK, Limits
from rewound.gateway.message import Request, Response
from tests.gateway.connections.conftest import BUFFER, limit_receive_buffer
from tests.gateway.connections.http_server import Client, hello, served
from tests.settling import advance, seconds_to_stop, settled

pytestmark = pytest.mark.usefixtures("small_send_buffers")

PART, PARTS = 8 * BUFFER, 12
LARGE = b"x" * PARTS * PART  # more than the kernel buffers for a peer that does not read
GET = b"GET / HTTP/1.1\r\nHost: t\r\n\r\n"
HALF_HEAD = b"GET / HTTP/1.1\r\nHost:"
HALF_BODY = b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nhalf"


async def large(request: Request) -> Response:
    return Response(200, LARGE)


async def silent(client: Client) -> None:
    """Connect, and send nothing; over TLS, complete the handshake."""
    if isinstance(client.stream, trio.SSLStream):
        await client.stream.do_handshake()


async def half_a_head(client: Client) -> None:
    await client.send(HALF_HEAD)


async def half_a_head_after_a_request(client: Client) -> None:
    await client.send(GET + HALF_HEAD)


async def half_a_body(client: Client) -> None:
    await client.send(HALF_BODY)


async def a_body_that_may_come(client: Client) -> None:
    await client.send(
        HALF_BODY.removesuffix(b"half").replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    )


async def no_reading(client: Client) -> None:
    await client.send(GET)


async def no_reading_of_several_responses(client: Client) -> None:
    await client.send(GET * 3 + HALF_HEAD)


async def refused_and_not_closed(client: Client) -> None:
    await client.send(b"no HTTP\r\n\r\n")
    await client.reply()


Behave = Callable[[Client], Awaitable[None]]
BEHAVIOURS = [
    silent,
    half_a_head,
    half_a_head_after_a_request,
    half_a_body,
    a_body_that_may_come,
    no_reading,
    no_reading_of_several_responses,
    refused_and_not_closed,
]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("behave", BEHAVIOURS)
async def test_silent_client_delays_the_stop_by_seconds(
    behave: Behave, tls: bool, mock_clock: MockClock
) -> None:
    handle = large if behave in (no_reading, no_reading_of_several_responses) else hello
    async with (
        served(handle, grace=60) as host,
        host.connect_tls() if tls else host.connect() as client,
    ):
        limit_receive_buffer(client.stream)
        await behave(client)
        assert await seconds_to_stop(host, mock_clock) <= 4


@pytest.mark.parametrize(
    "sent", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/1.1\r\n\r\n"]
)
async def test_client_without_a_handshake_delays_the_stop_by_seconds(
    sent: bytes, mock_clock: MockClock
) -> None:
    async with served(grace=60) as host, await trio.open_tcp_stream(*host.secure) as client:
        if sent:
            await client.send_all(sent)
        assert await seconds_to_stop(host, mock_clock) <= 3


async def test_connections_of_the_backlog_delay_the_stop_by_seconds(mock_clock: MockClock) -> None:
    async with served(grace=60) as host:
        plain, tls, other = (trio.socket.socket() for _ in range(3))
        with plain, tls, other:
            await plain.connect(host.insecure)
            await plain.send(HALF_BODY)
            await tls.connect(host.secure)
            await other.connect(host.secure)
            await other.send(b"\x16")
            host.stop.set()
            assert await seconds_to_stop(host, mock_clock) <= 4


async def test_client_of_half_a_request_gets_408(mock_clock: MockClock) -> None:
    async with served(grace=60) as host, host.connect() as head, host.connect_tls() as body:
        await head.send(HALF_HEAD)
        await body.send(HALF_BODY)
        await settled()
        host.stop.set()
        await advance(mock_clock, Limits().drain_seconds - DRAIN_TICK)
        assert host.statistics.open == 2
        await advance(mock_clock, 1)
        for client in (head, body):
            reply = await client.reply()
            assert (reply.status, reply.headers[b"connection"]) == (408, b"close")


async def test_steady_upload_outlasts_the_limit_of_silent_clients(mock_clock: MockClock) -> None:
    async with served(grace=60) as host, host.connect() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 200000\r\n\r\n")
        await settled()
        host.stop.set()
        for _ in range(10):
            await advance(mock_clock, 1)
            await client.send(b"x" * 20_000)
        assert (await client.reply()).status == 200
        await host.stopped.wait()


async def test_steady_reader_outlasts_the_limit_of_silent_clients(
    mock_clock: MockClock,
) -> None:
    async with served(large, grace=60) as host, host.connect() as client:
        limit_receive_buffer(client.stream)
        await client.send(GET)
        await settled()
        host.stop.set()
        received = 0
        for second in range(1, PARTS):
            await advance(mock_clock, 1)
            while received < second * PART:
                received += len(await client.stream.receive_some(65536))
        while part := await client.stream.receive_some(65536):
            received += len(part)
        assert received > len(LARGE)
        await host.stopped.wait()


async def test_response_of_a_long_handler_is_sent(mock_clock: MockClock) -> None:
    async def handle(request: Request) -> Response:
        await trio.sleep(50)
        return Response(200, b"late")

    async with served(handle, grace=60) as host, host.connect() as plain, host.connect_tls() as tls:
        for client in (plain, tls):
            await client.send(GET)
        await settled()
        host.stop.set()
        await advance(mock_clock, 49)
        assert host.statistics.open == 2
        await advance(mock_clock, 2)
        assert [(await client.reply()).body for client in (plain, tls)] == [b"late"] * 2
        await host.stopped.wait()
