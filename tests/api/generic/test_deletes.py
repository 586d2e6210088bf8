"""Deletes with preconditions, finalizers, owners and namespaces, for a built-in and a custom kind."""

from __future__ import annotations

from tests.actors.object_store import Document
from tests.api.custom.kinds import gone, until
from tests.api.generic.kinds import MERGE, Kind, Opened, both


def owned_by(kind: Kind, owner: Document, **more: object) -> Document:
    reference = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }
    return {"ownerReferences": [reference]}


@both
async def test_preconditions_decide_about_a_delete(opened: Opened) -> None:
    async with opened() as kind:
        made = (await kind.create("a"))["metadata"]
        for wrong in ({"uid": "another"}, {"uid": made["uid"], "resourceVersion": "1"}):
            refused = (await kind.ask("DELETE", "a", {"preconditions": wrong})).expect(409)
            assert "in the precondition" in refused["message"]
        right = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
        deleted = (await kind.ask("DELETE", "a", {"preconditions": right})).expect(200)
        assert (deleted["kind"], deleted["status"]) == ("Status", "Success")
        assert await kind.names() == []


@both
async def test_object_with_finalizers_is_marked_until_the_last_is_removed(opened: Opened) -> None:
    async with opened() as kind:
        await kind.create("a", metadata={"finalizers": ["example.com/one"]}, k="v")
        (await kind.ask("DELETE", "a")).expect(200)
        marked = (await kind.get("a"))["metadata"]
        assert marked["deletionTimestamp"] and marked["deletionGracePeriodSeconds"] == 0
        more = {"metadata": {"finalizers": ["example.com/one", "example.com/two"]}}
        assert (await kind.ask("PATCH", "a", more, headers=MERGE)).status == 422
        assert (await kind.ask("POST", body=kind.body("a"))).status == 409
        (await kind.ask("PATCH", "a", {"metadata": {"finalizers": None}}, headers=MERGE)).expect(200)
        assert await kind.names() == []


@both
async def test_collection_is_deleted_by_selectors(opened: Opened) -> None:
    async with opened() as kind:
        for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
            await kind.create(name, metadata={"labels": {"color": color}})
        (await kind.ask("DELETE", labelSelector="color=red")).expect(200)
        assert await kind.names() == ["b"]
        (await kind.ask("DELETE")).expect(200)
        assert await kind.names() == []


@both
async def test_dependents_of_both_kinds_are_deleted_with_their_owner(opened: Opened) -> None:
    async with opened() as kind:
        owner = await kind.create("owner")
        await kind.create("same", metadata=owned_by(kind, owner))
        await kind.other().create("other", metadata=owned_by(kind, owner))
        (await kind.ask("DELETE", "owner")).expect(200)
        await kind.gone("same")
        await kind.other().gone("other")


@both
async def test_foreground_deletion_removes_the_owner_last(opened: Opened) -> None:
    async with opened() as kind:
        owner = await kind.create("owner")
        held = {**owned_by(kind, owner, blockOwnerDeletion=True), "finalizers": ["example.com/held"]}
        await kind.other().create("dependent", metadata=held)
        (await kind.ask("DELETE", "owner", {"propagationPolicy": "Foreground"})).expect(200)
        assert (await kind.get("owner"))["metadata"]["finalizers"] == ["foregroundDeletion"]

        async def is_marked() -> bool:
            return "deletionTimestamp" in (await kind.other().get("dependent"))["metadata"]

        await until(kind.api, is_marked)
        assert (await kind.get("owner"))["metadata"]["deletionTimestamp"]
        release = {"metadata": {"finalizers": None}}
        (await kind.other().ask("PATCH", "dependent", release, headers=MERGE)).expect(200)
        await kind.gone("owner")


@both
async def test_orphans_lose_their_owner_reference(opened: Opened) -> None:
    async with opened() as kind:
        owner = await kind.create("owner")
        await kind.other().create("dependent", metadata=owned_by(kind, owner))
        (await kind.ask("DELETE", "owner", {"propagationPolicy": "Orphan"})).expect(200)
        await kind.gone("owner")
        assert "ownerReferences" not in (await kind.other().get("dependent"))["metadata"]


@both
async def test_namespace_takes_its_objects_with_it(opened: Opened) -> None:
    async with opened() as kind:
        await kind.create("a")
        await kind.create("held", metadata={"finalizers": ["example.com/held"]})
        namespace = f"/api/v1/namespaces/{kind.namespace}"
        assert (await kind.api.ask("DELETE", namespace)).status == 200
        await kind.gone("a")
        refused = (await kind.ask("POST", body=kind.body("late"))).expect(403)
        assert "because it is being terminated" in refused["message"]
        assert (await kind.api.ask("GET", namespace)).expect(200)["status"]["phase"] == "Terminating"
        (await kind.ask("PATCH", "held", {"metadata": {"finalizers": None}}, headers=MERGE)).expect(200)
        await gone(kind.api, namespace)
