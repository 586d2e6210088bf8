"""Pods get the priority of their priority class; at most one class is the default."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.object_store import Refused, Store, open_store


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


async def add_class(store: Store, name: str, value: int, **parts: Any) -> None:
    await store.create("priorityclasses", {"metadata": {"name": name}, "value": value, **parts})


async def resolved(store: Store, **spec: Any) -> dict[str, Any]:
    made = (await store.create("pods", pod(**spec), dryRun="All"))["spec"]
    return {key: made[key] for key in ("priorityClassName", "priority", "preemptionPolicy") if key in made}


async def test_pod_without_class_gets_priority_zero() -> None:
    async with open_store() as store:
        assert await resolved(store) == {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}


async def test_pod_gets_the_priority_of_its_named_or_default_class() -> None:
    async with open_store() as store:
        await add_class(store, "high", 7, preemptionPolicy="Never")
        high = {"priorityClassName": "high", "priority": 7, "preemptionPolicy": "Never"}
        assert await resolved(store, priorityClassName="high") == high
        await add_class(store, "usual", 3, globalDefault=True)
        assert await resolved(store) == {
            "priorityClassName": "usual",
            "priority": 3,
            "preemptionPolicy": "PreemptLowerPriority",
        }
        await store.delete("priorityclasses", "usual")
        assert (await resolved(store))["priority"] == 0


async def test_priority_that_differs_from_its_class_is_refused() -> None:
    async with open_store() as store:
        await add_class(store, "high", 7)
        high = {"priorityClassName": "high"}
        assert (await resolved(store, **high, priority=7))["priority"] == 7
        for spec, text in (
            (
                {**high, "priority": 8},
                "the integer value of priority (8) must not be provided in pod spec; priority admission "
                "controller computed 7 from the given PriorityClass name",
            ),
            (
                {**high, "preemptionPolicy": "Never"},
                "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority "
                "admission controller computed PreemptLowerPriority from the given PriorityClass name",
            ),
            ({"priorityClassName": "low"}, "no PriorityClass with name low was found"),
        ):
            with pytest.raises(Refused) as refused:
                await resolved(store, **spec)
            assert refused.value.message == f'pods "p" is forbidden: {text}'


async def test_update_without_priority_keeps_it() -> None:
    async with open_store() as store:
        made = await store.create("pods", pod())
        known = {
            key: value for key, value in made["spec"].items() if key not in ("priority", "preemptionPolicy")
        }
        changed = await store.replace("pods", {**made, "spec": known})
        assert changed["spec"] == made["spec"]


async def test_second_default_class_is_refused() -> None:
    async with open_store() as store:
        await add_class(store, "a", 1, globalDefault=True)
        with pytest.raises(
            Refused, match=r"PriorityClass a is already marked as default. Only one default can"
        ):
            await add_class(store, "b", 2, globalDefault=True)
        changed = await store.get("priorityclasses", "a")
        await store.replace("priorityclasses", {**changed, "description": "still"})
