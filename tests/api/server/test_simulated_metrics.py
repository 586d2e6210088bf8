"""Simulated pods have metrics by their annotations, which `kubectl top` and autoscalers read."""

from __future__ import annotations

from typing import Any

from rewound.gateway.settings.settings import ControllerSettings
from tests.gateway.account_tokens import eventually
from tests.gateway.api import Api, ApiResponse, served

SIMULATED = ControllerSettings(controllers=("default,simulated-nodes",))
GROUP = "/apis/metrics.cluster.io"
METRICS = f"{GROUP}/v1beta1"
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"


async def run_pod(api: Api, name: str, phase: str = "Running", **annotations: str) -> None:
    containers = [{"name": "main", "image": "a:1"}, {"name": "side", "image": "b:1"}]
    metadata = {"name": name, "labels": {"app": "web"}, "annotations": annotations}
    pod: Any = {"metadata": metadata, "spec": {"nodeName": "n", "containers": containers}}
    (await api.ask("POST", PODS, pod)).expect(201)
    status = {"status": {"phase": phase}}
    headers = {"content-type": "application/merge-patch+json"}
    (await api.ask("PATCH", f"{PODS}/{name}/status", status, headers=headers)).expect(200)


async def test_metrics_are_served_while_a_pod_has_an_annotation() -> None:
    async with served(controllers=SIMULATED) as api:
        (await api.ask("POST", NODES, {"metadata": {"name": "n"}})).expect(201)
        await run_pod(api, "idle")
        assert (await api.ask("GET", METRICS)).status == 404
        await run_pod(api, "busy", **{"sim/cpu": "1.25", "sim/memory": "64Mi", "sim/cpu.side": "10m"})
        await run_pod(api, "waits", "Pending", **{"sim/cpu": "9"})
        resources = (await api.ask("GET", METRICS)).expect(200)["resources"]
        assert [(one["name"], one["kind"]) for one in resources] == [
            ("nodes", "NodeMetrics"),
            ("pods", "PodMetrics"),
        ]
        found = (await api.ask("GET", f"{METRICS}/pods")).expect(200)
        usage = {
            one["metadata"]["name"]: [part["usage"] for part in one["containers"]] for one in found["items"]
        }
        nothing = {"cpu": "0", "memory": "0"}
        assert usage == {
            "busy": [{"cpu": "1250m", "memory": "64Mi"}, {"cpu": "10m", "memory": "0"}],
            "idle": [nothing, nothing],
        }
        assert found["kind"] == "PodMetricsList" and {one["window"] for one in found["items"]} == {"0s"}
        one = (await api.ask("GET", f"{METRICS}/namespaces/default/pods/busy")).expect(200)
        assert one["kind"] == "PodMetrics" and one["metadata"]["labels"] == {"app": "web"}
        assert (await api.ask("GET", f"{METRICS}/namespaces/other/pods/busy")).status == 404
        none = await api.ask("GET", f"{METRICS}/namespaces/default/pods", labelSelector="app=db")
        assert none.expect(200)["items"] == []
        (node,) = (await api.ask("GET", f"{METRICS}/nodes")).expect(200)["items"]
        assert node["usage"] == {"cpu": "1260m", "memory": "64Mi"}
        for name in ("busy", "waits"):
            (await api.ask("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")).expect(200)
        assert (await api.ask("GET", METRICS)).status == 404


async def test_custom_kind_takes_precedence() -> None:
    async with served(controllers=SIMULATED) as api:
        (await api.ask("POST", NODES, {"metadata": {"name": "n"}})).expect(201)
        await run_pod(api, "busy", **{"sim/cpu": "1"})
        assert (await api.ask("GET", f"{METRICS}/pods")).expect(200)["items"]
        await api.ask(
            "POST",
            "/apis/apiextensions.cluster.io/v1/customresourcedefinitions",
            {
                "metadata": {
                    "name": "pods.metrics.cluster.io",
                    "annotations": {"api-approved.cluster.io": "unapproved, stands in for metrics"},
                },
                "spec": {
                    "group": "metrics.cluster.io",
                    "scope": "Namespaced",
                    "names": {"kind": "PodMetrics", "listKind": "PodMetricsList", "plural": "pods"},
                    "versions": [
                        {
                            "name": "v1beta1",
                            "served": True,
                            "storage": True,
                            "schema": {"openAPIV3Schema": {"type": "object"}},
                        }
                    ],
                },
            },
        )
        await eventually(api, METRICS, serves_stored)
        assert (await api.ask("GET", f"{METRICS}/pods")).expect(200)["items"] == []
        (await api.ask("DELETE", f"{PODS}/busy?gracePeriodSeconds=0")).expect(200)
        assert (await api.ask("GET", f"{METRICS}/pods")).status == 200


def serves_stored(response: ApiResponse) -> bool:
    resources = response.expect(200)["resources"]
    return any(one["name"] == "pods" and "create" in one["verbs"] for one in resources)
