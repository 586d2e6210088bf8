"""What happens to dependents when their owner is deleted over HTTP."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.actors.object_store import Document, open_store
from tests.cases import cases
from tests.gateway.api import Api, config_map, names, served
from tests.settling import settled


def owned(owner: Document, name: str = "dependent", **metadata: object) -> Document:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    blocking = {**reference, "blockOwnerDeletion": True}
    return {"metadata": {"name": name, "ownerReferences": [blocking], **metadata}}


async def family(api: Api, **metadata: object) -> None:
    owner = await api.create("configmaps", config_map("owner"))
    await api.create("configmaps", owned(owner, **metadata))


async def remaining(api: Api, clock: MockClock) -> list[str]:
    """Run the controllers, and return the names of the remaining objects."""
    for _ in range(10):
        await settled()
        clock.jump(1)
    await settled()
    return names(await api.list("configmaps"))


@pytest.mark.parametrize("asked", [{}, {"propagationPolicy": "Background"}, {"orphanDependents": False}])
async def test_background_deletes_dependents_afterwards(asked: Document, mock_clock: MockClock) -> None:
    async with served() as api:
        await family(api)
        await api.delete("configmaps", "owner", body=asked or None)
        assert await remaining(api, mock_clock) == []


@pytest.mark.parametrize("asked", [{"propagationPolicy": "Orphan"}, {"orphanDependents": True}])
async def test_orphan_keeps_dependents(asked: Document, mock_clock: MockClock) -> None:
    async with served() as api:
        await family(api)
        await api.delete("configmaps", "owner", body=asked)
        assert await remaining(api, mock_clock) == ["dependent"]
        assert "ownerReferences" not in (await api.get("configmaps", "dependent"))["metadata"]


async def test_foreground_deletes_dependents_first(mock_clock: MockClock) -> None:
    async with served() as api:
        await family(api, finalizers=["example.com/held"])
        response = await api.ask(
            "DELETE", api.path("configmaps", name="owner"), propagationPolicy="Foreground"
        )
        assert response.status == 200
        assert await remaining(api, mock_clock) == ["dependent", "owner"]
        for name in ("owner", "dependent"):
            assert "deletionTimestamp" in (await api.get("configmaps", name))["metadata"]
        released = await api.get("configmaps", "dependent")
        del released["metadata"]["finalizers"]
        await api.replace("configmaps", released)
        assert await remaining(api, mock_clock) == []


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
async def test_policy_applies_to_a_collection_of_owners(policy: str, mock_clock: MockClock) -> None:
    async with served() as api:
        await family(api)
        await api.delete_collection(
            "configmaps", fieldSelector="metadata.name=owner", propagationPolicy=policy
        )
        assert await remaining(api, mock_clock) == (["dependent"] if policy == "Orphan" else [])


@cases(
    ("policy", "finalizers"),
    [
        ("Foreground", ["example.com/held", "foregroundDeletion"]),
        ("Orphan", ["example.com/held", "orphan"]),
        ("Background", ["example.com/held"]),
    ],
)
async def test_policy_is_a_finalizer_until_the_garbage_collector_is_done(
    policy: str, finalizers: list[str]
) -> None:
    async with open_store() as store:
        await store.create("configmaps", {"metadata": {"name": "a", "finalizers": ["example.com/held"]}})
        await store.delete("configmaps", "a", propagationPolicy=policy)
        assert (await store.get("configmaps", "a"))["metadata"]["finalizers"] == finalizers


async def test_second_delete_may_change_the_policy() -> None:
    async with open_store() as store:
        await store.create("configmaps", {"metadata": {"name": "a", "finalizers": ["example.com/held"]}})
        for policy, finalizer in (("Foreground", "foregroundDeletion"), ("Orphan", "orphan")):
            await store.delete("configmaps", "a", propagationPolicy=policy)
            marked = (await store.get("configmaps", "a"))["metadata"]
            assert marked["finalizers"] == ["example.com/held", finalizer]
        await store.delete("configmaps", "a")
        assert (await store.get("configmaps", "a"))["metadata"] == marked


async def test_second_delete_in_the_background_ends_a_foreground_deletion() -> None:
    async with open_store() as store:
        await store.create("configmaps", {"metadata": {"name": "a"}})
        await store.delete("configmaps", "a", propagationPolicy="Foreground")
        await store.delete("configmaps", "a", propagationPolicy="Background")
        assert names(await store.list("configmaps")) == []


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
async def test_event_is_deleted_at_once_with_every_policy(policy: str) -> None:
    async with open_store() as store:
        event = {"metadata": {"name": "a"}, "involvedObject": {"namespace": "default", "kind": "Pod"}}
        await store.create("events", event)
        await store.delete("events", "a", propagationPolicy=policy)
        assert names(await store.list("events")) == []


@pytest.mark.parametrize(
    ("orphaned", "status"), [(False, 202), (True, 200)], ids=["in the background", "orphaned"]
)
@pytest.mark.parametrize("place", ["body", "query"])
async def test_orphan_dependents_may_be_in_the_query(place: str, orphaned: bool, status: int) -> None:
    async with served() as api:
        await api.create("configmaps", {"metadata": {"name": "a", "finalizers": ["example.com/held"]}})
        sent: Document = {"orphanDependents": orphaned}
        query = {"orphanDependents": str(orphaned).lower()} if place == "query" else {}
        body = sent if place == "body" else None
        response = await api.ask("DELETE", api.path("configmaps", name="a"), body, **query)
        assert response.status == status
