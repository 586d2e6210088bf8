"""SIGTERM ends a process cleanly while it has silent clients of every kind at once.

test_silent_clients.py and test_*shutdown.py in tests/gateway/connections and tests/gateway/watch prove the seconds in
virtual time; the limit here is what a busy machine needs.
"""

from __future__ import annotations

import shutil
import signal
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.gateway.api import ADMIN
from tests.gateway.connections.http2.raw_client import PREFACE, RawClient, Setting, rst_stream, settings
from tests.gateway.https import certificates
from tests.gateway.processes import Server, process
from tests.ports import reserve_port

PATH = "/api/v1/namespaces/default/configmaps"
WATCH = PATH + "?watch=1"
LATER = WATCH + "&resourceVersion={head}"  # a watch without events
AUTHORIZATION = f"Authorization: Bearer {ADMIN}\r\n"
UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
)
HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
BIG, COUNT = 900_000, 8  # together more than the kernel buffers for a client that does not read
SMALL_WINDOW = 4096


def get(path: str, more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: t\r\n{AUTHORIZATION}{more}\r\n".encode()


class Clients:
    """Opens connections to one server; each method sends something and then stays silent."""

    def __init__(self, server: Server, secure: int, context: ssl.SSLContext, stack: AsyncExitStack) -> None:
        self._ports = {False: server.port, True: secure}
        self._context = context
        self._stack = stack

    async def connect(self, *, secure: bool = False) -> trio.SocketStream:
        sock = trio.socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_WINDOW)
        await sock.connect(("127.0.0.1", self._ports[secure]))
        return await self._stack.enter_async_context(trio.SocketStream(sock))

    async def connect_tls(self, protocol: str) -> trio.abc.Stream:
        self._context.set_alpn_protocols([protocol])
        stream = trio.SSLStream(
            await self.connect(secure=True), self._context, server_hostname="localhost", https_compatible=True
        )
        await stream.do_handshake()
        return stream

    async def http1(self, sent: bytes, *, answered: bool = False) -> None:
        """Send these bytes over a plain connection and over TLS; `answered`: read the head of the response."""
        for stream in (await self.connect(), await self.connect_tls("http/1.1")):
            await stream.send_all(sent)
            if answered:
                assert (await stream.receive_some(4096)).startswith(b"HTTP/1.1 ")

    async def http2(self, *, secure: bool, window: int = 65535) -> RawClient:
        client = RawClient(await self.connect_tls("h2") if secure else await self.connect())
        await client.open({Setting.INITIAL_WINDOW_SIZE: window})
        return client


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[Server, Clients]]:
    shutil.copytree(certificates("cluster"), folder / "data" / "pki")
    context = ssl.create_default_context(cafile=str(folder / "data" / "pki" / "ca.crt"))
    secure = reserve_port()
    async with process(folder, "--secure-port", str(secure)) as server, AsyncExitStack() as stack:
        for number in range(COUNT):
            body = {"metadata": {"name": f"c-{number}"}, "data": {"big": "x" * BIG}}
            assert (await server.client.post(PATH, json=body)).status_code == 201
        yield server, Clients(server, secure, context, stack)


async def open_silent_http1(clients: Clients, head: str) -> None:
    await clients.connect()
    await clients.connect(secure=True)
    await (await clients.connect(secure=True)).send_all(HALF_A_HELLO)
    await clients.http1(b"GET / HT")
    await clients.http1(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nhalf")
    await clients.http1(get("/livez"), answered=True)
    await clients.http1(get(PATH))
    await clients.http1(get(PATH), answered=True)
    await clients.http1(get(WATCH), answered=True)
    await clients.http1(get(WATCH, UPGRADE), answered=True)
    await clients.http1(get(LATER.format(head=head)), answered=True)
    await clients.http1(get(LATER.format(head=head), UPGRADE), answered=True)


async def open_silent_http2(clients: Clients, head: str) -> None:
    for secure in (False, True):
        stream = await clients.connect_tls("h2") if secure else await clients.connect()
        await stream.send_all(PREFACE + settings())
        reset = await clients.http2(secure=secure)
        watch = await request(reset, LATER.format(head=head))
        await reset.head(watch)
        await reset.send(rst_stream(watch))
        for path in (PATH, WATCH, LATER.format(head=head)):
            for window in (0, 65535):
                client = await clients.http2(secure=secure, window=window)
                await client.head(await request(client, path))
        await request(await clients.http2(secure=secure), PATH)
        upload = await clients.http2(secure=secure)
        await request(upload, PATH, method="POST", end=False)


async def request(client: RawClient, path: str, *, method: str = "GET", end: bool = True) -> int:
    token = (("authorization", f"Bearer {ADMIN}"),)
    return await client.request(path, method=method, fields=token, end=end)


@pytest.mark.slow
async def test_process_with_silent_clients_of_every_kind_ends_cleanly(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, clients):
        head = (await server.client.get(PATH + "?limit=1")).json()["metadata"]["resourceVersion"]
        await server.client.aclose()
        await open_silent_http1(clients, head)
        await open_silent_http2(clients, head)
        server.signal(signal.SIGTERM)
        with trio.fail_after(20):
            assert await server.process.wait() == 0
