"""Deletion in two phases: marked while there are finalizers, deleted when the last one is removed."""

from __future__ import annotations

import pytest

from tests.actors.object_store import Document, Refused
from tests.gateway.api import Opener, names, served
from tests.gateway.custom_api import generic

ONE, TWO = "example.com/one", "example.com/two"


def held(*finalizers: str, **data: str) -> Document:
    body: Document = {"metadata": {"name": "a", "finalizers": list(finalizers)}}
    return {**body, "data": data} if data else body


@generic
async def test_delete_marks_an_object_with_finalizers(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("configmaps", held(ONE))
        api.clock.advance(60)
        await api.delete("configmaps", "a")
        metadata = (await api.get("configmaps", "a"))["metadata"]
        assert metadata["deletionTimestamp"] == "2023-11-14T22:14:20Z"
        assert metadata["deletionGracePeriodSeconds"] == 0
        assert metadata["finalizers"] == [ONE]
        assert int(metadata["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


@generic
async def test_second_delete_changes_nothing(opened: Opener) -> None:
    async with opened() as api:
        await api.create("configmaps", held(ONE))
        await api.delete("configmaps", "a")
        marked = await api.get("configmaps", "a")
        api.clock.advance(60)
        await api.delete("configmaps", "a")
        assert await api.get("configmaps", "a") == marked


@generic
async def test_finalizers_are_removed_in_any_order(opened: Opener) -> None:
    async with opened() as api:
        await api.create("configmaps", held(ONE, TWO))
        await api.delete("configmaps", "a")
        await api.replace("configmaps", held(TWO, ONE))
        await api.replace("configmaps", held(TWO))
        assert (await api.get("configmaps", "a"))["metadata"]["finalizers"] == [TWO]
        await api.replace("configmaps", held())
        with pytest.raises(Refused) as refused:
            await api.get("configmaps", "a")
        assert refused.value.reason == "NotFound"


@generic
async def test_name_is_taken_until_the_object_is_deleted(opened: Opener) -> None:
    async with opened() as api:
        await api.create("configmaps", held(ONE))
        await api.delete("configmaps", "a")
        text = r'object is being deleted: (configmaps|widgets\.example\.com) "a" already exists'
        with pytest.raises(Refused, match=text) as refused:
            await api.create("configmaps", held())
        assert refused.value.reason == "AlreadyExists"
        await api.replace("configmaps", held())
        await api.create("configmaps", held())


@generic
async def test_marked_object_can_be_changed_but_not_unmarked(opened: Opener) -> None:
    async with opened() as api:
        await api.create("configmaps", held(ONE))
        await api.delete("configmaps", "a")
        changed = await api.replace("configmaps", held(ONE, text="late"))
        assert changed["data"] == {"text": "late"}
        assert "deletionTimestamp" in changed["metadata"]


@generic
async def test_marked_object_accepts_no_new_finalizers(opened: Opener) -> None:
    async with opened() as api:
        await api.create("configmaps", held(ONE))
        await api.delete("configmaps", "a")
        with pytest.raises(Refused, match="no new finalizers can be added") as refused:
            await api.replace("configmaps", held(ONE, TWO))
        assert refused.value.reason == "Invalid"


@generic
async def test_removing_finalizers_of_an_unmarked_object_deletes_nothing(opened: Opener) -> None:
    async with opened() as api:
        await api.create("configmaps", held(ONE))
        await api.replace("configmaps", held())
        assert names(await api.list("configmaps")) == ["a"]


@generic
async def test_delete_without_finalizers_is_immediate(opened: Opener) -> None:
    async with opened() as api:
        await api.create("configmaps", held())
        await api.delete("configmaps", "a")
        assert names(await api.list("configmaps")) == []
        with pytest.raises(Refused) as refused:
            await api.delete("configmaps", "a")
        assert refused.value.reason == "NotFound"


async def test_responses_of_both_phases() -> None:
    async with served() as api:
        path = api.path("configmaps", name="a")
        await api.create("configmaps", held(ONE))
        assert (await api.ask("DELETE", path)).status == 200
        gone = (await api.ask("PUT", path, held())).expect(200)
        assert gone["metadata"]["name"] == "a"
        assert (await api.ask("GET", path)).status == 404
        uid = (await api.create("configmaps", held()))["metadata"]["uid"]
        status = (await api.ask("DELETE", path)).expect(200)
        assert (status["kind"], status["status"]) == ("Status", "Success")
        assert status["details"] == {"name": "a", "kind": "configmaps", "uid": uid}


async def test_marked_object_stays_marked_after_a_restart() -> None:
    async with served() as api:
        await api.create("configmaps", held(ONE))
        await api.delete("configmaps", "a")
        await api.restart()
        assert "deletionTimestamp" in (await api.get("configmaps", "a"))["metadata"]
        await api.replace("configmaps", held())
        assert names(await api.list("configmaps")) == []
