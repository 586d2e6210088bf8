"""Large jobs run in one thread, users take turns, and few of them wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rewound.actors.runtime.large_work import LargeWork, TooMuchLargeWork, in_event_loop
from rewound.actors.runtime.time_limit import TookTooLong, check_time, run_limited


class Gate:
    """A job that blocks the thread until it is released, and the order of all other jobs."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.done: list[str] = []

    def hold(self) -> int:
        assert self._open.wait(60)
        return threading.get_ident()

    def open(self) -> None:
        self._open.set()

    def note(self, name: str) -> Callable[[], None]:
        return lambda: self.done.append(name)


async def test_work_runs_in_another_thread_and_its_error_reaches_the_caller() -> None:
    work = LargeWork()
    assert await work.run("a", threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await work.run("a", lambda: 1 / 0)
    assert await work.run("a", pow, 2, 3) == 8


async def test_users_take_turns() -> None:
    gate = Gate()
    async with trio.open_nursery() as nursery:
        work = LargeWork()
        nursery.start_soon(work.run, "greedy", gate.hold)
        await wait_all_tasks_blocked()
        for number in range(3):
            nursery.start_soon(work.run, "greedy", gate.note(f"greedy {number}"))
            await wait_all_tasks_blocked()
        for user in ("b", "c"):
            nursery.start_soon(work.run, user, gate.note(user))
            await wait_all_tasks_blocked()
        assert work.statistics().waiting == 5
        gate.open()
    assert gate.done == ["greedy 0", "b", "c", "greedy 1", "greedy 2"]
    assert work.statistics().waiting == 0


async def test_too_much_waiting_work_is_refused() -> None:
    gate = Gate()
    async with trio.open_nursery() as nursery:
        work = LargeWork(limit=3, limit_of_user=2)
        for _ in range(3):
            nursery.start_soon(work.run, "a", gate.hold)
            await wait_all_tasks_blocked()
        with pytest.raises(TooMuchLargeWork):
            await work.run("a", gate.hold)
        nursery.start_soon(work.run, "b", gate.hold)
        await wait_all_tasks_blocked()
        with pytest.raises(TooMuchLargeWork):
            await work.run("c", gate.hold)
        assert work.statistics().refused == 2
        gate.open()


async def test_cancelled_work_loses_its_place() -> None:
    gate, work, scope = Gate(), LargeWork(), trio.CancelScope()

    async def cancelled() -> None:
        with scope:
            await work.run("b", gate.note("b"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work.run, "a", gate.hold)
        await wait_all_tasks_blocked()
        nursery.start_soon(cancelled)
        nursery.start_soon(work.run, "c", gate.note("c"))
        await wait_all_tasks_blocked()
        scope.cancel()
        await wait_all_tasks_blocked()
        assert scope.cancelled_caught
        gate.open()
    assert gate.done == ["c"]


async def test_coroutine_changes_to_the_event_loop_and_back() -> None:
    loop, work = threading.get_ident(), LargeWork()

    async def ask(answer: int) -> tuple[int, int]:
        await trio.lowlevel.checkpoint()
        if answer < 0:
            raise ValueError(answer)
        return answer, threading.get_ident()

    async def steps() -> list[int]:
        assert threading.get_ident() != loop
        answers = []
        for number in (1, 2, -3):
            try:
                answer, where = await in_event_loop(partial(ask, number))
                assert where == loop
            except ValueError as error:
                answer = error.args[0]
            assert threading.get_ident() != loop
            answers.append(answer)
        return answers

    assert await work.run_command("a", steps()) == [1, 2, -3]
    assert work.statistics().started == 4


async def test_cancelled_coroutine_is_closed() -> None:
    work, closed = LargeWork(), list[bool]()

    async def steps() -> None:
        try:
            await in_event_loop(cancel_and_wait)
        finally:
            closed.append(True)

    async def cancel_and_wait() -> None:
        scope.cancel()
        await trio.sleep_forever()

    with trio.CancelScope() as scope:
        await work.run_command("a", steps())
    assert closed == [True]


def test_time_limit_ends_long_work_at_its_next_check() -> None:
    with pytest.raises(TookTooLong):
        run_limited(_spin, seconds=0.001)
    check_time()  # no limit here


def _spin() -> None:
    while True:
        check_time()
