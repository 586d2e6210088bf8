"""The supervisor restarts a task that crashes, after pauses that grow until the task has recovered."""

from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.runtime.supervisor import FIRST_PAUSE, LONGEST_PAUSE, RECOVERED_AFTER, Supervisor


class Task:
    """Crashes after this many seconds each time; records when it was started."""

    def __init__(self, lives: list[float]) -> None:
        self._lives = iter(lives)
        self.starts: list[float] = []

    async def __call__(self) -> None:
        self.starts.append(trio.current_time())
        life = next(self._lives, None)
        if life is None:
            return
        await trio.sleep(life)
        raise RuntimeError("broken")


async def starts(lives: list[float]) -> list[float]:
    """When the task was restarted, counted from each crash."""
    task = Task(lives)
    await Supervisor().keep("task", task)
    return [
        round(again - begun - life, 6)
        for begun, again, life in zip(task.starts, task.starts[1:], lives, strict=False)
    ]


async def test_pauses_grow_up_to_a_limit(autojump_clock: MockClock) -> None:
    pauses = await starts([0.0] * 12)
    assert pauses[:4] == [FIRST_PAUSE, FIRST_PAUSE * 2, FIRST_PAUSE * 4, FIRST_PAUSE * 8]
    assert pauses[-1] == LONGEST_PAUSE


async def test_recovered_task_starts_with_the_first_pause_again(autojump_clock: MockClock) -> None:
    assert await starts([0.0, 0.0, RECOVERED_AFTER + 1, 0.0]) == [
        FIRST_PAUSE,
        FIRST_PAUSE * 2,
        FIRST_PAUSE,
        FIRST_PAUSE * 2,
    ]


async def test_task_is_failing_until_it_has_run_for_the_recovery_time(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = Supervisor()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.keep, "task", Task([5.0, RECOVERED_AFTER + 5]))
        await trio.sleep(1)
        assert supervisor.failing() == []
        await trio.sleep(4 + FIRST_PAUSE / 2)
        assert supervisor.failing() == ["task"]
        assert supervisor.statistics()["task"].failing == "RuntimeError: broken"
        await trio.sleep(RECOVERED_AFTER - 1)
        assert supervisor.failing() == ["task"]
        await trio.sleep(2)
        assert supervisor.failing() == []
    assert supervisor.statistics()["task"].restarts == 2
    assert "task crashed and will be started again" in caplog.text
    assert caplog.records[0].levelno == logging.ERROR


async def test_task_that_crashes_repeatedly_is_never_healthy(autojump_clock: MockClock) -> None:
    supervisor = Supervisor()
    life = RECOVERED_AFTER - 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.keep, "task", Task([life] * 20))
        await trio.sleep(life + FIRST_PAUSE / 2)
        for _ in range(100):
            assert supervisor.failing() == ["task"]
            await trio.sleep(5)
        nursery.cancel_scope.cancel()


async def test_task_that_returns_is_not_restarted(autojump_clock: MockClock) -> None:
    task = Task([])
    await Supervisor().keep("task", task)
    assert len(task.starts) == 1


async def test_cancellation_is_no_crash(autojump_clock: MockClock) -> None:
    supervisor = Supervisor()
    with trio.move_on_after(1):
        await supervisor.keep("task", Task([100.0]))
    assert supervisor.statistics()["task"].restarts == 0
