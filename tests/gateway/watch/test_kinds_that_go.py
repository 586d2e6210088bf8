"""Watches of a kind that is no longer served end in good order, and watches of other kinds go on."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.watch.member import FAREWELL
from tests.gateway.watch.ground import OTHERS, THINGS, FakePipe, ground


async def test_members_get_what_was_committed_and_then_end(autojump_clock: MockClock) -> None:
    async with ground() as base:
        swept, named = base.join(), base.join(name="b")
        base.put("a")
        base.put("b")
        base.hub.end(THINGS, "things")
        await wait_all_tasks_blocked()
        assert (swept.names, named.names) == (["a", "b"], ["b"])
        assert swept.member.over() and named.member.over()


async def test_members_of_other_kinds_stay(autojump_clock: MockClock) -> None:
    async with ground() as base:
        watcher = base.join()
        base.hub.end(OTHERS, "others")
        await wait_all_tasks_blocked()
        base.put("a")
        await wait_all_tasks_blocked()
        assert watcher.names == ["a"] and not watcher.member.over()


async def test_a_member_that_does_not_read_holds_up_nobody(autojump_clock: MockClock) -> None:
    async with ground() as base:
        stalled, reading = base.join(FakePipe(room=10)), base.join()
        base.put("a")
        await wait_all_tasks_blocked()
        base.hub.end(THINGS, "things")
        await trio.sleep(FAREWELL + 1)
        assert reading.names == ["a"] and reading.member.over()
        assert stalled.member.over()


async def test_who_comes_after_the_kind_went_ends_at_once(autojump_clock: MockClock) -> None:
    async with ground() as base:
        base.served.remove(THINGS)
        assert base.join().member.over()


async def test_statistics_of_a_kind_that_went_are_dropped(autojump_clock: MockClock) -> None:
    async with ground() as base:
        watcher = base.join()
        assert "things" in base.hub.statistics()
        base.served.remove(THINGS)
        base.hub.end(THINGS, "things")
        await wait_all_tasks_blocked()
        base.leave(watcher)
        assert base.hub.statistics() == {}


async def test_statistics_go_also_where_nobody_watches_any_more(autojump_clock: MockClock) -> None:
    async with ground() as base:
        base.leave(base.join())
        assert "things" in base.hub.statistics()
        base.hub.end(THINGS, "things")
        await wait_all_tasks_blocked()
        assert base.hub.statistics() == {}
