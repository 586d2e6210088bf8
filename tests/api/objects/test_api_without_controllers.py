"""A server without controllers writes and enforces no more than kube-apiserver without a controller manager."""

from __future__ import annotations

from rewound.gateway.settings.settings import ControllerSettings
from tests.gateway.api import served
from tests.settling import settled

FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"


async def test_nobody_fills_roles_and_quotas_and_owners_are_those_of_kubernetes() -> None:
    none = ControllerSettings(controllers=("csrcleaner",))
    beta = "resource.k8s.io/v1beta2=true"
    async with served(
        dialect="kubernetes", kubernetes_version="1.36", controllers=none, runtime_config=beta
    ) as api:
        view = (await api.ask("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/view")).expect(200)
        assert view["rules"] is None and view["aggregationRule"]

        quota = await api.create(
            "resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "0"}}}
        )
        await api.create("configmaps", {"metadata": {"name": "a"}})
        assert "hard" not in (await api.get("resourcequotas", "q"))["status"]
        # Another controller fills the status.
        quota["status"] = {"hard": quota["spec"]["hard"], "used": {"configmaps": "1"}}
        (await api.ask("PUT", f"{api.path('resourcequotas', name='q')}/status", quota)).expect(200)
        path = api.path("configmaps")
        twice = [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}] * 2
        refused = await api.ask("POST", path, {"metadata": {"name": "b", "ownerReferences": twice}})
        assert "exceeded quota: q" in refused.expect(403)["message"]
        assert ".metadata.ownerReferences contains duplicate entries;" in refused.headers["warning"]

        taint = {"spec": {"taint": {"key": "a", "effect": "NoSchedule"}}}
        made = (await api.ask("POST", RULES, {"metadata": {"name": "r"}, **taint})).expect(201)
        owned = made["metadata"]["managedFields"][0]["fieldsV1"]
        assert owned == {"f:spec": {"f:taint": {"f:effect": {}, "f:key": {}, "f:timeAdded": {}}}}

        await settled()
        schema = (await api.ask("GET", f"{FLOW}/exempt")).expect(200)
        found = [(one["operation"], one["apiVersion"]) for one in schema["metadata"]["managedFields"]]
        assert ("Apply", "flowcontrol.apiserver.k8s.io/v1") in found
        assert list(schema["status"]["conditions"][0])[:3] == ["type", "status", "lastTransitionTime"]
