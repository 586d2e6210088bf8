"""Claims for devices of 1.36: admin access by the label of the namespace, and rights of parts of the status."""

from __future__ import annotations

from typing import Any

from tests.gateway.api import ALICE, Api, served

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
LABEL = "resource.kubernetes.io/admin-access"
DEVICE = {"driver": "d", "pool": "p", "device": "x"}


def claim(name: str, **exact: Any) -> dict[str, Any]:
    request = {"name": "r", "exactly": {"deviceClassName": "c", **exact}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


async def test_admin_access_needs_a_label_of_the_namespace() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        refused = (await api.ask("POST", CLAIMS, claim("a", adminAccess=True))).expect(422)
        (cause,) = refused["details"]["causes"]
        assert cause["field"] == "spec.devices.requests[0].adminAccess"
        assert cause["message"] == (
            f"Forbidden: admin access to devices requires the `{LABEL}: true` label on the containing namespace"
        )
        namespace = (await api.ask("GET", "/api/v1/namespaces/default")).expect(200)
        namespace["metadata"].setdefault("labels", {})[LABEL] = "true"
        (await api.ask("PUT", "/api/v1/namespaces/default", namespace)).expect(200)
        (await api.ask("POST", CLAIMS, claim("a", adminAccess=True))).expect(201)


async def test_parts_of_the_status_need_rights_of_their_own() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        made = (await api.ask("POST", CLAIMS, claim("a"))).expect(201)
        await grant(api, "resourceclaims/status", "get", "update")
        made["status"] = {"allocation": {"devices": {"results": [{"request": "r", **DEVICE}]}}}
        refused = (await api.ask("PUT", f"{CLAIMS}/a/status", made, token=ALICE)).expect(422)
        assert refused["details"]["causes"][0]["message"].startswith(
            "Forbidden: changing status.allocation or status.reservedFor requires "
            'resource="resourceclaims/binding", verb="update" permission: '
        )
        await grant(api, "resourceclaims/binding", "update")
        made = (await api.ask("PUT", f"{CLAIMS}/a/status", made, token=ALICE)).expect(200)
        made["status"]["devices"] = [DEVICE]
        refused = (await api.ask("PUT", f"{CLAIMS}/a/status", made, token=ALICE)).expect(422)
        assert refused["details"]["causes"][0]["field"] == "status.devices"
        await grant(api, "resourceclaims/driver", "arbitrary-node:update")
        made = (await api.ask("PUT", f"{CLAIMS}/a/status", made, token=ALICE)).expect(200)
        assert made["status"]["devices"] == [{**DEVICE, "conditions": None}]


async def grant(api: Api, resource: str, *verbs: str) -> None:
    name = resource.replace("/", "-")
    rule = {"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": list(verbs)}
    (await api.ask("POST", ROLES, {"metadata": {"name": name}, "rules": [rule]})).expect(201)
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }
    (await api.ask("POST", BINDINGS, binding)).expect(201)
