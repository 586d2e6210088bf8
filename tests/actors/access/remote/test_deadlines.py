"""Waiting tasks end at their own deadlines."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.actors.access.remote.deadlines import Deadlines

LARGEST = 1 << 20
HOUR = 3600.0


class Stream:
    def __init__(self) -> None:
        self.expired_at: float | None = None

    def expire(self) -> None:
        self.expired_at = trio.current_time()


async def test_streams_expire_at_their_deadlines(autojump_clock: MockClock) -> None:
    deadlines, began = Deadlines(), trio.current_time()
    first, second, removed, third = (Stream() for _ in range(4))
    deadlines.add(first, began + 10)
    await wait_all_tasks_blocked()
    deadlines.add(second, began + 5)
    deadlines.add(removed, began + 1)
    deadlines.add(third, began + 30)
    deadlines.remove(removed)
    await trio.sleep(HOUR)
    deadlines.add(removed, began + HOUR + 7)
    await trio.sleep(HOUR)
    expired = [one.expired_at for one in (first, second, third, removed)]
    assert expired == [began + 10, began + 5, began + 30, began + HOUR + 7]


async def test_one_that_expires_may_remove_and_prolong_others(autojump_clock: MockClock) -> None:
    deadlines, began = Deadlines(), trio.current_time()

    class Group(Stream):
        def expire(self) -> None:
            super().expire()
            deadlines.remove(removed)
            deadlines.add(prolonged, began + 20)

    group, removed, prolonged = Group(), Stream(), Stream()
    for one in (group, removed, prolonged):
        deadlines.add(one, began + 10)
    await trio.sleep(HOUR)
    expired = [one.expired_at for one in (group, removed, prolonged)]
    assert expired == [began + 10, None, began + 20]


async def test_no_task_waits_when_no_call_is_under_way(autojump_clock: MockClock) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    deadlines = Deadlines()
    for _ in range(3):
        stream = Stream()
        deadlines.add(stream, trio.current_time() + 10)
        deadlines.remove(stream)
    await trio.sleep(11)
    assert stream.expired_at is None
    assert trio.lowlevel.current_statistics().tasks_living == before
