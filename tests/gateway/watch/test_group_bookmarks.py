"""Bookmarks in a group: by the clock, up to where everybody is, and no version ever goes back."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.watch.sweeper import BOOKMARK_INTERVAL
from tests.gateway.watch.memory_hub import FakePipe, Watcher, memory_hub


def marks(watcher: Watcher) -> list[int]:
    return [
        version
        for event, version in zip(watcher.events, watcher.versions, strict=True)
        if event["type"] == "BOOKMARK"
    ]


async def test_by_the_clock(mock_clock: MockClock) -> None:
    async with memory_hub() as base:
        watcher, without = base.join(bookmarks=True), base.join()
        for turn in range(1, 4):
            await wait_all_tasks_blocked()
            mock_clock.jump(BOOKMARK_INTERVAL)
            await wait_all_tasks_blocked()
            assert len(marks(watcher)) == turn
            assert marks(watcher)[-1] == base.feed.head
            base.elsewhere()
        assert without.events == []


async def test_under_constant_load(mock_clock: MockClock) -> None:
    async with memory_hub() as base:
        watcher, other = base.join(bookmarks=True), base.join(bookmarks=True)
        for number in range(100):
            base.commit([base.event(f"n-{number}-{part}") for part in range(20)])
            mock_clock.jump(BOOKMARK_INTERVAL / 10)
            await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        assert len(marks(watcher)) >= 5
        assert watcher.versions == sorted(watcher.versions)
        assert len(watcher.names) == 2000 + len(marks(watcher))
        assert other.pipe.received == watcher.pipe.received


async def test_one_who_lags_gets_none_that_would_not_be_true(mock_clock: MockClock) -> None:
    async with memory_hub() as base:
        lagging, healthy = base.join(FakePipe(room=200), bookmarks=True), base.join(bookmarks=True)
        for number in range(20):
            base.put(f"n-{number}")
        await wait_all_tasks_blocked()
        mock_clock.jump(BOOKMARK_INTERVAL)
        await wait_all_tasks_blocked()
        assert marks(healthy) == [20]
        lagging.pipe.read(10**9)
        await wait_all_tasks_blocked()
        assert lagging.versions == list(range(1, 21))
        mock_clock.jump(BOOKMARK_INTERVAL)
        await wait_all_tasks_blocked()
        assert marks(lagging) == [20]


async def test_one_that_is_cut_by_a_full_pipe_is_finished_first(mock_clock: MockClock) -> None:
    async with memory_hub() as base:
        for room in range(120):
            watcher = base.join(FakePipe(room=room), bookmarks=True)
            await wait_all_tasks_blocked()
            mock_clock.jump(BOOKMARK_INTERVAL)
            await wait_all_tasks_blocked()
            base.put("a")
            watcher.pipe.read(10**9)
            await wait_all_tasks_blocked()
            assert [event["type"] for event in watcher.events][-1] in ("ADDED", "MODIFIED")
            assert watcher.versions == sorted(watcher.versions)
            base.leave(watcher, bookmarks=True)
