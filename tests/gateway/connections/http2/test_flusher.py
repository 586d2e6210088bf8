"""The flusher of all HTTP/2 connections yields to other tasks after a number of bytes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from rewound.gateway.connections.http2.output import Flusher


class LargeQueue:
    def __init__(self) -> None:
        self.queue = [b"x"]
        self.queued = 1 << 20
        self.flushed = 0

    def flush(self) -> int:
        self.flushed += 1
        return self.queued


async def test_large_queues_are_sent_in_turns() -> None:
    queues: list[Any] = [LargeQueue() for _ in range(12)]
    async with trio.open_nursery() as nursery:
        flusher = Flusher()
        nursery.start_soon(flusher.run)
        await wait_all_tasks_blocked()
        flusher.add(queues)
        flushed = [0]
        with trio.fail_after(60):
            while flushed[-1] < 12:
                await trio.lowlevel.checkpoint()
                flushed.append(sum(queue.flushed for queue in queues))
        nursery.cancel_scope.cancel()
    # Three connections a turn, and the flusher may have had two turns since this task had one.
    assert all(later - before <= 6 for before, later in pairwise(flushed))
