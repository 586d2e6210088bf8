"""Aggregated discovery has the same content as the separate documents, for clients that ask for it."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.names import NAMES
from tests.cases import cases
from tests.gateway.api import Api, served
from tests.gateway.shared_server import shared

LIST = "APIGroupDiscoveryList"


def accept(dialect: str, version: str = "v2beta1") -> dict[str, str]:
    group = NAMES[dialect].group("apidiscovery")
    return {"accept": f"application/json;g={group};v={version};as={LIST},application/json"}


async def separate_documents(api: Api, path: str) -> dict[str, Any]:
    document = (await api.ask("GET", path)).expect(200)
    return {one["name"]: one for one in document["resources"]}


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
@pytest.mark.parametrize("version", ["v2beta1", "v2"])
async def test_aggregated_discovery_equals_the_separate_documents(dialect: str, version: str) -> None:
    # Kubernetes 1.33 and later have v2 alone.
    kubernetes_version = "1.32" if dialect == "kubernetes" and version == "v2beta1" else ""
    async with served(dialect=dialect, kubernetes_version=kubernetes_version) as api:
        core = (await api.ask("GET", "/api", headers=accept(dialect, version))).expect(200)
        named = (await api.ask("GET", "/apis", headers=accept(dialect, version))).expect(200)
        assert core["kind"] == named["kind"] == LIST
        assert named["apiVersion"] == f"{NAMES[dialect].group('apidiscovery')}/{version}"
        groups = (await api.ask("GET", "/apis")).document["groups"]
        assert [one["metadata"]["name"] for one in named["items"]] == [one["name"] for one in groups]
        for group in [*core["items"], *named["items"]]:
            name = group["metadata"].get("name", "")
            for one in group["versions"]:
                path = f"/apis/{name}/{one['version']}" if name else f"/api/{one['version']}"
                assert flattened(one["resources"]) == await verbs(api, path)


async def verbs(api: Api, path: str) -> dict[str, tuple[list[str], str]]:
    return {name: (one["verbs"], one["kind"]) for name, one in (await separate_documents(api, path)).items()}


def flattened(resources: list[dict[str, Any]]) -> dict[str, tuple[list[str], str]]:
    found = {}
    for one in resources:
        if "responseKind" in one:  # otherwise it has only its subresources
            found[one["resource"]] = one["verbs"], one["responseKind"]["kind"]
        for below in one.get("subresources", ()):
            name = f"{one['resource']}/{below['subresource']}"
            found[name] = below["verbs"], below["responseKind"]["kind"]
    return found


async def test_resource_has_its_names_and_scope() -> None:
    async with shared() as api:
        document = (await api.ask("GET", "/apis", headers=accept("cluster"))).document
        (apps,) = (one for one in document["items"] if one["metadata"]["name"] == "apps")
        (resource,) = (one for one in apps["versions"][0]["resources"] if one["resource"] == "deployments")
        assert resource["scope"] == "Namespaced" and resource["singularResource"] == "deployment"
        assert resource["shortNames"] == ["deploy"] and resource["categories"] == ["all"]
        (scale,) = (one for one in resource["subresources"] if one["subresource"] == "scale")
        assert scale["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}


async def test_content_type_has_the_parameters_of_the_request() -> None:
    async with shared() as api:
        response = await api.ask("GET", "/apis", headers=accept("cluster"))
        assert response.headers["content-type"].endswith(f";v=v2beta1;as={LIST}")


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_matching_etag_gets_304(path: str) -> None:
    async with shared() as api:
        etag = (await api.ask("GET", path, headers=accept("cluster"))).headers["etag"]
        again = await api.ask("GET", path, headers={**accept("cluster"), "if-none-match": etag})
        assert (again.status, again.body) == (304, b"")


@cases(
    ("path", "headers"),
    [
        ("/apis", {"accept": "application/json"}),
        ("/apis", accept("cluster", "v3")),
        ("/apis", accept("kubernetes")),
        ("/apis/apps", accept("cluster")),
        ("/api/v1", accept("cluster")),
    ],
)
async def test_other_requests_get_the_separate_documents(path: str, headers: dict[str, str]) -> None:
    async with shared() as api:
        response = await api.ask("GET", path, headers=headers)
        assert response.status == 200 and response.headers["content-type"] == "application/json"
        assert response.document["kind"] in ("APIGroupList", "APIGroup", "APIResourceList")


@pytest.mark.parametrize(
    ("kubernetes", "served_versions"), [("1.26", ()), ("1.28", ("v2beta1",)), ("1.36", ("v2",))]
)
async def test_versions_of_aggregated_discovery_are_those_of_kubernetes(
    kubernetes: str, served_versions: tuple[str, ...]
) -> None:
    async with served(dialect="kubernetes", kubernetes_version=kubernetes) as api:
        for version in ("v2", "v2beta1"):
            document = (await api.ask("GET", "/apis", headers=accept("kubernetes", version))).expect(200)
            assert document["kind"] == (LIST if version in served_versions else "APIGroupList")
        only = {"accept": accept("kubernetes", "v2")["accept"].removesuffix(",application/json")}
        assert (await api.ask("GET", "/apis", headers=only)).status == (
            200 if "v2" in served_versions else 406
        )


async def test_only_custom_kinds_name_their_group_version() -> None:
    async with shared() as api:
        document = (await api.ask("GET", "/apis", headers=accept("cluster"))).document
        (apps,) = (one for one in document["items"] if one["metadata"]["name"] == "apps")
        (resource,) = (one for one in apps["versions"][0]["resources"] if one["resource"] == "deployments")
        assert resource["responseKind"] == {"group": "", "version": "", "kind": "Deployment"}
