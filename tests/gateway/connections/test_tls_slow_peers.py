"""For a peer that does not read, the server keeps little ciphertext; the peer gets all bytes when it reads."""

from __future__ import annotations

import os
import socket

import pytest
import trio

from rewound.gateway.connections import transport as transports
from rewound.gateway.connections.tls import SLICE, SMALL_SLICE, TlsTransport
from tests.gateway.connections.test_tls_shared_bios import Peer, pairs

ROUND = 256 * 1024
OVERHEAD = 1024  # of TLS records, and rounding


@pytest.fixture
def small_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Socket pairs buffer less than TCP connections: count a peer as behind earlier."""
    monkeypatch.setattr(transports, "_BEHIND_BYTES", 16 * 1024)


def enlarge_buffer(transport: TlsTransport) -> None:
    transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 128 * 1024)


async def read_all(transport: TlsTransport, peer: Peer, count: int) -> bytes:
    found = b""
    async with trio.open_nursery() as nursery:

        async def read() -> None:
            nonlocal found
            found = await peer.read(count)

        nursery.start_soon(read)
        while transport.has_unsent:
            await transport.flush()
    return found


async def test_unsent_ciphertext_is_a_small_slice(small_threshold: None) -> None:
    async with pairs(1) as (_, [(transport, peer)]):
        enlarge_buffer(transport)
        data = os.urandom(ROUND)
        taken = transport.transmit(data)
        assert taken < 0
        assert transport.has_unsent
        assert len(transport._unsent or b"") <= SMALL_SLICE + OVERHEAD < SLICE
        assert await read_all(transport, peer, -taken) == data[:-taken]


async def test_unsent_ciphertext_of_broadcast_is_a_small_slice(small_threshold: None) -> None:
    async with pairs(2) as (_, [(stalled, peer), (healthy, other)]):
        enlarge_buffer(stalled)
        data = os.urandom(SLICE)
        expected = b""
        while not stalled.has_unsent:
            missed = TlsTransport.broadcast([stalled, healthy], data)
            expected += data[: -int(missed[0][1]) if missed else len(data)]  # type: ignore[arg-type]
            assert [transport for transport, _ in missed] in ([], [stalled])
            assert await read_all(healthy, other, len(data)) == data
        assert len(stalled._unsent or b"") <= SMALL_SLICE + OVERHEAD
        assert await read_all(stalled, peer, len(expected)) == expected


async def test_peer_that_caught_up_gets_whole_slices_again(small_threshold: None) -> None:
    async with pairs(1) as (_, [(transport, peer)]):
        enlarge_buffer(transport)
        taken = transport.transmit(bytes(ROUND))
        await read_all(transport, peer, -taken)
        assert transport.transmit(b"x" * SLICE) == SLICE
        assert await peer.read(SLICE) == b"x" * SLICE
