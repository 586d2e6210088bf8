"""Evictions count disruptions in the PodDisruptionBudget of a pod, and are refused when it allows none."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.errors import Conflict, EvictionRefused, NotFound, TooManyBudgets
from rewound.actors.messages import DeleteOptions, Replace
from rewound.actors.names import CLUSTER
from rewound.actors.resource.evictions import Evictions
from tests.actors.object_store import Store, open_store

LABELS = {"app": "x"}


async def running(store: Store, name: str = "p", labels: Any = None) -> None:
    """A pod that is ready, on a node."""
    metadata = {"name": name, "labels": LABELS if labels is None else labels}
    containers = [{"name": "c", "image": "i"}]
    made = await store.create(
        "pods", {"metadata": metadata, "spec": {"containers": containers, "nodeName": "n"}}
    )
    made["status"] = {
        **made["status"],
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await put_status(store, "pods", made)


async def budget(store: Store, allowed: int, name: str = "b", **parts: Any) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": LABELS}, **parts}
    made = await store.create("poddisruptionbudgets", {"metadata": {"name": name}, "spec": spec})
    made["status"] = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 2,
        "desiredHealthy": 1,
        "expectedPods": 2,
        "observedGeneration": made["metadata"]["generation"],
    }
    await put_status(store, "poddisruptionbudgets", made)


async def put_status(store: Store, plural: str, document: dict[str, Any]) -> None:
    definition = store.definition(plural)
    decoded = definition.schema.decode_object(document).object
    context = store.write_contexts.new("user", "manager")
    name = document["metadata"]["name"]
    command = Replace(definition.api_version, "default", name, decoded, context, "status")
    await store.directory.ask(definition, command)


async def evict(store: Store, name: str = "p", **options: Any) -> None:
    evictions = Evictions(CLUSTER, store.catalog, store.journal, store.directory)
    context = store.write_contexts.new("user", "manager")
    await evictions.evict(store.definition("pods"), "default", name, DeleteOptions(**options), context)


async def going(store: Store, name: str = "p") -> bool:
    return "deletionTimestamp" in (await store.get("pods", name))["metadata"]


async def test_disruption_is_counted_before_the_pod_is_deleted() -> None:
    async with open_store() as store:
        await running(store, "p")
        await running(store, "q")
        await budget(store, 1)
        await evict(store, "p")
        assert await going(store, "p")
        status = (await store.get("poddisruptionbudgets", "b"))["status"]
        assert status["disruptionsAllowed"] == 0
        assert status["disruptedPods"] == {"p": "2023-11-14T22:13:20Z"}
        with pytest.raises(EvictionRefused):
            await evict(store, "q")
        assert not await going(store, "q")


async def test_server_is_the_field_manager_of_the_counted_disruption() -> None:
    async with open_store() as store:
        await running(store)
        await budget(store, 1)
        await evict(store)
        charged = await store.get("poddisruptionbudgets", "b")
        owned = {one["manager"]: one for one in charged["metadata"]["managedFields"] if "subresource" in one}
        status = owned["apiserver"]["fieldsV1"]["f:status"]
        assert set(status) == {"f:conditions", "f:disruptedPods", "f:disruptionsAllowed"}
        assert "f:disruptionsAllowed" not in owned["manager"]["fieldsV1"]["f:status"]


async def test_dry_run_counts_no_disruption() -> None:
    async with open_store() as store:
        await running(store)
        await budget(store, 1)
        before = await store.get("poddisruptionbudgets", "b")
        await evict(store, dry_run=True)
        assert await store.get("poddisruptionbudgets", "b") == before and not await going(store)
        await put_status(
            store, "poddisruptionbudgets", {**before, "status": {**before["status"], "disruptionsAllowed": 0}}
        )
        with pytest.raises(EvictionRefused):
            await evict(store, dry_run=True)


@pytest.mark.parametrize(
    ("labels", "parts"),
    [
        ({"app": "y"}, {}),
        ({}, {}),
        (None, {"selector": {}}),
        (None, {"selector": None}),
        (None, {"selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}}),
    ],
)
async def test_budgets_that_do_not_select_the_pod_do_not_count(labels: Any, parts: dict[str, Any]) -> None:
    async with open_store() as store:
        await running(store, labels=labels)
        await budget(store, 0, **parts)
        await evict(store)
        assert await going(store)


async def test_eviction_with_two_budgets_is_refused() -> None:
    async with open_store() as store:
        await running(store)
        await budget(store, 5, "b")
        await budget(store, 5, "c")
        with pytest.raises(TooManyBudgets):
            await evict(store)


async def test_delete_options_apply_to_evictions() -> None:
    async with open_store() as store:
        await running(store)
        with pytest.raises(Conflict):
            await evict(store, uid="other")
        with pytest.raises(Conflict):
            await evict(store, resource_version="1")
        await evict(store, grace_period_seconds=3)
        assert (await store.get("pods", "p"))["metadata"]["deletionGracePeriodSeconds"] == 3


async def test_eviction_of_a_missing_pod_is_not_found() -> None:
    async with open_store() as store:
        with pytest.raises(NotFound):
            await evict(store)
