"""Requests that repeat a header block take a separate path through the connection, with the same results."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest
import trio

from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.message import ReplyLost, Request, Response
from tests.gateway.connections.http_server import Client, Host, served
from tests.settling import settled

LARGE = bytes(100_000)


class Handler:
    """A handler with a different response for each path."""

    def __init__(self) -> None:
        self.memory = MemoryBudget(1 << 30)
        self.entered = trio.Event()
        self.open = trio.Event()

    async def __call__(self, request: Request) -> Response:
        self.memory.take(request, 1000)
        match request.path:
            case "/raise":
                raise ValueError("a bug")
            case "/lost":
                raise ReplyLost
            case "/large":
                return Response(200, LARGE)
            case "/parts":
                return Response(200, b"", parts=self._parts())
            case "/gate":
                self.entered.set()
                await self.open.wait()
        return Response(200, request.path.encode())

    async def _parts(self) -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"


async def repeat(client: Client) -> None:
    """Make the header block of a GET known to the connection."""
    for path in ("/a", "/b", "/b"):
        assert (await client.get(path)).body == path.encode()


async def test_bad_escape_in_the_path_is_refused() -> None:
    handler = Handler()
    async with served(handler, memory=handler.memory) as host, host.connect() as client:
        await repeat(client)
        assert (await client.get("/a%2fb%C3%A9?x=%")).body == b"/a%2fb%C3%A9"
        refused = await client.get("/a%2fb%zz")
        assert (refused.status, refused.headers[b"connection"]) == (400, b"close")
        assert refused.body == b'the path of the request has an invalid URL escape "%zz"'


@pytest.mark.parametrize("secure", [False, True])
async def test_connection_continues_after_each_kind_of_response(secure: bool) -> None:
    handler = Handler()
    async with served(handler, memory=handler.memory) as host, _connect(host, secure) as client:
        await repeat(client)
        assert (await client.get("/large")).body == LARGE
        assert (await client.get("/raise")).status == 500
        parts = await client.get("/parts")
        assert parts.headers[b"transfer-encoding"] == b"chunked"
        body = b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
        assert await client.receive(len(body)) == body
        assert (await client.get("/c")).body == b"/c"
        await settled()
        assert handler.memory.held == 0
        assert host.statistics.requests == len(host.handled) == 7


async def test_connection_ends_without_a_response() -> None:
    handler = Handler()
    async with served(handler, memory=handler.memory) as host, host.connect() as client:
        await repeat(client)
        await client.send(b"GET /lost HTTP/1.1\r\nHost: test\r\n\r\n")
        assert await client.ended()
        await settled()
        assert handler.memory.held == 0


async def test_request_in_progress_completes_while_the_server_stops() -> None:
    handler = Handler()
    async with served(handler, memory=handler.memory) as host, host.connect() as client:
        await repeat(client)
        await client.send(b"GET /gate HTTP/1.1\r\nHost: test\r\n\r\n")
        await handler.entered.wait()
        host.stop.set()
        await settled()
        assert not host.stopped.is_set()
        handler.open.set()
        reply = await client.reply()
        assert (reply.body, reply.headers[b"connection"]) == (b"/gate", b"close")
        assert await client.ended()
        await host.stopped.wait()
        assert handler.memory.held == 0


def _connect(host: Host, secure: bool) -> AbstractAsyncContextManager[Client]:
    return host.connect_tls() if secure else host.connect()
