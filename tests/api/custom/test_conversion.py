"""Custom objects in versions that a webhook converts: reads, lists, writes, and a change of the storage version."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.custom.converting import Converting, converting
from tests.api.custom.kinds import APPLY, DEFINITIONS, GROUP, MERGE, NAME, gone

TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.cluster.io"}


async def test_object_is_converted_only_where_another_version_is_needed() -> None:
    async with converting() as server:
        created = await server.create("a", size=3, labels={"k": "v"})
        assert created["spec"] == {"size": 3}
        assert await server.get("v1", "a") == created
        assert server.calls() == []
        shown = await server.get("v2", "a")
        assert shown["apiVersion"] == f"{GROUP}/v2"
        assert shown["spec"] == {"length": 3}
        assert shown["metadata"] == created["metadata"]
        assert server.calls() == [1]
        [review] = [one.document for one in server.peer.received]
        assert review["kind"] == "ConversionReview"
        assert review["request"]["desiredAPIVersion"] == f"{GROUP}/v2"
        [sent] = review["request"]["objects"]
        assert (sent["kind"], sent["apiVersion"], sent["spec"]) == ("Widget", f"{GROUP}/v1", {"size": 3})
        assert server.peer.received[0].target == "/convert?timeout=30s"


@pytest.mark.parametrize(("reviews", "used"), [(("v1beta1", "v1"), "v1beta1"), (("v2", "v1"), "v1")])
async def test_first_known_review_version_is_used(reviews: tuple[str, ...], used: str) -> None:
    async with converting(reviews=reviews) as server:
        await server.create("a", in_version="v2")
        assert server.peer.received[0].document["apiVersion"] == f"apiextensions.cluster.io/{used}"


async def test_old_webhooks_may_leave_out_type_and_uid() -> None:
    async with converting(reviews=("v1beta1",)) as server:
        server.respond = lambda _, right: {
            "response": {name: part for name, part in right["response"].items() if name != "uid"}
        }
        assert (await server.create("a", size=4, in_version="v2"))["spec"] == {"length": 4}


async def test_create_in_another_version_is_stored_in_the_storage_version() -> None:
    async with converting() as server:
        created = await server.create("a", size=5, in_version="v2")
        assert (created["apiVersion"], created["spec"]) == (f"{GROUP}/v2", {"length": 5})
        server.calls()
        assert (await server.get("v1", "a"))["spec"] == {"size": 5}
        assert server.calls() == []


async def test_list_of_five_hundred_makes_one_call() -> None:
    async with converting() as server:
        for number in range(500):
            await server.create(f"w{number:03}", size=number)
        assert server.calls() == []
        listed = (await server.api.ask("GET", server.path("v2"))).expect(200)
        assert [one["spec"]["length"] for one in listed["items"]] == list(range(500))
        assert {one["apiVersion"] for one in listed["items"]} == {f"{GROUP}/v2"}
        assert server.calls() == [500]
        page = (await server.api.ask("GET", server.path("v2"), limit=10)).expect(200)
        assert len(page["items"]) == 10 and page["metadata"]["continue"]
        assert server.calls() == [10]


async def test_objects_in_the_wanted_version_are_not_sent() -> None:
    async with converting() as server:
        await server.create("a", size=1)
        await server.declare(storage="v2")
        await server.create("b", size=2, in_version="v2")
        assert server.calls() == []
        listed = (await server.api.ask("GET", server.path("v2"))).expect(200)
        assert [one["spec"] for one in listed["items"]] == [{"length": 1}, {"length": 2}]
        assert server.calls() == [1]
        listed = (await server.api.ask("GET", server.path("v1"))).expect(200)
        assert [one["spec"] for one in listed["items"]] == [{"size": 1}, {"size": 2}]
        assert server.calls() == [1]


async def test_tables_and_metadata_are_of_the_converted_object() -> None:
    async with converting() as server:
        await server.create("a")
        server.respond = _labelled
        table = (await server.api.ask("GET", server.path("v2"), headers=TABLE)).expect(200)
        assert table["rows"][0]["object"]["metadata"]["labels"] == {"converted": "yes"}
        only = {"accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.cluster.io"}
        found = (await server.api.ask("GET", server.path("v2", "a"), headers=only)).expect(200)
        assert found["metadata"]["labels"] == {"converted": "yes"}


def _labelled(_: Any, right: Any) -> Any:
    for one in right["response"]["convertedObjects"]:
        one["metadata"]["labels"] = {"converted": "yes"}
    return right


async def test_patches_and_replaces_work_in_the_version_of_the_client() -> None:
    async with converting() as server:
        await server.create("a", size=1)
        patched = await server.patch("v2", "a", {"spec": {"length": 7, "text": "x"}})
        assert patched["spec"] == {"length": 7, "text": "x"}
        assert patched["metadata"]["generation"] == 2
        assert (await server.get("v1", "a"))["spec"] == {"size": 7, "text": "x"}
        replaced = {**await server.get("v2", "a"), "spec": {"length": 8}}
        answer = (await server.api.ask("PUT", server.path("v2", "a"), replaced)).expect(200)
        assert answer["spec"] == {"length": 8}
        assert (await server.get("v1", "a"))["spec"] == {"size": 8}
        refused = await server.api.ask(
            "PATCH",
            server.path("v2", "a"),
            {"spec": {"length": "long"}},
            headers={"content-type": "application/merge-patch+json"},
        )
        assert refused.status == 422 and "spec.length" in refused.text
        stale = {**replaced, "spec": {"length": 9}}
        assert (await server.api.ask("PUT", server.path("v2", "a"), stale)).status == 409


async def test_unchanged_object_is_not_written_again() -> None:
    async with converting() as server:
        created = await server.create("a", size=1)
        patched = await server.patch("v2", "a", {"spec": {"length": 1}})
        assert patched["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def _apply(server: Converting, in_version: str, manager: str, **spec: Any) -> Any:
    config = {**server.widget(in_version, "a"), "spec": spec}
    path = server.path(in_version, "a")
    return await server.api.ask("PATCH", path, config, headers=APPLY, fieldManager=manager)


async def test_field_owners_are_kept_by_version() -> None:
    async with converting() as server:
        (await _apply(server, "v1", "one", size=1)).expect(201)
        (await _apply(server, "v2", "two", text="x")).expect(200)
        found = await server.get("v1", "a")
        assert found["spec"] == {"size": 1, "text": "x"}
        owners = {one["manager"]: one for one in found["metadata"]["managedFields"]}
        assert owners["one"]["apiVersion"] == f"{GROUP}/v1"
        assert owners["one"]["fieldsV1"] == {"f:spec": {"f:size": {}}}
        assert owners["two"]["fieldsV1"] == {"f:spec": {"f:text": {}}}
        conflict = await _apply(server, "v2", "two", length=2, text="x")
        assert conflict.status == 409
        assert [one["field"] for one in conflict.document["details"]["causes"]] == [".spec.size"]
        (await _apply(server, "v1", "one", size=3)).expect(200)
        (await _apply(server, "v2", "two", length=3)).expect(200)
        shared = (await _apply(server, "v1", "one")).expect(200)
        assert shared["spec"] == {"size": 3}  # two owns it as length
        assert "text" not in shared["spec"]


async def test_updates_in_another_version_keep_the_other_owners() -> None:
    async with converting() as server:
        sent = server.widget("v1", "a", 1)
        sent["spec"]["text"] = "x"
        (await server.api.ask("POST", server.path("v1"), sent, fieldManager="one")).expect(201)
        await server.patch("v2", "a", {"spec": {"length": 2}}, fieldManager="two")
        entries = (await server.get("v1", "a"))["metadata"]["managedFields"]
        owned = {one["manager"]: (one["apiVersion"], one["fieldsV1"]["f:spec"]) for one in entries}
        assert owned == {
            "one": (f"{GROUP}/v1", {".": {}, "f:text": {}}),
            "two": (f"{GROUP}/v2", {"f:length": {}}),
        }


async def test_applier_that_changes_its_version_removes_what_it_owned() -> None:
    async with converting() as server:
        (await _apply(server, "v1", "one", size=1, text="x")).expect(201)
        applied = (await _apply(server, "v2", "one", length=1)).expect(200)
        assert applied["spec"] == {"length": 1}
        assert (await server.get("v1", "a"))["spec"] == {"size": 1}


async def test_storage_version_changes_in_both_directions() -> None:
    async with converting() as server:
        await server.create("a", size=1)
        await server.declare(storage="v2")
        await server.create("b", size=2, in_version="v2")
        assert server.calls() == []
        assert (await server.get("v1", "a"))["spec"] == {"size": 1}
        assert server.calls() == []  # stored in v1
        assert (await server.get("v2", "b"))["spec"] == {"length": 2}
        assert server.calls() == []
        await server.patch("v1", "a", {"metadata": {"labels": {"k": "v"}}})
        server.calls()
        assert (await server.get("v2", "a"))["spec"] == {"length": 1}
        assert server.calls() == []  # now stored in v2
        await server.declare(storage="v1")
        for name, size in (("a", 1), ("b", 2)):
            assert (await server.get("v1", name))["spec"] == {"size": size}
            assert (await server.get("v2", name))["spec"] == {"length": size}
        assert server.calls() == [1, 1]


async def test_status_and_scale_of_another_version() -> None:
    paths = {"specReplicasPath": ".spec.length", "statusReplicasPath": ".status.size"}
    async with converting(storage="v2", subresources={"status": {}, "scale": paths}) as server:
        await server.create("a", size=3)
        scale = f"{server.path('v2', 'a')}/scale"
        assert (await server.api.ask("GET", scale)).expect(200)["spec"] == {"replicas": 3}
        status = f"{server.path('v1', 'a')}/status"
        sent = {**await server.get("v1", "a"), "status": {"size": 2}, "spec": {"size": 99}}
        updated = (await server.api.ask("PUT", status, sent)).expect(200)
        assert (updated["spec"], updated["status"]) == ({"size": 3}, {"size": 2})
        assert (await server.get("v2", "a"))["status"] == {"size": 2}


async def test_deletes_need_no_conversion() -> None:
    """A broken webhook cannot prevent deletes: of an object, of a collection, or of the definition."""
    async with converting() as server:
        for name in "abc":
            await server.create(name)
        await server.declare(storage="v2", url="https://127.0.0.1:1/gone")
        (await server.api.ask("DELETE", server.path("v2", "a"))).expect(200)
        (await server.api.ask("DELETE", server.path("v2"), labelSelector="none")).expect(200)
        assert (await server.api.ask("GET", server.path("v1", "b"))).status == 200
        (await server.api.ask("DELETE", f"{DEFINITIONS}/{NAME}")).expect(200)
        await gone(server.api, f"{DEFINITIONS}/{NAME}")


async def test_large_objects_are_converted_too() -> None:
    """A worker thread handles them, and it cannot wait for a webhook either."""
    async with converting() as server:
        text = "x" * 200_000
        sent = server.widget("v2", "a", 1)
        sent["spec"]["text"] = text
        created = (await server.api.ask("POST", server.path("v2"), sent)).expect(201)
        assert created["spec"] == {"length": 1, "text": text}
        patched = await server.patch("v2", "a", {"spec": {"length": 2}})
        assert patched["spec"]["length"] == 2
        found = await server.get("v1", "a")
        assert (found["spec"]["size"], len(found["spec"]["text"])) == (2, len(text))


async def test_long_list_makes_a_call_for_each_part() -> None:
    async with converting() as server:
        for number in range(6):
            sent = server.widget("v1", f"w{number}", number)
            sent["spec"]["text"] = "x" * 900_000
            (await server.api.ask("POST", server.path("v1"), sent)).expect(201)
        listed = (await server.api.ask("GET", server.path("v2"))).expect(200)
        assert [one["spec"]["length"] for one in listed["items"]] == list(range(6))
        calls = server.calls()
        assert sum(calls) == 6 and 1 < len(calls) <= 6


async def test_write_is_decided_again_if_the_object_changes_during_its_conversion() -> None:
    async with converting() as server:
        await server.create("a", size=1)

        async def change_once() -> None:
            server.wait = None
            await server.patch("v1", "a", {"spec": {"text": "meanwhile"}})

        server.wait = change_once
        patched = await server.patch("v2", "a", {"spec": {"length": 2}})
        assert patched["spec"] == {"length": 2, "text": "meanwhile"}
        assert (await server.get("v1", "a"))["spec"] == {"size": 2, "text": "meanwhile"}


async def test_create_that_loses_a_race_during_its_conversion_is_refused() -> None:
    async with converting() as server:

        async def create_other() -> None:
            server.wait = None
            await server.create("a", size=9)

        server.wait = create_other
        lost = await server.api.ask("POST", server.path("v2"), server.widget("v2", "a", 1))
        assert lost.expect(409)["reason"] == "AlreadyExists"
        assert (await server.get("v1", "a"))["spec"] == {"size": 9}


async def test_dry_run_is_converted_and_not_stored() -> None:
    async with converting() as server:
        sent = server.widget("v2", "a", 4)
        made = (await server.api.ask("POST", server.path("v2"), sent, dryRun="All")).expect(201)
        assert made["spec"] == {"length": 4}
        assert (await server.api.ask("GET", server.path("v1", "a"))).status == 404


async def test_strategy_changes_hold_for_the_next_request() -> None:
    async with converting() as server:
        await server.create("a", size=3)
        none = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
        (await server.api.ask("PATCH", f"{DEFINITIONS}/{NAME}", none, headers=MERGE)).expect(200)
        assert (await server.get("v2", "a"))["spec"] == {}
        assert server.calls() == []
        await server.declare()
        assert (await server.get("v2", "a"))["spec"] == {"length": 3}


async def test_what_a_call_for_a_list_holds_counts_as_memory_of_the_request() -> None:
    async with converting() as server:
        text = "x" * 50_000
        for name in ("a", "b", "c"):
            await server.create(name)
            await server.patch("v1", name, {"spec": {"text": text}})
        held: list[float] = []

        async def read_held() -> None:
            metrics = (await server.api.ask("GET", "/metrics")).text
            held.append(float(metrics.split("\nrewound_memory_held_bytes ")[1].split()[0]))

        await read_held()
        server.wait = read_held
        listed = await server.api.ask("GET", server.path("v2"))
        assert len(listed.expect(200)["items"]) == 3
        assert held[1] - held[0] >= 3 * 3 * len(text)
