"""Deleting a collection deletes every matching object of one namespace, one by one."""

from __future__ import annotations

import pytest

from tests.actors.object_store import Verbs
from tests.gateway.api import Opener, config_map, labelled, names, served
from tests.gateway.custom_api import generic


async def fill(api: Verbs) -> None:
    for number in range(4):
        await api.create("configmaps", labelled(f"c{number}", even=str(number % 2 == 0)))
    await api.create("configmaps", labelled("c0", even="True"), "cluster-public")


@generic
async def test_all_objects_of_one_namespace_are_deleted(opened: Opener) -> None:
    async with opened() as api:
        await fill(api)
        await api.delete_collection("configmaps")
        assert names(await api.list("configmaps")) == []
        assert names(await api.list("configmaps", "cluster-public")) == ["c0"]


@generic
@pytest.mark.parametrize(
    ("selector", "left"),
    [
        ({"labelSelector": "even=True"}, ["c1", "c3"]),
        ({"labelSelector": "even!=True"}, ["c0", "c2"]),
        ({"labelSelector": "odd"}, ["c0", "c1", "c2", "c3"]),
        ({"fieldSelector": "metadata.name=c1"}, ["c0", "c2", "c3"]),
        ({"fieldSelector": "metadata.name!=c1"}, ["c1"]),
        ({"fieldSelector": "metadata.name=c1", "labelSelector": "even=True"}, ["c0", "c1", "c2", "c3"]),
        ({"labelSelector": ""}, []),
    ],
)
async def test_only_objects_that_a_selector_matches_are_deleted(
    opened: Opener, selector: dict[str, str], left: list[str]
) -> None:
    async with opened() as api:
        await fill(api)
        await api.delete_collection("configmaps", **selector)
        assert names(await api.list("configmaps")) == left


async def test_objects_are_deleted_in_the_order_of_the_list() -> None:
    """Their finalizers keep them, with the resourceVersion of the deletion."""
    async with served() as api:
        for _ in range(5):  # tasks that started together would run in either order
            for name in ("c", "a", "b"):
                made = config_map(name)
                made["metadata"]["finalizers"] = ["example.com/kept"]
                await api.create("configmaps", made)
            await api.delete_collection("configmaps")
            kept = (await api.list("configmaps"))["items"]
            versions = [int(one["metadata"]["resourceVersion"]) for one in kept]
            assert len(versions) == 3 and versions == sorted(versions)
            for one in kept:
                one["metadata"]["finalizers"] = []
                await api.replace("configmaps", one)


@generic
async def test_limit_spares_the_rest(opened: Opener) -> None:
    async with opened() as api:
        await fill(api)
        await api.delete_collection("configmaps", limit=1)
        assert names(await api.list("configmaps")) == ["c1", "c2", "c3"]
        await api.delete_collection("configmaps", limit=1, labelSelector="even=True")
        assert names(await api.list("configmaps")) == ["c1", "c3"]


@generic
async def test_continue_token_spares_earlier_pages(opened: Opener) -> None:
    async with opened() as api:
        await fill(api)
        page = await api.list("configmaps", limit=3)
        await api.delete_collection("configmaps", **{"continue": page["metadata"]["continue"]})
        assert names(await api.list("configmaps")) == ["c0", "c1", "c2"]


@generic
async def test_resource_version_spares_newer_objects(opened: Opener) -> None:
    async with opened() as api:
        await fill(api)
        version = (await api.list("configmaps"))["metadata"]["resourceVersion"]
        await api.create("configmaps", config_map("later"))
        await api.delete_collection("configmaps", resourceVersion=version, resourceVersionMatch="Exact")
        assert names(await api.list("configmaps")) == ["later"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"limit": "many"}, 400),
        ({"continue": "garbage"}, 400),
        ({"resourceVersion": "garbage"}, 400),
        ({"resourceVersionMatch": "Exact"}, 422),
    ],
)
async def test_invalid_list_options_delete_nothing(query: dict[str, str], status: int) -> None:
    async with served() as api:
        await fill(api)
        (await api.ask("DELETE", api.path("configmaps"), **query)).expect(status)
        assert len(names(await api.list("configmaps"))) == 4


async def test_preconditions_apply_to_each_object() -> None:
    async with served() as api:
        await fill(api)
        body = {"preconditions": {"uid": "another"}}
        (await api.ask("DELETE", api.path("configmaps"), body)).expect(409)
        assert len(names(await api.list("configmaps"))) == 4


@generic
async def test_objects_with_finalizers_stay_marked(opened: Opener) -> None:
    async with opened() as api:
        await fill(api)
        await api.create("configmaps", {"metadata": {"name": "held", "finalizers": ["example.com/held"]}})
        await api.delete_collection("configmaps")
        left = await api.list("configmaps")
        assert names(left) == ["held"]
        assert "deletionTimestamp" in left["items"][0]["metadata"]
        await api.delete_collection("configmaps")
        assert names(await api.list("configmaps")) == ["held"]


@generic
async def test_more_objects_than_one_batch_are_deleted(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewound.actors.resource.collection.BATCH", 2)
    async with opened() as api:
        for number in range(7):
            await api.create("configmaps", config_map(f"c{number}"))
        await api.delete_collection("configmaps")
        assert names(await api.list("configmaps")) == []


@generic
async def test_deleting_an_empty_collection_succeeds(opened: Opener) -> None:
    async with opened() as api:
        await api.delete_collection("configmaps")
        await api.delete_collection("configmaps", "missing")


async def test_response_is_a_status() -> None:
    async with served() as api:
        await fill(api)
        status = (await api.ask("DELETE", api.path("configmaps"))).expect(200)
        assert (status["kind"], status["status"], status["details"]) == (
            "Status",
            "Success",
            {"kind": "configmaps"},
        )


async def test_delete_options_in_the_body_are_honoured() -> None:
    async with served() as api:
        await fill(api)
        response = await api.ask(
            "DELETE", api.path("configmaps"), {"dryRun": ["All"]}, labelSelector="even=True"
        )
        assert response.status == 200
        assert len(names(await api.list("configmaps"))) == 4


async def test_cluster_scoped_kinds_can_be_deleted() -> None:
    async with served() as api:
        for name in "ab":
            await api.create("nodes", {"metadata": {"name": name}})
        assert (await api.ask("DELETE", "/api/v1/nodes")).status == 200
        assert names(await api.list("nodes", None)) == []


async def test_each_object_has_a_delete_event() -> None:
    async with served() as api:
        await fill(api)
        before = int(await api.head())
        await api.delete_collection("configmaps")
        assert int(await api.head()) == before + 4


async def test_response_to_a_limit_has_a_continue_token() -> None:
    async with served() as api:
        await fill(api)
        token, rounds = "", 0
        while rounds == 0 or token:
            query = {"continue": token} if token else {}
            response = await api.ask("DELETE", api.path("configmaps"), limit=3, **query)
            metadata = response.expect(200)["metadata"]
            token, rounds = metadata.get("continue", ""), rounds + 1
            if token:
                assert metadata["remainingItemCount"] == 1
                assert names(await api.list("configmaps")) == ["c3"]
        assert rounds == 2
        assert metadata == {}
        assert names(await api.list("configmaps")) == []
