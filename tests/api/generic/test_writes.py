"""Creates, updates, patches and server-side apply, for a built-in and a custom kind."""

from __future__ import annotations

import json

import pytest

from tests.api.generic.kinds import MERGE, Opened, both

JSON_PATCH = {"content-type": "application/json-patch+json"}


@both
async def test_server_sets_the_metadata_of_a_new_object(opened: Opened) -> None:
    async with opened() as kind:
        made = (await kind.create("a", metadata={"uid": "mine", "resourceVersion": ""}, k="v"))["metadata"]
        assert made["namespace"] == kind.namespace and made["uid"] != "mine"
        assert made["creationTimestamp"] and int(made["resourceVersion"])
        assert made["managedFields"][0]["apiVersion"] == kind.api_version
        taken = (await kind.ask("POST", body=kind.body("a"))).expect(409)
        assert (taken["reason"], taken["message"]) == ("AlreadyExists", f'{kind.resource} "a" already exists')
        versioned = kind.body("b", metadata={"resourceVersion": "1"})
        assert (
            "resourceVersion should not be set"
            in (await kind.ask("POST", body=versioned)).expect(400)["message"]
        )


@both
async def test_name_is_generated(opened: Opened) -> None:
    async with opened() as kind:
        made = [await kind.create("", metadata={"generateName": "job-"}) for _ in range(3)]
        names = {one["metadata"]["name"] for one in made}
        assert len(names) == 3
        assert all(name.startswith("job-") and len(name) == len("job-") + 5 for name in names)
        assert (await kind.ask("POST", body=kind.body(""))).status == 422


@both
async def test_dry_run_stores_nothing(opened: Opened) -> None:
    async with opened() as kind:
        before = await kind.create("a", k="v")
        (await kind.ask("POST", body=kind.body("b"), dryRun="All")).expect(201)
        changed = await kind.ask("PUT", "a", {**before, "data": {"k": "new"}}, dryRun="All")
        assert changed.expect(200)["data"] == {"k": "new"}
        patched = await kind.ask("PATCH", "a", {"data": {"k": "new"}}, headers=MERGE, dryRun="All")
        assert patched.expect(200)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        (await kind.ask("DELETE", "a", dryRun="All")).expect(200)
        (await kind.ask("DELETE", dryRun="All")).expect(200)
        assert await kind.get("a") == before
        assert await kind.names() == ["a"]
        assert (await kind.ask("DELETE", "a", dryRun="Some")).status in (400, 422)


@both
async def test_field_validation_drops_warns_or_refuses(opened: Opened) -> None:
    async with opened() as kind:
        unknown = {**kind.body("a"), "unknown": 1}
        warned = await kind.ask("POST", body=unknown, fieldValidation="Warn")
        assert "unknown" not in warned.expect(201)
        assert warned.warnings == ['299 - "unknown field \\"unknown\\""']
        ignored = await kind.ask("PUT", "a", {**warned.document, "unknown": 1}, fieldValidation="Ignore")
        assert ignored.expect(200) and ignored.warnings == []
        for method, name in (("POST", ""), ("PUT", "a")):
            strict = (await kind.ask(method, name, unknown, fieldValidation="Strict")).expect(400)
            assert 'unknown field "unknown"' in strict["message"]
        twice = json.dumps(kind.body("b")).replace('"data": {}', '"data": {"k": "x", "k": "z"}').encode()
        doubled = (await kind.ask("POST", body=twice, fieldValidation="Strict")).expect(400)
        assert 'duplicate field "data.k"' in doubled["message"]


@both
async def test_update_needs_the_version_that_it_names(opened: Opened) -> None:
    async with opened() as kind:
        first = await kind.create("a", k="1")
        second = (await kind.ask("PUT", "a", {**first, "data": {"k": "2"}})).expect(200)
        assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
        stale = (await kind.ask("PUT", "a", {**first, "data": {"k": "3"}})).expect(409)
        assert stale["reason"] == "Conflict" and "the object has been modified" in stale["message"]
        stale = (await kind.ask("PATCH", "a", {"metadata": {"resourceVersion": "1"}}, headers=MERGE)).expect(
            409
        )
        assert stale["reason"] == "Conflict"
        same = (await kind.ask("PUT", "a", second)).expect(200)
        assert same["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
        unversioned = await kind.ask("PUT", "a", kind.body("a", k="4"))
        assert unversioned.status == (422 if kind.group else 200), "custom kinds refuse unconditional updates"
        moved = (await kind.ask("PUT", "a", kind.body("b"))).expect(400)
        assert "does not match the name on the URL" in moved["message"]


@both
async def test_merge_and_json_patches_change_what_they_name(opened: Opened) -> None:
    async with opened() as kind:
        await kind.create("a", k="1", gone="x")
        merged = (await kind.ask("PATCH", "a", {"data": {"k": "2", "gone": None}}, headers=MERGE)).expect(200)
        assert merged["data"] == {"k": "2"}
        steps = [
            {"op": "test", "path": "/data/k", "value": "2"},
            {"op": "add", "path": "/metadata/labels", "value": {"l": "x"}},
            {"op": "replace", "path": "/data/k", "value": "3"},
        ]
        patched = (await kind.ask("PATCH", "a", json.dumps(steps).encode(), headers=JSON_PATCH)).expect(200)
        assert (patched["data"], patched["metadata"]["labels"]) == ({"k": "3"}, {"l": "x"})
        failing = json.dumps(steps).encode()
        assert (await kind.ask("PATCH", "a", failing, headers=JSON_PATCH)).status == 422
        assert (await kind.ask("PATCH", "missing", {}, headers=MERGE)).status == 404


@both
async def test_strategic_merge_patch_needs_a_built_in_kind(opened: Opened) -> None:
    async with opened() as kind:
        await kind.create("a", k="1")
        strategic = {"content-type": "application/strategic-merge-patch+json"}
        response = await kind.ask("PATCH", "a", {"data": {"k": "2"}}, headers=strategic)
        assert response.status == (415 if kind.group else 200)


@both
async def test_apply_owns_fields_and_reports_conflicts(opened: Opened) -> None:
    async with opened() as kind:
        (await kind.apply("a", "one", k="1", mine="x")).expect(201)
        refused = (await kind.apply("a", "two", k="2")).expect(409)
        assert [cause["field"] for cause in refused["details"]["causes"]] == [".data.k"]
        assert 'conflict with "one"' in refused["message"]
        forced = (await kind.apply("a", "two", force=True, k="2")).expect(200)
        assert forced["data"] == {"k": "2", "mine": "x"}
        owners = {one["manager"]: one for one in forced["metadata"]["managedFields"]}
        assert owners["two"]["fieldsV1"] == {"f:data": {"f:k": {}}}
        assert owners["one"]["operation"] == "Apply" and "f:k" not in owners["one"]["fieldsV1"]["f:data"]
        left = (await kind.apply("a", "one")).expect(200)
        assert left["data"] == {"k": "2"}
        unnamed = await kind.ask(
            "PATCH", "a", kind.body("a"), headers={"content-type": "application/apply-patch+yaml"}
        )
        assert "fieldManager" in unnamed.expect(422)["message"]


@both
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_values_of_the_wrong_type_are_refused(opened: Opened, method: str) -> None:
    async with opened() as kind:
        await kind.create("a")
        before = await kind.get("a")
        wrong = {**kind.body("b" if method == "POST" else "a"), "data": {"k": 1}}
        response = await kind.ask(method, "" if method == "POST" else "a", wrong)
        assert response.status in (400, 422) and "data" in response.text
        assert await kind.names() == ["a"] and await kind.get("a") == before
