"""The watchdog of the event loop, with a clock that the tests move: what it counts, and which request it names."""

from __future__ import annotations

import logging

import pytest
import trio

from gateway.ops.loop_watchdog import LOGGED, RECENT, STEP, LoopWatchdog
from gateway.requests.request import Peer, Request


class HandClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def a_request(path: str) -> Request:
    return Request("GET", path, "limit=1", {}, b"", Peer())


async def step(clock: HandClock, seconds: float) -> None:
    """One step of this task that takes so long."""
    await trio.lowlevel.checkpoint()
    clock.now += seconds
    await trio.lowlevel.checkpoint()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def watchdog(clock: HandClock) -> LoopWatchdog:
    return LoopWatchdog(clock)


async def test_counts_steps_above_the_limits(clock: HandClock, watchdog: LoopWatchdog) -> None:
    trio.lowlevel.add_instrument(watchdog)
    for seconds in (STEP * 0.9, STEP * 1.1, LOGGED * 1.1):
        await step(clock, seconds)
    trio.lowlevel.remove_instrument(watchdog)
    found = watchdog.statistics()
    assert found.longest == pytest.approx(LOGGED * 1.1)
    assert (found.over_step, found.over_logged) == (2, 1)


async def test_the_recent_maximum_passes(clock: HandClock, watchdog: LoopWatchdog) -> None:
    trio.lowlevel.add_instrument(watchdog)
    await step(clock, 0.04)
    trio.lowlevel.remove_instrument(watchdog)
    clock.now += RECENT
    assert watchdog.statistics().recent == pytest.approx(0.04)
    clock.now += RECENT
    assert watchdog.statistics().recent == 0
    assert watchdog.statistics().longest == pytest.approx(0.04)


async def test_the_log_names_a_request_that_is_still_handled(
    clock: HandClock, watchdog: LoopWatchdog, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(request: Request) -> str:
        await step(clock, 0.2)
        return request.path

    trio.lowlevel.add_instrument(watchdog)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle, a_request("/api/v1/pods"))
    trio.lowlevel.remove_instrument(watchdog)
    assert [one.getMessage() for one in caplog.records] == [
        "the event loop was held for 200 ms by GET '/api/v1/pods?limit=1'"
    ]


async def test_the_log_names_a_request_that_was_completed_in_the_step(
    clock: HandClock, watchdog: LoopWatchdog, caplog: pytest.LogCaptureFixture
) -> None:
    trio.lowlevel.add_instrument(watchdog)
    await trio.lowlevel.checkpoint()
    clock.now += 0.3
    watchdog.completed(a_request("/slow\n"), 0.3)
    watchdog.completed(a_request("/fast"), 0.1)
    await trio.lowlevel.checkpoint()
    await step(clock, 0)
    trio.lowlevel.remove_instrument(watchdog)
    assert [one.getMessage() for one in caplog.records] == [
        "the event loop was held for 300 ms by GET '/slow\\n?limit=1'"
    ]


async def test_a_request_of_an_earlier_step_is_not_named(
    clock: HandClock, watchdog: LoopWatchdog, caplog: pytest.LogCaptureFixture
) -> None:
    trio.lowlevel.add_instrument(watchdog)
    await trio.lowlevel.checkpoint()
    clock.now += STEP / 2
    watchdog.completed(a_request("/waited-long"), 9.0)
    await trio.lowlevel.checkpoint()
    clock.now += 1
    await step(clock, 0.3)
    trio.lowlevel.remove_instrument(watchdog)
    assert len(caplog.records) == 1
    assert "waited-long" not in caplog.text


async def test_the_log_has_at_most_a_line_a_second(
    clock: HandClock, watchdog: LoopWatchdog, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    trio.lowlevel.add_instrument(watchdog)
    for _ in range(5):
        await step(clock, 0.1)
    clock.now += 1
    await step(clock, 0.1)
    trio.lowlevel.remove_instrument(watchdog)
    assert [one.getMessage().partition(" (")[2] for one in caplog.records] == [
        "",
        "4 more since the last such line)",
    ]
