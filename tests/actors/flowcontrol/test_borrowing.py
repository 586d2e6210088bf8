"""Levels borrow seats: how seats are divided, and that requests get them. In virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.actors.flowcontrol.borrowing import PERIOD, Demand, Limits, divide, limits
from rewound.actors.flowcontrol.configuration import LevelSettings
from rewound.actors.flowcontrol.seats import Flow, SchemaCounts, Seats

# Nominal seats and lendable percents of the suggested levels, with 600 seats in all.
SUGGESTED = {
    "catch-all": (13, 0),
    "global-default": (49, 50),
    "leader-election": (25, 0),
    "node-high": (98, 25),
    "system": (74, 33),
    "workload-high": (98, 50),
    "workload-low": (245, 90),
}


def suggested() -> dict[str, tuple[Limits, Demand]]:
    return {name: (limits(*both, None, 600), Demand()) for name, both in SUGGESTED.items()}


def seats_of(levels: dict[str, tuple[Limits, Demand]]) -> dict[str, int]:
    return dict(zip(levels, divide(list(levels.values()), []).seats, strict=True))


def test_without_demand_seats_are_divided_as_in_kubernetes() -> None:
    """The figures of an idle kube-apiserver 1.36."""
    levels = suggested()
    assert seats_of(levels) == {
        "catch-all": 30,
        "global-default": 56,
        "leader-election": 58,
        "node-high": 170,
        "system": 117,
        "workload-high": 114,
        "workload-low": 56,
    }
    assert divide(list(levels.values()), []).fraction == pytest.approx(602 / 258)


def test_demand_gets_what_others_lend() -> None:
    levels = suggested()
    demand = levels["workload-high"][1]
    demand.smoothed, demand.watermark = 400.0, 400
    found = seats_of(levels)
    assert sum(found.values()) == 602
    assert found["workload-high"] == 393  # all but what the others do not lend
    assert all(found[name] == one.lower for name, (one, _) in levels.items() if name != "workload-high")


def test_level_takes_its_own_seats_back() -> None:
    levels = suggested()
    levels["workload-high"][1].smoothed = 400.0
    levels["workload-low"][1].watermark = 300
    assert seats_of(levels)["workload-low"] == 245


def test_borrowing_has_a_limit() -> None:
    levels = suggested()
    levels["workload-high"] = limits(98, 50, 20, 600), Demand()
    levels["workload-high"][1].smoothed = 400.0
    assert seats_of(levels)["workload-high"] == 118


def test_exempt_levels_keep_what_they_do_not_lend() -> None:
    two = [(Limits(10, 5, 100), Demand()), (Limits(10, 10, 100), Demand())]
    assert divide(two, [Limits(20, 0, 100)]).seats == [13, 27]
    two[0][1].watermark = 10
    assert divide(two, [Limits(20, 22, 100)]).seats == [8, 10]
    assert divide(two, [Limits(20, 30, 100)]).seats == [5, 10]


def test_demand_rises_at_once_and_falls_slowly() -> None:
    demand = Demand()
    demand.begin(0)
    demand.note(10, 0)
    demand.note(30, 5)
    demand.end(10)
    assert (demand.average, demand.deviation, demand.watermark) == (20, 10, 30)
    assert demand.smoothed == 30
    demand.note(0, 10)
    demand.end(20)
    assert (demand.watermark, demand.smoothed) == (30, pytest.approx(30 * 0.977))
    for period in range(30):
        demand.end(30 + 10 * period)
    assert demand.smoothed == pytest.approx(15, abs=0.6)
    assert demand.watermark == 0


async def test_waiting_requests_get_borrowed_seats(autojump_clock: MockClock) -> None:
    seats = Seats(borrows=True)
    busy = seats.set_level(_settings("busy"))
    idle = seats.set_level(_settings("idle"))
    seats.divide_seats()
    assert (busy.seats, idle.seats) == (4, 4)
    flow = Flow(busy, SchemaCounts("busy", "busy"), (0,), None, limited=True)
    running: list[int] = []

    async def request(number: int) -> None:
        waited = None if seats.try_start(flow, 1) else await seats.wait(flow, 1)
        running.append(number)
        await trio.sleep(14)
        seats.end(flow, 1, waited)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(seats.run)
        for number in range(8):
            nursery.start_soon(request, number)
        await wait_all_tasks_blocked()
        assert len(running) == 4
        await trio.sleep(PERIOD + 1.5)
        assert (busy.seats, idle.seats, len(running)) == (6, 2, 6)
        await trio.sleep(3 * 3600)  # the demand is forgotten
        assert (busy.seats, idle.seats, busy.executing) == (4, 4, 0)
        nursery.cancel_scope.cancel()


def _settings(name: str) -> LevelSettings:
    between = limits(4, 50, None, 8)
    return LevelSettings(name, "", exempt=False, seats=4, queue_length=50, limits=between)
