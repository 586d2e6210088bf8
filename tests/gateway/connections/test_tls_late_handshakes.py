"""A handshake whose time is up while its next words lie in the socket: the server is late, not the peer."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from gateway.connections.limits import Limits
from gateway.connections.tls import Desk, SecureLink
from tests.gateway.connections.http_server import authority
from tests.gateway.idle import until_idle


class Peer:
    """A client that says what a test lets it say."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = authority().client_context()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def speak(self) -> bytes:
        """Its next flight, made of what has arrived."""
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
    """Both ends of one; `came_to` says how it ended."""

    def __init__(self) -> None:
        ours, self.sock = socket.socketpair()
        ours.setblocking(False)
        self.sock.setblocking(False)
        self.link = SecureLink(ours, Limits(), authority().server_context(), Desk())
        self.peer = Peer(self.sock)
        self.came_to = ""

    async def run(self) -> None:
        try:
            await self.link.handshake()
        except trio.ClosedResourceError:
            self.came_to = "cut off"
        else:
            self.came_to = "agreed"

    async def hear_late(self, data: bytes) -> None:
        """The bytes arrive, and the time is up before the server has looked."""
        self.sock.send(data)
        self.link.interrupt()
        await until_idle()


@asynccontextmanager
async def shaking() -> AsyncIterator[Handshake]:
    handshake = Handshake()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handshake.run)
            await until_idle()
            yield handshake
    finally:
        handshake.sock.close()
        handshake.link.close()


async def test_words_that_wait_are_heard() -> None:
    async with shaking() as handshake:
        for _ in range(2):
            await handshake.hear_late(handshake.peer.speak())
        assert handshake.came_to == "agreed"


async def test_bytes_that_trickle_gain_little() -> None:
    async with shaking() as handshake:
        for byte in handshake.peer.speak()[:10]:
            await handshake.hear_late(bytes([byte]))
        assert handshake.came_to == "cut off"


async def test_silence_ends_it() -> None:
    async with shaking() as handshake:
        await handshake.hear_late(b"")
        assert handshake.came_to == "cut off"
