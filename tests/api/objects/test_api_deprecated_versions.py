"""Deprecated versions warn on every response; removed versions are not served."""

from __future__ import annotations

from tests.cases import cases
from tests.gateway.shared_server import shared

GOING = {
    "/apis/policy/v1beta1/podsecuritypolicies": "policy/v1beta1 PodSecurityPolicy is deprecated in v1.21+",
    "/apis/autoscaling/v2beta2/horizontalpodautoscalers": "v2beta2 HorizontalPodAutoscaler is deprecated in",
    "/apis/storage.cluster.io/v1beta1/csistoragecapacities": "v1beta1 CSIStorageCapacity is deprecated in",
    "/apis/flowcontrol.apiserver.cluster.io/v1beta1/flowschemas": "v1beta1 FlowSchema is deprecated in v1.23+",
    "/api/v1/componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
}
STAYING = (
    "/apis/autoscaling/v2/horizontalpodautoscalers",
    "/apis/autoscaling/v1/horizontalpodautoscalers",
    "/apis/storage.cluster.io/v1/csistoragecapacities",
    "/apis/flowcontrol.apiserver.cluster.io/v1beta2/flowschemas",
    "/api/v1/configmaps",
)


async def test_deprecated_versions_warn() -> None:
    async with shared() as api:
        for path, text in GOING.items():
            response = await api.ask("GET", path)
            response.expect(200)
            assert len(response.warnings) == 1 and text in response.warnings[0]
        for path in STAYING:
            assert (await api.ask("GET", path)).warnings == []


@cases("plural", ["statefulsets", "replicasets", "deployments"])
@cases("version", ["apps/v1beta1", "apps/v1beta2", "extensions/v1beta1"])
async def test_removed_versions_are_not_served(version: str, plural: str) -> None:
    async with shared() as api:
        for path in (f"/apis/{version}/namespaces/default/{plural}", f"/apis/{version}/{plural}"):
            assert (await api.ask("GET", path)).status == 404
        assert (await api.ask("GET", f"/apis/{version}")).status == 404
        listed = (await api.ask("GET", "/apis")).expect(200)["groups"]
        assert version not in {one["groupVersion"] for group in listed for one in group["versions"]}
