"""The reconcile loop: which keys it reconciles, and how a failed key affects the others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.actors.controllers.loop import Loop, RetryLater
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import Overloaded
from rewound.actors.runtime.supervisor import Supervisor
from rewound.actors.store.feed import Feed
from rewound.journal.records import Event
from tests.actors.unread_journal import UNREAD


class Names:
    """A controller whose keys are object names; it raises each error of `errors` once."""

    name = "names"

    def __init__(
        self, existing: Sequence[str] = (), errors: dict[str, list[Exception]] | None = None
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue(first_pause=1)
        self.existing, self.errors = existing, errors or {}
        self.reconciled: list[tuple[float, str]] = []

    observed_types = None

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            self.queue.add(event.name)

    async def catch_up(self) -> None:
        for name in self.existing:
            self.queue.add(name)

    async def reconcile(self, key: str) -> None:
        self.reconciled.append((trio.current_time(), key))
        if self.errors.get(key):
            raise self.errors[key].pop()


def event(offset: int, name: str) -> Event:
    return Event(offset, 1, "create", "", name, 0, False, 0, "", "", b"", b"{}")


async def test_existing_and_new_keys_are_reconciled(nursery: trio.Nursery) -> None:
    feed, names = Feed(0, UNREAD), Names(existing=["old"])
    nursery.start_soon(Loop(names, feed).run)
    await wait_all_tasks_blocked()
    feed.publish([event(1, "new")])
    await wait_all_tasks_blocked()
    assert [key for _, key in names.reconciled] == ["old", "new"]


@pytest.mark.parametrize("error", [Overloaded(), RetryLater(), ValueError("a bug")], ids=repr)
async def test_failed_key_is_retried_while_the_others_continue(
    error: Exception, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    names = Names(existing=["bad", "good"], errors={"bad": [error]})
    nursery.start_soon(Loop(names, Feed(0, UNREAD)).run)
    await trio.sleep(10)
    assert sorted(names.reconciled) == [(0, "bad"), (0, "good"), (1, "bad")]


async def test_loop_that_ended_no_longer_follows_the_feed() -> None:
    feed, names = Feed(0, UNREAD), Names()
    async with trio.open_nursery() as own:
        own.start_soon(Loop(names, feed).run)
        await wait_all_tasks_blocked()
        own.cancel_scope.cancel()
    feed.publish([event(1, "late")])
    assert names.queue.statistics().ready == 0


async def test_concurrent_reconciles_are_limited(autojump_clock: MockClock) -> None:
    names = Slow(existing="abcdef")
    with trio.move_on_after(100):
        await Loop(names, Feed(0, UNREAD), max_concurrent=2).run()
    assert [at for at, _ in names.reconciled] == [0, 0, 1, 1, 2, 2]


async def test_crashed_loop_is_restarted(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    feed, names, supervisor = Feed(0, UNREAD), Breaking(existing=["old"]), Supervisor()
    nursery.start_soon(supervisor.keep, "names", Loop(names, feed).run)
    await trio.sleep(1)
    feed.publish([event(1, "new")])
    await wait_all_tasks_blocked()
    assert [key for _, key in names.reconciled] == ["old", "new"]
    assert supervisor.statistics()["names"].restarts == 1


class Breaking(Names):
    """Raises in the first `catch_up`."""

    broken = False

    async def catch_up(self) -> None:
        if not self.broken:
            self.broken = True
            raise ValueError("broken")
        await super().catch_up()


class Slow(Names):
    async def reconcile(self, key: str) -> None:
        await super().reconcile(key)
        await trio.sleep(1)


async def test_key_whose_object_cannot_be_read_is_left_out_and_named_once(
    nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    feed = Feed(0, UNREAD)
    names = Names(existing=["bad", "good"], errors={"bad": [KeyError("spec") for _ in range(5)]})
    loop = Loop(names, feed)
    nursery.start_soon(loop.run)
    await trio.sleep(10)
    named = [one for one in caplog.records if one.levelname == "WARNING"]
    assert [one.message for one in named] == [
        "for names: bad is left out, because it is stored in a form that its kind does not have: KeyError: 'spec'; "
        "replace or delete it"
    ]
    assert loop.statistics()[0].left_out == {"bad": "KeyError: 'spec'"}
    await trio.sleep(100)
    assert names.reconciled[-1][1] == "bad" and not names.errors["bad"]
    assert loop.statistics()[0].left_out == {}
    assert len([one for one in caplog.records if one.levelname in ("WARNING", "ERROR")]) == 1
