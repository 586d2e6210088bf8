"""The watchdog of the event loop, with a clock that tests control: what it counts, and which request it names."""

from __future__ import annotations

import logging

import pytest
import trio

from rewound.gateway.message import Peer, Request
from rewound.gateway.ops.loop_watchdog import LOGGED, RECENT, STEP, LoopWatchdog


class HandClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def a_request(path: str, query: str = "limit=1") -> Request:
    return Request("GET", path, query, {}, b"", Peer())


async def step(clock: HandClock, seconds: float) -> None:
    """One pass of the loop, in which this task takes this long."""
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


async def test_the_time_before_it_begins_does_not_count(clock: HandClock, watchdog: LoopWatchdog) -> None:
    clock.now += 10.0
    watchdog.begin()
    trio.lowlevel.add_instrument(watchdog)
    await step(clock, STEP / 2)
    trio.lowlevel.remove_instrument(watchdog)
    assert watchdog.statistics().longest == 0


async def test_the_recent_maximum_passes(clock: HandClock, watchdog: LoopWatchdog) -> None:
    trio.lowlevel.add_instrument(watchdog)
    await step(clock, 0.04)
    trio.lowlevel.remove_instrument(watchdog)
    clock.now += RECENT
    assert watchdog.statistics().recent == pytest.approx(0.04)
    clock.now += RECENT
    assert watchdog.statistics().recent == 0
    assert watchdog.statistics().longest == pytest.approx(0.04)


async def test_the_log_names_a_request_that_was_completed_in_the_same_pass(
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


async def test_the_log_has_no_parameters_that_may_be_secret(
    clock: HandClock, watchdog: LoopWatchdog, caplog: pytest.LogCaptureFixture
) -> None:
    trio.lowlevel.add_instrument(watchdog)
    await trio.lowlevel.checkpoint()
    clock.now += 0.3
    watchdog.completed(a_request("/slow", "access_token=s3cr3t&limit=5&watch&%74oken=s3cr3t&s3cr3t"), 0.3)
    await trio.lowlevel.checkpoint()
    await step(clock, 0)
    trio.lowlevel.remove_instrument(watchdog)
    assert [one.getMessage() for one in caplog.records] == [
        "the event loop was held for 300 ms by GET '/slow?limit=5&watch&...'"
    ]


async def test_the_log_names_a_request_that_is_completed_later(
    clock: HandClock, watchdog: LoopWatchdog, caplog: pytest.LogCaptureFixture
) -> None:
    trio.lowlevel.add_instrument(watchdog)
    clock.now += 0.01
    await step(clock, 0.2)
    clock.now += 0.01
    watchdog.completed(a_request("/later"), 0.1)
    watchdog.completed(a_request("/the-one"), 0.22)
    watchdog.completed(a_request("/another"), 0.22)
    trio.lowlevel.remove_instrument(watchdog)
    assert [one.getMessage() for one in caplog.records] == [
        "the event loop was held for 200 ms",
        "it was held for 200 ms during GET '/the-one?limit=1'",
    ]


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
