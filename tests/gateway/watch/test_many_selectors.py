"""A commit tries and wakes only the groups whose selectors may match the object, before or after the change."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rewound.actors.runtime import turns
from rewound.gateway.watch.group import WAKE_AT_ONCE
from rewound.gateway.watch.watched_type import WatchStatistics
from tests.gateway.watch.memory_hub import MemoryHub, Watcher, memory_hub

OVER = -1.0  # seconds of a turn that is always used up

MANY = 1000


def statistics(base: MemoryHub) -> WatchStatistics:
    return base.hub.statistics()["things"]


def types(watcher: Watcher) -> list[str]:
    return [event["type"] for event in watcher.events]


async def test_event_is_tried_by_one_of_a_thousand_selectors() -> None:
    async with memory_hub() as base:
        watchers = [base.join(labels=f"app=a{number}") for number in range(MANY)]
        base.put("one", app="a17")
        base.put("none", app="other")
        await wait_all_tasks_blocked()
        now = statistics(base)
        assert (now.groups, now.tried, now.woken, now.frames) == (MANY, 1, 1, 1)
        assert watchers[17].names == ["one"]
        base.put("one", app="a18")
        await wait_all_tasks_blocked()
        now = statistics(base)
        assert (now.tried, now.woken) == (3, 3)
        assert types(watchers[17]) == ["ADDED", "DELETED"]
        assert types(watchers[18]) == ["ADDED"]


@pytest.mark.parametrize(
    "selector",
    [
        "env=prod,app=a{0}",
        "app=a{0},tier=front,zone in (x,y)",
        "app in (a{0},b{0},c{0}),env",
        "a{0}",
        "a{0},env=prod",
        "a{0}>5",
    ],
)
async def test_selectors_with_a_term_in_common_are_stored_under_another(selector: str) -> None:
    async with memory_hub() as base:
        for number in range(300):
            base.join(labels=selector.format(number))
        base.put("one", env="prod", app="a17", tier="front", zone="x", a17="7")
        await wait_all_tasks_blocked()
        now = statistics(base)
        # The first selectors choose any of their terms, the others avoid those that are chosen already.
        assert now.tried <= 70
        assert now.woken == 1


async def test_selectors_that_only_exclude_are_tried_and_not_woken() -> None:
    async with memory_hub() as base:
        for number in range(100):
            base.join(labels=f"app!=web,x{number}!=y")
        base.put("one", app="web")
        await wait_all_tasks_blocked()
        now = statistics(base)
        assert (now.tried, now.woken, now.frames) == (100, 0, 0)


async def test_object_that_moves_between_selectors() -> None:
    async with memory_hub() as base:
        selectors = ["app=a", "app=b", "app in (a,b)", "app", "!app", "app!=a", "app notin (a,b)", "app>3"]
        watchers = {text: base.join(labels=text) for text in selectors}
        for labels in ({"app": "a"}, {"app": "b"}, {}, {"app": "5"}, {"app": "a"}):
            base.put("x", **labels)
        base.remove("x")
        await wait_all_tasks_blocked()
        added, modified, deleted = "ADDED", "MODIFIED", "DELETED"
        assert {text: types(watcher) for text, watcher in watchers.items()} == {
            "app=a": [added, deleted, added, deleted],
            "app=b": [added, deleted],
            "app in (a,b)": [added, modified, deleted, added, deleted],
            "app": [added, modified, deleted, added, modified, deleted],
            "!app": [added, deleted],
            "app!=a": [added, modified, modified, deleted],
            "app notin (a,b)": [added, modified, deleted],
            "app>3": [added, deleted],
        }


async def test_group_that_ends_is_no_longer_tried() -> None:
    async with memory_hub() as base:
        texts = ["app=a", "app in (a,b)", "app", "app!=b", ""]
        base.join(labels="app=c")
        leaving = [(base.join(labels=text), text) for text in texts]
        for watcher, text in leaving:
            base.leave(watcher, text)
        base.put("x", app="a")
        await wait_all_tasks_blocked()
        assert (statistics(base).tried, statistics(base).groups) == (0, 1)


async def test_groups_that_a_turn_is_too_short_for_get_their_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "TURN", OVER)
    async with memory_hub() as base:
        watchers = [base.join(labels=f"app!=a{number}") for number in range(30)]
        base.commit([base.event(f"n-{number}", app=f"a{number}") for number in range(30)])
        await wait_all_tasks_blocked()
        for number, watcher in enumerate(watchers):
            assert watcher.names == [f"n-{other}" for other in range(30) if other != number]


async def test_other_tasks_run_while_many_groups_are_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN", OVER)
    async with memory_hub() as base:
        watchers = [base.join(labels=f"x!=y{number}") for number in range(200)]
        await wait_all_tasks_blocked()
        served = [0]

        async def look() -> None:
            with trio.fail_after(60):
                while served[-1] < 200:
                    served.append(sum(bool(watcher.pipe.received) for watcher in watchers))
                    await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            base.put("a")
        steps = [after - before for before, after in pairwise(served)]
        assert max(steps) <= 2 * WAKE_AT_ONCE


async def test_group_yields_while_it_selects_from_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN", OVER)
    async with memory_hub() as base:
        watcher = base.join(labels="app!=web")
        await wait_all_tasks_blocked()
        seen = {0}

        async def look() -> None:
            with trio.fail_after(60):
                while max(seen) < 50:
                    seen.add(len(watcher.names))
                    await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            base.commit([base.event(f"n-{number}") for number in range(50)])
        assert len(seen) > 25


async def test_watch_that_catches_up_yields_between_events_that_do_not_match(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "TURN", OVER)
    async with memory_hub() as base:
        start = base.put("first")
        for number in range(40):
            base.commit([base.event(f"n-{number}-{other}") for other in range(32)])
        base.put("last", app="web")
        passes = 0

        async def look() -> None:
            nonlocal passes
            while not watcher.names:
                passes += 1
                await trio.lowlevel.checkpoint()

        watcher = base.join(labels="app=web", after=start)
        await look()
        assert watcher.names == ["last"]
        assert passes > 30
