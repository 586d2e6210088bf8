"""Bookmarks in a group: sent at intervals, up to the offset that all members have; versions never decrease."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.gateway.watch.group import BOOKMARK_INTERVAL, TURN
from tests.gateway.watch.memory_hub import FakePipe, Watcher, memory_hub


def marks(watcher: Watcher) -> list[int]:
    return [
        version
        for event, version in zip(watcher.events, watcher.versions, strict=True)
        if event["type"] == "BOOKMARK"
    ]


async def test_group_gets_bookmark_every_interval(mock_clock: MockClock) -> None:
    async with memory_hub() as base:
        watcher, without = base.join(bookmarks=True), base.join()
        for turn in range(1, 4):
            await wait_all_tasks_blocked()
            mock_clock.jump(BOOKMARK_INTERVAL)
            await wait_all_tasks_blocked()
            assert len(marks(watcher)) == turn
            assert marks(watcher)[-1] == base.feed.head
            base.put_other_type()
        assert without.events == []


async def test_group_gets_bookmarks_under_constant_load(mock_clock: MockClock) -> None:
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


async def test_lagging_member_gets_no_bookmark_ahead_of_its_cursor(mock_clock: MockClock) -> None:
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


async def test_bookmark_sent_in_part_is_completed_first(mock_clock: MockClock) -> None:
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


async def test_members_get_a_bookmark_although_another_leaves_meanwhile(mock_clock: MockClock) -> None:
    async with memory_hub() as base:
        base.put_other_type()
        members = [base.join(bookmarks=True) for _ in range(TURN * 3)]
        await wait_all_tasks_blocked()
        mock_clock.jump(BOOKMARK_INTERVAL)
        with trio.fail_after(60):
            while not marks(members[0]):
                await trio.lowlevel.checkpoint()
        assert marks(members[-1]) == []
        base.leave(members[0], bookmarks=True)
        await wait_all_tasks_blocked()
        assert all(marks(member) == [1] for member in members)
