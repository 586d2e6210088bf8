"""The frame: what happens to keys, and what one key's failure does to the others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.controllers.loop import Loop, NotYet
from actors.controllers.work import WorkQueue
from actors.errors import Overloaded
from actors.store.feed import Feed
from actors.supervisor import Supervisor
from journal.records import Event


class Names:
    """A controller that handles the names of objects; `trouble` is what it raises, once each."""

    name = "names"

    def __init__(self, old: Sequence[str] = (), trouble: dict[str, list[Exception]] | None = None) -> None:
        self.queue: WorkQueue[str] = WorkQueue(first_pause=1)
        self.old, self.trouble = old, trouble or {}
        self.handled: list[tuple[float, str]] = []

    def note(self, events: Sequence[Event]) -> None:
        for event in events:
            self.queue.add(event.name)

    async def catch_up(self) -> None:
        for name in self.old:
            self.queue.add(name)

    async def handle(self, key: str) -> None:
        self.handled.append((trio.current_time(), key))
        if self.trouble.get(key):
            raise self.trouble[key].pop()


def event(offset: int, name: str) -> Event:
    return Event(offset, 1, "create", "", name, 0, False, 0, "", "", b"", b"{}")


async def test_what_was_there_and_what_comes_are_handled(nursery: trio.Nursery) -> None:
    feed, names = Feed(0), Names(old=["there"])
    nursery.start_soon(Loop(names, feed).run)
    await wait_all_tasks_blocked()
    feed.publish([event(1, "new")])
    await wait_all_tasks_blocked()
    assert [key for _, key in names.handled] == ["there", "new"]


@pytest.mark.parametrize("trouble", [Overloaded(), NotYet(), ValueError("a bug")], ids=repr)
async def test_a_key_that_failed_comes_back_and_the_others_go_on(
    trouble: Exception, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    names = Names(old=["bad", "good"], trouble={"bad": [trouble]})
    nursery.start_soon(Loop(names, Feed(0)).run)
    await trio.sleep(10)
    assert sorted(names.handled) == [(0, "bad"), (0, "good"), (1, "bad")]


async def test_a_loop_that_ends_follows_the_feed_no_more() -> None:
    feed, names = Feed(0), Names()
    async with trio.open_nursery() as own:
        own.start_soon(Loop(names, feed).run)
        await wait_all_tasks_blocked()
        own.cancel_scope.cancel()
    feed.publish([event(1, "late")])
    assert names.queue.statistics().ready == 0


async def test_no_more_keys_than_the_width_are_handled_at_a_time(autojump_clock: MockClock) -> None:
    names = Slow(old="abcdef")
    with trio.move_on_after(100):
        await Loop(names, Feed(0), width=2).run()
    assert [at for at, _ in names.handled] == [0, 0, 1, 1, 2, 2]


async def test_a_loop_that_broke_starts_over(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    feed, names, supervisor = Feed(0), Breaking(old=["there"]), Supervisor()
    nursery.start_soon(supervisor.keep, "names", Loop(names, feed).run)
    await trio.sleep(1)
    feed.publish([event(1, "new")])
    await wait_all_tasks_blocked()
    assert [key for _, key in names.handled] == ["there", "new"]
    assert supervisor.statistics()["names"].restarts == 1


class Breaking(Names):
    """Breaks once, while catching up."""

    broken = False

    async def catch_up(self) -> None:
        if not self.broken:
            self.broken = True
            raise ValueError("broken")
        await super().catch_up()


class Slow(Names):
    async def handle(self, key: str) -> None:
        await super().handle(key)
        await trio.sleep(1)
