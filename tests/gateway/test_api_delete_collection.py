"""Deleting a collection: what matches, in one namespace, each object by itself."""

from __future__ import annotations

import pytest

from tests.actors.object_store import Verbs
from tests.gateway.api import Opener, config_map, everywhere, labelled, names, served


async def fill(api: Verbs) -> None:
    for number in range(4):
        await api.create("configmaps", labelled(f"c{number}", even=str(number % 2 == 0)))
    await api.create("configmaps", labelled("c0", even="True"), "cluster-public")


@everywhere
async def test_all_of_one_namespace(opened: Opener) -> None:
    async with opened() as api:
        await fill(api)
        await api.delete_collection("configmaps")
        assert names(await api.list("configmaps")) == []
        assert names(await api.list("configmaps", "cluster-public")) == ["c0"]


@everywhere
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
async def test_what_a_selector_matches(opened: Opener, selector: dict[str, str], left: list[str]) -> None:
    async with opened() as api:
        await fill(api)
        await api.delete_collection("configmaps", **selector)
        assert names(await api.list("configmaps")) == left


@everywhere
async def test_a_limit_spares_the_rest(opened: Opener) -> None:
    async with opened() as api:
        await fill(api)
        await api.delete_collection("configmaps", limit=1)
        assert names(await api.list("configmaps")) == ["c1", "c2", "c3"]
        await api.delete_collection("configmaps", limit=1, labelSelector="even=True")
        assert names(await api.list("configmaps")) == ["c1", "c3"]


@everywhere
async def test_a_token_spares_what_was_shown_before(opened: Opener) -> None:
    async with opened() as api:
        await fill(api)
        page = await api.list("configmaps", limit=3)
        await api.delete_collection("configmaps", **{"continue": page["metadata"]["continue"]})
        assert names(await api.list("configmaps")) == ["c0", "c1", "c2"]


@everywhere
async def test_a_version_spares_what_came_later(opened: Opener) -> None:
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
async def test_options_that_no_list_takes_delete_nothing(query: dict[str, str], status: int) -> None:
    async with served() as api:
        await fill(api)
        (await api.ask("DELETE", api.path("configmaps"), **query)).expect(status)
        assert len(names(await api.list("configmaps"))) == 4


async def test_a_precondition_holds_for_each() -> None:
    async with served() as api:
        await fill(api)
        body = {"preconditions": {"uid": "another"}}
        (await api.ask("DELETE", api.path("configmaps"), body)).expect(409)
        assert len(names(await api.list("configmaps"))) == 4


@everywhere
async def test_finalizers_hold_their_objects(opened: Opener) -> None:
    async with opened() as api:
        await fill(api)
        await api.create("configmaps", {"metadata": {"name": "held", "finalizers": ["example.com/held"]}})
        await api.delete_collection("configmaps")
        left = await api.list("configmaps")
        assert names(left) == ["held"]
        assert "deletionTimestamp" in left["items"][0]["metadata"]
        await api.delete_collection("configmaps")
        assert names(await api.list("configmaps")) == ["held"]


@everywhere
async def test_more_than_go_together(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.resource.collection.TOGETHER", 2)
    async with opened() as api:
        for number in range(7):
            await api.create("configmaps", config_map(f"c{number}"))
        await api.delete_collection("configmaps")
        assert names(await api.list("configmaps")) == []


@everywhere
async def test_an_empty_collection(opened: Opener) -> None:
    async with opened() as api:
        await api.delete_collection("configmaps")
        await api.delete_collection("configmaps", "missing")


async def test_the_answer_is_a_status() -> None:
    async with served() as api:
        await fill(api)
        status = (await api.ask("DELETE", api.path("configmaps"))).expect(200)
        assert (status["kind"], status["status"], status["details"]) == (
            "Status",
            "Success",
            {"kind": "configmaps"},
        )


async def test_options_in_the_body() -> None:
    async with served() as api:
        await fill(api)
        answer = await api.ask(
            "DELETE", api.path("configmaps"), {"dryRun": ["All"]}, labelSelector="even=True"
        )
        assert answer.status == 200
        assert len(names(await api.list("configmaps"))) == 4


async def test_kinds_of_the_whole_cluster() -> None:
    async with served() as api:
        for name in "ab":
            await api.create("nodes", {"metadata": {"name": name}})
        assert (await api.ask("DELETE", "/api/v1/nodes")).status == 200
        assert names(await api.list("nodes", None)) == []


async def test_each_object_has_an_event_of_its_own() -> None:
    async with served() as api:
        await fill(api)
        before = int(await api.head())
        await api.delete_collection("configmaps")
        assert int(await api.head()) == before + 4


async def test_a_limit_names_the_token_to_go_on_with() -> None:
    async with served() as api:
        await fill(api)
        token, rounds = "", 0
        while rounds == 0 or token:
            query = {"continue": token} if token else {}
            answer = await api.ask("DELETE", api.path("configmaps"), limit=3, **query)
            metadata = answer.expect(200)["metadata"]
            token, rounds = metadata.get("continue", ""), rounds + 1
            if token:
                assert metadata["remainingItemCount"] == 1
                assert names(await api.list("configmaps")) == ["c3"]
        assert rounds == 2
        assert metadata == {}
        assert names(await api.list("configmaps")) == []
