"""`--runtime-config` on a running server: disabled versions and resources are not served; their objects stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.names import REWIND_GROUP
from tests.gateway.api import Api, config_map, names, served
from tests.settling import settled

WEB = {
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


async def groups(api: Api) -> dict[str, list[str]]:
    listed = (await api.ask("GET", "/apis")).expect(200)["groups"]
    return {one["name"]: [version["version"] for version in one["versions"]] for one in listed}


async def plurals(api: Api, path: str) -> set[str]:
    listed = (await api.ask("GET", path)).expect(200)["resources"]
    return {one["name"] for one in listed}


async def test_disabled_version_is_not_served() -> None:
    async with served(runtime_config="apps/v1=false,autoscaling/v2beta2=false") as api:
        found = await groups(api)
        assert "apps" not in found and found["autoscaling"] == ["v2", "v1"]
        for method, path in (("GET", DEPLOYMENTS), ("POST", DEPLOYMENTS), ("GET", "/apis/apps/v1")):
            response = await api.ask(method, path, WEB if method == "POST" else None)
            assert (response.status, response.text) == (404, "404 page not found\n")
        old = await api.ask("GET", "/apis/autoscaling/v2beta2/horizontalpodautoscalers")
        assert old.expect(404)["message"] == "the server could not find the requested resource"


async def test_one_resource_can_be_disabled() -> None:
    async with served(runtime_config="apps/v1/deployments=false") as api:
        listed = await plurals(api, "/apis/apps/v1")
        assert "replicasets" in listed and not any(name.startswith("deployments") for name in listed)
        (await api.ask("POST", DEPLOYMENTS, WEB)).expect(404)
        (await api.ask("GET", f"{DEPLOYMENTS}/web/scale")).expect(404)


async def test_one_resource_of_a_disabled_version_can_be_enabled() -> None:
    async with served(runtime_config="apps/v1=false,apps/v1/deployments") as api:
        listed = await plurals(api, "/apis/apps/v1")
        assert listed == {"deployments", "deployments/scale", "deployments/status"}
        (await api.ask("POST", DEPLOYMENTS, WEB)).expect(201)


async def test_all_but_the_core_group_can_be_disabled() -> None:
    async with served(runtime_config="api/all=false,api/v1=true") as api:
        assert await groups(api) == {}
        assert "pods" in await plurals(api, "/api/v1")
        await api.create("configmaps", config_map("a"))


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
async def test_beta_versions_can_be_disabled(dialect: str) -> None:
    async with served(runtime_config="api/beta=false", dialect=dialect, kubernetes_version="1.25") as api:
        found = await groups(api)
        assert not [version for versions in found.values() for version in versions if "beta" in version]
        assert not any(group.startswith("flowcontrol") for group in found)
        (await api.ask("GET", "/apis/policy/v1beta1/podsecuritypolicies")).expect(404)
        (await api.ask("GET", "/apis/policy/v1/poddisruptionbudgets")).expect(200)


POLICIES = "/apis/policy/v1beta1/podsecuritypolicies"


async def test_pod_security_policies_are_on_in_the_cluster_dialect() -> None:
    async with served() as api:
        assert (await groups(api))["policy"] == ["v1", "v1beta1"]
        (await api.ask("GET", POLICIES)).expect(200)


async def test_pod_security_policies_are_off_in_the_kubernetes_dialect() -> None:
    async with served(dialect="kubernetes") as api:
        assert (await groups(api))["policy"] == ["v1"]
        for path in (POLICIES, "/apis/policy/v1beta1"):
            (await api.ask("GET", path)).expect(404)
        assert "PodSecurityPolicy" not in (await api.ask("GET", "/openapi/v2")).text
        assert "apis/policy/v1beta1" not in (await api.ask("GET", "/openapi/v3")).document["paths"]


@pytest.mark.parametrize("key", ["policy/v1beta1", "policy/v1beta1/podsecuritypolicies=true"])
async def test_runtime_config_turns_pod_security_policies_on(key: str) -> None:
    async with served(dialect="kubernetes", runtime_config=key, kubernetes_version="1.25") as api:
        assert (await groups(api))["policy"] == ["v1", "v1beta1"]
        (await api.ask("GET", POLICIES)).expect(200)


async def test_core_group_can_be_disabled() -> None:
    async with served(runtime_config="v1=false") as api:
        (await api.ask("GET", "/api/v1/configmaps")).expect(404)
        (await api.ask("POST", DEPLOYMENTS, WEB)).expect(201)


async def test_objects_stay_when_their_version_is_disabled(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        (await api.ask("POST", DEPLOYMENTS, WEB)).expect(201)
        await api.restart(runtime_config="apps/v1=false")
        assert (await api.ask("DELETE", f"{DEPLOYMENTS}/web")).status == 404
        await api.restart(runtime_config="")
        assert names(await api.list("deployments")) == ["web"]


async def test_namespace_deletion_includes_disabled_versions(tmp_path: Path, mock_clock: MockClock) -> None:
    async with served(tmp_path) as api:
        (await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})).expect(201)
        (await api.ask("POST", DEPLOYMENTS.replace("default", "n"), WEB)).expect(201)
        await api.restart(runtime_config="apps/v1=false")
        (await api.ask("DELETE", "/api/v1/namespaces/n")).expect(200)
        for _ in range(100):
            await settled()
            mock_clock.jump(1)
            namespace = await api.ask("GET", "/api/v1/namespaces/n")
            if namespace.status == 404:
                break
        namespace.expect(404)
        await api.restart(runtime_config="")
        assert names(await api.list("deployments", None)) == []


@pytest.mark.parametrize("config", ["rewound.cluster.io/v1=false", "api/all=false,v1"])
async def test_group_rewound_can_be_disabled(config: str) -> None:
    async with served(runtime_config=config) as api:
        await api.create("configmaps", config_map("web"))
        past = "/apis/rewound.cluster.io/v1"
        assert REWIND_GROUP not in await groups(api)
        web = f"{past}/namespaces/default/configmaps/web"
        paths = ["/apis/rewound.cluster.io", past, f"{web}/history", f"{web}/blame", "/debug/journal/"]
        for path in (*paths, f"{past}/timeline", f"{past}/timeline/events"):
            response = await api.ask("GET", path)
            assert (response.status, response.text) == (404, "404 page not found\n"), path
        rollback = await api.ask("POST", f"{web}/rollback", {"to": "1"})
        assert (rollback.status, rollback.text) == (404, "404 page not found\n")
        listed = (await api.ask("GET", "/")).expect(200)["paths"]
        described = (await api.ask("GET", "/openapi/v3")).expect(200)["paths"]
        assert not [path for path in (*listed, *described) if REWIND_GROUP in path]
        assert (await api.ask("GET", f"/openapi/v3{past}")).status == 404
        # `?at=` of gets and lists does not belong to the group.
        assert names(await api.list("configmaps", at=await api.head()))
