"""When a handshake's deadline passes after the peer's bytes have arrived, the server extends the deadline."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.tls import SharedBios, TlsTransport
from tests.gateway.connections.http_server import authority
from tests.settling import settled


class Peer:
    """A client that produces its handshake bytes when a test asks for them."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = authority().client_context()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def next_flight(self) -> bytes:
        """Return its next flight, after reading what has arrived."""
        try:
            self._incoming.write(self._sock.recv(1 << 16))
        except BlockingIOError:
            pass
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return self._outgoing.read()


class Handshake:
    """Both ends of a handshake; `outcome` is how it ended."""

    def __init__(self) -> None:
        ours, self.sock = socket.socketpair()
        ours.setblocking(False)
        self.sock.setblocking(False)
        self.transport = TlsTransport(ours, Limits(), authority().server_context(), SharedBios())
        self.peer = Peer(self.sock)
        self.outcome = ""

    async def run(self) -> None:
        try:
            await self.transport.handshake()
        except trio.ClosedResourceError:
            self.outcome = "timed out"
        else:
            self.outcome = "completed"

    async def deliver_late(self, data: bytes) -> None:
        """Let the deadline pass after the bytes have arrived, before the server reads them."""
        self.sock.send(data)
        self.transport.interrupt()
        await settled()


@asynccontextmanager
async def handshaking() -> AsyncIterator[Handshake]:
    handshake = Handshake()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handshake.run)
            await settled()
            yield handshake
    finally:
        handshake.sock.close()
        handshake.transport.close()


async def test_bytes_that_arrived_before_the_deadline_are_read() -> None:
    async with handshaking() as handshake:
        for _ in range(2):
            await handshake.deliver_late(handshake.peer.next_flight())
        assert handshake.outcome == "completed"


async def test_byte_by_byte_handshake_times_out() -> None:
    async with handshaking() as handshake:
        for byte in handshake.peer.next_flight()[:10]:
            await handshake.deliver_late(bytes([byte]))
        assert handshake.outcome == "timed out"


async def test_handshake_without_bytes_times_out() -> None:
    async with handshaking() as handshake:
        await handshake.deliver_late(b"")
        assert handshake.outcome == "timed out"
