"""Every described path and method is served, and everything in discovery is described."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import REWIND_GROUP
from tests.cases import cases
from tests.gateway.api import Api, served
from tests.gateway.shared_server import shared

METHODS = {
    "get": "get",
    "list": "get",
    "watch": "get",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "delete",
}
OF_COLLECTIONS = {"list", "watch", "create", "deletecollection"}


async def described(api: Api) -> dict[str, Any]:
    paths: dict[str, Any] = (await api.ask("GET", "/openapi/v2")).expect(200)["paths"]
    return paths


async def test_every_described_operation_is_served() -> None:
    async with served() as api:
        for path, item in (await described(api)).items():
            namespaced = "configmaps" if "{namespace}" in path else "nodes"
            address = path.replace("{resource}", namespaced).replace("{name}", "nonesuch")
            address = address.replace("{namespace}", "default").replace("{path}", "here")
            for method in item.keys() - {"parameters"}:
                # An invalid version refuses watches, and an empty body refuses writes.
                response = await api.ask(method.upper(), f"{address}?resourceVersion=none&limit=none")
                assert response.status != 405, f"{method} {path}"
                if response.status == 404 and method != "head":
                    assert "nonesuch" in response.document["message"], f"{method} {path}"


async def test_every_resource_in_discovery_is_described() -> None:
    async with shared() as api:
        paths = await described(api)
        groups = (await api.ask("GET", "/apis")).document["groups"]
        versions = [f"/apis/{one['groupVersion']}" for group in groups for one in group["versions"]]
        for root in ("/api/v1", *versions):
            for resource in (await api.ask("GET", root)).document["resources"]:
                for verb in resource["verbs"]:
                    assert METHODS[verb] in paths.get(_path(root, resource, verb), {}), (resource, verb)


def _path(root: str, resource: dict[str, Any], verb: str) -> str:
    plural, slash, below = resource["name"].partition("/")
    if root == f"/apis/{REWIND_GROUP}/v1":
        plural = "{resource}"
    place = "/namespaces/{namespace}" if resource["namespaced"] else ""
    collection = f"{root}{place}/{plural}"
    if slash:
        return f"{collection}/{{name}}/{below}"
    return collection if verb in OF_COLLECTIONS else f"{collection}/{{name}}"


async def test_lists_of_all_namespaces_and_watches_are_described() -> None:
    async with shared() as api:
        paths = await described(api)
        assert paths["/api/v1/pods"]["get"]["operationId"] == "listCoreV1PodForAllNamespaces"
        for path in (
            "/api/v1/watch/pods",
            "/api/v1/watch/namespaces/{namespace}/pods",
            "/api/v1/watch/namespaces/{namespace}/pods/{name}",
            "/api/v1/watch/nodes",
            "/api/v1/watch/nodes/{name}",
        ):
            assert paths[path]["get"]["responses"]["200"]["schema"]["$ref"].endswith(".WatchEvent")


def types(operation: dict[str, Any]) -> dict[str, str]:
    """Names of the types of the responses, by status."""
    found = {status: one.get("schema", {}) for status, one in operation["responses"].items()}
    return {
        status: one["$ref"].rpartition("/")[2].rpartition(".")[2]
        for status, one in found.items()
        if "$ref" in one
    }


async def test_operations_have_parameters_and_bodies() -> None:
    async with shared() as api:
        paths = await described(api)
        item = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
        assert [one["name"] for one in item["parameters"]] == ["name", "namespace", "pretty"]
        assert "application/apply-patch+yaml" in item["patch"]["consumes"]
        assert item["put"]["consumes"] == item["get"]["consumes"] == ["*/*"]
        assert [one["name"] for one in item["patch"]["parameters"]] == [
            *("body", "dryRun", "fieldManager", "fieldValidation", "force"),
        ]
        scale = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]
        assert scale["put"]["parameters"][0]["schema"]["$ref"].endswith("autoscaling.v1.Scale")
        eviction = paths["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]
        assert [one["name"] for one in eviction["post"]["parameters"]] == ["body"]
        assert eviction["post"]["parameters"][0]["schema"]["$ref"].endswith("policy.v1.Eviction")
        assert [one["name"] for one in eviction["parameters"]] == [
            *("dryRun", "fieldManager", "fieldValidation", "name", "namespace", "pretty"),
        ]
        assert all(one["uniqueItems"] for one in eviction["parameters"])


@cases(
    ("path", "method", "expected"),
    [
        ("namespaces/{namespace}/configmaps", "post", dict.fromkeys(("200", "201", "202"), "ConfigMap")),
        ("namespaces/{namespace}/configmaps/{name}", "patch", dict.fromkeys(("200", "201"), "ConfigMap")),
        ("namespaces/{namespace}/configmaps/{name}", "put", dict.fromkeys(("200", "201"), "ConfigMap")),
        ("namespaces/{namespace}/configmaps/{name}", "delete", dict.fromkeys(("200", "202"), "Status")),
        ("namespaces/{namespace}/configmaps", "delete", {"200": "Status"}),
        ("namespaces/{namespace}/pods/{name}", "delete", dict.fromkeys(("200", "202"), "Pod")),
        ("namespaces/{name}", "delete", dict.fromkeys(("200", "202"), "Status")),
        ("namespaces/{namespace}/bindings", "post", dict.fromkeys(("200", "201", "202"), "Binding")),
        (
            "namespaces/{namespace}/pods/{name}/binding",
            "post",
            dict.fromkeys(("200", "201", "202"), "Binding"),
        ),
        (
            "namespaces/{namespace}/pods/{name}/eviction",
            "post",
            dict.fromkeys(("200", "201", "202"), "Eviction"),
        ),
    ],
)
async def test_responses_have_the_types_that_kubernetes_describes(
    path: str, method: str, expected: dict[str, str]
) -> None:
    async with shared() as api:
        assert types((await described(api))[f"/api/v1/{path}"][method]) == expected


async def test_proxies_are_described_with_and_without_a_path() -> None:
    async with shared() as api:
        paths = await described(api)
        for place, subject in (
            ("namespaces/{namespace}/pods", "NamespacedPod"),
            ("namespaces/{namespace}/services", "NamespacedService"),
            ("nodes", "Node"),
        ):
            whole, part = (
                paths[f"/api/v1/{place}/{{name}}/proxy"],
                paths[f"/api/v1/{place}/{{name}}/proxy/{{path}}"],
            )
            methods = {"get", "put", "post", "delete", "options", "head", "patch"}
            assert whole.keys() == part.keys() == methods | {"parameters"}
            for method in methods:
                id_ = f"connectCoreV1{method.capitalize()}{subject}Proxy"
                assert (whole[method]["operationId"], part[method]["operationId"]) == (id_, f"{id_}WithPath")
            assert [one["in"] for one in whole["parameters"] if one["name"] == "path"] == ["query"]
            assert [one["in"] for one in part["parameters"] if one["name"] == "path"] == ["path", "query"]
        log = paths["/api/v1/namespaces/{namespace}/pods/{name}/log"]["get"]
        assert log["produces"][:2] == ["text/plain", "application/json"]
