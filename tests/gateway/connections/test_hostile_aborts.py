"""Clients that disconnect early: an incomplete request is never handled, and its memory is freed."""

import pytest
import trio

from rewound.gateway.message import Request, Response
from tests.cases import cases
from tests.gateway.connections.http_server import Client, Host, served
from tests.settling import settled

UPLOADS = {
    "in the head": b"POST / HTTP/1.1\r\nHost: t\r\nContent-",
    "in the body": b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\nabc",
    "in a chunk": b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    "before the last chunk": b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
}


async def deserted(host: Host) -> None:
    while host.statistics.open:
        await settled()


@cases("part", UPLOADS.values(), ids=UPLOADS.keys())
@cases("secure", [False, True], ids=["plain", "tls"])
@pytest.mark.usefixtures("protocols")
async def test_aborted_upload_is_not_handled(part: bytes, secure: bool) -> None:
    async with served() as host:
        async with host.connect_tls() if secure else host.connect() as client:
            await client.send(part)
            await settled()
        await deserted(host)
        assert (host.handled, host.statistics.failed) == ([], 0)


@pytest.mark.usefixtures("protocols")
async def test_half_closed_connection_gets_its_responses() -> None:
    async with served() as host, host.connect() as client:
        await client.send(b"GET /a HTTP/1.1\r\nHost: t\r\n\r\nGET /b HTTP/1.1\r\nHost: t\r\n\r\n")
        await client.stream.send_eof()  # type: ignore[attr-defined]
        assert [(await client.reply()).body for _ in range(2)] == [b"GET /a", b"GET /b"]
        assert await client.ended()


@pytest.mark.usefixtures("protocols")
async def test_half_closed_connection_gets_a_late_response() -> None:
    ready = trio.Event()

    async def handle(request: Request) -> Response:
        await ready.wait()
        return Response(200, request.body)

    async with served(handle) as host, host.connect() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nbody")
        await client.stream.send_eof()  # type: ignore[attr-defined]
        await settled()
        ready.set()
        assert (await client.reply()).body == b"body"


@pytest.mark.usefixtures("protocols")
async def test_disconnect_before_the_response_affects_no_other_client() -> None:
    started, ready = trio.Event(), trio.Event()

    async def handle(request: Request) -> Response:
        if request.path == "/wait":
            started.set()
            await ready.wait()
        return Response(200, b"x" * 1_000_000)

    async with served(handle) as host, host.connect() as other:
        async with host.connect() as client:
            await client.send(b"GET /wait HTTP/1.1\r\nHost: t\r\n\r\n")
            await started.wait()
        ready.set()
        assert len((await other.get()).body) == 1_000_000
        while host.statistics.open > 1:
            await settled()
        assert host.statistics.failed == 0


@pytest.mark.usefixtures("protocols")
async def test_reset_affects_no_other_client() -> None:
    async with served() as host, host.connect() as other:
        async with host.connect() as client:
            await client.send(b"GET / HTT")
            await settled()
            stream = client.stream
            assert isinstance(stream, trio.SocketStream)
            stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        assert (await other.get()).status == 200
        while host.statistics.open > 1:
            await settled()


@pytest.mark.usefixtures("protocols")
async def test_half_closed_tls_connection_gets_its_response() -> None:
    async with served() as host, host.connect_tls() as client:
        assert isinstance(client, Client)
        await client.send(b"GET /a HTTP/1.1\r\nHost: t\r\n\r\n")
        stream = client.stream
        assert isinstance(stream, trio.SSLStream)
        assert isinstance(stream.transport_stream, trio.SocketStream)
        await stream.transport_stream.send_eof()
        assert (await client.reply()).body == b"GET /a"
