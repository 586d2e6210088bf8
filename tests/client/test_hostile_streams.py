"""Servers that never end what they send: a response is given up, and takes bounded memory."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from rewound.client import streaming
from rewound.client.credentials import Credential, FixedCredential
from rewound.client.errors import ClientError
from rewound.client.streaming import StreamingSession
from rewound.client.target import Target

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
Serve = Callable[[trio.SocketStream], Awaitable[None]]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@asynccontextmanager
async def session_to(respond: Serve) -> AsyncIterator[StreamingSession]:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        try:
            await respond(stream)
        except trio.BrokenResourceError:
            pass  # the client has left

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        session = StreamingSession(
            Target(f"http://127.0.0.1:{port}", FixedCredential(Credential()), "a test")
        )
        try:
            yield session
        finally:
            with trio.CancelScope(shield=True):
                await session.aclose()
            nursery.cancel_scope.cancel()


async def drip(stream: trio.SocketStream) -> None:
    while True:
        await trio.sleep(5)
        await stream.send_all(chunk(b" "))


async def slow_body(stream: trio.SocketStream) -> None:
    await stream.send_all(CHUNKED + b"\r\n")
    await drip(stream)


async def slow_error(stream: trio.SocketStream) -> None:
    await stream.send_all(CHUNKED.replace(b"200 OK", b"500 Oh") + b"\r\n")
    await drip(stream)


async def slow_head(stream: trio.SocketStream) -> None:
    await stream.send_all(b"HTTP/1.1 200 OK\r\n")
    while True:
        await trio.sleep(5)
        await stream.send_all(b"a: b\r\n")


@pytest.mark.parametrize(
    ("respond", "message"),
    [(slow_body, "less than 16 KiB"), (slow_error, "less than 16 KiB"), (slow_head, "did not respond")],
)
async def test_document_that_drips_is_given_up(respond: Serve, message: str, autojump_clock: object) -> None:
    async with session_to(respond) as session:
        with trio.fail_after(600), pytest.raises(ClientError, match=message):
            await session.get_document("/")


async def test_slow_but_steady_document_is_read(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    monkeypatch.setattr(streaming, "SLOWEST", 1)

    async def respond(stream: trio.SocketStream) -> None:
        await stream.send_all(CHUNKED + b"\r\n" + chunk(b"{"))
        for _ in range(40):
            await trio.sleep(5)
            await stream.send_all(chunk(b"     "))
        await stream.send_all(chunk(b"}") + b"0\r\n\r\n")

    async with session_to(respond) as session:
        assert await session.get_document("/") == {}


async def test_compressed_response_over_http1_is_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The HTTP library would return all that a part becomes at once."""
    monkeypatch.setattr(streaming, "is_local", lambda _: False)
    bomb, sizes = gzip.compress(bytes(20 << 20)), list[int]()

    async def respond(stream: trio.SocketStream) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
        await stream.send_all(head + bomb)

    async def take(part: bytes) -> None:
        sizes.append(len(part))

    async with session_to(respond) as session:
        await session.read_parts("/", 60, take)
    assert sum(sizes) == 20 << 20 and max(sizes) == 1 << 20


async def test_line_in_many_parts_is_whole_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "MAX_LINE", 1000)
    found: list[bytes] = []

    async def respond(stream: trio.SocketStream) -> None:
        await stream.send_all(CHUNKED + b"\r\n" + b"".join(chunk(b"x") for _ in range(900)))
        await stream.send_all(chunk(b"\nshort\n") + b"".join(chunk(b"y" * 100) for _ in range(20)))
        await stream.send_all(chunk(b"\n"))

    async def take(line: bytes) -> None:
        found.append(line)

    async with session_to(respond) as session:
        with pytest.raises(ClientError, match="a watch event of more than"):
            await session.read_lines("/", 60, take)
    assert found == [b"x" * 900, b"short"]
