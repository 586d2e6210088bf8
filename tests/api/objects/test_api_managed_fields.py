"""managedFields of all writes but apply: owners, when entries change, and how to reset them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.actors.object_store import Document
from tests.gateway.api import Api, Opener, everywhere, served

MERGE = {"content-type": "application/merge-patch+json"}
DATA: Document = {"metadata": {"name": "a"}, "data": {"k": "v"}}


def entries(document: Document) -> list[tuple[Any, ...]]:
    return [
        (one["manager"], one["operation"], one.get("subresource", ""), one["fieldsV1"])
        for one in document["metadata"].get("managedFields", [])
    ]


async def merge(api: Api, path: str, body: Document, **query: Any) -> Document:
    return (await api.ask("PATCH", path, body, headers=MERGE, **query)).expect(200)


@everywhere
async def test_creator_owns_all_fields(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("configmaps", DATA)
        assert [one[1:] for one in entries(made)] == [("Update", "", {"f:data": {".": {}, "f:k": {}}})]
        assert made["metadata"]["managedFields"][0]["time"] == made["metadata"]["creationTimestamp"]


@everywhere
async def test_object_without_fields_has_no_managed_fields(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("configmaps", {"metadata": {"name": "a"}})
        assert "managedFields" not in made["metadata"]


@everywhere
async def test_unchanged_update_changes_neither_owners_nor_times(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("configmaps", DATA)
        api.clock.advance(10)
        assert await api.replace("configmaps", made) == made


async def test_manager_is_the_parameter_or_the_user_agent() -> None:
    async with served() as api:
        for name, agent, query, manager in (
            ("a", "tool/v1 (x/y)", {}, "tool"),
            ("b", "tool/v1", {"fieldManager": "me"}, "me"),
            ("c", "", {}, "unknown"),
        ):
            body = {**DATA, "metadata": {"name": name}}
            path = api.path("configmaps")
            made = (await api.ask("POST", path, body, headers={"user-agent": agent}, **query)).expect(201)
            assert entries(made)[0][0] == manager


async def test_unusual_user_agent_is_a_manager() -> None:
    async with served() as api:
        for name, agent, manager in (
            ("a", b"x" * 500, "x" * 128),
            ("b", b"x" * 127 + "ü".encode(), "x" * 127),
            ("c", "tü l\u200b".encode(), "tü l"),
        ):
            body = {**DATA, "metadata": {"name": name}}
            made = await api.ask("POST", api.path("configmaps"), body, headers={"user-agent": agent})
            assert entries(made.expect(201))[0][0] == manager


async def test_status_has_separate_entries() -> None:
    async with served() as api:
        made = await api.create("nodes", {"metadata": {"name": "n", "labels": {"a": "b"}}})
        path = api.path("nodes", name="n")
        main = entries(made)
        changed = await merge(
            api, f"{path}/status", {"status": {"phase": "Running"}, "spec": {"unschedulable": True}}
        )
        assert entries(changed)[:-1] == main
        assert entries(changed)[-1][1:] == ("Update", "status", {"f:status": {"f:phase": {}}})
        assert await merge(api, path, {"status": {"phase": "Pending"}}) == changed


async def test_one_empty_entry_resets_and_an_empty_list_does_not() -> None:
    async with served() as api:
        made = await api.create("configmaps", DATA)
        path = api.path("configmaps", name="a")
        assert await merge(api, path, {"metadata": {"managedFields": []}}) == made
        reset = await merge(api, path, {"metadata": {"managedFields": [{}]}})
        assert entries(reset) == []
        assert entries(await merge(api, path, {"data": {"n": "1"}})) == []


async def test_both_versions_of_an_event_share_managed_fields() -> None:
    async with served() as api:
        about = {"kind": "Pod", "name": "p", "namespace": "default"}
        made = await api.create(
            "events", {"metadata": {"name": "e"}, "involvedObject": about, "message": "a"}
        )
        other = f"/apis/events.cluster.io/v1/namespaces/default/events/{made['metadata']['name']}"
        returned = (await api.ask("GET", other)).expect(200)
        assert entries(returned) == entries(made)
        api.clock.advance(1)
        changed = await merge(api, other, {"metadata": {"labels": {"a": "b"}}}, fieldManager="new")
        assert entries(changed)[-1] == (
            "new",
            "Update",
            "",
            {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}},
        )
        assert changed["metadata"]["managedFields"][-1]["apiVersion"] == "events.cluster.io/v1"


async def test_lists_have_managed_fields() -> None:
    async with served() as api:
        made = await api.create("configmaps", DATA)
        listed = await api.list("configmaps")
        assert [one["metadata"]["managedFields"] for one in listed["items"]] == [
            made["metadata"]["managedFields"]
        ]


RESET = {"metadata": {"managedFields": [{}]}}
RESETS: list[tuple[str, str, Any]] = [
    ("PATCH", "application/merge-patch+json", RESET),
    ("PATCH", "application/strategic-merge-patch+json", RESET),
    (
        "PATCH",
        "application/json-patch+json",
        [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}],
    ),
    ("PUT", "application/json", {**DATA, "metadata": {**DATA["metadata"], "managedFields": [{}]}}),
]


@pytest.mark.parametrize(("method", "media", "body"), RESETS, ids=[media for _, media, _ in RESETS])
async def test_every_write_but_apply_can_reset_managed_fields(method: str, media: str, body: Any) -> None:
    async with served() as api:
        made = await api.create("configmaps", DATA)
        assert entries(made)
        path = api.path("configmaps", name=made["metadata"]["name"])
        response = await api.ask(method, path, orjson.dumps(body), headers={"content-type": media})
        reset = response.expect(200)
        assert entries(reset) == []
        assert reset["data"] == made["data"]
        assert reset["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]


async def test_reset_with_another_change_makes_the_writer_its_owner() -> None:
    async with served() as api:
        made = await api.create("configmaps", DATA)
        path = api.path("configmaps", name=made["metadata"]["name"])
        changed = await merge(api, path, {**RESET, "data": {"new": "1"}}, fieldManager="changer")
        assert entries(changed) == [("changer", "Update", "", {"f:data": {"f:new": {}}})]
