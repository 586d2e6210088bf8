"""The memory budget of one of several workers: its part of the shared budget, and how it grows."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.actors.flowcontrol.leases import Change, Demand, Holder, Order
from rewound.gateway.memory.budget import MEMORY, UNIT, MemoryBudget, TooManyRequests
from tests.gateway.memory.test_budget import request


class Worker:
    def __init__(self, limit: int) -> None:
        self.asked = self.number = 0
        self.holder = Holder()
        self.holder.wake = self._wake
        self.budget = MemoryBudget(limit * UNIT)
        self.budget.lease(self.holder)

    def _wake(self) -> None:
        self.asked += 1

    def order(self, granted: int, target: int, limit: int) -> Demand:
        self.number += 1
        return self.holder.receive(Order(self.number, {MEMORY: Change(granted, target, limit)})).demands[
            MEMORY
        ]


def test_user_holds_half_of_the_part_of_each_worker() -> None:
    worker = Worker(64)
    worker.order(8, 8, 64)
    worker.budget.take(request("ann"), 4 * UNIT)
    with pytest.raises(TooManyRequests, match="your other requests"):
        worker.budget.take(request("ann"), 1)
    worker.budget.take(request("bob"), UNIT)
    assert worker.asked > 0
    assert worker.holder.lease(MEMORY).demand() == Demand(8, 8, 16)  # twice what ann's bytes need


def test_recalled_memory_is_returned_as_far_as_no_user_would_hold_more_than_half() -> None:
    worker = Worker(64)
    worker.order(16, 16, 64)
    one = request("ann")
    worker.budget.take(one, 3 * UNIT)
    assert worker.order(0, 0, 64) == Demand(6, 6, 12)
    worker.budget.release(one)
    report = worker.holder.changed()
    assert report is not None and report.demands[MEMORY] == Demand(0)


async def test_request_waits_until_the_part_has_grown(autojump_clock: MockClock) -> None:
    worker = Worker(64)
    worker.order(1, 1, 64)
    async with trio.open_nursery() as nursery:
        waiting = request("ann")
        nursery.start_soon(worker.budget.wait_for, waiting, 5 * UNIT)
        await wait_all_tasks_blocked()
        assert waiting.reserved == 0
        assert worker.holder.lease(MEMORY).demand() == Demand(1, 0, 10, 10)
        worker.order(9, 10, 64)
        assert waiting.reserved == 5 * UNIT


async def test_request_that_no_worker_could_ever_hold_is_refused_at_once() -> None:
    worker = Worker(64)
    worker.order(1, 1, 64)
    with pytest.raises(TooManyRequests), trio.fail_after(60):
        await worker.budget.wait_for(request("ann"), 33 * UNIT)
    assert worker.holder.lease(MEMORY).demand() == Demand(1)
