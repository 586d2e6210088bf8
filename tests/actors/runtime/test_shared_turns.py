"""Tasks that become runnable at the same moment take turns, and other tasks run in between."""

from __future__ import annotations

from collections import Counter

import trio

from rewound.actors.runtime.turns import TURN, SharedTurns

TASKS, WORK = 20, TURN / 4


class Passes(trio.abc.Instrument):
    """Counts the passes of the event loop over the runnable tasks."""

    def __init__(self) -> None:
        self.number = 0

    def before_io_wait(self, timeout: float) -> None:
        self.number += 1


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


async def test_tasks_take_turns() -> None:
    clock, passes, start = Clock(), Passes(), trio.Event()
    turns, worked = SharedTurns(clock), Counter[int]()
    clock.time = 100.0

    async def work() -> None:
        await start.wait()
        if turns.over():
            await turns.next()
        worked[passes.number] += 1
        clock.time += WORK

    trio.lowlevel.add_instrument(passes)
    async with trio.open_nursery() as nursery:
        for _ in range(TASKS):
            nursery.start_soon(work)
        await trio.testing.wait_all_tasks_blocked()
        start.set()
    trio.lowlevel.remove_instrument(passes)
    assert list(worked.values()) == [4] * 5


async def test_single_tasks_do_not_wait() -> None:
    clock = Clock()
    turns = SharedTurns(clock)
    for _ in range(10):
        clock.time += TURN * 2
        assert not turns.over()
