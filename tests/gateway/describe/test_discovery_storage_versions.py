"""storageVersionHash: which resources have one, and that it equals that of Kubernetes."""

from __future__ import annotations

from typing import Any

from tests.gateway.api import Api, served

KNOWN = {
    ("/api/v1", "pods"): "xPOwRZ+Yhw8=",
    ("/api/v1", "configmaps"): "qFsyl6wFWjQ=",
    ("/apis/apps/v1", "deployments"): "8aSe+NMegvE=",
    # Kubernetes stores these in a version that is not the newest one.
    ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions"): "jfWCUB31mvA=",
    ("/apis/autoscaling/v1", "horizontalpodautoscalers"): "oQlkt7f5j/A=",
    ("/apis/autoscaling/v2", "horizontalpodautoscalers"): "oQlkt7f5j/A=",
    ("/apis/autoscaling/v2beta2", "horizontalpodautoscalers"): "oQlkt7f5j/A=",
    ("/apis/discovery.k8s.io/v1", "endpointslices"): "Nx3SIv6I0mE=",
    ("/apis/flowcontrol.apiserver.k8s.io/v1beta1", "flowschemas"): "9bSnTLYweJ0=",
    ("/apis/flowcontrol.apiserver.k8s.io/v1beta2", "flowschemas"): "9bSnTLYweJ0=",
    ("/apis/flowcontrol.apiserver.k8s.io/v1beta1", "prioritylevelconfigurations"): "BFVwf8eYnsw=",
    ("/apis/flowcontrol.apiserver.k8s.io/v1beta2", "prioritylevelconfigurations"): "BFVwf8eYnsw=",
    ("/apis/policy/v1", "poddisruptionbudgets"): "6BGBu0kpHtk=",
}


async def resources(api: Api, path: str) -> dict[str, dict[str, Any]]:
    listed = (await api.ask("GET", path)).expect(200)["resources"]
    return {one["name"]: one for one in listed}


async def test_stored_resources_have_the_hash_of_kubernetes() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.25") as api:
        for (path, plural), known in KNOWN.items():
            assert (await resources(api, path))[plural]["storageVersionHash"] == known


async def test_versions_that_share_a_storage_have_the_same_hash() -> None:
    async with served(dialect="kubernetes") as api:
        for plural, one, other in (
            ("events", "/api/v1", "/apis/events.k8s.io/v1"),
            ("horizontalpodautoscalers", "/apis/autoscaling/v1", "/apis/autoscaling/v2"),
        ):
            first, second = await resources(api, one), await resources(api, other)
            assert first[plural]["storageVersionHash"] == second[plural]["storageVersionHash"]


async def test_resources_that_are_never_stored_have_no_hash() -> None:
    async with served(dialect="kubernetes") as api:
        core = await resources(api, "/api/v1")
        reviews = await resources(api, "/apis/authorization.k8s.io/v1")
        assert reviews and all("storageVersionHash" not in one for one in reviews.values())
        without = {name for name, one in core.items() if "storageVersionHash" not in one}
        assert without == {"bindings", "componentstatuses", *(name for name in core if "/" in name)}
