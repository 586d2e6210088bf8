"""Watches as a client sees them, over every transport; a truncated event or a stray byte fails the test.

    async with served() as api, watching(api, api.path("configmaps"), resourceVersion=version) as watch:
        await api.create("configmaps", config_map("a"))
        assert await watch.types(1) == ["ADDED"]

A task of the nursery reads continuously, unless the watch is opened `stalled`; `events` has the events so far.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest
import trio
import trio_websocket

from tests.actors.object_store import Document
from tests.gateway.api import ADMIN, Api
from tests.gateway.watch.http2_watches import DEFAULT_WINDOW, WIDE, Connection
from tests.gateway.watch.watch_stream import FramingError
from tests.gateway.watch.watch_stream import Watch as Watch
from tests.gateway.watch.watch_stream import type_and_name as type_and_name
from tests.gateway.watch.watch_stream import with_query as with_query

# A receive buffer so small that a stalled client soon falls behind.
SMALL_WINDOW = 4096
SECURE = ("tls", "wss", "h2s")
HTTP2 = ("h2", "h2s", "h2-window")


def version(event: Document) -> int:
    return int(event["object"]["metadata"]["resourceVersion"])


def versions(events: list[Document]) -> list[int]:
    return [version(event) for event in events]


def assert_ascending(events: list[Document]) -> None:
    found = versions(events)
    assert found == sorted(set(found)), f"versions do not ascend: {found}"


class Reader(Protocol):
    async def read(self) -> None:
        """Read to the end of the stream."""


class Chunks:
    """A watch over HTTP/1.1: every chunk is exactly one event and its line feed."""

    def __init__(self, stream: trio.abc.Stream, watch: Watch) -> None:
        self.stream = stream
        self._watch = watch
        self.buffer = b""

    async def open(self, path: str, token: str | None, headers: dict[str, str]) -> None:
        await self.stream.send_all(request(path, token, headers))

    async def read(self) -> None:
        try:
            await self.read_head()
            if self._watch.status == 200:
                await self._read_chunks()
            self._watch.finish()
        except (FramingError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._watch.finish(broken=error)

    async def read_head(self) -> None:
        while b"\r\n\r\n" not in self.buffer:
            await self._more()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        self._watch.status = int(first.split()[1])
        self._watch.headers = dict(line.split(b": ", 1) for line in lines)

    async def _read_chunks(self) -> None:
        assert self._watch.headers[b"transfer-encoding"] == b"chunked"
        while size := int(await self._until(b"\r\n"), 16):
            while len(self.buffer) < size + 2:
                await self._more()
            chunk, end, self.buffer = (
                self.buffer[:size],
                self.buffer[size : size + 2],
                self.buffer[size + 2 :],
            )
            if end != b"\r\n" or not chunk.endswith(b"\n") or chunk.count(b"\n") != 1:
                raise FramingError(f"a chunk that is no event: {chunk + end!r}")
            self._watch.add(chunk)
        if await self._until(b"\r\n"):
            raise FramingError("trailers")

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self.buffer:
            await self._more()
        found, _, self.buffer = self.buffer.partition(mark)
        return found

    async def _more(self) -> None:
        data = await self.stream.receive_some(65536)
        if not data:
            raise FramingError(f"the connection ended after {self.buffer[-200:]!r}")
        self.buffer += data


async def read_lines(api: Api, target: str, headers: dict[str, str], watch: Watch) -> None:
    """A watch with the API's client, over its version of HTTP: every line is an event."""
    try:
        async with api.client.stream("GET", target, headers=headers, timeout=None) as response:
            watch.headers = dict(response.headers.raw)
            watch.status = response.status_code
            async for line in response.aiter_lines():
                watch.add(line.encode())
            watch.finish()
    except (FramingError, httpx.TransportError, EOFError) as error:
        watch.finish(broken=error)


