"""Objects of custom kinds: scale, media types and the journal. `tests/api/generic` has what all kinds have."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.api.custom.kinds import (
    DEFINITIONS,
    GROUP,
    MERGE,
    NAME,
    SPEC,
    WIDGETS,
    define,
    definition,
    version,
    widget,
)
from tests.gateway.api import ADMIN, Api, served
from tests.gateway.connections.http2.raw_client import RawClient
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


async def test_scale_may_be_replaced_without_a_version() -> None:
    async with served() as api:
        await define(api, definition(version(subresources={"scale": PATHS})))
        (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        scale = {"metadata": {"name": "a"}, "spec": {"replicas": 3}}
        assert (await api.ask("PUT", f"{WIDGETS}/a/scale", scale)).expect(200)["spec"] == {"replicas": 3}
        scale["metadata"]["resourceVersion"] = "0"
        [cause] = (await api.ask("PUT", f"{WIDGETS}/a/scale", scale)).expect(422)["details"]["causes"]
        assert cause["field"] == "metadata.resourceVersion"


async def test_objects_without_replicas_have_no_scale() -> None:
    async with served() as api:
        await define(api, definition(version(subresources={"status": {}, "scale": PATHS})))
        (await api.ask("POST", WIDGETS, widget("a", spec={"text": "x"}))).expect(201)
        missing = await api.ask("GET", f"{WIDGETS}/a/scale")
        why = 'the spec replicas field ".spec.size" does not exist'
        found = missing.expect(500)
        assert (found["reason"], found["message"]) == ("InternalError", f"Internal error occurred: {why}")
        assert found["details"]["causes"] == [{"message": why}]
        patched = await api.ask("PATCH", f"{WIDGETS}/a/scale", {"spec": {"replicas": 2}}, headers=MERGE)
        assert patched.expect(200)["spec"] == {"replicas": 2}


async def test_scale_of_an_object_that_was_stored_without_the_default_of_its_replicas() -> None:
    async with served() as api:
        await define(api, definition(version(subresources={"scale": PATHS})))
        (await api.ask("POST", WIDGETS, widget("a", spec={"text": "x"}))).expect(201)
        spec = {**SPEC, "properties": {**SPEC["properties"], "size": {"type": "integer", "default": 5}}}
        changed = {"spec": {"versions": [version(spec=spec, subresources={"scale": PATHS})]}}
        (await api.ask("PATCH", f"{DEFINITIONS}/{NAME}", changed, headers=MERGE)).expect(200)
        assert (await api.ask("GET", f"{WIDGETS}/a/scale")).expect(200)["spec"] == {"replicas": 5}


async def test_status_writes_do_not_look_for_equal_items_and_embedded_objects() -> None:
    """In this case v1.25 validates only the schema and rules of the whole object."""
    status = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "maximum": 9},
            "names": {"type": "array", "x-cluster-list-type": "set", "items": {"type": "string"}},
            "inner": {
                "type": "object",
                "x-cluster-embedded-resource": True,
                "x-cluster-preserve-unknown-fields": True,
            },
        },
    }
    declared = version(subresources={"status": {}})
    declared["schema"]["openAPIV3Schema"]["properties"]["status"] = status
    async with served() as api:
        await define(api, definition(declared))
        (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        loose = {"names": ["a", "a"], "inner": {"spec": {}}}
        patched = await api.ask("PATCH", f"{WIDGETS}/a/status", {"status": loose}, headers=MERGE)
        assert patched.expect(200)["status"] == loose
        refused = await api.ask("PATCH", f"{WIDGETS}/a/status", {"status": {"size": 10}}, headers=MERGE)
        assert refused.status == 422


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


async def test_representation_of_a_kind_is_not_remembered_from_before_it_was_defined() -> None:
    headers = {"accept": f"{PROTOBUF},application/json", "authorization": f"Bearer {ADMIN}"}
    async with served() as api:
        own = api.client  # no other request is on its connection
        for _ in range(2):
            assert (await own.get(WIDGETS, headers=headers)).status_code == 404
        await define(api, definition(version()))
        for _ in range(2):
            listed = await own.get(WIDGETS, headers=headers)
            assert (listed.status_code, listed.headers["content-type"]) == (200, "application/json")
            other = await own.get("/api/v1/namespaces/default/configmaps", headers=headers)
            assert (other.status_code, other.content[:4]) == (200, b"k8s\0")


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


async def test_unknown_subresources_are_objects_that_do_not_exist() -> None:
    async with served() as api:
        await define(api, definition(version()))
        for path in (f"{WIDGETS}/a/status", f"{WIDGETS}/a/scale", f"{WIDGETS}/a/other"):
            status = (await api.ask("GET", path)).expect(404)
            assert status["details"] == {"name": "a", "group": GROUP, "kind": "widgets"}, path


async def test_methods_that_custom_kinds_do_not_have() -> None:
    async with served() as api:
        await define(api, definition(version(subresources={"status": {}})))
        (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        for method, verb in (("POST", "create"), ("DELETE", "delete"), ("OPTIONS", "")):
            status = (await api.ask(method, f"{WIDGETS}/a/status", widget("a"))).expect(405)
            assert status["message"] == f'{verb} is not supported on resources of kind "widgets.{GROUP}"'
            assert status["details"] == {"group": GROUP, "kind": "widgets"}
        for method, headers in (("PUT", {}), ("PATCH", MERGE)):
            status = (await api.ask(method, WIDGETS, widget("a"), headers=headers)).expect(400)
            assert status["message"] == "name must be provided"


async def test_head_is_get_without_a_body() -> None:
    """Unlike built-in kinds, which refuse it with 405: custom kinds check the verb of a request."""
    async with served() as api:
        await define(api, definition(version(subresources={"status": {}})))
        (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        everywhere = WIDGETS.replace("namespaces/default/", "")
        for path in (WIDGETS, everywhere, f"{WIDGETS}?limit=1", f"{WIDGETS}/a", f"{WIDGETS}/a/status"):
            got, head = await api.ask("GET", path), await api.ask("HEAD", path)
            assert (head.status, head.body) == (200, b""), path
            for name in ("content-type", "content-length"):
                assert head.headers[name] == got.headers[name], path
        for path, status in ((f"{WIDGETS}/b", 404), (f"{WIDGETS}/a/scale", 404), (f"{WIDGETS}?limit=x", 400)):
            assert ((head := await api.ask("HEAD", path)).status, head.body) == (status, b""), path
        # The response is complete with its head: the connection serves the next request.
        watched = await api.ask("HEAD", f"{WIDGETS}?watch=1")
        assert (watched.status, watched.body, watched.headers["content-type"]) == (
            200,
            b"",
            "application/json",
        )
        assert (await api.ask("HEAD", f"{WIDGETS}/a", token=None)).status == 403
        refused = await api.ask("OPTIONS", f"{WIDGETS}/a")
        assert refused.headers["allow"] == "GET, HEAD, POST, PUT, PATCH, DELETE"


async def test_head_of_a_long_list_and_of_a_watch_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewound.gateway.handlers.lists.WHOLE", 0)
    monkeypatch.setattr("rewound.actors.store.reads.BATCH_ROWS", 1)
    async with served() as api:
        await define(api, definition(version()))
        for name in "abc":
            (await api.ask("POST", WIDGETS, widget(name))).expect(201)
        for path in (WIDGETS, f"{WIDGETS}?watch=1"):
            for status, body in (await http1_head(api, path), await http2_head(api, path)):
                assert (status, body) == (200, b""), path
        assert len((await api.ask("GET", WIDGETS)).expect(200)["items"]) == 3
        assert "\nrewound_memory_held_bytes 0\n" in (await api.ask("GET", "/metrics")).text


async def http1_head(api: Api, path: str) -> tuple[int, bytes]:
    """Twice on one connection: a response with a body would be parsed as the next head."""
    assert (await api.ask("HEAD", path)).status == 200
    response = await api.ask("HEAD", path)
    return response.status, response.body


async def http2_head(api: Api, path: str) -> tuple[int, bytes]:
    assert api.addresses.insecure is not None
    async with await trio.open_tcp_stream(*api.addresses.insecure) as stream:
        client = RawClient(stream)
        await client.open()
        fields = [("authorization", f"Bearer {ADMIN}")]
        response = await client.response(await client.request(path, method="HEAD", fields=fields))
        return response.status, response.body


async def test_post_to_the_path_of_an_object_creates_what_the_body_names() -> None:
    async with served() as api:
        await define(api, definition(version(subresources={"status": {}})))
        for path, body in (("b", widget("a")), ("a", widget("b")), ("c", widget("c"))):
            made = (await api.ask("POST", f"{WIDGETS}/{path}", body)).expect(201)
            assert made["metadata"]["name"] == body["metadata"]["name"]
        assert (await api.ask("POST", f"{WIDGETS}/new", widget("a"))).expect(409)["details"]["name"] == "a"
        made = (
            await api.ask("POST", f"{WIDGETS}/x", {**widget("a"), "metadata": {"generateName": "g-"}})
        ).expect(201)
        assert made["metadata"]["name"].startswith("g-")
        assert len((await api.ask("GET", WIDGETS)).expect(200)["items"]) == 4


async def test_versions_that_a_custom_group_lacks_are_unknown_paths() -> None:
    async with served() as api:
        await define(api, definition(version()))
        missing = await api.ask("GET", f"/apis/{GROUP}/v9")
        assert (missing.status, missing.body) == (404, b"404 page not found\n")


async def test_printer_columns_show_kind_and_version_of_the_requested_version() -> None:
    paths = {"Kind": ".kind", "Version": ".apiVersion", "First": "..kind"}
    columns = [{"name": name, "type": "string", "jsonPath": path} for name, path in paths.items()]
    more = {"additionalPrinterColumns": columns}
    async with served() as api:
        await define(api, definition(version("v1", **more), version("v2", storage=False, **more)))
        (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        accept = {"accept": "application/json;as=Table;g=meta.cluster.io;v=v1"}
        for name in ("v1", "v2"):
            path = WIDGETS.replace("/v1/", f"/{name}/")
            for asked in (path, f"{path}/a"):
                table = (await api.ask("GET", asked, headers=accept)).expect(200)
                assert table["rows"][0]["cells"] == ["a", "Widget", f"{GROUP}/{name}", "Widget"]
