"""PodSecurityPolicy over HTTP: lists, pages, deletes, and the deprecation warning on every response."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.policy import POLICY_DEPRECATED
from tests.gateway.api import Api, names, served
from tests.gateway.shared_server import shared

PATH = "/apis/policy/v1beta1/podsecuritypolicies"
ANY = {"rule": "RunAsAny"}
SPEC = {"seLinux": ANY, "runAsUser": ANY, "supplementalGroups": ANY, "fsGroup": ANY}


def policy(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": SPEC}


async def ask(api: Api, method: str, path: str, body: Any = None, code: int = 200, **query: Any) -> Any:
    """Send a request and check that its response has the deprecation warning."""
    response = await api.ask(method, path, body, **query)
    assert response.warnings == [f'299 - "{POLICY_DEPRECATED}"']
    return response.expect(code)


async def test_policies_are_listed_and_deleted_with_warnings() -> None:
    async with served() as api:
        for name, size in (("a", "small"), ("b", "large"), ("c", "small")):
            await ask(api, "POST", PATH, policy(name, size=size), 201)
        listed = await ask(api, "GET", PATH)
        assert (listed["kind"], listed["apiVersion"]) == ("PodSecurityPolicyList", "policy/v1beta1")
        assert names(listed) == ["a", "b", "c"] and listed["items"][0]["spec"] == {
            **SPEC,
            "allowPrivilegeEscalation": True,
        }
        page = await ask(api, "GET", PATH, limit=2)
        rest = await ask(api, "GET", PATH, limit=2, **{"continue": page["metadata"]["continue"]})
        assert names(page) + names(rest) == ["a", "b", "c"]
        assert names(await ask(api, "GET", PATH, labelSelector="size=small")) == ["a", "c"]
        assert names(await ask(api, "GET", PATH, fieldSelector="metadata.name=b")) == ["b"]
        await ask(api, "GET", f"{PATH}/d", code=404)
        await ask(api, "POST", PATH, {"metadata": {"name": "d"}}, 422)
        deleted = await ask(api, "DELETE", f"{PATH}/b")
        assert (deleted["kind"], deleted["metadata"]["name"]) == ("PodSecurityPolicy", "b")
        gone = await ask(api, "DELETE", PATH, labelSelector="size=small")
        assert (gone["kind"], gone["status"]) == ("Status", "Success")
        assert (await ask(api, "GET", PATH))["items"] == []


async def test_removed_versions_are_not_shared() -> None:
    async with shared() as api:
        for path in (
            "/apis/apps/v1beta1/namespaces/default/statefulsets",
            "/apis/apps/v1beta2/namespaces/default/statefulsets",
            "/apis/apps/v1beta1/namespaces/default/deployments",
            "/apis/apps/v1beta2/namespaces/default/replicasets",
            "/apis/extensions/v1beta1/namespaces/default/replicasets",
            "/apis/batch/v1beta1/namespaces/default/cronjobs",
            "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets",
        ):
            assert (await api.ask("GET", path)).status == 404
