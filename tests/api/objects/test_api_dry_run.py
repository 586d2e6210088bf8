"""dryRun=All: the response of the real request, and nothing is stored."""

from __future__ import annotations

import pytest

from tests.actors.object_store import Document, Refused, Verbs
from tests.gateway.api import Opener, config_map, names, served
from tests.gateway.custom_api import generic


async def newest(api: Verbs) -> str:
    return str((await api.list("configmaps", None))["metadata"]["resourceVersion"])


@generic
async def test_dry_run_create_stores_nothing(opened: Opener) -> None:
    async with opened() as api:
        before = await newest(api)
        made = await api.create("configmaps", config_map("a", text="x"), dryRun="All")
        assert made["data"] == {"text": "x"}
        assert made["metadata"]["uid"]
        assert made["metadata"]["creationTimestamp"]
        assert "resourceVersion" not in made["metadata"]
        assert names(await api.list("configmaps")) == []
        assert await newest(api) == before
        await api.create("configmaps", config_map("a"))


@generic
async def test_dry_run_create_generates_a_name(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("configmaps", {"metadata": {"generateName": "web-"}}, dryRun="All")
        assert made["metadata"]["name"].startswith("web-")
        assert names(await api.list("configmaps")) == []


@generic
async def test_dry_run_update_stores_nothing(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("configmaps", config_map("a", text="old"))
        before = await newest(api)
        put = await api.replace("configmaps", config_map("a", text="new"), dryRun="All")
        assert put["data"] == {"text": "new"}
        assert put["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert (await api.get("configmaps", "a"))["data"] == {"text": "old"}
        assert await newest(api) == before


@generic
async def test_dry_run_delete_deletes_nothing(opened: Opener) -> None:
    async with opened() as api:
        await api.create("configmaps", config_map("a"))
        before = await newest(api)
        await api.delete("configmaps", "a", dryRun="All")
        await api.delete("configmaps", "a", body={"dryRun": ["All"]})
        assert names(await api.list("configmaps")) == ["a"]
        assert await newest(api) == before


@generic
async def test_dry_run_delete_marks_no_object_with_finalizers(opened: Opener) -> None:
    async with opened() as api:
        held: Document = {"metadata": {"name": "a", "finalizers": ["example.com/held"]}}
        await api.create("configmaps", held)
        await api.delete("configmaps", "a", dryRun="All")
        assert "deletionTimestamp" not in (await api.get("configmaps", "a"))["metadata"]


@generic
async def test_dry_run_removal_of_the_last_finalizer_deletes_nothing(opened: Opener) -> None:
    async with opened() as api:
        await api.create("configmaps", {"metadata": {"name": "a", "finalizers": ["example.com/held"]}})
        await api.delete("configmaps", "a")
        before = await newest(api)
        await api.replace("configmaps", config_map("a"), dryRun="All")
        assert (await api.get("configmaps", "a"))["metadata"]["finalizers"] == ["example.com/held"]
        assert await newest(api) == before


@generic
async def test_dry_run_delete_of_a_collection_deletes_nothing(opened: Opener) -> None:
    async with opened() as api:
        for name in "ab":
            await api.create("configmaps", config_map(name))
        before = await newest(api)
        await api.delete_collection("configmaps", dryRun="All")
        assert names(await api.list("configmaps")) == ["a", "b"]
        assert await newest(api) == before


@generic
async def test_dry_run_is_refused_like_the_real_request(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("configmaps", config_map("a"))
        for reason, attempt in {
            "AlreadyExists": lambda: api.create("configmaps", config_map("a"), dryRun="All"),
            "Invalid": lambda: api.create("configmaps", config_map("A B"), dryRun="All"),
            "NotFound": lambda: api.replace("configmaps", config_map("b"), dryRun="All"),
            "Conflict": lambda: api.delete(
                "configmaps", "a", body={"dryRun": ["All"], "preconditions": {"resourceVersion": "1"}}
            ),
        }.items():
            with pytest.raises(Refused) as refused:
                await attempt()
            assert refused.value.reason == reason
        assert await newest(api) == made["metadata"]["resourceVersion"]


@pytest.mark.parametrize("query", ["?dryRun", "?dryRun="])
async def test_empty_dry_run_parameter_is_an_ordinary_write(query: str) -> None:
    async with served() as api:
        assert (await api.ask("POST", api.path("configmaps") + query, config_map("a"))).status == 201
        assert names(await api.list("configmaps")) == ["a"]
        assert (await api.ask("DELETE", api.path("configmaps", name="a") + query)).status == 200
        assert names(await api.list("configmaps")) == []


async def test_dry_run_has_the_status_codes_of_the_real_request() -> None:
    async with served() as api:
        assert (await api.ask("POST", api.path("configmaps"), config_map("a"), dryRun="All")).status == 201
        await api.create("configmaps", config_map("a"))
        path = api.path("configmaps", name="a")
        assert (await api.ask("PUT", path, config_map("a", text="new"), dryRun="All")).status == 200
        assert (await api.ask("DELETE", path, dryRun="All")).expect(200)["status"] == "Success"


async def test_dry_run_in_the_query_counts_beside_a_body() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        path = api.path("configmaps", name="a")
        assert (await api.ask("DELETE", path, {"gracePeriodSeconds": 0}, dryRun="All")).status == 200
        assert names(await api.list("configmaps")) == ["a"]


async def test_dry_run_needs_the_rights_of_the_real_request() -> None:
    async with served() as api:
        response = await api.ask("POST", api.path("configmaps"), config_map("a"), token=None, dryRun="All")
        assert response.status == 403


@generic
@pytest.mark.parametrize("version", ["5", "x"])
async def test_dry_run_create_with_a_version_is_not_refused_for_it(opened: Opener, version: str) -> None:
    async with opened() as api:
        before = await newest(api)
        sent: Document = {"metadata": {"name": "a", "resourceVersion": version}}
        made = await api.create("configmaps", sent, dryRun="All")
        assert made["metadata"]["resourceVersion"] == version
        assert await newest(api) == before


async def test_dry_run_put_and_apply_that_create_may_have_a_version() -> None:
    async with served() as api:
        sent: Document = {"metadata": {"name": "a", "resourceVersion": "5"}}
        put = await api.replace("leases", sent, dryRun="All")
        assert put["metadata"]["resourceVersion"] == "5"
        body = {"apiVersion": "v1", "kind": "ConfigMap", **sent}
        path = api.path("configmaps", "default") + "/a"
        applied = await api.ask(
            "PATCH",
            path,
            body,
            headers={"content-type": "application/apply-patch+yaml"},
            fieldManager="m",
            dryRun="All",
        )
        assert applied.expect(201)["metadata"]["name"] == "a"
