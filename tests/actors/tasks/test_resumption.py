"""Tasks that the resumer runs: each is run as trio would run it, however it ends its step."""

from __future__ import annotations

import runpy
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import outcome
import pytest
import trio
from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled
from trio.testing import wait_all_tasks_blocked

from actors.tasks import resumption
from actors.tasks.resumption import KNOWN, find_resumer, pause, resume, start

needs_known_trio = pytest.mark.skipif(not KNOWN, reason="needs a release of trio that is known")

Then = Callable[[], Awaitable[object]]
name: ContextVar[str] = ContextVar("name")


class Waits:
    """Tasks that wait until `resume_all`, and then go on."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.aborted = 0

    def _abort(self, _: object) -> Abort:
        self.aborted += 1
        self.tasks.clear()
        return Abort.SUCCEEDED

    async def wait(self) -> None:
        self.tasks.append(current_task())
        await pause(self._abort)

    async def wait_then(self, then: Then) -> None:
        await self.wait()
        await then()

    def resume_all(self) -> None:
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            resume(task)


async def nothing() -> None:
    pass


@pytest.fixture(params=[False, True], ids=["by trio", "by the resumer"])
async def waits(request: pytest.FixtureRequest) -> Waits:
    if request.param:
        if not KNOWN:
            pytest.skip("needs a release of trio that is known")
        assert start()
    assert (find_resumer() is not None) == request.param
    return Waits()


async def test_task_runs_as_itself_in_its_own_context(waits: Waits) -> None:
    seen: list[tuple[bool, str]] = []

    async def run(mine: str) -> None:
        name.set(mine)
        task = current_task()
        await waits.wait()
        seen.append((current_task() is task, name.get()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, "a")
        nursery.start_soon(run, "b")
        await wait_all_tasks_blocked()
        waits.resume_all()
        me = current_task()
        await wait_all_tasks_blocked()
        assert current_task() is me
    assert sorted(seen) == [(True, "a"), (True, "b")]


async def test_resumed_task_may_wait_again_in_any_way(waits: Waits, autojump_clock: trio.abc.Clock) -> None:
    steps: list[str] = []

    async def run() -> None:
        for _ in range(2):
            await waits.wait()
            steps.append("resumed")
            await trio.lowlevel.checkpoint()
            await trio.sleep(1)
            steps.append("slept")
        async with trio.open_nursery() as inner:
            inner.start_soon(waits.wait_then, nothing)
        steps.append("ended")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        for _ in range(3):
            await trio.sleep(2)
            waits.resume_all()
    assert steps == ["resumed", "slept", "resumed", "slept", "ended"]


async def test_error_ends_the_nursery_and_other_tasks_are_cancelled(waits: Waits) -> None:
    async def fail() -> None:
        raise ValueError("mine")

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waits.wait_then, fail)
            await wait_all_tasks_blocked()
            waits.resume_all()
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await run()
    (error,) = caught.value.exceptions
    assert isinstance(error, ValueError) and error.__context__ is None


async def test_wait_can_be_cancelled(waits: Waits) -> None:
    with trio.move_on_after(0) as scope:
        await waits.wait()
    assert scope.cancelled_caught and waits.aborted == 1


async def test_task_that_was_cancelled_meanwhile_ends_at_its_next_wait(waits: Waits) -> None:
    steps: list[str] = []

    async def run(scope: trio.CancelScope) -> None:
        with scope:
            await waits.wait()
            steps.append("resumed")
            await waits.wait()
            steps.append("never")

    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, scope)
        await wait_all_tasks_blocked()
        waits.resume_all()
        scope.cancel()  # after it was resumed, and before it runs
        await wait_all_tasks_blocked()
    assert steps == ["resumed"] and scope.cancelled_caught and waits.aborted == 1


async def test_task_resumed_by_a_resumed_task_runs_too(waits: Waits) -> None:
    steps: list[int] = []

    async def run(number: int) -> None:
        await waits.wait()
        steps.append(number)

    async def chain() -> None:
        steps.append(0)
        waits.resume_all()

    others = Waits()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(others.wait_then, chain)
        nursery.start_soon(run, 1)
        nursery.start_soon(run, 2)
        await wait_all_tasks_blocked()
        others.resume_all()
    assert steps[0] == 0 and sorted(steps[1:]) == [1, 2]


async def test_task_can_leave_the_loop(waits: Waits) -> None:
    async def leave() -> None:
        await trio.lowlevel.permanently_detach_coroutine_object(outcome.Value(None))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(waits.wait_then, leave)
        await wait_all_tasks_blocked()
        coroutine = waits.tasks[0].coro
        waits.resume_all()
    with pytest.raises(StopIteration):
        coroutine.send(None)


class Steps(trio.abc.Instrument):
    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def before_task_step(self, task: Task) -> None:
        self.tasks.append(task)


async def test_instruments_see_each_step(waits: Waits) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waits.wait)
        await wait_all_tasks_blocked()
        (task,) = waits.tasks
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        waits.resume_all()
    trio.lowlevel.remove_instrument(steps)
    assert task in steps.tasks


@needs_known_trio
def test_each_loop_has_its_own_resumer() -> None:
    async def run() -> None:
        assert find_resumer() is None
        assert start() and start()
        assert find_resumer() is not None

    trio.run(run)
    trio.run(run)


def test_with_an_unknown_trio_trio_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trio, "__version__", "0.99.0")
    found = runpy.run_path(resumption.__file__)
    assert found["resume"] is reschedule and found["pause"] is wait_task_rescheduled
    assert not found["start"]()
