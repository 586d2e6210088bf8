"""Asynchronous steps that wait in the queue of their plugin: in order, without a task, each for a bounded time."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.actors.access.remote.deadlines import Deadlines
from rewound.actors.access.remote.slots import Slots
from rewound.actors.admission.calls import AdmissionCalls
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, Queue, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import CLUSTER
from rewound.actors.runtime.turns import TURN, SharedTurns
from tests.actors.admission.admitted import CONTEXT
from tests.actors.object_store import Refused, Store, open_store

CONFIG_MAPS = Resource("", "configmaps")
SECONDS, LIMIT = 10.0, 2


class Queueing(AsyncPlugin):
    """Takes ten seconds for a write, has time for two at once, and refuses what has waited for too long."""

    name = "Queueing"
    validates = (rule(CREATE, of=(CONFIG_MAPS,)),)

    def __init__(self, patience: float = 1000.0) -> None:
        self.slots = Slots(LIMIT, Deadlines())
        self.patience = patience
        self.began: list[tuple[str, float]] = []

    def queue(self, request: AdmissionRequest) -> Queue:
        return Queue(self.slots, self.patience, (request.name,))

    async def admit(self, request: AdmissionRequest) -> Admitted:
        now, queued = trio.current_time(), request.queued
        self.began.append((request.name, now))
        if queued is not None:
            assert queued.found == (request.name,)
            if now >= queued.since + self.patience:
                raise Forbidden(CONFIG_MAPS, request.name, "waited for too long")
        await trio.sleep(SECONDS)
        return Admitted()


class Rounds(trio.abc.Instrument):
    """Counts how often the event loop has run all tasks that could run."""

    count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


async def test_steps_that_may_begin_at_the_same_moment_take_turns() -> None:
    plugin, now, loop = Queueing(), 0.0, Rounds()
    began: list[int] = []

    async def work(request: AdmissionRequest) -> Admitted:
        nonlocal now
        now += TURN / 4
        began.append(loop.count)
        return Admitted()

    plugin.slots, plugin.admit = Slots(12, Deadlines()), work  # type: ignore[method-assign]
    assert all(plugin.slots.take_nowait() for _ in range(12))
    trio.lowlevel.add_instrument(loop)
    async with trio.open_nursery() as nursery:
        calls = AdmissionCalls(turns=SharedTurns(lambda: now))
        for _ in range(12):
            nursery.start_soon(calls.call, plugin, writing_config_map())
        await wait_all_tasks_blocked()
        for _ in range(12):
            plugin.slots.release()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert len(began) == 12
    assert max(Counter(began).values()) <= 5, "four steps fill a turn"


def writing_config_map() -> AdmissionRequest:
    definition = next(one for one in built_in(CLUSTER).definitions if one.plural == "configmaps")
    new = {"metadata": {"name": "a"}}
    return AdmissionRequest(CREATE, definition, "default", "a", "", new, None, "user", False, CONTEXT)


async def create(store: Store, name: str) -> None:
    await store.create("configmaps", {"metadata": {"name": name}})


async def names(store: Store) -> list[str]:
    return [one["metadata"]["name"] for one in (await store.list("configmaps"))["items"]]


async def start_in_order(store: Store, nursery: trio.Nursery, wanted: str) -> None:
    for name in wanted:
        nursery.start_soon(create, store, name)
        await wait_all_tasks_blocked()


async def test_steps_begin_in_order_with_a_task_each_time_one_has_ended(autojump_clock: MockClock) -> None:
    async with open_store(plugin := Queueing()) as store:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            await start_in_order(store, nursery, "ab")
            before = trio.lowlevel.current_statistics().tasks_living
            await start_in_order(store, nursery, "cdef")
            # Each write has the task of its client; one for all of them watches over their time.
            assert trio.lowlevel.current_statistics().tasks_living == before + 4 + 1
            assert store.directory.admission_statistics().running == 6
        pairs = {0: "ab", SECONDS: "cd", 2 * SECONDS: "ef"}  # trio runs the two of a pair in any order
        assert [(name, at - began) for name, at in sorted(plugin.began)] == [
            (name, at) for at, pair in pairs.items() for name in pair
        ]
        assert await names(store) == [*"abcdef"]
        assert plugin.slots.idle and store.directory.admission_statistics().running == 0


async def test_step_that_waits_for_too_long_begins_without_a_slot(autojump_clock: MockClock) -> None:
    async with open_store(plugin := Queueing(SECONDS / 2)) as store:
        began = trio.current_time()

        async def refused() -> None:
            with pytest.raises(Refused):
                await create(store, "c")
            assert trio.current_time() == began + SECONDS / 2

        async with trio.open_nursery() as nursery:
            await start_in_order(store, nursery, "ab")
            nursery.start_soon(refused)
        assert await names(store) == [*"ab"] and plugin.slots.idle


async def test_write_whose_client_has_gone_leaves_the_queue(autojump_clock: MockClock) -> None:
    async with open_store(plugin := Queueing()) as store:
        async with trio.open_nursery() as nursery:
            await start_in_order(store, nursery, "ab")
            with trio.move_on_after(SECONDS / 2):
                await create(store, "c")
            await wait_all_tasks_blocked()
            assert store.directory.admission_statistics().running == 2
            await create(store, "d")
        assert [name for name, _ in plugin.began] == [*"abd"]
        assert await names(store) == [*"abd"] and plugin.slots.idle


async def test_client_that_goes_when_its_step_has_begun_ends_the_step(autojump_clock: MockClock) -> None:
    async with open_store(plugin := Queueing()) as store:
        async with trio.open_nursery() as nursery:
            await start_in_order(store, nursery, "ab")
            with trio.move_on_after(SECONDS * 1.5):
                await create(store, "c")
        await wait_all_tasks_blocked()
        assert [name for name, _ in plugin.began] == [*"abc"]
        assert await names(store) == [*"ab"] and plugin.slots.idle


async def test_steps_that_wait_do_not_begin_when_the_server_stops(autojump_clock: MockClock) -> None:
    async with open_store(plugin := Queueing()) as store:
        errors = 0

        async def fail(name: str) -> None:
            nonlocal errors
            with pytest.raises(Refused):
                await create(store, name)
            errors += 1

        async with trio.open_nursery() as nursery:
            for name in "abcde":
                nursery.start_soon(fail, name)
                await wait_all_tasks_blocked()
            await store.restart()
        assert errors == 5 and [name for name, _ in plugin.began] == [*"ab"]
