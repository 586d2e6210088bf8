"""Seats of one of several workers: what a level does while other workers hold the seats that it needs. In virtual
time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from rewound.actors.flowcontrol.configuration import LevelSettings
from rewound.actors.flowcontrol.in_flight import MUTATING, READ_ONLY, InFlightLimits
from rewound.actors.flowcontrol.leases import Change, Demand, Holder, Order
from rewound.actors.flowcontrol.seats import (
    LEASE_SECONDS,
    TURN,
    Flow,
    Level,
    NoSeat,
    SchemaCounts,
    Seats,
    outside_quota,
)

LEVEL, PLACES = "level", "level/queue"


@dataclass
class Worker:
    seats: Seats
    level: Level
    holder: Holder
    nursery: trio.Nursery
    asked: int = 0
    number: int = 0
    started: int = 0
    refused: int = 0
    counts: SchemaCounts = field(default_factory=lambda: SchemaCounts("schema", LEVEL))
    end: trio.Event = field(default_factory=trio.Event)

    def ask(self) -> None:
        self.asked += 1

    async def request(self, seats: int) -> None:
        flow, waited = Flow(self.level, self.counts, (0,), None, limited=True), None
        try:
            if not self.seats.try_start(flow, seats):
                waited = await self.seats.wait(flow, seats)
        except NoSeat:
            self.refused += 1
            return
        self.started += 1
        try:
            await self.end.wait()
        finally:
            self.seats.end(flow, seats, waited)

    async def send(self, number: int, seats: int = 1) -> None:
        for _ in range(number):
            self.nursery.start_soon(self.request, seats)
        await wait_all_tasks_blocked()

    async def order(self, quota: str = LEVEL, *, granted: int = 0, target: int, limit: int = 20) -> Demand:
        self.number += 1
        report = self.holder.receive(Order(self.number, {quota: Change(granted, target, limit)}))
        await wait_all_tasks_blocked()
        return report.demands[quota]


@asynccontextmanager
async def worker(
    limit: int = 20, length: int = 50, *, rejects: bool = False, turn: int = TURN
) -> AsyncIterator[Worker]:
    holder = Holder()
    seats = Seats(turn, holder)
    level = seats.set_level(LevelSettings(LEVEL, "", False, limit, rejects, queue_length=length))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(seats.run)
        found = Worker(seats, level, holder, nursery)
        holder.wake = found.ask
        yield found
        nursery.cancel_scope.cancel()


async def test_requests_wait_for_granted_seats_and_ask_for_more() -> None:
    async with worker() as one:
        await one.order(granted=2, target=2)
        await one.send(2)
        assert (one.started, one.asked) == (2, 0)
        await one.order(PLACES, granted=12, target=12)
        await one.send(3)
        assert (one.started, one.level.waiting) == (2, 3)
        assert one.asked > 0
        assert await one.order(granted=2, target=4) == Demand(4, 4, 5, 1)
        assert one.started == 4


async def test_recalled_seats_are_returned_when_their_requests_end() -> None:
    async with worker() as one:
        await one.order(granted=5, target=5)
        await one.send(3)
        assert await one.order(target=1) == Demand(3, 3, 3)
        assert one.holder.recalled and one.holder.changed() is None
        await one.send(1)
        assert (one.started, one.level.waiting) == (3, 1)
        one.end.set()
        await wait_all_tasks_blocked()
        report = one.holder.changed()
        assert report is not None and report.demands[LEVEL] == Demand(1)
        assert (one.started, one.level.executing) == (4, 0)


async def test_request_takes_no_more_seats_than_all_workers_have() -> None:
    async with worker() as one:
        await one.send(1, seats=10)
        assert await one.order(granted=2, target=2, limit=4) == Demand(2, 0, 4, 4)
        await one.order(granted=2, target=4, limit=4)
        assert (one.started, one.level.executing) == (1, 4)
        one.end.set()
        await wait_all_tasks_blocked()
        assert (one.level.executing, one.level.waiting_seats) == (0, 0)


async def test_granted_seat_starts_a_request_before_it_is_returned() -> None:
    """However soon it is recalled: here its turn was used up when it was granted."""
    async with worker(turn=1) as one:
        await one.send(2)
        one.seats._turn = 0
        for change in (Change(1, 1, 20), Change(0, 0, 20)):
            one.number += 1
            one.holder.receive(Order(one.number, {LEVEL: change}))
        assert (one.started, one.holder.lease(LEVEL).held) == (0, 1)
        await wait_all_tasks_blocked()
        one.holder.changed()
        assert (one.started, one.holder.lease(LEVEL).held) == (1, 1)


async def test_level_that_starves_asks_for_seats_beside_those_of_its_running_requests(
    autojump_clock: Any,
) -> None:
    async with worker() as one:
        await one.order(granted=5, target=5)
        await one.send(4)
        await one.send(1, seats=3)
        assert one.holder.lease(LEVEL).demand() == Demand(5, 4, 7, 3)
        await trio.sleep(1)
        assert one.holder.lease(LEVEL).demand() == Demand(5, 4, 7, 7)


async def test_level_that_rejects_waits_a_moment_for_seats_of_others(autojump_clock: Any) -> None:
    async with worker(limit=4, rejects=True) as one:
        await one.order(granted=1, target=1, limit=4)
        await one.send(5)
        assert (one.started, one.refused, one.level.waiting) == (1, 1, 3)  # the fifth is beyond the limit
        await one.order(granted=1, target=2, limit=4)
        assert (one.started, one.refused, one.level.waiting) == (2, 1, 2)
        await trio.sleep(LEASE_SECONDS * 2)
        assert (one.started, one.refused, one.level.waiting) == (2, 3, 0)
        assert one.counts.rejected == {"concurrency-limit": 3}


async def test_places_in_queues_grow_with_the_queue() -> None:
    async with worker() as one:
        await one.send(2)
        assert (one.level.waiting, one.refused) == (1, 1)  # one place in the queue even without a lease
        assert await one.order(PLACES, granted=3, target=3, limit=50) == Demand(3, 1, 1)
        await one.send(1)
        report = one.holder.changed()
        assert report is not None and report.demands[PLACES] == Demand(3, 2, 4)
        await one.order(PLACES, granted=7, target=10, limit=50)
        await one.send(20)
        assert (one.level.waiting, one.refused) == (10, 13)


async def test_level_takes_what_was_granted_before_it_existed() -> None:
    async with worker() as one:
        one.holder.receive(Order(1, {"other": Change(7, 7, 9), "other/queue": Change(4, 4, 10)}))
        level = one.seats.set_level(LevelSettings("other", "", False, 9, queue_length=10))
        assert (level.seats, level.limit, level.queue_length) == (7, 9, 4)
        one.seats.set_level(LevelSettings("other", "", False, 100, queue_length=100))
        # The allocator reports when it changes.
        assert (level.seats, level.limit, level.queue_length) == (
            7,
            9,
            4,
        )
        one.seats.remove_level("other")
        report = one.holder.receive(Order(2, {"other": Change(0, 0, 9)}))
        assert report.demands == {"other": Demand(0)}


async def test_levels_without_a_limit_need_no_lease() -> None:
    holder = Holder()
    limits = InFlightLimits(0, 5, holder)
    assert [*holder.leases] == [MUTATING, outside_quota(MUTATING)]
    assert limits.levels[READ_ONLY].seats > 1 << 40 and limits.levels[MUTATING].seats == 0
