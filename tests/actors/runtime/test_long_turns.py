"""Long work of many tasks: one task has a turn in each pass of the event loop, and users take turns."""

from __future__ import annotations

from collections import Counter

import trio

from rewound.actors.runtime.turns import next_turn, user_at_work


async def test_another_task_waits_for_one_turn_of_all_long_work() -> None:
    turns = most = 0

    async def long_work() -> None:
        nonlocal turns
        for _ in range(20):
            await next_turn()
            turns += 1

    async def other(done: trio.Event) -> None:
        nonlocal most
        while not done.is_set():
            before = turns
            await trio.lowlevel.checkpoint()
            most = max(most, turns - before)

    done = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other, done)
        async with trio.open_nursery() as inner:
            for _ in range(40):
                inner.start_soon(long_work)
        done.set()
    assert turns == 800
    assert most <= 2  # those of the pass before and after it, as trio runs tasks in any order


async def test_users_have_turns_one_after_the_other() -> None:
    had: Counter[str] = Counter()
    ended: dict[str, int] = {}

    async def long_work(user: str, steps: int) -> None:
        user_at_work.set(user)
        for _ in range(steps):
            await next_turn()
            had[user] += 1
        ended.setdefault(user, had.total())

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(long_work, "many", 10)
        nursery.start_soon(long_work, "one", 10)
    assert had == {"many": 500, "one": 10}
    assert ended["one"] <= 32  # every second or third turn was its own


async def test_a_cancelled_task_takes_no_turn() -> None:
    with trio.move_on_after(0) as scope:
        scope.cancel()
        await next_turn()
    assert scope.cancelled_caught
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(next_turn)
        await next_turn()
