"""All secure links of a server pass their ciphertext over one desk: nothing of one ever reaches another."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from gateway.connections.limits import Limits
from gateway.connections.tls import SLICE, Desk, SecureLink
from tests.gateway.connections.http_server import authority


class Peer:
    """A client on memory BIOs, so that a test decides which ciphertext travels when."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = trio.socket.from_stdlib_socket(sock)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = authority().client_context()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    async def shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self.sock.send(self._outgoing.read())
                self._incoming.write(await self.sock.recv(1 << 16))
            else:
                await self.sock.send(self._outgoing.read())
                return

    def record(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._outgoing.read()

    async def read(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            try:
                found += self._tls.read(1 << 14)
            except ssl.SSLWantReadError:
                self._incoming.write(await self.sock.recv(1 << 16))
        return found


@asynccontextmanager
async def pairs(count: int = 2) -> AsyncIterator[tuple[Desk, list[tuple[SecureLink, Peer]]]]:
    desk, context = Desk(), authority().server_context()
    made = []
    for _ in range(count):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        made.append((SecureLink(ours, Limits(), context, desk), Peer(theirs)))
    async with trio.open_nursery() as nursery:
        for link, peer in made:
            nursery.start_soon(link.handshake)
            nursery.start_soon(peer.shake_hands)
    try:
        yield desk, made
    finally:
        for link, peer in made:
            link.close()
            peer.sock.close()


def is_clear(desk: Desk) -> bool:
    return not desk.incoming.pending and not desk.outgoing.pending


async def test_records_that_come_together_wait_with_their_link() -> None:
    async with pairs() as (desk, [(one, first), (two, second)]):
        await first.sock.send(first.record(b"a") + first.record(b"b") + first.record(b"c"))
        await second.sock.send(second.record(b"x"))
        assert await one.receive() == b"a"
        assert is_clear(desk)
        assert await two.receive() == b"x"
        assert await one.receive() == b"b"
        assert one.receive_nowait() == b"c"


async def test_a_record_in_pieces_is_put_together() -> None:
    async with pairs() as (desk, [(one, first), (two, second)]):
        record = first.record(b"whole")
        await first.sock.send(record[:9])
        assert one.receive_nowait() == b""
        assert is_clear(desk)
        await second.sock.send(second.record(b"x"))
        assert await two.receive() == b"x"
        await first.sock.send(record[9:])
        assert await one.receive() == b"whole"


async def test_the_alert_for_a_broken_record_goes_to_who_sent_it() -> None:
    async with pairs() as (desk, [(one, first), (two, second)]):
        await first.sock.send(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        with pytest.raises(ssl.SSLError):
            await one.receive()
        assert is_clear(desk)
        await two.send(b"fine")
        assert await second.read(4) == b"fine"
        with pytest.raises(ssl.SSLError, match="ALERT"):
            await first.read(1)


async def test_what_cannot_be_written_leaves_nothing_behind() -> None:
    async with pairs() as (desk, [(one, _), (two, second)]):
        one.finish()
        missed = SecureLink.broadcast([one, two], b"event")
        assert [(link, type(taken)) for link, taken in missed] == [(one, ssl.SSLError)]
        assert is_clear(desk)
        assert await second.read(5) == b"event"


@pytest.mark.parametrize("size", [1, 1300, SLICE, SLICE + 1, 3 * SLICE])
async def test_a_volley_reaches_all(size: int) -> None:
    async with pairs(70) as (desk, made):
        data = b"x" * size
        for link, _ in made:
            link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        assert SecureLink.broadcast([link for link, _ in made], data) == []
        assert is_clear(desk)
        for _, peer in made:
            assert await peer.read(size) == data


async def test_who_does_not_read_is_told_of_and_gets_the_rest_later() -> None:
    async with pairs() as (_, [(one, first), (two, second)]):
        data, sent = b"y" * SLICE, 0
        while not (missed := SecureLink.broadcast([one], data)):
            sent += SLICE
        assert missed == [(one, -SLICE)]
        assert SecureLink.broadcast([one, two], b"next") == [(one, 0)]
        assert await second.read(4) == b"next"
        assert len(await first.read(sent)) >= sent
        while one.has_unsent:
            await one.flush()
            await first.sock.recv(1 << 20)
