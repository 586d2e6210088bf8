"""Objects of custom kinds: scale, media types, deletion with owners and namespaces, rights, quotas, and the journal."""

from __future__ import annotations

from pathlib import Path

from tests.gateway.api import ALICE, Api, served
from tests.gateway.custom.kinds import (
    GROUP,
    MERGE,
    WIDGETS,
    define,
    definition,
    gone,
    version,
    widget,
)
from tests.gateway.journal_commands import run_journal

PATHS = {
    "specReplicasPath": ".spec.size",
    "statusReplicasPath": ".status.size",
    "labelSelectorPath": ".status.selector",
}
PROTOBUF = "application/vnd.cluster.protobuf"


async def test_scale_reads_and_sets_the_replicas() -> None:
    async with served() as api:
        await define(api, definition(version(subresources={"status": {}, "scale": PATHS})))
        (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        status = {"status": {"size": 4, "selector": "app=x"}}
        (await api.ask("PATCH", f"{WIDGETS}/a/status", status, headers=MERGE)).expect(200)
        scale = (await api.ask("GET", f"{WIDGETS}/a/scale")).expect(200)
        assert (scale["kind"], scale["spec"], scale["status"]) == (
            "Scale",
            {"replicas": 1},
            {"replicas": 4, "selector": "app=x"},
        )
        scale["spec"]["replicas"] = 3
        assert (await api.ask("PUT", f"{WIDGETS}/a/scale", scale)).expect(200)["spec"] == {"replicas": 3}
        assert (await api.ask("PUT", f"{WIDGETS}/a/scale", scale)).status == 409
        stored = (await api.ask("GET", f"{WIDGETS}/a")).expect(200)
        assert (stored["spec"], stored["metadata"]["generation"]) == ({"size": 3}, 2)
        wrong = await api.ask("PATCH", f"{WIDGETS}/a/scale", {"spec": {"replicas": -1}}, headers=MERGE)
        [cause] = wrong.expect(422)["details"]["causes"]
        assert (cause["field"], cause["message"]) == (
            ".spec.size",
            "Invalid value: -1: should be a non-negative integer",
        )


async def test_objects_have_no_protobuf_but_their_metadata_and_scales_have() -> None:
    async with served() as api:
        await define(api, definition(version(subresources={"scale": PATHS})))
        (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        refused = await api.ask("GET", f"{WIDGETS}/a", headers={"accept": PROTOBUF})
        assert refused.expect(406)["reason"] == "NotAcceptable"
        sent = await api.ask("POST", WIDGETS, b"k8s\0", headers={"content-type": PROTOBUF})
        assert sent.expect(415)["reason"] == "UnsupportedMediaType"
        either = await api.ask("GET", f"{WIDGETS}/a", headers={"accept": f"{PROTOBUF},application/json"})
        assert either.headers["content-type"] == "application/json" and either.expect(200)["kind"] == "Widget"
        partial = f"{PROTOBUF};as=PartialObjectMetadata;g=meta.cluster.io;v=v1"
        for path, accept in ((f"{WIDGETS}/a", partial), (f"{WIDGETS}/a/scale", PROTOBUF)):
            found = await api.ask("GET", path, headers={"accept": accept})
            assert (found.status, found.body[:4]) == (200, b"k8s\0")


async def test_deprecated_version_warns() -> None:
    async with served() as api:
        old = version("v1beta1", storage=False, deprecated=True)
        worded = version("v1alpha1", storage=False, deprecated=True, deprecationWarning="no more alphas")
        await define(api, definition(version(), old, worded))
        warned = await api.ask("GET", WIDGETS.replace("/v1/", "/v1beta1/"))
        assert warned.warnings == [f'299 - "{GROUP}/v1beta1 Widget is deprecated; use {GROUP}/v1 Widget"']
        assert (await api.ask("GET", WIDGETS.replace("/v1/", "/v1alpha1/"))).warnings == [
            '299 - "no more alphas"'
        ]
        assert not (await api.ask("GET", WIDGETS)).warnings


async def test_dependents_and_namespaces_take_custom_objects_with_them() -> None:
    async with served() as api:
        await define(api, definition())
        owner = (await api.ask("POST", WIDGETS, widget("owner"))).expect(201)
        owned = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Widget",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }
        for name, path in (("a", WIDGETS), ("b", api.path("configmaps"))):
            dependent = {"metadata": {"name": name, "ownerReferences": [owned]}}
            body = {**widget(name), **dependent} if path == WIDGETS else dependent
            (await api.ask("POST", path, body)).expect(201)
        (await api.ask("DELETE", f"{WIDGETS}/owner")).expect(200)
        await gone(api, f"{WIDGETS}/a")
        await gone(api, api.path("configmaps", name="b"))
        await api.create("namespaces", {"metadata": {"name": "short"}})
        elsewhere = WIDGETS.replace("/default/", "/short/")
        (await api.ask("POST", elsewhere, widget("c"))).expect(201)
        await api.delete("namespaces", "short")
        await gone(api, api.path("namespaces", name="short"))
        assert (await api.ask("GET", elsewhere)).expect(200)["items"] == []


async def test_rights_and_quotas_name_the_resource() -> None:
    async with served() as api:
        await define(api, definition())
        refused = (await api.ask("GET", WIDGETS, token=ALICE)).expect(403)
        assert f'cannot list resource "widgets" in API group "{GROUP}"' in refused["message"]
        await api.create(
            "resourcequotas",
            {"metadata": {"name": "one"}, "spec": {"hard": {f"count/widgets.{GROUP}": "1"}}},
        )
        (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        second = (await api.ask("POST", WIDGETS, widget("b"))).expect(403)
        assert f"count/widgets.{GROUP}=1" in second["message"]


async def _listed(api: Api) -> list[str]:
    return [one["metadata"]["name"] for one in (await api.ask("GET", WIDGETS)).expect(200)["items"]]


async def test_lists_and_dry_runs_work_as_for_other_kinds() -> None:
    async with served() as api:
        await define(api, definition())
        for name in ("a", "b", "c"):
            (await api.ask("POST", WIDGETS, widget(name))).expect(201)
        first = (await api.ask("GET", WIDGETS, limit=2)).expect(200)
        assert (first["kind"], first["items"][0]["kind"], first["metadata"]["remainingItemCount"]) == (
            "WidgetList",
            "Widget",
            1,
        )
        rest = (await api.ask("GET", WIDGETS, limit=2, **{"continue": first["metadata"]["continue"]})).expect(
            200
        )
        assert [one["metadata"]["name"] for one in rest["items"]] == ["c"]
        assert rest["metadata"]["continue"] == ""
        (await api.ask("POST", WIDGETS, widget("d"), dryRun="All")).expect(201)
        (await api.ask("DELETE", f"{WIDGETS}/a", dryRun="All")).expect(200)
        assert await _listed(api) == ["a", "b", "c"]
        (await api.ask("DELETE", WIDGETS)).expect(200)
        assert await _listed(api) == []


async def test_journal_commands_know_custom_kinds(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        await define(api, definition(shortNames=["wd"]))
        (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
    shown = run_journal("state", "-o", "json", "--kind=wd", f"--data-dir={tmp_path / 'data'}").document
    assert [(one["apiVersion"], one["kind"]) for one in shown["items"]] == [(f"{GROUP}/v1", "Widget")]
