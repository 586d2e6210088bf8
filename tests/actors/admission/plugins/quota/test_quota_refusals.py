"""Writes that a quota of their namespace does not allow are refused."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.actors.admission.plugins.quota.objects import add_quota, claim, config_map, pod, refusal, service
from tests.actors.object_store import Refused, open_store

SMALL = {"requests": {"cpu": "600m", "memory": "100Mi"}, "limits": {"memory": "1Gi"}}


async def test_refusal_lists_what_is_exceeded_of_the_first_quota_by_name() -> None:
    async with open_store() as store:
        await add_quota(store, {"pods": "0"}, "z")
        await add_quota(store, {"cpu": "1", "limits.memory": "1Gi", "memory": "1Gi", "pods": "9"}, "a")
        why = await refusal(store, "pods", pod("p", SMALL, SMALL))
        assert why == (
            "exceeded quota: a, requested: cpu=1200m,limits.memory=2Gi, used: cpu=0,limits.memory=0, "
            "limited: cpu=1,limits.memory=1Gi"
        )
        assert await refusal(store, "pods", pod("p", SMALL)) == (
            "exceeded quota: z, requested: pods=1, used: pods=0, limited: pods=0"
        )


async def test_containers_must_specify_cpu_and_memory_that_a_quota_limits() -> None:
    async with open_store() as store:
        await add_quota(store, {"limits.cpu": "4", "memory": "1Gi", "limits.ephemeral-storage": "1Gi"})
        init = [{"name": "i", "image": "i"}]
        assert await refusal(store, "pods", pod("p", SMALL, {}, initContainers=init)) == (
            "failed quota: q: must specify limits.cpu for: c0,c1,i; memory for: c1,i"
        )


async def test_dry_run_is_checked_and_charged_nothing() -> None:
    async with open_store() as store:
        await add_quota(store, {"configmaps": "1"})
        for _ in range(3):
            assert await refusal(store, "configmaps", config_map("a"), dryRun="All") == ""
        await store.create("configmaps", config_map("a"))
        assert "used: configmaps=1" in await refusal(store, "configmaps", config_map("b"), dryRun="All")


async def test_write_that_fails_later_gives_back_its_share() -> None:
    async with open_store() as store:
        await add_quota(store, {"count/configmaps": "2"})
        await store.create("configmaps", config_map("a"))
        for _ in range(3):
            with pytest.raises(Refused) as refused:
                await store.create("configmaps", config_map("a"))
            assert refused.value.reason == "AlreadyExists"
        await store.create("configmaps", config_map("b"))
        assert "used: count/configmaps=2" in await refusal(store, "configmaps", config_map("c"))
        await store.delete("configmaps", "a")
        await store.create("configmaps", config_map("c"))


async def test_concurrent_creates_never_exceed_the_quota() -> None:
    async with open_store() as store:
        await add_quota(store, {"configmaps": "50", "pods": "7"})
        results: list[str] = []

        async def create(plural: str, body: dict[str, Any]) -> None:
            results.append(f"{plural} {await refusal(store, plural, body) == ''}")

        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(create, "configmaps", config_map(f"c{number}"))
            for number in range(20):
                nursery.start_soon(create, "pods", pod(f"p{number}"))
        assert results.count("configmaps True") == 50 == len((await store.list("configmaps"))["items"])
        assert results.count("pods True") == 7 == len((await store.list("pods"))["items"])


async def test_restarted_server_counts_what_is_stored() -> None:
    async with open_store() as store:
        await add_quota(store, {"cpu": "2", "secrets": "1"})
        await store.create("pods", pod("p", {"requests": {"cpu": "1500m"}}))
        await store.create("secrets", {"metadata": {"name": "s"}})
        await store.restart()
        assert await refusal(store, "pods", pod("q", {"requests": {"cpu": "501m"}})) == (
            "exceeded quota: q, requested: cpu=501m, used: cpu=1500m, limited: cpu=2"
        )
        assert "used: secrets=1" in await refusal(store, "secrets", {"metadata": {"name": "t"}})
        await store.create("pods", pod("q", {"requests": {"cpu": "500m"}}))


async def test_changed_quota_is_in_force_at_once() -> None:
    async with open_store() as store:
        await store.create("configmaps", config_map("a"))
        quota = await add_quota(store, {"configmaps": "1"})
        assert await refusal(store, "configmaps", config_map("b"))
        quota["spec"]["hard"] = {"configmaps": "2"}
        await store.replace("resourcequotas", quota)
        await store.create("configmaps", config_map("b"))
        assert await refusal(store, "configmaps", config_map("c"))
        await store.delete("resourcequotas", "q")
        await store.create("configmaps", config_map("c"))


async def test_updates_are_charged_the_difference() -> None:
    async with open_store() as store:
        await add_quota(store, {"services.nodeports": "3", "services.loadbalancers": "0", "services": "1"})
        made = await store.create("services", service("s", 2))
        made["spec"]["type"] = "NodePort"
        made = await store.replace("services", made)
        made["spec"]["ports"] = [{"name": f"p{one}", "port": one} for one in range(1, 5)]
        with pytest.raises(
            Refused, match=r"requested: services.nodeports=2, used: services.nodeports=2, limi"
        ):
            await store.replace("services", made)
        made["spec"]["ports"] = made["spec"]["ports"][:3]
        made = await store.replace("services", made)
        made["spec"]["type"] = "LoadBalancer"
        with pytest.raises(Refused, match=r"exceeded quota: q, requested: services.loadbalancers=1, used"):
            await store.replace("services", made)
        made["spec"]["type"] = "ClusterIP"
        await store.replace("services", made)


async def test_claims_are_limited_in_all_and_by_class() -> None:
    async with open_store() as store:
        await add_quota(
            store,
            {
                "requests.storage": "10Gi",
                "gold.storageclass.storage.cluster.io/requests.storage": "5Gi",
                "gold.storageclass.storage.cluster.io/persistentvolumeclaims": "2",
            },
        )
        await store.create("persistentvolumeclaims", claim("a", "3Gi", storageClassName="gold"))
        name = "gold.storageclass.storage.cluster.io/requests.storage"
        large = claim("b", "3Gi", storageClassName="gold")
        assert await refusal(store, "persistentvolumeclaims", large) == (
            f"exceeded quota: q, requested: {name}=3Gi, used: {name}=3Gi, limited: {name}=5Gi"
        )
        await store.create("persistentvolumeclaims", claim("b", "3Gi", storageClassName="tin"))
        assert "used: requests.storage=6Gi" in await refusal(
            store, "persistentvolumeclaims", claim("c", "5Gi")
        )


async def test_large_namespace_is_counted_in_a_thread() -> None:
    async with open_store() as store:
        for number in range(70):
            await store.create("pods", pod(f"p{number}"))
        await add_quota(store, {"pods": "72"})
        results: list[bool] = []

        async def create(name: str) -> None:
            results.append(await refusal(store, "pods", pod(name)) == "")

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(create, f"q{number}")
        assert sorted(results) == [False, False, False, True, True]
        assert "used: pods=72" in await refusal(store, "pods", pod("z"))


@pytest.mark.parametrize(
    ("scopes", "counted", "others"),
    [
        (["Terminating"], {"activeDeadlineSeconds": 5}, {}),
        (["NotTerminating"], {}, {"activeDeadlineSeconds": 5}),
        ([("PriorityClass", "In", ["high"])], {"priorityClassName": "high"}, {}),
        ([("PriorityClass", "NotIn", ["high"])], {}, {"priorityClassName": "high"}),
        ([("PriorityClass", "Exists", [])], {"priorityClassName": "high"}, {}),
        ([("PriorityClass", "DoesNotExist", [])], {}, {"priorityClassName": "high"}),
        (
            ["CrossNamespacePodAffinity"],
            {"affinity": {"podAffinity": {"required": [{"topologyKey": "a", "namespaces": ["x"]}]}}},
            {"affinity": {"podAffinity": {"required": [{"topologyKey": "a"}]}}},
        ),
        (["NotBestEffort"], {"containers": [{"requests": {"memory": "1"}}]}, {}),
        (["BestEffort"], {}, {"containers": [{"requests": {"memory": "1"}}]}),
    ],
)
async def test_scopes_select_pods(scopes: list[Any], counted: dict[str, Any], others: dict[str, Any]) -> None:
    async with open_store() as store:
        await store.create("priorityclasses", {"metadata": {"name": "high"}, "value": 5})
        plain = [one for one in scopes if isinstance(one, str)]
        expressions = [
            {"scopeName": scope, "operator": operator, **({"values": values} if values else {})}
            for scope, operator, values in (one for one in scopes if not isinstance(one, str))
        ]
        # Otherwise a container in `default` gets a CPU request.
        await store.create("limitranges", {"metadata": {"name": "l"}, "spec": {"limits": []}})
        await add_quota(store, {"pods": "0"}, scopes=plain, scopeSelector={"matchExpressions": expressions})
        assert "exceeded quota: q" in await refusal(store, "pods", _pod(counted))
        assert await refusal(store, "pods", _pod(others)) == ""


def _pod(spec: dict[str, Any]) -> dict[str, Any]:
    spec = dict(spec)
    made = pod("p", *spec.pop("containers", ()), **spec)
    affinity = made["spec"].get("affinity", {}).get("podAffinity", {})
    if affinity:
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": affinity["required"]}
        made["spec"]["affinity"] = {"podAffinity": terms}
    return made


async def test_other_namespaces_are_not_limited() -> None:
    async with open_store() as store:
        await add_quota(store, {"configmaps": "0"})
        await store.create("configmaps", config_map("a"), "cluster-public")


async def test_quotas_count_themselves() -> None:
    async with open_store() as store:
        await add_quota(store, {"resourcequotas": "1"})
        second = {"metadata": {"name": "r"}, "spec": {"hard": {}}}
        assert await refusal(store, "resourcequotas", second) == (
            "exceeded quota: q, requested: resourcequotas=1, used: resourcequotas=1, limited: resourcequotas=1"
        )
