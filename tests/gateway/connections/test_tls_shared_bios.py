"""All TLS transports of a server share one pair of BIOs: no bytes of one ever reach another."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.tls import SLICE, SharedBios, TlsTransport
from tests.gateway.connections.http_server import authority


class Peer:
    """A client on memory BIOs, so that a test decides which ciphertext is sent when."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = trio.socket.from_stdlib_socket(sock)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = authority().client_context()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    async def handshake(self) -> None:
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

    def close_notify(self) -> bytes:
        with pytest.raises(ssl.SSLWantReadError):  # for the close_notify of the other side
            self._tls.unwrap()
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
async def pairs(count: int = 2) -> AsyncIterator[tuple[SharedBios, list[tuple[TlsTransport, Peer]]]]:
    bios, context = SharedBios(), authority().server_context()
    made = []
    for _ in range(count):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        made.append((TlsTransport(ours, Limits(), context, bios), Peer(theirs)))
    async with trio.open_nursery() as nursery:
        for transport, peer in made:
            nursery.start_soon(transport.handshake)
            nursery.start_soon(peer.handshake)
    try:
        yield bios, made
    finally:
        for transport, peer in made:
            transport.close()
            peer.sock.close()


def is_empty(bios: SharedBios) -> bool:
    return not bios.incoming.pending and not bios.outgoing.pending


async def test_records_received_together_stay_with_their_transport() -> None:
    async with pairs() as (bios, [(one, first), (two, second)]):
        await first.sock.send(first.record(b"a") + first.record(b"b") + first.record(b"c"))
        await second.sock.send(second.record(b"x"))
        assert await one.receive() == b"abc"
        assert is_empty(bios)
        assert await two.receive() == b"x"
        whole, late = first.record(b"d") + first.record(b"e"), first.record(b"f")
        await first.sock.send(whole + late[:9])
        assert await one.receive() == b"de"
        assert is_empty(bios)
        await first.sock.send(late[9:])
        assert await one.receive() == b"f"
        await first.sock.send(first.record(b"g") + first.record(b"h"))
        assert one.receive_nowait() == b"gh"
        assert is_empty(bios)


async def test_record_in_pieces_is_assembled() -> None:
    async with pairs() as (bios, [(one, first), (two, second)]):
        record = first.record(b"whole")
        await first.sock.send(record[:9])
        assert one.receive_nowait() == b""
        assert is_empty(bios)
        await second.sock.send(second.record(b"x"))
        assert await two.receive() == b"x"
        await first.sock.send(record[9:])
        assert await one.receive() == b"whole"


async def test_alert_for_broken_record_goes_to_its_sender() -> None:
    async with pairs() as (bios, [(one, first), (two, second)]):
        await first.sock.send(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        with pytest.raises(ssl.SSLError):
            await one.receive()
        assert is_empty(bios)
        await two.send(b"fine")
        assert await second.read(4) == b"fine"
        with pytest.raises(ssl.SSLError, match="ALERT"):
            await first.read(1)


@pytest.mark.parametrize("after", [b"", b"more"])
async def test_end_that_arrives_together_with_data_is_noticed_without_further_bytes(after: bytes) -> None:
    async with pairs() as (bios, [(one, first), _]):
        await first.sock.send(first.record(b"last") + first.close_notify() + after)
        assert await one.receive() == b"last"
        assert is_empty(bios)
        with trio.fail_after(30):
            assert [await one.receive() for _ in range(2)] == [b"", b""]
        assert one.receive_nowait() == b""


async def test_broken_record_that_arrives_together_with_data_is_noticed_without_further_bytes() -> None:
    async with pairs() as (bios, [(one, first), _]):
        await first.sock.send(first.record(b"last") + b"\x17\x03\x03\x00\x20" + b"x" * 32)
        assert await one.receive() == b"last"
        assert is_empty(bios)
        with pytest.raises(ssl.SSLError), trio.fail_after(30):
            await one.receive()
        assert is_empty(bios)
        with pytest.raises(ssl.SSLError, match="ALERT"):
            await first.read(1)


async def test_failed_write_leaves_the_bios_empty() -> None:
    async with pairs() as (bios, [(one, _), (two, second)]):
        one.send_eof()
        missed = TlsTransport.broadcast([one, two], b"event")
        assert [(transport, type(taken)) for transport, taken in missed] == [(one, ssl.SSLError)]
        assert is_empty(bios)
        assert await second.read(5) == b"event"


async def test_broadcast_reaches_all() -> None:
    async with pairs(70) as (bios, made):
        for transport, _ in made:
            transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        for size in (1, 1300, SLICE, SLICE + 1, 3 * SLICE):
            data = b"x" * size
            assert TlsTransport.broadcast([transport for transport, _ in made], data) == [], size
            assert is_empty(bios)
            for _, peer in made:
                assert await peer.read(size) == data


async def test_peer_that_does_not_read_is_reported_and_gets_the_rest_later() -> None:
    async with pairs() as (_, [(one, first), (two, second)]):
        data, sent = b"y" * SLICE, 0
        while not (missed := TlsTransport.broadcast([one], data)):
            sent += SLICE
        assert missed == [(one, -SLICE)]
        assert TlsTransport.broadcast([one, two], b"next") == [(one, 0)]
        assert await second.read(4) == b"next"
        assert len(await first.read(sent)) >= sent
        while one.has_unsent:
            await one.flush()
            await first.sock.recv(1 << 20)
