"""Asynchronous steps wait for a slot in order, in the tasks of their clients, each for a bounded time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.actors.access.remote.deadlines import Deadlines, TooSlow
from rewound.actors.access.remote.slots import Slots
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource
from tests.actors.object_store import Refused, Store, open_store

CONFIG_MAPS = Resource("", "configmaps")
SECONDS, LIMIT = 10.0, 2


class Queueing(AsyncPlugin):
    """Takes ten seconds for a write, handles two at once, and refuses writes that have waited too long."""

    name = "Queueing"
    validates = (rule(CREATE, of=(CONFIG_MAPS,)),)

    def __init__(self, patience: float = 1000.0) -> None:
        self.slots = Slots(LIMIT, Deadlines())
        self.patience = patience
        self.began: list[tuple[str, float]] = []

    async def admit(self, request: AdmissionRequest) -> Admitted:
        if not self.slots.take_nowait():
            try:
                await self.slots.take(trio.current_time() + self.patience)
            except TooSlow:
                raise Forbidden(CONFIG_MAPS, request.name, "waited for too long") from None
        try:
            self.began.append((request.name, trio.current_time()))
            await trio.sleep(SECONDS)
        finally:
            self.slots.release()
        return Admitted()


async def create(store: Store, name: str) -> None:
    await store.create("configmaps", {"metadata": {"name": name}})


async def names(store: Store) -> list[str]:
    return [one["metadata"]["name"] for one in (await store.list("configmaps"))["items"]]


async def start_in_order(store: Store, nursery: trio.Nursery, wanted: str) -> None:
    for name in wanted:
        nursery.start_soon(create, store, name)
        await wait_all_tasks_blocked()


async def test_steps_begin_in_order_each_time_one_has_ended(autojump_clock: MockClock) -> None:
    async with open_store(plugin := Queueing()) as store:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            await start_in_order(store, nursery, "ab")
            before = trio.lowlevel.current_statistics().tasks_living
            await start_in_order(store, nursery, "cdef")
            # Each write runs in its client's task; one shared task enforces the time limits.
            assert trio.lowlevel.current_statistics().tasks_living == before + 4 + 1
            assert store.directory.admission_statistics().running == 6
        pairs = {0: "ab", SECONDS: "cd", 2 * SECONDS: "ef"}  # trio runs both tasks of a pair in any order
        assert [(name, at - began) for name, at in sorted(plugin.began)] == [
            (name, at) for at, pair in pairs.items() for name in pair
        ]
        assert await names(store) == [*"abcdef"]
        assert plugin.slots.idle and store.directory.admission_statistics().running == 0


async def test_step_that_waits_for_too_long_is_refused(autojump_clock: MockClock) -> None:
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


async def test_write_whose_client_disconnected_leaves_the_queue(autojump_clock: MockClock) -> None:
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
