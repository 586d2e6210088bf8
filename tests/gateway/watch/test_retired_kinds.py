"""Watches of a kind that is no longer served end cleanly, and watches of other kinds continue."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.gateway.watch.member import CLOSE_TIMEOUT
from tests.gateway.watch.memory_hub import OTHERS, THINGS, FakePipe, memory_hub


async def test_members_get_committed_events_before_the_end(autojump_clock: MockClock) -> None:
    async with memory_hub() as base:
        swept, named = base.join(), base.join(name="b")
        base.put("a")
        base.put("b")
        base.hub.end(THINGS, "things")
        await wait_all_tasks_blocked()
        assert (swept.names, named.names) == (["a", "b"], ["b"])
        assert swept.member.should_end() and named.member.should_end()


async def test_watches_of_other_kinds_continue(autojump_clock: MockClock) -> None:
    async with memory_hub() as base:
        watcher = base.join()
        base.hub.end(OTHERS, "others")
        await wait_all_tasks_blocked()
        base.put("a")
        await wait_all_tasks_blocked()
        assert watcher.names == ["a"] and not watcher.member.should_end()


async def test_member_that_does_not_read_delays_no_other(autojump_clock: MockClock) -> None:
    async with memory_hub() as base:
        stalled, reading = base.join(FakePipe(room=10)), base.join()
        base.put("a")
        await wait_all_tasks_blocked()
        base.hub.end(THINGS, "things")
        await trio.sleep(CLOSE_TIMEOUT + 1)
        assert reading.names == ["a"] and reading.member.should_end()
        assert stalled.member.should_end()


async def test_watch_of_retired_kind_ends_at_once(autojump_clock: MockClock) -> None:
    async with memory_hub() as base:
        base.served.remove(THINGS)
        assert base.join().member.should_end()


async def test_statistics_of_retired_kind_are_dropped_with_last_watch(autojump_clock: MockClock) -> None:
    async with memory_hub() as base:
        watcher = base.join()
        assert "things" in base.hub.statistics()
        base.served.remove(THINGS)
        base.hub.end(THINGS, "things")
        await wait_all_tasks_blocked()
        base.leave(watcher)
        assert base.hub.statistics() == {}


async def test_statistics_of_retired_kind_without_watches_are_dropped(autojump_clock: MockClock) -> None:
    async with memory_hub() as base:
        base.leave(base.join())
        assert "things" in base.hub.statistics()
        base.hub.end(THINGS, "things")
        await wait_all_tasks_blocked()
        assert base.hub.statistics() == {}
