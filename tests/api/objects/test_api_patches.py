"""JSON patch, merge patch and strategic merge patch over HTTP: preconditions, results and refusals."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import trio

from tests.actors.object_store import Document
from tests.cases import cases
from tests.gateway.api import Api, ApiResponse, config_map, served
from tests.gateway.shared_server import shared

FORMATS = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
MAPS = ["merge", "strategic"]
PATH = "/api/v1/namespaces/default/configmaps/a"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
DEPLOYMENT: Document = {
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}


async def patch(api: Api, format_: str, body: Any, path: str = PATH, **query: Any) -> ApiResponse:
    headers = {"content-type": FORMATS[format_]}
    return await api.ask("PATCH", path, orjson.dumps(body), headers=headers, **query)


def setting(format_: str, key: str, value: str) -> Any:
    if format_ == "json":
        return [{"op": "add", "path": f"/data/{key}", "value": value}]
    return {"data": {key: value}}


@pytest.mark.parametrize("format_", FORMATS)
async def test_patch_without_effect_stores_nothing(format_: str) -> None:
    async with served() as api:
        made = await api.create("configmaps", config_map("a", k="v"))
        api.clock.advance(10)
        assert (await patch(api, format_, setting(format_, "k", "v"))).expect(200) == made
        assert await api.get("configmaps", "a") == made


@pytest.mark.parametrize("format_", MAPS)
async def test_patch_with_a_resource_version_is_conditional(format_: str) -> None:
    async with served() as api:
        made = await api.create("configmaps", config_map("a", k="v"))
        version = made["metadata"]["resourceVersion"]
        change = {"metadata": {"resourceVersion": version}, "data": {"k": "w"}}
        (await patch(api, format_, change)).expect(200)
        change["data"]["k"] = "x"
        status = (await patch(api, format_, change)).expect(409)
        assert status["reason"] == "Conflict"
        assert (await api.get("configmaps", "a"))["data"] == {"k": "w"}


async def test_json_patch_is_conditional_by_a_test_operation() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a", k="v"))
        body = [
            {"op": "replace", "path": "/data/k", "value": "w"},
            {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        ]
        (await patch(api, "json", body)).expect(422)
        assert (await api.get("configmaps", "a"))["data"] == {"k": "v"}


@pytest.mark.parametrize("format_", FORMATS)
async def test_concurrent_patches_without_versions_have_no_conflicts(format_: str) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a", k="v"))
        responses: list[int] = []

        async def write(number: int) -> None:
            for step in range(5):
                body = setting(format_, f"w{number}", str(step))
                responses.append((await patch(api, format_, body)).status)

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(write, number)
        assert responses == [200] * 40
        assert (await api.get("configmaps", "a"))["data"] == {"k": "v"} | {f"w{n}": "4" for n in range(8)}


@pytest.mark.parametrize("format_", MAPS)
async def test_patch_of_a_scale_with_a_version_is_conditional(format_: str) -> None:
    async with served() as api:
        made = (await api.ask("POST", DEPLOYMENTS, DEPLOYMENT)).expect(201)
        version = {"resourceVersion": made["metadata"]["resourceVersion"]}
        path = f"{DEPLOYMENTS}/d/scale"
        scaled = (await patch(api, format_, {"metadata": version, "spec": {"replicas": 2}}, path)).expect(200)
        assert (scaled["kind"], scaled["spec"]) == ("Scale", {"replicas": 2})
        status = (await patch(api, format_, {"metadata": version, "spec": {"replicas": 3}}, path)).expect(409)
        assert status["details"] == {"name": "d", "group": "apps", "kind": "deployments"}
        assert (await api.ask("GET", path)).expect(200) == scaled


async def test_json_patch_changes_a_scale() -> None:
    async with served() as api:
        (await api.ask("POST", DEPLOYMENTS, DEPLOYMENT)).expect(201)
        body = [{"op": "replace", "path": "/spec/replicas", "value": 5}]
        assert (await patch(api, "json", body, f"{DEPLOYMENTS}/d/scale")).expect(200)["spec"]["replicas"] == 5
        assert (await api.ask("GET", f"{DEPLOYMENTS}/d")).expect(200)["spec"]["replicas"] == 5


@pytest.mark.parametrize("format_", MAPS)
async def test_patch_of_the_status_changes_nothing_else(format_: str) -> None:
    async with served() as api:
        (await api.ask("POST", DEPLOYMENTS, DEPLOYMENT)).expect(201)
        body = {"spec": {"replicas": 7}, "status": {"replicas": 3}}
        patched = (await patch(api, format_, body, f"{DEPLOYMENTS}/d/status")).expect(200)
        assert patched["spec"]["replicas"] == 1
        assert patched["status"] == {"replicas": 3}


@pytest.mark.parametrize("format_", FORMATS)
async def test_dry_run_stores_nothing(format_: str) -> None:
    async with served() as api:
        made = await api.create("configmaps", config_map("a", k="v"))
        returned = (await patch(api, format_, setting(format_, "k", "w"), dryRun="All")).expect(200)
        assert returned["data"] == {"k": "w"}
        assert await api.get("configmaps", "a") == made


@cases("format_", FORMATS)
async def test_patch_of_a_missing_object_is_not_found(format_: str) -> None:
    async with shared() as api:
        status = (await patch(api, format_, setting(format_, "k", "w"))).expect(404)
        assert status["details"] == {"name": "a", "kind": "configmaps"}


@pytest.mark.parametrize(("format_", "body"), [("json", {}), ("merge", []), ("strategic", "x")])
async def test_malformed_patch_is_a_bad_request(format_: str, body: Any) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a", k="v"))
        assert (await patch(api, format_, body)).status == 400


async def test_refused_patch_of_an_event_names_the_storage_group() -> None:
    async with served() as api:
        about = {"kind": "Pod", "name": "p", "namespace": "default"}
        await api.create("events", {"metadata": {"name": "e"}, "involvedObject": about, "reason": "One"})
        path = "/apis/events.cluster.io/v1/namespaces/default/events/e"
        status = (await patch(api, "merge", {"reason": "Other"}, path)).expect(422)
        assert (status["details"]["name"], status["details"]["kind"]) == ("e", "Event")
        assert "group" not in status["details"]


@pytest.mark.parametrize("format_", FORMATS)
async def test_patch_of_the_uid_is_refused(format_: str) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a", k="v"))
        change: Any = {"metadata": {"uid": "another"}}
        if format_ == "json":
            change = [{"op": "replace", "path": "/metadata/uid", "value": "another"}]
        refused = (await patch(api, format_, change)).expect(422)
        assert 'metadata.uid: Invalid value: "another": field is immutable' in refused["message"]


@cases("format_", FORMATS)
async def test_error_about_a_patch_shows_it_unless_it_is_of_a_secret(format_: str) -> None:
    change: Any = {"data": "hunter2"}
    if format_ == "json":
        change = [{"op": "replace", "path": "/data", "value": "hunter2"}]
    async with shared("configmaps", "secrets") as api:
        await api.create("configmaps", config_map("a", k="v"))
        await api.create("secrets", {"metadata": {"name": "a"}, "stringData": {"k": "v"}})
        assert "hunter2" in (await patch(api, format_, change)).expect(422)["message"]
        refused = (await patch(api, format_, change, PATH.replace("configmaps", "secrets"))).expect(422)
        reason = (
            "cannot restore map from string"
            if format_ == "strategic"
            else 'Secret in version "v1" cannot be handled as a Secret: json: '
            "cannot unmarshal string into Go struct field Secret.data of type map[string][]uint8"
        )
        assert refused["message"] == (
            f' "" is invalid: patch: Invalid value: "<secret contents redacted>": {reason}'
        )
        assert "hunter2" not in str(refused)


@cases(
    "change, shown, reason",
    [
        ({"metadata": {"labels": "x"}}, "map[metadata:map[labels:x]]", "cannot restore map from string"),
        ({"metadata": {"labels": [1]}}, "map[metadata:map[labels:[1]]]", "cannot restore map from slice"),
        (
            {"metadata": {"labels": {"b": None, "a": 5}}},
            "map[metadata:map[labels:map[a:5]]]",
            "cannot convert int64 to string",
        ),
        (
            {"metadata": {"labels": {"a": {}}}},
            "map[metadata:map[labels:map[a:map[]]]]",
            "unrecognized type: string",
        ),
        ({"metadata": "x"}, "map[metadata:x]", "cannot restore struct from: string"),
        (
            {"metadata": {"finalizers": {"a": True}}},
            "map[metadata:map[finalizers:map[a:true]]]",
            "cannot restore slice from map",
        ),
        (
            {"metadata": {"generation": 1.5}},
            "map[metadata:map[generation:1.5]]",
            "cannot convert float64 to int64",
        ),
        ({"immutable": "x"}, "map[immutable:x]", "unrecognized type: bool"),
    ],
)
async def test_strategic_patch_of_the_wrong_type_is_refused(
    change: Document, shown: str, reason: str
) -> None:
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a", k="v"))
        refused = (await patch(api, "strategic", change)).expect(422)
        assert refused["message"] == f' "" is invalid: patch: Invalid value: "{shown}": {reason}'
        await api.delete("configmaps", "a")


@pytest.mark.parametrize("format_", ["json", "strategic"])
async def test_null_patch_changes_nothing(format_: str) -> None:
    async with served() as api:
        made = await api.create("configmaps", config_map("a", k="v"))
        assert (await patch(api, format_, None)).expect(200) == made


async def test_namespace_is_checked_before_the_name() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a", k="v"))
        elsewhere = {"metadata": {"name": "b", "namespace": "other"}}
        refused = (await patch(api, "merge", elsewhere)).expect(400)
        assert "namespace of the provided object" in refused["message"]


async def test_duplicate_fields_of_operations_are_reported() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a", k="v"))
        body = b'[{"op":"add","op":"add","path":"/data/x","value":"y"}]'
        headers = {"content-type": FORMATS["json"]}
        response = await api.ask("PATCH", PATH, body, headers=headers)
        assert response.warnings == ['299 - "json patch duplicate field \\"[0].op\\""']


@pytest.mark.parametrize("format_", FORMATS)
async def test_missing_object_is_reported_before_a_malformed_patch(format_: str) -> None:
    async with served() as api:
        (await patch(api, format_, "no patch")).expect(404)
        await api.create("configmaps", config_map("a"))
        (await patch(api, format_, "no patch")).expect(400)


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
async def test_unsupported_content_type_lists_the_supported_ones(content_type: str) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        path = api.path("configmaps", name="a")
        response = await api.ask("PATCH", path, b"{}", headers={"content-type": content_type})
        assert response.expect(415)["message"] == "415: Unsupported Media Type"
        assert response.headers["accept-patch"].split(", ") == [
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
        ]


OTHERS = [
    {"kind": "Scale"},
    {"apiVersion": "apps/v2"},
    {"kind": "Deployment", "apiVersion": "autoscaling/v1"},
]


@pytest.mark.parametrize("named", OTHERS, ids=["kind", "version", "both"])
@pytest.mark.parametrize("below", ["", "/scale", "/status"])
async def test_strategic_merge_patch_may_have_any_kind(named: Document, below: str) -> None:
    async with served() as api:
        made = (await api.ask("POST", DEPLOYMENTS, DEPLOYMENT)).expect(201)
        body = {**named, "spec": {"replicas": 4}}
        patched = (await patch(api, "strategic", body, f"{DEPLOYMENTS}/d{below}")).expect(200)
        own = ("Scale", "autoscaling/v1") if below == "/scale" else (made["kind"], made["apiVersion"])
        assert (patched["kind"], patched["apiVersion"]) == own
        assert patched["spec"]["replicas"] == (1 if below == "/status" else 4)


@pytest.mark.parametrize("named", OTHERS[:1], ids=["kind"])
async def test_merge_patch_may_not_change_the_kind(named: Document) -> None:
    async with served() as api:
        (await api.ask("POST", DEPLOYMENTS, DEPLOYMENT)).expect(201)
        (await patch(api, "merge", named, f"{DEPLOYMENTS}/d")).expect(422)
