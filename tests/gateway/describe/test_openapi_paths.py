"""Every described path and method is served, and everything in discovery is described."""

from __future__ import annotations

from typing import Any

from actors.names import REWIND_GROUP
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
            address = address.replace("{namespace}", "default")
            for method in item.keys() - {"parameters"}:
                # An invalid version refuses watches, and an empty body refuses writes.
                response = await api.ask(method.upper(), f"{address}?resourceVersion=none&limit=none")
                assert response.status != 405, f"{method} {path}"
                if response.status == 404:
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


async def test_lists_of_all_namespaces_and_deprecated_watches_are_described() -> None:
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
            assert paths[path]["get"]["deprecated"]


async def test_operations_have_parameters_bodies_and_responses() -> None:
    async with shared() as api:
        paths = await described(api)
        item = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
        assert [one["name"] for one in item["parameters"]] == ["name", "namespace", "pretty"]
        assert "application/apply-patch+yaml" in item["patch"]["consumes"]
        assert {one["name"] for one in item["patch"]["parameters"]} == {
            *("body", "dryRun", "fieldManager", "fieldValidation", "force"),
        }
        assert item["delete"]["responses"]["200"]["schema"]["$ref"].endswith(".Status")
        pod = paths["/api/v1/namespaces/{namespace}/pods/{name}"]
        assert pod["delete"]["responses"]["200"]["schema"]["$ref"].endswith(".Pod")
        scale = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]
        assert scale["put"]["parameters"][0]["schema"]["$ref"].endswith("autoscaling.v1.Scale")
        eviction = paths["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]["post"]
        assert eviction["parameters"][0]["schema"]["$ref"].endswith("policy.v1.Eviction")
        assert eviction["responses"]["201"]["schema"]["$ref"].endswith(".Status")
