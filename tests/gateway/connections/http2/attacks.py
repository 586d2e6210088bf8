"""Helpers for tests of attacks: other clients, small socket buffers, and measures of work without a clock."""

from __future__ import annotations

import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import Any

import pytest
import trio

from rewound.gateway.connections.http2.connection import Http2Connection
from rewound.gateway.connections.http2.output import Output
from rewound.gateway.connections.listen import Listener
from rewound.gateway.message import EndReason, Finished, Request, Response
from tests.gateway.connections.http2.raw_client import ErrorCode, RawClient, raw_client
from tests.gateway.connections.http_server import Host

BUFFER = 64 * 1024
EVENTS = 2000  # bytes that each watch of `Watches` sends


@asynccontextmanager
async def attacked(host: Host, **options: Any) -> AsyncIterator[RawClient]:
    """A client that attacks; at the end, an older and a new client must still be served."""
    async with raw_client(host) as before:
        async with raw_client(host, **options) as client:
            yield client
            await is_served(before)
        async with raw_client(host) as after:
            await is_served(after)


async def is_served(client: RawClient) -> None:
    stream = await client.request("/other", method="PUT", body=b"other")
    assert (await client.response(stream)).status == 200


async def expect_calm(client: RawClient) -> None:
    """The server must end the connection because of a flood."""
    assert await client.connection_error() is ErrorCode.ENHANCE_YOUR_CALM


def block(path: str = "/", *, method: str = "GET") -> bytes:
    """The header block of a request that leaves the HPACK table unchanged, so that it can be sent repeatedly."""
    fields = ((2, method), (1, "test"), (4, path))
    return b"\x86" + b"".join(bytes([name, len(value)]) + value.encode() for name, value in fields)


def outputs() -> list[Output]:
    """What the connections of this process have queued to send: found in the tasks that run them."""
    found = [
        connection.output
        for task in _tasks(trio.lowlevel.current_root_task())
        if (connection := _connection(task)) is not None
    ]
    return [output for output in found if not output.failed]


def _tasks(task: trio.lowlevel.Task | None) -> Iterator[trio.lowlevel.Task]:
    if task is not None:
        yield task
        for nursery in task.child_nurseries:
            for child in nursery.child_tasks:
                yield from _tasks(child)


def _connection(task: trio.lowlevel.Task) -> Http2Connection | None:
    """The connection whose `run` this task is in."""
    coroutine: Any = task.coro
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, Http2Connection):
            return owner if frame.f_code.co_name == "run" else None
        coroutine = coroutine.cr_await
    return None


def shrink(client: RawClient) -> None:
    """Let the kernel buffer little for a client that does not read."""
    stream = client.stream
    if isinstance(stream, trio.SSLStream):
        stream = stream.transport_stream
    assert isinstance(stream, trio.SocketStream)
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel buffers little of what the server sends."""
    accept = Listener.accept

    def small(listener: Listener, limit: int) -> Iterator[socket.socket]:
        for sock in accept(listener, limit):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
            yield sock

    monkeypatch.setattr(Listener, "accept", small)


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Count calls of the server's functions by name: a measure of work that is independent of the machine's load."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and "/gateway/connections/" in frame.f_code.co_filename:
            calls[frame.f_code.co_name] += "/tests/" not in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


class Endless:
    """A watch that sends everything, counts how often it was woken, and does not end."""

    binary = False

    def __init__(self, handler: Watches) -> None:
        self._handler = handler

    async def run(self, connection: Any, framing: Callable[[bytes], bytes]) -> Finished:
        await self.start(connection, framing)
        await trio.sleep_forever()
        return await self.end()

    async def start(self, connection: Any, framing: Callable[[bytes], bytes]) -> None:
        left = memoryview(bytes(EVENTS))
        while left:
            left = left[connection.transmit(left) :]
            if left:
                await connection.flush()
                self._handler.woken += 1
        self._handler.complete += 1

    def should_end(self) -> bool:
        return False

    async def end(self) -> Finished:
        return Finished(EndReason.TIME_UP)

    def leave(self) -> None:
        pass


class Watches:
    """A handler that treats requests with a query as watches."""

    def __init__(self) -> None:
        self.woken = self.complete = 0

    async def __call__(self, request: Request) -> Response:
        return Response(200, b"", stream=Endless(self) if request.query else None)
