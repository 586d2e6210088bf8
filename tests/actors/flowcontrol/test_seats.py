"""When requests start: seats, queues, turns, and timeouts while waiting. In virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from rewound.actors.flowcontrol.configuration import LevelSettings
from rewound.actors.flowcontrol.seats import (
    REFUSALS,
    TURN,
    WAIT_SECONDS,
    Flow,
    Level,
    NoSeat,
    SchemaCounts,
    Seats,
)
from tests.cases import cases


@dataclass
class Requests:
    """Requests of named flows in one level, which end when `finish` is called or after `seconds`."""

    seats: Seats
    level: Level
    nursery: trio.Nursery
    flows: dict[str, Flow] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    end: trio.Event = field(default_factory=trio.Event)

    def flow(self, name: str) -> Flow:
        number = len(self.flows) % self.level.settings.queues
        made = Flow(self.level, SchemaCounts(name, "level"), (number,), None, limited=True)
        return self.flows.setdefault(name, made)

    async def request(self, name: str, count: int = 1, seconds: float | None = None) -> None:
        flow, waited = self.flow(name), None
        try:
            if not self.seats.try_start(flow, count):
                waited = await self.seats.wait(flow, count)
        except NoSeat:
            self.refused.append(name)
            return
        self.started.append(name)
        try:
            if seconds is None:
                await self.end.wait()
            elif seconds:
                await trio.sleep(seconds)
        finally:
            self.seats.end(flow, count, waited)

    async def send(self, name: str, number: int = 1, **more: Any) -> None:
        for _ in range(number):
            self.nursery.start_soon(lambda: self.request(name, **more))
        await wait_all_tasks_blocked()


@asynccontextmanager
async def level(
    seats: int = 1, length: int = 50, *, rejects: bool = False, turn: int = TURN, beyond: int = 0
) -> AsyncIterator[Requests]:
    settings = LevelSettings("level", "", False, seats, rejects, queues=8, queue_length=length)
    limits = Seats(turn, beyond=beyond)
    limits.levels["level"] = Level(settings)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(limits.run)
        yield Requests(limits, limits.levels["level"], nursery)
        nursery.cancel_scope.cancel()


async def test_requests_beyond_the_seats_wait() -> None:
    async with level(seats=2) as requests:
        await requests.send("a", 3)
        assert (requests.started, requests.level.waiting) == (["a", "a"], 1)
        requests.end.set()
        await wait_all_tasks_blocked()
        assert (requests.started, requests.level.waiting, requests.level.executing) == (["a"] * 3, 0, 0)


async def test_request_of_the_next_pass_starts_at_once_after_a_turn_is_used_up() -> None:
    async with level(seats=100, turn=4) as requests:
        await wait_all_tasks_blocked()
        seats, flow = requests.seats, requests.flow("a")
        for _ in range(5):
            assert [seats.try_start(flow, 1) for _ in range(5)] == [True] * 4 + [False]
            before = seats._passes.count
            with trio.fail_after(60):
                while seats._passes.count == before:
                    await trio.lowlevel.checkpoint()
        # The task was not woken, because no request waited.
        assert seats._turn_over.statistics().tasks_waiting == 1


async def test_passes_that_start_less_than_a_turn_never_make_a_request_wait() -> None:
    async with level(seats=100, turn=4) as requests:
        await wait_all_tasks_blocked()
        seats, flow = requests.seats, requests.flow("a")
        for _ in range(5):
            assert [seats.try_start(flow, 1) for _ in range(3)] == [True] * 3
            before = seats._passes.count
            with trio.fail_after(60):
                while seats._passes.count == before:
                    await trio.lowlevel.checkpoint()


async def test_level_that_rejects_has_no_queue() -> None:
    async with level(seats=1, rejects=True) as requests:
        await requests.send("a", 2)
        assert (requests.started, requests.refused) == (["a"], ["a"])
        assert requests.flows["a"].counts.rejected == {"concurrency-limit": 1}


async def test_flow_that_runs_nothing_waits_for_no_seat_of_others() -> None:
    async with level(seats=4, beyond=8) as requests:
        await requests.send("a", 3, count=4)
        assert requests.started == ["a"]
        await requests.send("b", 2, count=4)
        await requests.send("c")
        state = requests.level
        assert requests.started == ["a", "b", "c"]  # each flow has one
        assert (state.executing, state.beyond, state.running, state.waiting) == (4, 2, 3, 3)
        requests.end.set()
        await wait_all_tasks_blocked()
        assert sorted(requests.started) == ["a"] * 3 + ["b"] * 2 + ["c"]
        assert (state.executing, state.beyond, state.running, state.waiting) == (0, 0, 0, 0)


async def test_next_request_beyond_the_seats_starts_when_that_of_its_flow_ends(autojump_clock: Any) -> None:
    async with level(seats=1, beyond=8) as requests:
        await requests.send("a")  # until the end
        await requests.send("b", 3, seconds=1)
        await trio.sleep(2.5)
        assert requests.started == ["a", "b", "b", "b"]
        assert (requests.level.beyond, requests.level.waiting) == (1, 0)


async def test_only_so_many_requests_run_beyond_the_seats() -> None:
    async with level(seats=1, beyond=2) as requests:
        for name in "abcd":
            await requests.send(name)
        assert (requests.started, requests.level.waiting) == (["a", "b", "c"], 1)


async def test_level_that_rejects_lets_no_request_run_beyond_its_seats() -> None:
    async with level(seats=1, rejects=True, beyond=8) as requests:
        await requests.send("a")
        await requests.send("b")
        assert (requests.started, requests.refused) == (["a"], ["b"])


async def test_request_is_refused_when_its_queues_are_full() -> None:
    async with level(seats=1, length=2) as requests:
        await requests.send("a", 4)
        assert requests.refused == ["a"]
        assert requests.flows["a"].counts.rejected == {"queue-full": 1}
        await requests.send("b")  # has another queue
        assert requests.refused == ["a"]


async def test_request_is_refused_after_it_has_waited_for_fifteen_seconds(autojump_clock: Any) -> None:
    async with level(seats=1) as requests:
        await requests.send("a", 2)
        await trio.sleep(WAIT_SECONDS - 1)
        assert requests.refused == []
        await trio.sleep(3)
        assert requests.refused == ["a"]
        assert requests.flows["a"].counts.rejected == {"time-out": 1}
        assert requests.level.waiting == 0


async def test_cancelled_request_leaves_its_queue() -> None:
    async with level(seats=1, length=1) as requests:
        await requests.send("a")
        for _ in range(100):
            with trio.CancelScope() as scope:
                requests.nursery.start_soon(cancelled_when_waiting, scope, requests)
                await requests.request("a")
        assert (requests.level.waiting, requests.refused) == (0, [])
        assert requests.flows["a"].counts.rejected == {"cancelled": 100}
        waiting = requests.level.enqueue(requests.flow("a"), 1, 0.0)
        assert len(waiting.queue.requests) < 20  # cancelled requests are dropped


async def cancelled_when_waiting(scope: trio.CancelScope, requests: Requests) -> None:
    with trio.fail_after(60):
        while not requests.level.waiting:
            await trio.lowlevel.checkpoint()
    scope.cancel()


async def test_flood_of_one_flow_does_not_delay_another() -> None:
    async with level(seats=1) as requests:
        await requests.send("a")  # takes the seat until `end`
        await requests.send("a", 40, seconds=0.0)
        await requests.send("b", 1, seconds=0.0)
        requests.end.set()
        await wait_all_tasks_blocked()
        assert requests.started.index("b") <= 2


async def test_flows_share_seat_seconds_not_requests(autojump_clock: Any) -> None:
    """Requests of `a` take three times as long, so `b` starts three times as many."""
    async with level(seats=1, length=1000) as requests:
        await requests.send("gate", 1, seconds=1.0)
        await requests.send("a", 100, seconds=0.3)
        await requests.send("b", 100, seconds=0.1)
        await trio.sleep(13)
        served = requests.started[1:]
        assert 0.2 <= served.count("a") / len(served) <= 0.3


async def test_wide_request_starts_when_enough_seats_are_free() -> None:
    async with level(seats=4) as requests:
        await requests.send("a", 2)
        await requests.send("b", 1, count=3)
        await requests.send("c")  # behind b: narrow requests must not keep wide ones waiting for ever
        assert requests.started == ["a", "a"]
        requests.end.set()
        await wait_all_tasks_blocked()
        assert sorted(requests.started) == ["a", "a", "b", "c"]


async def test_pass_of_the_loop_starts_a_bounded_number_of_requests() -> None:
    """One flow has 1,000 requests in one pass; another one that arrives with them starts among the first."""
    async with level(seats=10_000) as requests:
        order: list[str] = []

        async def one_step(name: str) -> None:
            await requests.request(name, seconds=0.0)
            order.append(name)

        async with trio.open_nursery() as nursery:
            for _ in range(1000):
                nursery.start_soon(one_step, "a")
            await trio.lowlevel.checkpoint()
            nursery.start_soon(one_step, "b")
        assert order.index("b") <= 5 * TURN
        assert requests.refused == []  # any request may wait for the next turn, whatever the queue length


async def test_pass_of_the_loop_sends_a_bounded_number_of_refusals() -> None:
    """Otherwise clients that retry at once would fill every pass with refusals."""
    async with level(seats=1, rejects=True) as requests:
        await requests.send("a")
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(requests.request, "a")
            for _ in range(5):
                await trio.lowlevel.checkpoint()
            assert 0 < len(requests.refused) <= 6 * REFUSALS
        assert len(requests.refused) == 100


async def test_level_with_waiting_requests_does_not_stop_another() -> None:
    async with level(seats=1) as requests:
        await requests.send("a", 10)
        other = requests.seats.levels["other"] = Level(
            LevelSettings("other", "", False, 1, queues=1, queue_length=50)
        )
        flow = Flow(other, SchemaCounts("x", "other"), (0,), None, limited=True)
        assert requests.seats.try_start(flow, 1)


@cases("turn", [1, 3, 1000])
async def test_every_request_starts_once(turn: int) -> None:
    async with level(seats=3, length=1000, turn=turn) as requests:
        async with trio.open_nursery() as nursery:
            for number in range(300):
                nursery.start_soon(lambda number=number: requests.request(f"{number % 7}", seconds=0.0))
        assert len(requests.started) == 300
        assert (requests.level.executing, requests.level.running, requests.level.waiting) == (0, 0, 0)
