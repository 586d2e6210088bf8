"""Calls beyond the limit wait in order until a slot is free or their deadline passes."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.actors.access.remote.deadlines import Deadlines, TooSlow
from rewound.actors.access.remote.slots import Slots
from rewound.actors.runtime.turns import TURN, SharedTurns, user_at_work


async def test_slots_go_to_those_that_wait_for_longest(autojump_clock: MockClock) -> None:
    slots, order = Slots(1, Deadlines()), list[int]()

    async def call(number: int) -> None:
        if not slots.take_nowait():
            await slots.take(trio.current_time() + 100)
        order.append(number)
        await trio.sleep(1)
        slots.release()

    async with trio.open_nursery() as nursery:
        for number in range(7):
            nursery.start_soon(call, number)
            await wait_all_tasks_blocked()
    assert order == list(range(7)) and slots.idle


async def test_write_that_waits_too_long_gives_up_and_others_continue(autojump_clock: MockClock) -> None:
    slots, began = Slots(1, Deadlines()), trio.current_time()
    assert slots.take_nowait() and not slots.take_nowait() and not slots.idle
    ended: list[tuple[str, float]] = []

    async def wait(name: str, seconds: float) -> None:
        try:
            await slots.take(began + seconds)
        except TooSlow:
            name = f"{name} too slow"
        ended.append((name, trio.current_time() - began))

    async with trio.open_nursery() as nursery:
        for name, seconds in (("a", 5.0), ("b", 3.0), ("c", 20.0)):
            nursery.start_soon(wait, name, seconds)
        await trio.sleep(10)
        slots.release()
    assert ended == [("b too slow", 3), ("a too slow", 5), ("c", 10)]
    slots.release()
    assert slots.idle


async def test_cancelled_waiter_takes_no_slot(autojump_clock: MockClock) -> None:
    slots = Slots(1, Deadlines())
    assert slots.take_nowait()
    with trio.move_on_after(1) as scope:
        await slots.take(trio.current_time() + 5)
    assert scope.cancelled_caught
    slots.release()
    assert slots.idle
    assert slots.take_nowait()
    with pytest.raises(TooSlow):
        await slots.take(trio.current_time() + 5)


async def test_users_have_slots_one_after_the_other(autojump_clock: MockClock) -> None:
    slots, order = Slots(1, Deadlines()), list[str]()
    assert slots.take_nowait()

    async def call(user: str, name: str) -> None:
        user_at_work.set(user)
        await slots.take(trio.current_time() + 100)
        order.append(name)
        await trio.sleep(1)
        slots.release()

    async with trio.open_nursery() as nursery:
        for user, name in [*(("flood", f"f{number}") for number in range(4)), ("other", "a"), ("other", "b")]:
            nursery.start_soon(call, user, name)
            await wait_all_tasks_blocked()
        slots.release()
    assert order == ["f0", "a", "f1", "b", "f2", "f3"]
    assert slots.idle


class Rounds(trio.abc.Instrument):
    """Counts the passes of the event loop over all runnable tasks."""

    count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


async def test_calls_that_get_slots_at_the_same_moment_take_turns() -> None:
    now, loop = 0.0, Rounds()
    began: list[int] = []
    slots = Slots(12, Deadlines(), SharedTurns(lambda: now))

    async def call() -> None:
        nonlocal now
        await slots.take(trio.current_time() + 100)
        now += TURN / 4
        began.append(loop.count)

    assert all(slots.take_nowait() for _ in range(12))
    trio.lowlevel.add_instrument(loop)
    async with trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(call)
        await wait_all_tasks_blocked()
        for _ in range(12):
            slots.release()
    assert len(began) == 12
    assert max(Counter(began).values()) <= 5, "four calls fill a turn"


async def test_call_that_is_cancelled_before_its_turn_gives_its_slot_back() -> None:
    slots = Slots(1, Deadlines(), SharedTurns(lambda: 0.0))
    assert slots.take_nowait()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slots.take, trio.current_time() + 100)
            await wait_all_tasks_blocked()
            slots.release()
            scope.cancel()
    assert scope.cancelled_caught and slots.idle
