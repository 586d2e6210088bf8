"""A connection buffers little for a peer that does not read: few bytes of its watches, and a bounded number of
replies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import trio

from rewound.gateway.connections.http2.output import Flusher, Output
from rewound.gateway.connections.limits import Limits

WIDE = 1 << 30


class FullSocket:
    """A transport whose socket takes no byte."""

    def __init__(self) -> None:
        self.limits = Limits()
        self.unsent = 0
        self.far_behind = False

    def transmit(self, _data: bytes | memoryview) -> int:
        return 0

    def behind(self) -> bool:
        return self.far_behind

    async def flush(self) -> None:
        await trio.sleep_forever()

    def interrupt(self) -> None:
        pass


@asynccontextmanager
async def output() -> AsyncIterator[Output]:
    async with trio.open_nursery() as nursery:
        made = Output(cast(Any, FullSocket()), Flusher(), nursery)
        made.window = WIDE
        yield made
        nursery.cancel_scope.cancel()


def stream(number: int) -> Any:
    return SimpleNamespace(number=number, window=WIDE)


async def test_watches_of_a_full_socket_are_held_up_to_64_kib() -> None:
    async with output() as held:
        taken = [held.data(stream(number), b"x" * 40_000) for number in (1, 3, 5)]
        assert taken[0] == 40_000 and 0 < taken[1] < 40_000 and taken[2] == 0
        assert held.blocked and held.queued <= 64 * 1024 + 100
        assert held.data(stream(7), bytes(1_000_000)) == 0
    async with output() as held:
        assert 0 < held.data(stream(1), bytes(1_000_000)) <= 64 * 1024


async def test_peer_that_is_far_behind_is_held_8_kib() -> None:
    async with output() as held:
        cast(Any, held.transport).far_behind = True
        assert 0 < held.data(stream(1), bytes(1_000_000)) <= 8 * 1024


async def test_replies_behind_a_large_response_do_not_end_the_connection() -> None:
    async with output() as held:
        held.data(stream(1), bytes(1_000_000))
        for _ in range(1_000):
            held.control(bytes(17))
        assert not held.failed
        for _ in range(4_000):
            held.control(bytes(17))
        assert held.failed and not held.queue


async def test_flush_after_the_end_of_the_connection_fails_that_connection_only() -> None:
    async with output() as made:
        pass
    made.control(b"late")
    made.flush()
    assert made.failed
