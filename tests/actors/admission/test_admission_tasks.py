"""Asynchronous admission steps run in the tasks of their callers."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.actors.admission.plugin import Admitted, AsyncPlugin, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.messages import Create, Outcome, Written
from tests.actors.object_store import open_store

SECONDS = 10.0


class Outside(AsyncPlugin):
    """Takes ten seconds, and records the tasks in which it ran."""

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


async def test_step_runs_in_the_task_of_the_caller(autojump_clock: MockClock) -> None:
    async with open_store(outside := Outside()) as store:
        for name in "abc":
            await store.create("configmaps", named(name))
    assert outside.tasks == [trio.lowlevel.current_task()] * 3


async def test_cancelled_step_ends_the_write(autojump_clock: MockClock) -> None:
    async with open_store(Outside()) as store:
        await store.create("configmaps", named("a"))
        with trio.move_on_after(SECONDS / 2):
            await store.create("configmaps", named("b"))
        await store.create("configmaps", named("c"))
        assert store.directory.admission_statistics().running == 0
        assert {one["metadata"]["name"] for one in (await store.list("configmaps"))["items"]} == {"a", "c"}


async def test_many_steps_at_once_have_the_tasks_of_their_callers_and_no_others(
    autojump_clock: MockClock,
) -> None:
    async with open_store(outside := Outside()) as store:
        await store.create("configmaps", named("first"))
        await wait_all_tasks_blocked()
        before = trio.lowlevel.current_statistics().tasks_living
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(store.create, "configmaps", named(f"a-{number}"))
            await wait_all_tasks_blocked()
            assert trio.lowlevel.current_statistics().tasks_living == before + 20
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == before
        assert len(set(outside.tasks)) == 21


async def test_write_of_the_server_that_waits_has_a_task_of_its_own(autojump_clock: MockClock) -> None:
    async with open_store(outside := Outside()) as store:
        definition = store.definition("configmaps")
        new = definition.schema.decode_object(named("a")).object
        command = Create("v1", "default", new, store.write_contexts.new("u", "m"))
        done: list[Outcome | BaseException] = []
        assert store.directory.actor(definition).write_now(command, done.append)
        await trio.sleep(SECONDS + 1)
        [outcome] = done
        assert isinstance(outcome, Written) and len(outside.tasks) == 1
        assert (await store.get("configmaps", "a"))["metadata"]["name"] == "a"
