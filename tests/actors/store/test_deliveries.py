"""Followers of the feed get a batch before its writers get their replies; watchers are woken a pass after the
replies.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio
from trio.testing import wait_all_tasks_blocked

from rewound.actors.runtime.mailbox import Reply
from rewound.actors.store.committer import Committer
from rewound.actors.store.feed import RETRY_PAUSE, Feed
from rewound.journal.records import Event
from tests.actors.store.proposals import creation
from tests.actors.store.test_committer import Log
from tests.actors.unread_journal import UNREAD

WRITES = 20  # trio runs the tasks of a pass in either order


class Watcher:
    """A task that a delivery wakes."""

    def __init__(self, order: list[str]) -> None:
        self._order = order
        self._woken = trio.lowlevel.ParkingLot()

    def wake(self) -> None:
        self._woken.unpark_all()

    async def run(self) -> None:
        while True:
            await self._woken.park()
            self._order.append("event")


async def reply_to(reply: Reply[None], order: list[str]) -> None:
    await reply.wait()
    order.append("reply")


async def test_a_reply_is_sent_before_watchers_are_woken() -> None:
    feed, order = Feed(0, UNREAD), list[str]()
    committer, watcher = Committer(Log(), feed), Watcher(order)  # type: ignore[arg-type]

    def record(_: Sequence[Event]) -> None:
        order.append("recorded")

    feed.follow(record)
    feed.on_delivery(watcher.wake)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        nursery.start_soon(watcher.run)
        for number in range(WRITES):
            reply: Reply[None] = Reply()
            nursery.start_soon(reply_to, reply, order)
            committer.submit([creation(1, f"n{number}", 0, 1)], lambda _, to=reply: to.succeed(None))  # type: ignore[misc]
            await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert order == ["recorded", "reply", "event"] * WRITES


async def test_a_delivery_that_fails_is_repeated(autojump_clock) -> None:
    feed, delivered = Feed(0, UNREAD), list[float]()

    def deliver() -> None:
        delivered.append(trio.current_time())
        if len(delivered) == 1:
            raise RuntimeError("made up")

    feed.on_delivery(deliver)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(feed.run)
        await wait_all_tasks_blocked()
        feed.deliver()
        await trio.sleep(3 * RETRY_PAUSE)
        nursery.cancel_scope.cancel()
    assert len(delivered) == 2
