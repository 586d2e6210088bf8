"""The tasks that run asynchronous steps: reused, bounded while idle, and gone after a cancelled step."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.admission import calls
from actors.admission.plugin import Admitted, AsyncPlugin, rule
from actors.admission.request import CREATE, AdmissionRequest
from actors.errors import Resource
from tests.actors.object_store import open_store

SECONDS = 10.0


class Outside(AsyncPlugin):
    """Takes ten seconds, and remembers the tasks in which it ran."""

    name = "Outside"
    validates = (rule(CREATE, of=(Resource("", "configmaps"),)),)

    def __init__(self) -> None:
        self.tasks: list[trio.lowlevel.Task] = []

    async def admit(self, request: AdmissionRequest) -> Admitted:
        self.tasks.append(trio.lowlevel.current_task())
        await trio.sleep(SECONDS)
        return Admitted()


def named(name: str) -> dict[str, dict[str, str]]:
    return {"metadata": {"name": name}}


async def test_one_step_after_the_other_runs_in_one_task(autojump_clock: MockClock) -> None:
    async with open_store(outside := Outside()) as store:
        for name in "abc":
            await store.create("configmaps", named(name))
    assert len(outside.tasks) == 3 and len(set(outside.tasks)) == 1


async def test_task_of_a_cancelled_step_is_not_used_again(autojump_clock: MockClock) -> None:
    async with open_store(outside := Outside()) as store:
        await store.create("configmaps", named("a"))
        with trio.move_on_after(SECONDS / 2):
            await store.create("configmaps", named("b"))
        await store.create("configmaps", named("c"))
        assert store.directory.admission_statistics().running == 0
        assert {one["metadata"]["name"] for one in (await store.list("configmaps"))["items"]} == {"a", "c"}
    first, cancelled, last = outside.tasks
    assert first is cancelled and last is not cancelled


async def test_few_tasks_stay_after_many_steps_at_once(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MAX_IDLE", 3)
    async with open_store(outside := Outside()) as store:
        await store.list("configmaps")
        await wait_all_tasks_blocked()
        before = trio.lowlevel.current_statistics().tasks_living
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(store.create, "configmaps", named(f"a-{number}"))
        await wait_all_tasks_blocked()
        # The others are the actor of the kind, and the task that ends its commands at their deadlines.
        assert trio.lowlevel.current_statistics().tasks_living <= before + 3 + 2
        assert len(set(outside.tasks)) == 20
