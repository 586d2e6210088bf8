"""A peer that does not read makes us keep little of what is encrypted for it, and gets all of it when it reads."""

from __future__ import annotations

import os
import socket

import pytest
import trio

from gateway.connections import tls
from gateway.connections.tls import SLICE, SecureLink
from tests.gateway.connections.test_tls_shared_bios import Peer, pairs

ROUND = 256 * 1024
OVERHEAD = 1024  # of records, and rounding


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of local sockets hold less than a connection does."""
    monkeypatch.setattr(tls, "_BEHIND", 16 * 1024)


def widen(link: SecureLink) -> None:
    link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 128 * 1024)


async def read_all(link: SecureLink, peer: Peer, count: int) -> bytes:
    found = b""
    async with trio.open_nursery() as nursery:

        async def read() -> None:
            nonlocal found
            found = await peer.read(count)

        nursery.start_soon(read)
        while link.has_unsent:
            await link.flush()
    return found


async def test_what_waits_is_a_morsel(early: None) -> None:
    async with pairs(1) as (_, [(link, peer)]):
        widen(link)
        data = os.urandom(ROUND)
        taken = link.transmit(data)
        assert taken < 0
        assert link.has_unsent
        assert len(link._unsent or b"") <= tls._MORSEL + OVERHEAD < SLICE
        assert await read_all(link, peer, -taken) == data[:-taken]


async def test_in_a_volley_too(early: None) -> None:
    async with pairs(2) as (_, [(stalled, peer), (healthy, other)]):
        widen(stalled)
        data = os.urandom(SLICE)
        told = b""
        while not stalled.has_unsent:
            missed = SecureLink.broadcast([stalled, healthy], data)
            told += data[: -int(missed[0][1]) if missed else len(data)]  # type: ignore[arg-type]
            assert [link for link, _ in missed] in ([], [stalled])
            assert await read_all(healthy, other, len(data)) == data
        assert len(stalled._unsent or b"") <= tls._MORSEL + OVERHEAD
        assert await read_all(stalled, peer, len(told)) == told


async def test_one_that_caught_up_gets_whole_slices_again(early: None) -> None:
    async with pairs(1) as (_, [(link, peer)]):
        widen(link)
        taken = link.transmit(bytes(ROUND))
        await read_all(link, peer, -taken)
        assert link.transmit(b"x" * SLICE) == SLICE
        assert await peer.read(SLICE) == b"x" * SLICE
