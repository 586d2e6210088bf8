"""Requests that wait for an external service release their seats, and take them again in turn. In virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.actors.flowcontrol.configuration import LevelSettings
from rewound.actors.flowcontrol.leases import Change, Demand, Holder, Order
from rewound.actors.flowcontrol.seats import (
    LEAST_OUTSIDE,
    TURN,
    WAIT_SECONDS,
    Flow,
    Level,
    NoSeat,
    Outside,
    SchemaCounts,
    Seats,
    outside_quota,
)

SEATS, LENGTH = 245, 50
SOON = 4  # passes of the event loop until a task starts and gets its turn; 1,200 requests take 38
HAND = 6  # as the level workload-low, where one flow can have 545 requests


@dataclass
class Requests:
    seats: Seats
    level: Level
    nursery: trio.Nursery
    answer: trio.Event = field(default_factory=trio.Event)
    log: list[str] = field(default_factory=list)
    passes: dict[str, list[int]] = field(default_factory=dict)  # in which responses started, by user

    def flow(self, user: str, first_queue: int) -> Flow:
        hand = tuple(range(first_queue, first_queue + HAND))
        return Flow(self.level, SchemaCounts(user, "level"), hand, None, limited=True)

    async def ask_outside(self, user: str, flow: Flow) -> None:
        """A request that waits for the external response."""
        seats = self.seats
        waited = None if seats.try_start(flow, 1) else await seats.wait(flow, 1)
        try:
            seats.leave(flow, user, 1, waited)
        except NoSeat:
            seats.end(flow, 1, waited)
            self.log.append(f"{user} refused")
            return
        self.log.append(f"{user} outside")
        try:
            await self.answer.wait()
            waited = await seats.start_again(flow, 1)
        finally:
            seats.release_place(flow, user)
        self.passes.setdefault(user, []).append(seats._passes.count)
        self.log.append(f"{user} responds")
        seats.end(flow, 1, waited)

    async def get(self, user: str, flow: Flow) -> None:
        """A request that does not wait."""
        waited = None if self.seats.try_start(flow, 1) else await self.seats.wait(flow, 1)
        self.passes.setdefault(user, []).append(self.seats._passes.count)
        self.log.append(f"{user} got")
        self.seats.end(flow, 1, waited)

    async def send_outside(self, user: str, flow: Flow, number: int) -> None:
        for _ in range(number):
            self.nursery.start_soon(self.ask_outside, user, flow)
        await wait_all_tasks_blocked()


@asynccontextmanager
async def requests(seats: int = SEATS, *, rejects: bool = False) -> AsyncIterator[Requests]:
    settings = LevelSettings("level", "", False, seats, rejects, 128, HAND, LENGTH)
    limits = Seats()
    level = limits.set_level(settings)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(limits.run)
        await wait_all_tasks_blocked()
        yield Requests(limits, level, nursery)
        nursery.cancel_scope.cancel()


async def test_1200_hanging_requests_of_one_user_delay_no_other_user(autojump_clock: MockClock) -> None:
    async with requests() as all_:
        alice, bob = all_.flow("alice", 0), all_.flow("bob", 50)
        for _ in range(1200):
            all_.nursery.start_soon(all_.ask_outside, "alice", alice)
        await trio.lowlevel.checkpoint()
        all_.nursery.start_soon(all_.get, "bob", bob)  # while they arrive: in the turn after this one
        before = all_.seats._passes.count
        await wait_all_tasks_blocked()
        assert all_.passes["bob"][0] - before <= SOON
        level = all_.level
        # As many as one flow can have in Kubernetes; the rest is refused, not queued.
        assert (level.outside.taken, level.executing, level.waiting) == (SEATS + HAND * LENGTH, 0, 0)
        assert all_.log.count("alice refused") == 1200 - 545
        assert alice.counts.rejected == {"concurrency-limit": 1200 - 545}
        assert all_.seats.try_start(bob, 1)  # with no wait at all
        all_.seats.end(bob, 1, None)
        await trio.sleep(10 * WAIT_SECONDS)  # no request is refused because of how long the response takes
        assert level.outside.taken == 545


async def test_answers_that_come_at_once_take_turns_with_others() -> None:
    async with requests() as all_:
        alice, bob = all_.flow("alice", 0), all_.flow("bob", 50)
        await all_.send_outside("alice", alice, 500)
        all_.answer.set()
        for _ in range(2):
            await trio.lowlevel.checkpoint()
        all_.nursery.start_soon(all_.get, "bob", bob)
        before = all_.seats._passes.count
        await wait_all_tasks_blocked()
        assert all_.passes["bob"][0] - before <= SOON
        responded = all_.passes["alice"]
        assert len(responded) == 500
        assert max(responded.count(each) for each in set(responded)) <= TURN + 1
        assert (all_.level.outside.taken, all_.level.executing, all_.level.unused) == (0, 0, True)
        assert (alice.counts.dispatched, bob.counts.dispatched) == (500, 1)


async def test_request_with_its_answer_goes_before_those_of_its_flow(autojump_clock: MockClock) -> None:
    async with requests(seats=1) as all_:
        alice = all_.flow("alice", 0)
        await all_.send_outside("alice", alice, 2)
        assert all_.seats.try_start(alice, 1)
        for _ in range(HAND):  # the queues are not empty
            all_.nursery.start_soon(all_.get, "alice", alice)
        await wait_all_tasks_blocked()
        all_.log.clear()
        all_.answer.set()
        await wait_all_tasks_blocked()
        await trio.sleep(WAIT_SECONDS - 2)
        assert all_.level.waiting == HAND + 2
        all_.seats.end(alice, 1, None)
        await wait_all_tasks_blocked()
        first_of_queues = all_.log[: HAND + 2]
        assert first_of_queues.index("alice responds") < HAND and all_.level.waiting == 0
        assert sorted(all_.log) == ["alice got"] * HAND + ["alice responds"] * 2


async def test_request_with_its_answer_waits_for_seats_as_long_as_it_takes(
    autojump_clock: MockClock,
) -> None:
    for rejects in (False, True):
        async with requests(seats=1, rejects=rejects) as all_:
            alice = all_.flow("alice", 0)
            await all_.send_outside("alice", alice, 1)
            assert all_.seats.try_start(alice, 1)
            all_.answer.set()
            await trio.sleep(3 * WAIT_SECONDS)
            assert (all_.level.waiting, all_.level.outside.taken) == (1, 1)
            all_.seats.end(alice, 1, None)
            await wait_all_tasks_blocked()
            assert all_.log == ["alice outside", "alice responds"]
            assert (all_.level.executing, all_.level.outside.taken) == (0, 0)


async def test_cancelled_request_leaves_nothing_behind() -> None:
    async with requests(seats=1) as all_:
        alice = all_.flow("alice", 0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(all_.ask_outside, "alice", alice)
            await wait_all_tasks_blocked()
            assert all_.seats.try_start(alice, 1)
            all_.answer.set()
            await wait_all_tasks_blocked()
            assert all_.level.waiting == 1
            nursery.cancel_scope.cancel()
        all_.seats.end(alice, 1, None)
        assert all_.level.unused and all_.seats.try_start(alice, 1)


def test_user_may_have_as_many_places_as_are_free() -> None:
    outside = Outside(12)

    def fill(user: str) -> int:
        taken = 0
        while outside.take(user):
            taken += 1
        return taken

    assert (fill("a"), fill("b"), fill("c"), fill("d")) == (6, 3, 2, 1)
    assert not outside.take("e")
    for _ in range(6):
        outside.release("a")
    assert fill("e") == 3 and outside.taken == 9


@pytest.mark.parametrize(
    ("settings", "places"),
    [
        (LevelSettings("low", "", False, 245, False, 128, 6, 50), 1090),
        (LevelSettings("rejecting", "", False, 13, True), 26),
    ],
)
def test_half_of_the_places_is_what_one_flow_can_have(settings: LevelSettings, places: int) -> None:
    assert Level(settings).outside.places == settings.places_outside == places


async def test_places_of_a_worker_grow_before_they_are_used_up() -> None:
    holder = Holder()
    asked: list[None] = []
    holder.wake = lambda: asked.append(None)
    seats = Seats(TURN, holder)
    level = seats.set_level(LevelSettings("level", "", False, 20, True))
    assert level.outside.places == LEAST_OUTSIDE
    flow, quota = Flow(level, SchemaCounts("x", "level"), (0,), None, limited=True), outside_quota("level")
    holder.receive(Order(1, {quota: Change(8, 8, 40)}))
    seats.leave(flow, "alice", 0, None)
    assert (level.outside.places, asked) == (8, [])
    for _ in range(3):
        seats.leave(flow, "alice", 0, None)
    assert asked
    assert holder.receive(Order(2, {quota: Change(4, 12, 40)})).demands[quota] == Demand(12, 4, 4)
    for _ in range(2):
        seats.leave(flow, "alice", 0, None)
    with pytest.raises(NoSeat):
        seats.leave(flow, "alice", 0, None)
    assert holder.receive(Order(3, {quota: Change(0, 12, 40)})).demands[quota] == Demand(12, 6, 18)