def request(path: str, token: str | None = ADMIN, headers: dict[str, str] | None = None) -> bytes:
    sent = {"Host": "t", **({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    return f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()


class Messages:
    """A watch over a WebSocket: every message is exactly one event."""

    def __init__(self, connection: trio_websocket.WebSocketConnection, watch: Watch) -> None:
        self.connection = connection
        self._watch = watch

    async def read(self) -> None:
        watch = self._watch
        watch.status = 101
        try:
            while True:
                message = await self.connection.get_message()
                if not isinstance(message, str) or message.endswith("\n"):
                    raise FramingError(f"no text frame of one event: {message!r}")
                watch.add(message.encode())
        except trio_websocket.ConnectionClosed as closed:
            watch.close_code = closed.reason.code if closed.reason is not None else None
            clean = watch.close_code in (1000, 1001, 1008, 1011)
            watch.finish(broken=None if clean else closed)
        except FramingError as error:
            watch.finish(broken=error)


def client_context(api: Api, *protocols: str) -> ssl.SSLContext:
    authority: Path = api.settings.pki / "ca.crt"
    context = ssl.create_default_context(cafile=str(authority))
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


async def connect(api: Api, *protocols: str, secure: bool = False, small: bool = False) -> trio.abc.Stream:
    address = api.addresses.secure if secure else api.addresses.insecure
    assert address is not None
    sock = trio.socket.socket()
    if small:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_WINDOW)
    await sock.connect(address)
    stream = trio.SocketStream(sock)
    if not secure:
        return stream
    context = client_context(api, *protocols)
    return trio.SSLStream(stream, context, server_hostname="localhost", https_compatible=True)


@asynccontextmanager
async def watching(
    api: Api,
    path: str,
    transport: str = "plain",
    *,
    stalled: bool = False,
    token: str | None = ADMIN,
    headers: dict[str, str] | None = None,
    protocols: tuple[str, ...] = (),
    **query: Any,
) -> AsyncIterator[Watch]:
    """Open a watch that a task reads until the end of the block; `stalled`: only after `resume`."""
    target = with_query(path, watch=1, **query) if "/watch/" not in path else with_query(path, **query)
    if api.has_client and transport == "plain":
        async with trio.open_nursery() as nursery:
            watch = Watch()
            sent = {**({"authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
            nursery.start_soon(read_lines, api, target, sent, watch)
            await wait_opened(watch)
            yield watch
            nursery.cancel_scope.cancel()
        return
    alpn = ("h2",) if transport in HTTP2 else ()
    async with trio.open_nursery() as nursery:
        stream = await connect(api, *alpn, secure=transport in SECURE, small=stalled)
        if transport in HTTP2:
            watch = await _open_http2(nursery, stream, target, token, headers, stalled and transport)
        else:
            watch = Watch()
            reader: Reader
            if transport in ("ws", "wss"):
                sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
                connection = await trio_websocket.wrap_client_stream(
                    nursery,
                    stream,
                    "localhost",
                    target,
                    subprotocols=protocols,
                    extra_headers=[(name.encode(), value.encode()) for name, value in sent.items()],
                    message_queue_size=1,
                )
                reader = Messages(connection, watch)
            else:
                reader = Chunks(stream, watch)
                await reader.open(target, token, headers or {})
            watch.resume = lambda: nursery.start_soon(reader.read)  # type: ignore[attr-defined]
            watch.reader = reader  # type: ignore[attr-defined]
            if not stalled:
                nursery.start_soon(reader.read)
        if not stalled:
            await wait_opened(watch)
        try:
            yield watch
        finally:
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):  # a Cancelled here would replace a failed assertion
                await trio.aclose_forcefully(stream)


async def _open_http2(
    nursery: trio.Nursery,
    stream: trio.abc.Stream,
    target: str,
    token: str | None,
    headers: dict[str, str] | None,
    stalled: str | bool,
) -> Watch:
    """A watch alone on its connection. Stalled over "h2-window" it reads but opens no window, otherwise it does not
    read.
    """
    by_window = stalled == "h2-window"
    connection = Connection(stream, window=WIDE if stalled and not by_window else DEFAULT_WINDOW)
    await connection.open()
    watch = await connection.request(target, reading=not by_window, token=token, headers=headers)

    def resume() -> None:
        if by_window:
            nursery.start_soon(connection.resume, watch)
        else:
            nursery.start_soon(connection.read)

    watch.resume = resume  # type: ignore[attr-defined]
    if by_window or not stalled:
        nursery.start_soon(connection.read)
    return watch


async def wait_opened(watch: Watch) -> None:
    """Wait for the response head: all later writes are in the stream."""
    with trio.fail_after(60):
        while not watch.status:
            await trio.lowlevel.checkpoint()


def ports(transport: str) -> dict[str, int]:
    """Return the settings of a server for this transport: certificates are created only if needed."""
    return {"secure_port": 2} if transport in SECURE else {}


transports = pytest.mark.parametrize("transport", ["plain", "tls", "ws", "wss", "h2"])
# Over HTTP/2 a client stalls in two ways: it does not read, or it reads and opens no window.
stalling_transports = pytest.mark.parametrize(
    "transport", ["plain", "tls", "ws", "wss", "h2", "h2s", "h2-window"]
)
stalling_plain_transports = pytest.mark.parametrize("transport", ["plain", "h2", "h2-window"])
