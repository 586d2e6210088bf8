"""A pod gets the overhead and the scheduling of its runtime class, and may set no other overhead."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.object_store import Refused, Store, open_store
from tests.cases import cases

OTHER = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
NONE = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


async def create(store: Store, name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    body = {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}
    created: dict[str, Any] = (await store.create("pods", body))["spec"]
    return created


async def create_class(store: Store, name: str, **more: Any) -> None:
    await store.create("runtimeclasses", {"metadata": {"name": name}, "handler": "h", **more})


async def test_overhead_is_that_of_the_class() -> None:
    async with open_store() as store:
        await create_class(store, "vm", overhead={"podFixed": {"cpu": "250m", "memory": "64Mi"}})
        made = await create(store, "a", runtimeClassName="vm")
        assert made["overhead"] == {"cpu": "250m", "memory": "64Mi"}
        same = await create(store, "b", runtimeClassName="vm", overhead={"cpu": "0.25", "memory": "65536Ki"})
        assert same["overhead"] == {"cpu": "250m", "memory": "64Mi"}


@cases(
    ("spec", "why"),
    [
        ({"runtimeClassName": "vm", "overhead": {"cpu": "1"}}, OTHER),
        ({"runtimeClassName": "plain", "overhead": {"cpu": "1"}}, NONE),
        ({"overhead": {"cpu": "1"}}, NONE),
        ({"runtimeClassName": "missing"}, 'pod rejected: RuntimeClass "missing" not found'),
        (
            {"runtimeClassName": "placed", "nodeSelector": {"disk": "hdd"}},
            "conflict: runtimeClass.scheduling.nodeSelector[disk] = ssd; pod.spec.nodeSelector[disk] = hdd",
        ),
    ],
)
async def test_wrong_overhead_or_class_is_refused(spec: dict[str, Any], why: str) -> None:
    async with open_store() as store:
        await create_class(store, "vm", overhead={"podFixed": {"cpu": "250m"}})
        await create_class(store, "plain")
        await create_class(store, "placed", scheduling={"nodeSelector": {"disk": "ssd"}})
        with pytest.raises(Refused) as refused:
            await create(store, "a", **spec)
        assert refused.value.message == f'pods "a" is forbidden: {why}'


async def test_scheduling_is_merged() -> None:
    """Of two tolerations, the one that covers the other remains."""
    taint = {"key": "vm", "operator": "Equal", "value": "x", "effect": "NoSchedule"}
    async with open_store() as store:
        scheduling = {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "vm", "operator": "Exists"}, {"key": "z", "operator": "Exists"}],
        }
        await create_class(store, "vm", scheduling=scheduling)
        made = await create(
            store, "a", runtimeClassName="vm", nodeSelector={"zone": "a"}, tolerations=[taint]
        )
        assert made["nodeSelector"] == {"disk": "ssd", "zone": "a"}
        keys = [one["key"].rpartition("/")[2] for one in made["tolerations"]]
        assert keys == ["not-ready", "unreachable", "vm", "z"]
        assert "value" not in made["tolerations"][2]


async def test_classes_that_change_or_go_away_are_noticed() -> None:
    async with open_store() as store:
        await create_class(store, "vm")
        assert "nodeSelector" not in await create(store, "a", runtimeClassName="vm")
        changed = await store.get("runtimeclasses", "vm")
        changed["scheduling"] = {"nodeSelector": {"disk": "ssd"}}
        await store.replace("runtimeclasses", changed)
        assert (await create(store, "b", runtimeClassName="vm"))["nodeSelector"] == {"disk": "ssd"}
        await store.delete("runtimeclasses", "vm")
        with pytest.raises(Refused, match='RuntimeClass "vm" not found'):
            await create(store, "c", runtimeClassName="vm")
