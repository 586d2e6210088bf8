"""The server itself owns the fields of what it writes, under the name that the dialect gives it."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.controllers.flow_control import STATUS_MANAGER
from rewound.actors.flowcontrol.initial_objects import SPEC_MANAGER
from rewound.actors.names import NAMES
from tests.gateway.api import Api, served
from tests.settling import settled


async def managers(api: Api, path: str) -> list[tuple[str, str]]:
    found: dict[str, Any] = (await api.ask("GET", path)).expect(200)
    return [(one["manager"], one.get("subresource", "")) for one in found["metadata"]["managedFields"]]


@pytest.mark.parametrize(("dialect", "manager"), [("cluster", "apiserver"), ("kubernetes", "kube-apiserver")])
async def test_initial_objects_are_of_the_server(dialect: str, manager: str) -> None:
    names = NAMES[dialect]
    rbac, apis = f"/apis/rbac.authorization.{names.group_domain}/v1", names.group("apiregistration")
    async with served(dialect=dialect) as api:
        await settled()
        for path in (
            f"/api/v1/namespaces/{names.system_namespace}",
            f"{rbac}/clusterroles/cluster-admin",
            f"{rbac}/clusterrolebindings/cluster-admin",
            f"/apis/{names.group('scheduling')}/v1/priorityclasses/system-node-critical",
            f"/apis/{apis}/v1/apiservices/v1.",
        ):
            assert await managers(api, path) == [(manager, "")], path
        version = "v1beta2" if dialect == "cluster" else "v1"
        schema = f"/apis/{names.group('flowcontrol.apiserver')}/{version}/flowschemas/catch-all"
        assert await managers(api, schema) == [(STATUS_MANAGER, "status"), (SPEC_MANAGER, "")]


@pytest.mark.parametrize(("dialect", "manager"), [("cluster", "apiserver"), ("kubernetes", "kube-apiserver")])
async def test_evictions_count_as_the_server(dialect: str, manager: str) -> None:
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    async with served(dialect=dialect) as api:
        labels = {"app": "web"}
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
        await api.create("pods", {"metadata": {"name": "p", "labels": labels}, "spec": spec})
        ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        merge = {"content-type": "application/merge-patch+json"}
        (await api.ask("PATCH", f"{api.path('pods', name='p')}/status", ready, headers=merge)).expect(200)
        wanted = {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
        (await api.ask("POST", budgets, {"metadata": {"name": "b"}, "spec": wanted})).expect(201)
        allowed = {"disruptionsAllowed": 1, "expectedPods": 1, "currentHealthy": 1, "observedGeneration": 1}
        (await api.ask("PATCH", f"{budgets}/b/status", {"status": allowed}, headers=merge)).expect(200)
        (await api.ask("POST", f"{api.path('pods', name='p')}/eviction", {"metadata": {"name": "p"}})).expect(
            201
        )
        assert (manager, "status") in await managers(api, f"{budgets}/b")
