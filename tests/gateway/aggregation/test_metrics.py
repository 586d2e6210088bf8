"""Autoscalers read metrics from the server behind an APIService, as their service account."""

from __future__ import annotations

from typing import Any

import orjson

from rewound.gateway.settings.settings import ControllerSettings, WorkloadSettings
from tests.gateway.account_tokens import eventually
from tests.gateway.aggregation.aggregated import aggregating, api_service, condition, make_service
from tests.gateway.api import ApiResponse
from tests.gateway.proxy.backends import Call, serving

GROUP, VERSION = "external.metrics.cluster.io", "v1beta1"
ROOT = f"/apis/{GROUP}/{VERSION}"
QUEUE = f"GET {ROOT}/namespaces/default/queue?labelSelector=of%3Dwork HTTP/1.1"
CONTROLLERS = ControllerSettings(controllers=("default,horizontalpodautoscaling",))
WORKLOADS = WorkloadSettings(horizontal_pod_autoscaler_sync_period=0.05)


async def respond(call: Call) -> None:
    json = ("Content-Type: application/json", "Connection: close")
    if call.line == QUEUE:
        await call.reply(orjson.dumps({"items": [{"value": "7"}, {"value": "5"}]}), *json)
    elif call.line == f"GET {ROOT} HTTP/1.1":
        await call.reply(orjson.dumps({"kind": "APIResourceList", "resources": []}), *json)
    elif "/namespaces/default/refused" in call.line:
        refusal = {"kind": "Status", "status": "Failure", "message": "ask somebody else"}
        await call.reply(orjson.dumps(refusal), *json, status="403 Forbidden")
    else:
        await call.reply(b"", "Connection: close", status="404 Not Found")


def autoscaler(name: str, metric: str) -> dict[str, Any]:
    chosen = {"name": metric, "selector": {"matchLabels": {"of": "work"}}}
    external = {"metric": chosen, "target": {"type": "AverageValue", "averageValue": "3"}}
    return {
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "maxReplicas": 9,
            "metrics": [{"type": "External", "external": external}],
        },
    }


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "a:1"}]}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod},
    }


async def test_autoscaler_asks_the_server_behind_the_api_service() -> None:
    async with (
        serving(respond, certificate="service") as backend,
        aggregating(controllers=CONTROLLERS, workloads=WORKLOADS) as api,
    ):
        await make_service(api)
        await api.create("apiservices", api_service(backend.port, group=GROUP, version=VERSION))
        await condition(api, lambda one: one["status"] == "True", f"{VERSION}.{GROUP}")
        for name, metric in (("web", "queue"), ("db", "refused"), ("old", "missing")):
            await api.create("deployments", deployment(name))
            await api.create("horizontalpodautoscalers", autoscaler(name, metric))
        await eventually(
            api, api.path("deployments", name="web"), lambda one: one.document["spec"]["replicas"] == 4
        )
        asked = next(one for one in backend.calls if one.line == QUEUE)
        assert (
            asked.header("x-remote-user") == "system:serviceaccount:cluster-system:horizontal-pod-autoscaler"
        )
        for name, ending in (
            ("db", "ask somebody else"),
            ("old", f"the server could not find the requested resource (get missing.{GROUP})"),
        ):

            def failed(one: ApiResponse, ending: str = ending) -> bool:
                found = one.document["status"].get("conditions") or ()
                return any(each["message"].endswith(ending) for each in found)

            await eventually(api, api.path("horizontalpodautoscalers", name=name), failed)
