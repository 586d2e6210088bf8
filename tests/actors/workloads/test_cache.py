"""The cache of workload controllers has every write as soon as its writer gets the reply."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.messages import Object
from rewound.actors.runtime import turns
from rewound.actors.workloads import cache as cache_module
from rewound.actors.workloads.built_in import Workloads
from rewound.actors.workloads.cache import Cache, Key, key_of
from rewound.actors.workloads.controller import Parts, WorkloadController
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane, owner_reference
from tests.actors.controllers.signing_requests import controller_context


async def running(cluster: ControlPlane, nursery: trio.Nursery) -> Cache:
    cache = Cache(controller_context(cluster))
    cache.collection("configmaps")
    nursery.start_soon(cache.run)
    await cache.loaded()
    return cache


async def test_cache_has_what_was_stored_before_and_each_write_with_its_reply(tmp_path: Path) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster, trio.open_nursery() as nursery:
        await cluster.create("configmaps", "before")
        maps = (await running(cluster, nursery)).collection("configmaps")
        assert [key_of(one) for one in maps] == [("default", "before")]
        created = await cluster.create("configmaps", "after", content={"data": {"a": "1"}})
        found = maps.get("default", "after")
        assert found is not None and found["data"] == {"a": "1"}
        assert "managedFields" in created["metadata"] and "managedFields" not in found["metadata"]
        await cluster.replace("configmaps", {**created, "data": {"a": "2"}})
        changed = maps.get("default", "after")
        assert changed is not None and changed["data"] == {"a": "2"} and found["data"] == {"a": "1"}
        await cluster.delete("configmaps", "after")
        assert maps.get("default", "after") is None and len(maps) == 1
        nursery.cancel_scope.cancel()


async def test_objects_are_found_by_namespace_controller_and_other_keys(tmp_path: Path) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster, trio.open_nursery() as nursery:
        maps = (await running(cluster, nursery)).collection("configmaps")
        owner = await cluster.create("configmaps", "owner")
        labelled = maps.index(lambda one: (one["metadata"].get("labels") or {}).values())
        reference = owner_reference(owner, controller=True)
        owned = await cluster.create("configmaps", "owned", owners=[reference], labels={"a": "x", "b": "y"})
        await cluster.create("configmaps", "kept", owners=[owner_reference(owner)])
        uid = owner["metadata"]["uid"]
        assert names(maps.controlled_by(uid)) == ["owned"]
        assert names(maps.uncontrolled("default")) == ["owner", "kept"]
        assert names(maps.in_namespace("default")) == ["owner", "owned", "kept"]
        assert names(maps.in_namespace("other")) == []
        assert names(labelled.get("x")) == names(labelled.get("y")) == ["owned"]
        del owned["metadata"]["ownerReferences"], owned["metadata"]["labels"]["a"]
        await cluster.replace("configmaps", owned)
        assert names(maps.controlled_by(uid)) == [] and names(labelled.get("x")) == []
        assert names(labelled.get("y")) == ["owned"]
        assert names(maps.uncontrolled("default")) == ["owner", "kept", "owned"]
        nursery.cancel_scope.cancel()


async def test_listeners_get_each_object_before_and_after(tmp_path: Path) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster, trio.open_nursery() as nursery:
        seen: list[tuple[str | None, str | None]] = []
        maps = (await running(cluster, nursery)).collection("configmaps")
        maps.listen(lambda old, new: seen.append((data(old), data(new))))
        created = await cluster.create("configmaps", "one", content={"data": {"a": "1"}})
        await cluster.replace("configmaps", {**created, "data": {"a": "2"}})
        await cluster.delete("configmaps", "one")
        assert seen == [(None, "1"), ("1", "2"), ("2", None)]
        nursery.cancel_scope.cancel()


async def test_listener_that_raises_keeps_no_change_from_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(old: Object | None, new: Object | None) -> None:
        raise KeyError("labels")

    async with open_control_plane(tmp_path, controllers=False) as cluster, trio.open_nursery() as nursery:
        seen: list[str | None] = []
        maps = (await running(cluster, nursery)).collection("configmaps")
        maps.listen(broken)
        maps.listen(lambda _, new: seen.append(data(new)))
        await cluster.create("configmaps", "one", content={"data": {"a": "1"}})
        await cluster.create("configmaps", "two", content={"data": {"a": "2"}})
        assert seen == ["1", "2"]
        nursery.cancel_scope.cancel()
    assert "a controller broke on a change of configmaps default/one" in caplog.text


async def test_visit_takes_turns_and_skips_deleted_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN", 0.0)
    seen: list[str | None] = []

    async def removing_turn() -> None:
        await cluster.delete("configmaps", "b")
        monkeypatch.setattr(cache_module, "next_turn", turns.next_turn)

    async with open_control_plane(tmp_path, controllers=False) as cluster, trio.open_nursery() as nursery:
        maps = (await running(cluster, nursery)).collection("configmaps")
        for name in ("a", "b", "c"):
            await cluster.create("configmaps", name, content={"data": {"a": name}})
        monkeypatch.setattr(cache_module, "next_turn", removing_turn)  # between the first and the second
        await maps.visit(lambda one: seen.append(data(one)))
        assert seen == ["a", "c"]
        nursery.cancel_scope.cancel()


class Labeller(WorkloadController):
    """Gives each ConfigMap a label, once."""

    name, account = "labeller", "labeller-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.maps = self.keyed_by("configmaps")
        self.written: list[Key] = []

    async def reconcile(self, key: Key) -> None:
        found = self.maps.get(*key)
        if found is None or "labels" in found["metadata"]:
            return
        self.written.append(key)
        await self.client.patch(self.maps.definition, *key, {"metadata": {"labels": {"a": "b"}}})
        self.recorder.event(self.maps.definition, found, "Normal", "Labelled", f"Labelled {key[1]}")


async def test_controller_reconciles_what_was_there_and_what_comes(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster, trio.open_nursery() as nursery:
        await cluster.create("configmaps", "first")
        workloads = Workloads(
            controller_context(cluster, enabled=frozenset({"labeller"})), [("labeller", Labeller)]
        )
        for _, run in workloads.tasks:
            nursery.start_soon(run)
        await cluster.wait_until_idle(1)
        await cluster.create("configmaps", "second")
        await cluster.wait_until_idle(1)
        for name in ("first", "second"):
            assert cluster.events("configmaps", name)[-1].user.endswith(":labeller-controller")
            assert len(cluster.events("configmaps", name)) == 2
        events = [cluster.get("events", name) for name in cluster.names("events")]
        assert [one and one["message"] for one in events] == ["Labelled first", "Labelled second"]
        nursery.cancel_scope.cancel()


def names(objects: object) -> list[str]:
    return [one["metadata"]["name"] for one in objects]  # type: ignore[attr-defined]


def data(one: Object | None) -> str | None:
    return None if one is None else one["data"]["a"]
