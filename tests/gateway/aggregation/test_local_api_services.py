"""Every group version that the server itself serves has a local APIService, which is recreated when deleted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.account_tokens import eventually
from tests.gateway.aggregation.aggregated import API_SERVICES
from tests.gateway.api import served

LABEL = {
    "cluster": "kube-aggregator.cluster.io/automanaged",
    "kubernetes": "kube-aggregator.kubernetes.io/automanaged",
}
PRIORITIES = {  # in 1.25
    "v1.": (18000, 1),
    "v1.apps": (17800, 15),
    "v2.autoscaling": (17500, 30),
    "v1.autoscaling": (17500, 15),
    "v1.policy": (17100, 15),
    "v1beta2.flowcontrol.apiserver.DOMAIN": (16100, 15),
    "v1.apiextensions.DOMAIN": (16700, 15),
}


@pytest.mark.parametrize(("dialect", "domain"), [("cluster", "cluster.io"), ("kubernetes", "k8s.io")])
async def test_local_api_services_of_built_in_groups(dialect: str, domain: str) -> None:
    async with served(dialect=dialect, kubernetes_version="1.25") as api:
        listed = (await api.ask("GET", f"/apis/apiregistration.{domain}/v1/apiservices")).expect(200)["items"]
        by_name = {one["metadata"]["name"]: one for one in listed}
        for name, priorities in PRIORITIES.items():
            one = by_name[name.replace("DOMAIN", domain)]
            assert (one["spec"]["groupPriorityMinimum"], one["spec"]["versionPriority"]) == priorities
            assert one["metadata"]["labels"] == {LABEL[dialect]: "onstart"}
            [condition] = one["status"]["conditions"]
            assert (condition["type"], condition["status"], condition["reason"]) == (
                "Available",
                "True",
                "Local",
            )
        groups = (await api.ask("GET", "/apis")).expect(200)["groups"]
        expected = {
            f"{version['version']}.{group['name']}"
            for group in groups
            for version in group["versions"]
            if not group["name"].startswith(("apiregistration.", "rewound."))
        }
        assert by_name.keys() == expected | {"v1."}


async def test_a_deleted_local_api_service_is_created_again() -> None:
    async with served() as api:
        path = f"{API_SERVICES}/v1.apps"
        before = (await api.ask("GET", path)).expect(200)["metadata"]["uid"]
        (await api.ask("DELETE", path)).expect(200)

        def is_new(found: Any) -> bool:
            return found.status == 200 and found.document["metadata"]["uid"] != before

        await eventually(api, path, is_new)
        assert (await api.ask("GET", "/apis/apps/v1/deployments")).status == 200


def definition(group: str, *versions: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "scope": "Namespaced",
            "versions": [
                {"name": one, "served": True, "storage": one == versions[0], "schema": schema}
                for one in versions
            ],
        },
    }


async def test_groups_of_custom_resources_have_api_services() -> None:
    async with served() as api:
        await api.create("customresourcedefinitions", definition("a.example.com", "v1", "v2beta1"))
        path = f"{API_SERVICES}/v2beta1.a.example.com"
        found = (await eventually(api, path, lambda one: one.status == 200)).document
        assert found["metadata"]["labels"] == {LABEL["cluster"]: "true"}
        assert (found["spec"]["groupPriorityMinimum"], found["spec"]["versionPriority"]) == (1000, 100)
        merge = {"content-type": "application/merge-patch+json"}
        (await api.ask("PATCH", path, {"spec": {"versionPriority": 7}}, headers=merge)).expect(200)
        await eventually(api, path, lambda one: one.document["spec"]["versionPriority"] == 100)
        await api.restart()
        (await api.ask("GET", path)).expect(200)
        await api.delete("customresourcedefinitions", "gadgets.a.example.com")
        await eventually(api, path, lambda one: one.status == 404)


async def test_priorities_order_groups_and_versions() -> None:
    async with served() as api:
        for group in ("b.example.com", "a.example.com"):
            await api.create("customresourcedefinitions", definition(group, "v1", "v2"))
            await eventually(api, f"{API_SERVICES}/v2.{group}", lambda one: one.status == 200)

        async def custom() -> list[tuple[str, list[str]]]:
            groups = (await api.ask("GET", "/apis")).expect(200)["groups"]
            return [
                (one["name"], [version["version"] for version in one["versions"]])
                for one in groups
                if one["name"].endswith("example.com")
            ]

        assert await custom() == [("a.example.com", ["v2", "v1"]), ("b.example.com", ["v2", "v1"])]
        await api.create(
            "apiservices",
            {
                "metadata": {"name": "v3.b.example.com"},
                "spec": {
                    "group": "b.example.com",
                    "version": "v3",
                    "service": {"namespace": "default", "name": "none"},
                    "groupPriorityMinimum": 2000,
                    "versionPriority": 5,
                    "insecureSkipTLSVerify": True,
                },
            },
        )
        assert await custom() == [("b.example.com", ["v2", "v1", "v3"]), ("a.example.com", ["v2", "v1"])]
        group = (await api.ask("GET", "/apis/b.example.com")).expect(200)
        assert group["preferredVersion"]["version"] == "v2"
