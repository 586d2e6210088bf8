"""Commands on large objects are decided in a thread; meanwhile their actor handles others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio

from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest
from rewound.actors.errors import AlreadyExists, Forbidden, Resource
from rewound.actors.messages import Create, DeleteOptions, Object, Patch, Written
from rewound.actors.names import CLUSTER
from rewound.actors.resource.evictions import Evictions
from rewound.actors.runtime.large_work import LARGE_BYTES, MAX_WAITING_OF_USER
from tests.actors.object_store import Refused, Store, open_store

CONFIG_MAPS = Resource("", "configmaps")
TEXT = "x" * (LARGE_BYTES + 1)


class Recorder(Plugin):
    """Records the thread of each step, and calls `meanwhile` in it."""

    name = "Recorder"
    thread_safe = True
    mutates = (rule(CREATE, UPDATE, DELETE, of=(CONFIG_MAPS,)),)

    def __init__(self, meanwhile: Callable[[AdmissionRequest], Any] = lambda _: None) -> None:
        self.meanwhile = meanwhile
        self.in_event_loop: list[bool] = []
        self.completed: list[bool] = []
        self._event_loop = threading.get_ident()

    def mutate(self, request: AdmissionRequest) -> Object | None:
        self.in_event_loop.append(threading.get_ident() == self._event_loop)
        request.callbacks += (self.completed.append,)
        if not self.in_event_loop[-1]:
            self.meanwhile(request)
        return None


class Hold:
    """Blocks the thread that calls it until it is released."""

    def __init__(self) -> None:
        self.reached = trio.Event()
        self.release = threading.Event()

    def __call__(self, _: AdmissionRequest) -> None:
        trio.from_thread.run_sync(self.reached.set)
        assert self.release.wait(60)


class Unsafe(Recorder):
    name = "Unsafe"
    thread_safe = False


def config_map(name: str = "a", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def patch(store: Store, change: Any, format_: str = "merge", *, large: bool = False) -> Patch:
    context = store.write_contexts.new("u", "m")._replace(large=large)
    return Patch("v1", "default", "a", format_, change, context)


async def send(store: Store, change: Any, format_: str = "merge", *, large: bool = False) -> Written:
    outcome = await store.directory.ask(
        store.definition("configmaps"), patch(store, change, format_, large=large)
    )
    assert isinstance(outcome, Written)
    return outcome


async def test_small_commands_stay_in_the_event_loop() -> None:
    recorder = Recorder()
    async with open_store(recorder) as store:
        await store.create("configmaps", config_map())
        await send(store, {"data": {"x": "1"}})
        await store.delete("configmaps", "a")
    assert recorder.in_event_loop == [True] * 3


async def test_every_command_on_a_large_object_is_decided_in_a_thread() -> None:
    recorder = Recorder()
    async with open_store(recorder) as store:
        await store.create("configmaps", config_map())
        await send(store, {"data": {"x": TEXT}}, large=True)
        await send(store, {"data": {"y": "1"}})
        await store.replace("configmaps", config_map(x=TEXT, z="1"))
        with pytest.raises(Refused, match="AlreadyExists"):
            await store.create("configmaps", config_map())
        stored = await store.get("configmaps", "a")
        assert stored["data"] == {"x": TEXT, "z": "1"}
        deleted = await store.delete("configmaps", "a")
        assert deleted["data"] == stored["data"]
        with pytest.raises(Refused, match="NotFound"):
            await store.get("configmaps", "a")
    assert [one for one in recorder.in_event_loop if one] == [
        True
    ] * 2  # both creates start in the event loop
    assert recorder.in_event_loop.count(False) == 5
    assert recorder.completed.count(True) == 5


async def test_small_patch_that_makes_an_object_large_is_applied_in_a_thread() -> None:
    recorder = Recorder()
    copies = [{"op": "copy", "from": "/data/x", "path": f"/data/x{number}"} for number in range(3)]
    async with open_store(recorder) as store:
        await store.create("configmaps", config_map(x=TEXT[: LARGE_BYTES // 2]))
        await send(store, copies, "json")
        assert len((await store.get("configmaps", "a"))["data"]) == 4
    assert recorder.in_event_loop == [True, False]


async def test_plugins_that_are_not_thread_safe_run_in_the_event_loop() -> None:
    plugin, recorder = Unsafe(), Recorder()
    async with open_store(plugin, recorder) as store:
        await store.create("configmaps", config_map())
        await send(store, {"data": {"x": TEXT}}, large=True)
    assert plugin.in_event_loop == [True, True]
    assert recorder.in_event_loop == [True, False]


async def test_others_do_not_wait_for_a_large_command() -> None:
    recorder = Recorder(hold := Hold())
    async with open_store(recorder) as store, trio.open_nursery() as nursery:
        await store.create("configmaps", config_map())
        nursery.start_soon(lambda: send(store, {"data": {"x": TEXT}}, large=True))
        await hold.reached.wait()
        await store.create("configmaps", config_map("b"))
        await store.delete("configmaps", "b")
        assert "data" not in (await store.get("configmaps", "a"))
        hold.release.set()
    assert recorder.in_event_loop == [True, False, True, True]


async def test_command_is_decided_again_if_its_object_has_changed() -> None:
    async with open_store(recorder := Recorder()) as store:
        await store.create("configmaps", config_map())

        def change_once(_: AdmissionRequest) -> None:
            recorder.meanwhile = lambda _: None
            trio.from_thread.run(send, store, {"data": {"y": "1"}})

        recorder.meanwhile = change_once
        await send(store, {"data": {"x": TEXT}}, large=True)
        stored = await store.get("configmaps", "a")
        assert stored["data"] == {"x": TEXT, "y": "1"}
    assert recorder.in_event_loop == [True, False, True, False]
    # Reservations of the outdated attempt are released.
    assert sorted(recorder.completed) == [False, True, True, True]


async def test_create_is_refused_if_another_was_created_meanwhile() -> None:
    async with open_store(recorder := Recorder()) as store:

        def create_other(_: AdmissionRequest) -> None:
            recorder.meanwhile = lambda _: None
            trio.from_thread.run(store.create, "configmaps", config_map(y="1"))

        recorder.meanwhile = create_other
        context = store.write_contexts.new("u", "m")._replace(large=True)
        definition = store.definition("configmaps")
        decoded = definition.schema.decode_object(config_map(x=TEXT)).object
        with pytest.raises(AlreadyExists):
            await store.directory.ask(definition, Create("v1", "default", decoded, context))
        assert (await store.get("configmaps", "a"))["data"] == {"y": "1"}


async def test_command_is_decided_again_as_often_as_its_object_changes() -> None:
    async with open_store(recorder := Recorder()) as store:
        await store.create("configmaps", config_map())

        def change(_: AdmissionRequest) -> None:
            count = recorder.in_event_loop.count(False)
            if count <= 10:
                trio.from_thread.run(send, store, {"data": {"y": str(count)}})

        recorder.meanwhile = change
        await send(store, {"data": {"x": TEXT}}, large=True)
        assert recorder.in_event_loop.count(False) == 11
        assert (await store.get("configmaps", "a"))["data"] == {"x": TEXT, "y": "10"}
    assert len(recorder.completed) == len(recorder.in_event_loop)


async def test_many_writers_of_one_large_object_all_succeed() -> None:
    async with open_store(Recorder()) as store:
        await store.create("configmaps", config_map(x=TEXT))
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(send, store, {"data": {f"k{number}": "1"}})
        assert len((await store.get("configmaps", "a"))["data"]) == 21


async def test_large_command_whose_client_left_changes_nothing() -> None:
    recorder = Recorder(hold := Hold())
    async with open_store(recorder) as store:
        await store.create("configmaps", config_map())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: send(store, {"data": {"x": TEXT}}, large=True))
            await hold.reached.wait()
            nursery.cancel_scope.cancel()
            hold.release.set()
        with trio.fail_after(60):
            while len(recorder.completed) < 2:
                await trio.sleep(0)
        assert "data" not in (await store.get("configmaps", "a"))
    assert sorted(recorder.completed) == [False, True]


async def test_values_of_a_large_service_are_allocated_in_a_thread_and_reserved() -> None:
    """Other commands of the batch get none of its node ports, and it gets none of theirs."""
    ports = [{"port": number + 1, "name": f"p{number}"} for number in range(100)]
    other = {"metadata": {"name": "b"}, "spec": {"type": "NodePort", "ports": ports[:50]}}
    async with open_store() as store:
        definition = store.definition("services")
        async with trio.open_nursery() as nursery:
            for name in "cd":
                spec = {"type": "NodePort", "ports": ports}
                new = definition.schema.decode_object({"metadata": {"name": name}, "spec": spec}).object
                context = store.write_contexts.new("u", "m")._replace(large=True)
                create = Create("v1", "default", new, context)
                nursery.start_soon(store.directory.ask, definition, create)
            nursery.start_soon(store.create, "services", other)
        services = [await store.get("services", name) for name in "bcd"]
        taken = [port["nodePort"] for one in services for port in one["spec"]["ports"]]
        assert len(set(taken)) == len(taken) == 250


async def test_many_large_objects_are_deleted_together() -> None:
    async with open_store() as store:
        for number in range(MAX_WAITING_OF_USER + 6):
            await store.create("configmaps", config_map(f"c{number}", x=TEXT))
        await store.delete_collection("configmaps")
        assert (await store.list("configmaps"))["items"] == []


async def test_pod_with_a_large_budget_is_evicted() -> None:
    async with open_store() as store:
        await store.create(
            "pods",
            {
                "metadata": {"name": "p", "labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        )
        budget = {
            "metadata": {"name": "x", "annotations": {"long": TEXT}},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "c"}}},
        }
        await store.create("poddisruptionbudgets", budget)
        started = store.directory.large_work.statistics().started
        evictions = Evictions(CLUSTER, store.catalog, store.journal, store.directory)
        context = store.write_contexts.new("u", "m")
        await evictions.evict(store.definition("pods"), "default", "p", DeleteOptions(0), context)
        assert store.directory.large_work.statistics().started == started + 1
        with pytest.raises(Refused, match="NotFound"):
            await store.get("pods", "p")


def large_create(store: Store, namespace: str) -> Create:
    context = store.write_contexts.new("u", "m")._replace(large=True)
    decoded = store.definition("configmaps").schema.decode_object(config_map(x=TEXT)).object
    return Create("v1", namespace, decoded, context)


async def test_create_is_refused_if_its_namespace_was_deleted_meanwhile() -> None:
    async with open_store(recorder := Recorder()) as store:
        await store.create("namespaces", {"metadata": {"name": "n"}}, "")
        recorder.meanwhile = lambda _: trio.from_thread.run(store.delete, "namespaces", "n", "")
        with pytest.raises(Forbidden, match="is being terminated"):
            await store.directory.ask(store.definition("configmaps"), large_create(store, "n"))
        assert (await store.list("configmaps", "n"))["items"] == []
    assert recorder.completed == [False]


async def test_command_is_decided_again_if_the_definitions_have_changed() -> None:
    async with open_store(recorder := Recorder()) as store:
        definition = store.definition("configmaps")
        stored_type = store.catalog.stored_type("configmaps")
        assert stored_type is not None
        await store.create("configmaps", config_map())

        def change_once(_: AdmissionRequest) -> None:
            recorder.meanwhile = lambda _: None
            trio.from_thread.run_sync(store.directory.actor(definition).update_definitions, stored_type)

        recorder.meanwhile = change_once
        await send(store, {"data": {"x": TEXT}}, large=True)
        assert (await store.get("configmaps", "a"))["data"] == {"x": TEXT}
    assert recorder.in_event_loop == [True, False, False]
    assert recorder.completed == [True, False, True]


async def test_no_thread_decides_a_command_whose_client_left_before() -> None:
    async with open_store(recorder := Recorder()) as store:
        await store.create("configmaps", config_map(x=TEXT))
        started = store.directory.large_work.statistics().started
        with trio.CancelScope() as scope:
            scope.cancel()
            await send(store, {"data": {"y": "1"}})
        await store.create("configmaps", config_map("b"))
        assert store.directory.large_work.statistics().started == started
    assert len(recorder.in_event_loop) == 2
