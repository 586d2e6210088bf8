"""Simulated pods have metrics by their annotations, which `kubectl top` and autoscalers read."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from rewound.actors.kinds import metrics
from rewound.actors.names import KUBERNETES
from rewound.actors.runtime import turns
from rewound.actors.store.reads import ListOptions
from rewound.gateway.handlers.computed_kinds import ComputedObjects
from rewound.gateway.memory.budget import MemoryBudget, TooManyRequests
from rewound.gateway.settings.settings import ControllerSettings
from tests.gateway.account_tokens import eventually
from tests.gateway.api import Api, ApiResponse, served

SIMULATED = ControllerSettings(controllers=("default,simulated-nodes",))
GROUP = "/apis/metrics.cluster.io"
METRICS = f"{GROUP}/v1beta1"
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"


DEFINITIONS = "/apis/apiextensions.cluster.io/v1/customresourcedefinitions"
DEFINITION = {
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
}


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
        (await api.ask("POST", DEFINITIONS, DEFINITION)).expect(201)
        await eventually(api, METRICS, serves_stored)
        assert (await api.ask("GET", f"{METRICS}/pods")).expect(200)["items"] == []
        (await api.ask("DELETE", f"{PODS}/busy?gracePeriodSeconds=0")).expect(200)
        assert (await api.ask("GET", f"{METRICS}/pods")).status == 200


async def test_kinds_are_served_again_when_a_custom_kind_of_their_name_is_removed() -> None:
    async with served(controllers=SIMULATED) as api:
        await run_pod(api, "busy", **{"sim/cpu": "1"})
        (await api.ask("POST", DEFINITIONS, DEFINITION)).expect(201)
        await eventually(api, METRICS, serves_stored)
        (await api.ask("DELETE", f"{DEFINITIONS}/pods.metrics.cluster.io")).expect(200)
        await eventually(
            api, f"{METRICS}/pods", lambda response: response.status == 200 and has_items(response)
        )
        assert not serves_stored(await api.ask("GET", METRICS))


async def test_metrics_of_many_pods_are_computed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    pods, passes = 30, 0

    async def count_passes() -> None:
        nonlocal passes
        while True:
            await trio.lowlevel.checkpoint()
            passes += 1

    async with served(controllers=SIMULATED) as api, trio.open_nursery() as nursery:
        for number in range(pods):
            await run_pod(api, f"p{number}", **{"sim/cpu": "1"})
        monkeypatch.setattr(turns, "TURN", 0.0)
        nursery.start_soon(count_passes)
        for kind in ("pods", "nodes"):
            passes = 0
            (await api.ask("GET", f"{METRICS}/{kind}")).expect(200)
            assert passes > pods
        nursery.cancel_scope.cancel()


async def test_list_that_is_larger_than_the_memory_of_requests_is_refused() -> None:
    ended = False

    class Endless:
        async def get(self, namespace: str, name: str) -> None:
            return None

        async def each(self, namespace: str) -> AsyncGenerator[dict[str, Any], None]:
            nonlocal ended
            try:
                while True:
                    yield {"metadata": {"name": "a" * 1000, "namespace": "default"}}
            finally:
                ended = True

    definition = metrics.declare(KUBERNETES)[0]
    computed = ComputedObjects({definition.type_name: Endless()}, MemoryBudget(1 << 20))
    request: Any = SimpleNamespace(user="alice", reserved=0)
    with pytest.raises(TooManyRequests, match="your other requests hold as much"):
        await computed.listing(request, definition, "", ListOptions())
    assert ended and 0 < request.reserved <= 1 << 19


def has_items(response: ApiResponse) -> bool:
    return bool(response.document["items"])


def serves_stored(response: ApiResponse) -> bool:
    resources = response.expect(200)["resources"]
    return any(one["name"] == "pods" and "create" in one["verbs"] for one in resources)
