"""Objects of custom kinds: scale, media types and the journal. `tests/gateway/generic` has what all kinds have."""

from __future__ import annotations

from pathlib import Path

from tests.gateway.api import served
from tests.gateway.custom.kinds import (
    GROUP,
    MERGE,
    WIDGETS,
    define,
    definition,
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


async def test_journal_commands_know_custom_kinds(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        await define(api, definition(shortNames=["wd"]))
        (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
    shown = run_journal("state", "-o", "json", "--kind=wd", f"--data-dir={tmp_path / 'data'}").document
    assert [(one["apiVersion"], one["kind"]) for one in shown["items"]] == [(f"{GROUP}/v1", "Widget")]
