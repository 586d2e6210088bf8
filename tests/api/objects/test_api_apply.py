"""Server-side apply over HTTP: bodies, options and results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.actors.kinds.test_signing_request_rules import request
from tests.actors.object_store import Document
from tests.cases import cases
from tests.gateway.api import Api, ApiResponse, served
from tests.gateway.shared_server import shared

APPLY = {"content-type": "application/apply-patch+yaml"}
CONFIG: Document = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "labels": {"l": "1"}},
    "data": {"k": "v"},
}
YAML = b"""
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: {l: "1"}}
data:
  k: v
"""
OWNED = {"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}


async def apply(
    api: Api, body: Document | bytes, manager: str = "m1", path: str = "configmaps/a", **query: Any
) -> ApiResponse:
    where = f"/api/v1/namespaces/default/{path}"
    return await api.ask("PATCH", where, body, headers=APPLY, fieldManager=manager, **query)


def owners(document: Document) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in document["metadata"].get("managedFields", [])}


@pytest.mark.parametrize("body", [CONFIG, YAML, json.dumps(CONFIG, indent=2).encode()])
async def test_yaml_and_json_bodies_are_equivalent(body: Document | bytes) -> None:
    async with served() as api:
        made = (await apply(api, body)).expect(201)
        assert owners(made) == {"m1": OWNED}
        assert made["data"] == {"k": "v"}
        assert made["metadata"]["managedFields"][0]["operation"] == "Apply"
        again = (await apply(api, body)).expect(200)
        assert again == made == await api.get("configmaps", "a")


async def test_empty_name_is_refused_but_none_is_that_of_the_path() -> None:
    async with served() as api:
        made = (await apply(api, CONFIG)).expect(201)
        for name in ("", None):
            refused = await apply(api, {**CONFIG, "metadata": {"name": name, "labels": {"l": "1"}}})
            assert "name must be provided" in refused.expect(400)["message"]
        unnamed = {**CONFIG, "metadata": {"labels": {"l": "1"}}}
        assert (await apply(api, unnamed)).expect(200) == made


async def test_conflict_is_a_status_with_causes() -> None:
    async with served() as api:
        await apply(api, CONFIG)
        status = (await apply(api, {**CONFIG, "data": {"k": "w"}}, "m2")).expect(409)
        assert status["reason"] == "Conflict"
        assert status["details"] == {
            "causes": [
                {"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.k"}
            ]
        }
        forced = (await apply(api, {**CONFIG, "data": {"k": "w"}}, "m2", force="true")).expect(200)
        assert forced["data"] == {"k": "w"}


@cases(
    ("body", "words"),
    [
        (b"", "object"),
        (b"- a\n- b\n", "object"),
        (b"{", ""),
        ({"metadata": {"name": "a"}}, "apiVersion and kind"),
        ({**CONFIG, "kind": ""}, "apiVersion and kind"),
        ({**CONFIG, "kind": "Secret"}, "Secret"),
        ({**CONFIG, "apiVersion": "v2"}, "v2"),
        ({**CONFIG, "data": "x"}, "data"),
        ({**CONFIG, "data": {"k": 1}}, "data"),
        ({**CONFIG, "metadata": {"name": "b"}}, "does not match"),
        ({**CONFIG, "metadata": {"name": "a", "namespace": "x"}}, "namespace"),
        ({**CONFIG, "metadata": {"name": "a", "managedFields": [{}]}}, "managedFields"),
        ({**CONFIG, "metadata": {"name": "a", "finalizers": ["e.com/a", "e.com/a"]}}, "duplicate entries"),
        ({**CONFIG, "metadata": {"name": "a", "ownerReferences": [None]}}, "has no value"),
    ],
)
async def test_invalid_bodies_change_nothing(body: Document | bytes, words: str) -> None:
    async with shared("configmaps") as api:
        await apply(api, CONFIG)
        raw = json.dumps(body).encode() if isinstance(body, dict) else body
        path = api.path("configmaps", name="a") + "?fieldManager=m1"
        assert words in await api.refuse("PATCH", path, raw, 400, headers=APPLY)


async def test_field_validation_decides_about_unknown_fields() -> None:
    async with served() as api:
        body = {**CONFIG, "bogus": 1}
        warned = await apply(api, body)
        assert warned.warnings == ['299 - "unknown field \\"bogus\\""']
        assert owners(warned.expect(201)) == {"m1": OWNED}
        (await apply(api, body, fieldValidation="Strict")).expect(400)
        assert (await apply(api, body, fieldValidation="Ignore")).warnings == []


async def test_dry_run_stores_nothing() -> None:
    async with shared() as api:
        returned = (await apply(api, CONFIG, dryRun="All")).expect(201)
        assert owners(returned) == {"m1": OWNED}
        (await api.ask("GET", api.path("configmaps", name="a"))).expect(404)


async def test_invalid_result_is_refused() -> None:
    async with shared() as api:
        (await apply(api, {**CONFIG, "data": {"not a key": "x"}})).expect(422)
        (await api.ask("GET", api.path("configmaps", name="a"))).expect(404)


@pytest.mark.parametrize(
    ("dialect", "annotation"),
    [
        ("cluster", "kubectl.cluster.io/last-applied-configuration"),
        ("kubernetes", "kubectl.kubernetes.io/last-applied-configuration"),
    ],
)
async def test_migration_from_client_side_apply_and_back(dialect: str, annotation: str) -> None:
    async with served(dialect=dialect) as api:
        last = {**CONFIG, "data": {"k": "v", "old": "1"}}
        metadata = {**CONFIG["metadata"], "annotations": {annotation: json.dumps(last)}}
        await api.create(
            "configmaps", {**last, "metadata": metadata}, fieldManager="kubectl-client-side-apply"
        )
        (await apply(api, {**CONFIG, "data": {"k": "w"}}, "m1")).expect(409)
        moved = (await apply(api, {**CONFIG, "data": {"k": "w"}}, "kubectl")).expect(200)
        assert moved["data"] == {"k": "w", "old": "1"}
        assert owners(moved)["kubectl"] == OWNED
        assert json.loads(moved["metadata"]["annotations"][annotation]) == {**CONFIG, "data": {"k": "w"}}


async def test_apply_to_a_scale_is_a_merge_patch() -> None:
    async with served() as api:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        controller = {"metadata": {"name": "r"}, "spec": {"replicas": 0, "template": template}}
        made = await api.create("replicationcontrollers", controller)
        scale = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": "r"},
            "spec": {"replicas": 2},
        }
        returned = (await apply(api, scale, path="replicationcontrollers/r/scale")).expect(200)
        assert (returned["kind"], returned["spec"]) == ("Scale", {"replicas": 2})
        stored = await api.get("replicationcontrollers", "r")
        assert stored["spec"]["replicas"] == 2
        assert stored["metadata"]["managedFields"] == made["metadata"]["managedFields"]
        written = b"apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: r}\nspec: {replicas: 3}\n"
        returned = (await apply(api, written, path="replicationcontrollers/r/scale")).expect(200)
        assert returned["spec"] == {"replicas": 3}
        for wrong in ({**scale, "apiVersion": "v1"}, {"spec": {"replicas": 4}}, {**scale, "spec": []}):
            refused = await apply(api, wrong, path="replicationcontrollers/r/scale")
            assert refused.expect(400)["reason"] == "BadRequest"


async def test_force_is_refused_for_other_patches() -> None:
    async with served() as api:
        await apply(api, CONFIG)
        path = api.path("configmaps", name="a") + "?force=false"
        headers = {"content-type": "application/merge-patch+json"}
        assert "force" in await api.refuse("PATCH", path, b"{}", 422, headers=headers)


async def test_downgrade_to_client_side_apply() -> None:
    """The server updates the last-applied annotation, so that client-side apply can delete removed fields."""
    annotation = "kubectl.cluster.io/last-applied-configuration"
    async with served() as api:
        first = {**CONFIG, "data": {"k": "v", "gone": "1"}}
        metadata = {**CONFIG["metadata"], "annotations": {annotation: json.dumps(CONFIG)}}
        await api.create(
            "configmaps", {**CONFIG, "metadata": metadata}, fieldManager="kubectl-client-side-apply"
        )
        applied = (await apply(api, first, "kubectl")).expect(200)
        last = json.loads(applied["metadata"]["annotations"][annotation])
        assert last == first
        # Client-side apply deletes what the last configuration has and the new one has not.
        wanted = {"k": "w"}
        changes: dict[str, str | None] = dict.fromkeys(last["data"].keys() - wanted.keys(), None)
        change = {
            "metadata": {"annotations": {annotation: json.dumps({**CONFIG, "data": wanted})}},
            "data": {**changes, **wanted},
        }
        headers = {"content-type": "application/strategic-merge-patch+json"}
        path = api.path("configmaps", name="a")
        back = await api.ask("PATCH", path, change, headers=headers, fieldManager="kubectl-client-side-apply")
        document = back.expect(200)
        assert document["data"] == wanted
        assert owners(document)["kubectl-client-side-apply"]["f:data"]["f:k"] == {}
        assert "f:data" not in owners(document)["kubectl"]


async def test_field_manager_is_required_and_managed_fields_are_refused() -> None:
    async with shared() as api:
        path = api.path("configmaps", name="a")
        status = (await api.ask("PATCH", path, CONFIG, headers=APPLY)).expect(422)
        assert status["details"]["causes"][0]["field"] == "fieldManager"
        body = {**CONFIG, "metadata": {**CONFIG["metadata"], "managedFields": [{"manager": "x"}]}}
        status = (await apply(api, body)).expect(400)
        assert status["message"] == "metadata.managedFields must be nil"


async def test_apply_creates_with_immutable_fields_that_it_does_not_own() -> None:
    """The spec of a signing request is immutable, so its fields have no owners; an apply may still send them."""
    async with served() as api:
        spec = {"request": request(), "signerName": "example.com/x", "usages": ["client auth"]}
        config = {
            "apiVersion": "certificates.cluster.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": "a", "labels": {"l": "1"}},
        }
        path = "/apis/certificates.cluster.io/v1/certificatesigningrequests/a"
        for sent, code in ((spec, 201), ({**spec, "signerName": "example.com/y"}, 200)):
            response = await api.ask(
                "PATCH", path, {**config, "spec": sent}, headers=APPLY, fieldManager="m1"
            )
            made = response.expect(code)
            assert made["spec"]["signerName"] == "example.com/x"
            assert made["spec"]["groups"] == ["system:masters", "system:authenticated"]
            assert owners(made) == {"m1": {"f:metadata": {"f:labels": {"f:l": {}}}}}
