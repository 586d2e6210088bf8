"""An autoscaler scales objects of a custom kind through their scale subresource."""

from __future__ import annotations

from typing import Any

from rewound.gateway.settings.settings import ControllerSettings, WorkloadSettings
from tests.gateway.account_tokens import eventually
from tests.gateway.api import ApiResponse, served

BOATS = "/apis/example.com/v1/namespaces/default/boats"
PATHS = {"specReplicasPath": ".spec.crew", "statusReplicasPath": ".status.crew"}
VERSION = {
    "name": "v1",
    "served": True,
    "storage": True,
    "subresources": {"status": {}, "scale": PATHS},
    "schema": {"openAPIV3Schema": {"type": "object", "x-cluster-preserve-unknown-fields": True}},
}
DEFINITION: dict[str, Any] = {
    "metadata": {"name": "boats.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Boat", "plural": "boats"},
        "versions": [VERSION],
    },
}
TARGET = {"apiVersion": "example.com/v1", "kind": "Boat", "name": "b"}
AUTOSCALER = {
    "metadata": {"name": "b"},
    "spec": {"scaleTargetRef": TARGET, "minReplicas": 3, "maxReplicas": 5},
}


def lacks_selector(response: ApiResponse) -> bool:
    conditions = response.document["status"].get("conditions") or ()
    text = "the HPA target's scale is missing a selector"
    return any((one["reason"], one["message"]) == ("InvalidSelector", text) for one in conditions)


async def test_custom_object_is_scaled() -> None:
    async with served(
        controllers=ControllerSettings(controllers=("default,horizontalpodautoscaling",)),
        workloads=WorkloadSettings(horizontal_pod_autoscaler_sync_period=0.05),
    ) as api:
        await api.create("customresourcedefinitions", DEFINITION)
        await eventually(api, BOATS, lambda one: one.status == 200)
        boat = {
            "apiVersion": "example.com/v1",
            "kind": "Boat",
            "metadata": {"name": "b"},
            "spec": {"crew": 1},
        }
        (await api.ask("POST", BOATS, boat)).expect(201)
        await api.create("horizontalpodautoscalers", AUTOSCALER)
        await eventually(api, f"{BOATS}/b", lambda one: one.document["spec"] == {"crew": 3})
        await eventually(api, api.path("horizontalpodautoscalers", name="b"), lacks_selector)
