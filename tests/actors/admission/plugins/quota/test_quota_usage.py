"""The usage counted from the feed always equals a new count of the stored objects."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rewound.actors.admission.plugins.quota.accounts import Account, QuotaAccounts
from rewound.actors.admission.plugins.quota.usage import (
    ClaimMeasure,
    PodMeasure,
    measures,
    service_demand,
    texts_of,
)
from rewound.actors.names import CLUSTER, KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.admission.plugins.quota.objects import add_quota, claim, config_map, pod, service
from tests.actors.object_store import Refused, Store, open_store
from tests.cases import cases

Document = dict[str, Any]


def used(account: Account, name: str = "q") -> dict[str, str]:
    names = [quota.name for quota in account.quotas.quotas]
    return texts_of(account.used[names.index(name)])


def account_of(accounts: QuotaAccounts) -> Account:
    account = accounts.account("default")
    assert account is not None
    return account


def recounted(store: Store, accounts: QuotaAccounts) -> list[dict[str, Any]]:
    quotas = accounts.quotas_of("default")
    assert quotas is not None
    return accounts.scan(quotas).used


@pytest.mark.parametrize("seed", range(3))
async def test_usage_equals_a_new_count_after_random_writes(seed: int) -> None:
    choose = random.Random(seed)
    async with open_store() as store:
        accounts = QuotaAccounts(CLUSTER, store.journal, store.feed)
        names = ("cpu", "memory", "requests.cpu", "limits.memory", "pods", "count/pods", "configmaps")
        await add_quota(store, dict.fromkeys((*names, "count/configmaps", "services.nodeports"), "100"), "a")
        await add_quota(store, {"pods": "100", "limits.cpu": "9"}, "b", scopes=["NotBestEffort"])
        await add_quota(store, {"requests.storage": "1Ti", "services": "100", "count/secrets": "2"}, "c")
        accounts.account("default")
        for _ in range(80):
            await _random_write(choose, store)
            kept = account_of(accounts).used
            assert _amounts(kept) == _amounts(recounted(store, accounts))


def _amounts(used: list[dict[str, Any]]) -> list[dict[str, int]]:
    return [{name: amount[0] for name, amount in one.items()} for one in used]


async def _random_write(choose: random.Random, store: Store) -> None:
    name = f"n{choose.randrange(4)}"
    resources = {
        part: {"cpu": f"{choose.randrange(1, 9)}00m", "memory": choose.choice(["1", "3k", "7Ki"])}
        for part in ("requests", "limits")
    }
    resources["requests"] = resources["limits"]
    bodies: dict[str, Document] = {
        "pods": pod(name, resources, resources),
        "configmaps": config_map(name),
        "secrets": config_map(name),
        "services": service(name, choose.randrange(1, 3), type=choose.choice(["NodePort", "ClusterIP"])),
        "persistentvolumeclaims": claim(name, choose.choice(["1500m", "1Gi", "3G"])),
    }
    plural = choose.choice(sorted(bodies))
    try:
        match choose.choice(["create", "delete", "end", "change"]):
            case "delete":
                await store.delete(plural, name, gracePeriodSeconds=0)
            case "end":
                found = await store.get("pods", name)
                found["status"]["phase"] = choose.choice(["Succeeded", "Running", "Failed"])
                await store.replace("pods", found, subresource="status")
            case "change":
                found = await store.get("services", name)
                found["spec"]["type"] = choose.choice(["NodePort", "ClusterIP", "LoadBalancer"])
                await store.replace("services", found)
            case _:
                await store.create(plural, bodies[plural])
    except Refused:
        return


async def test_pod_that_has_ended_is_only_stored() -> None:
    async with open_store() as store:
        accounts = QuotaAccounts(CLUSTER, store.journal, store.feed)
        await add_quota(store, {"cpu": "2", "pods": "2", "count/pods": "2", "memory": "1"})
        made = await store.create("pods", pod("p", {"requests": {"cpu": "1", "memory": "0"}}))
        assert used(account_of(accounts)) == {"count/pods": "1", "cpu": "1", "memory": "0", "pods": "1"}
        made["status"]["phase"] = "Succeeded"
        await store.replace("pods", made, subresource="status")
        assert used(account_of(accounts)) == {"count/pods": "1", "cpu": "0", "memory": "0", "pods": "0"}


async def test_pod_that_stays_deleted_counts_until_its_grace_period_has_passed_again() -> None:
    async with open_store() as store:
        accounts = QuotaAccounts(CLUSTER, store.journal, store.feed)
        await add_quota(store, {"pods": "2"})
        made = await store.create("pods", pod("p", nodeName="n"))
        await store.delete("pods", made["metadata"]["name"])
        account = account_of(accounts)
        account.end(store.clock.now() + 60_000_000)
        assert used(account) == {"pods": "1"}
        account.end(store.clock.now() + 61_000_000)
        assert used(account) == {"pods": "0"}
        assert account.next_end is None


def test_usage_of_a_pod() -> None:
    container = {
        "requests": {
            "cpu": "1",
            "memory": "1Gi",
            "ephemeral-storage": "1k",
            "hugepages-2Mi": "4Mi",
            "example.com/card": "1",
        },
        "limits": {"cpu": "2", "hugepages-2Mi": "4Mi", "example.com/card": "1"},
    }
    init = [{"name": "i", "image": "i", "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}}]
    body = pod("p", container, container, initContainers=init, overhead={"cpu": "250m", "memory": "1Mi"})
    body["status"] = {}
    measure = PodMeasure("cluster.io/")
    usage = texts_of(measure.demand(body).usage)
    assert usage == {
        "count/pods": "1",
        "cpu": "3250m",
        "ephemeral-storage": "2k",
        "hugepages-2Mi": "8Mi",
        "limits.cpu": "4250m",
        "limits.memory": "1Mi",
        "memory": "2049Mi",
        "pods": "1",
        "requests.cpu": "3250m",
        "requests.ephemeral-storage": "2k",
        "requests.example.com/card": "2",
        "requests.hugepages-2Mi": "8Mi",
        "requests.memory": "2049Mi",
    }
    assert all(measure.covers(name) for name in usage)
    assert not any(map(measure.covers, ("configmaps", "example.com/card", "requests.storage")))


@cases(
    ("spec", "ports", "balancers"),
    [
        ({"type": "ClusterIP"}, "0", "0"),
        ({"type": "NodePort"}, "2", "0"),
        ({"type": "LoadBalancer"}, "2", "1"),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, "0", "1"),
    ],
)
def test_usage_of_a_service(spec: Document, ports: str, balancers: str) -> None:
    usage = texts_of(service_demand(service("s", 2, **spec)).usage)
    assert usage == {
        "count/services": "1",
        "services": "1",
        "services.loadbalancers": balancers,
        "services.nodeports": ports,
    }


def test_usage_of_a_claim() -> None:
    body = claim("c", "1500m", storageClassName="gold")
    body["status"] = {"allocatedResources": {"storage": "3Gi"}}
    gold = "gold.storageclass.storage.k8s.io/"
    plain = ClaimMeasure(KUBERNETES, expansion_recovery=False)
    usage = texts_of(plain.demand(body).usage)
    assert usage == {
        "count/persistentvolumeclaims": "1",
        f"{gold}persistentvolumeclaims": "1",
        f"{gold}requests.storage": "2",
        "persistentvolumeclaims": "1",
        "requests.storage": "2",
    }
    assert all(plain.covers(name) for name in usage)
    recovering = ClaimMeasure(KUBERNETES, expansion_recovery=True)
    assert texts_of(recovering.demand(body).usage)["requests.storage"] == "3Gi"
    body["spec"]["resources"]["requests"]["storage"] = "4Gi"
    assert texts_of(recovering.demand(body).usage)["requests.storage"] == "4Gi"
    body["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": "tin"}
    assert "tin.storageclass.storage.k8s.io/requests.storage" in plain.demand(body).usage


async def test_names_that_no_kind_has_are_not_used() -> None:
    async with open_store() as store:
        accounts = QuotaAccounts(CLUSTER, store.journal, store.feed)
        hard = (
            "count/nothing",
            "count/events",
            "example.com/card",
            "count/deployments.apps",
            "requests.a.b/c",
        )
        await add_quota(store, dict.fromkeys(hard, "1"))
        assert used(account_of(accounts)) == {"count/deployments.apps": "0", "requests.a.b/c": "0"}


async def test_reservation_outlives_a_change_of_the_quota() -> None:
    async with open_store() as store:
        accounts = QuotaAccounts(CLUSTER, store.journal, store.feed)
        quota = await add_quota(store, {"pods": "1"})
        demand = PodMeasure("cluster.io/").demand({**pod(), "status": {}})
        first = account_of(accounts)
        release = accounts.reserve(first, demand, first.quotas.charges(demand))
        quota["spec"]["hard"] = {"pods": "1", "count/pods": "1"}
        await store.replace("resourcequotas", quota)
        second = account_of(accounts)
        exceeded = second.exceeded(second.quotas.charges(demand))
        assert second is not first
        assert exceeded is not None
        assert texts_of(exceeded.used) == {"count/pods": "1", "pods": "1"}
        release(True)
        assert second.exceeded(second.quotas.charges(demand)) is None


def test_claims_of_devices_count_what_they_can_get_at_most() -> None:
    newest = choose_release("1.36").features
    measure = next(one for one in measures(KUBERNETES, newest) if one.resource.plural == "resourceclaims")
    assert measure.covers("gpu.deviceclass.resource.k8s.io/devices") and not measure.covers("pods")
    few = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    every = {"deviceClassName": "nic", "allocationMode": "All"}
    requests = [
        {"name": "a", "exactly": few},
        {"name": "b", "firstAvailable": [few, {**few, "count": 5}, every]},
        {"name": "c"},  # of a later version
    ]
    usage = measure.demand({"metadata": {}, "spec": {"devices": {"requests": requests}}}).usage
    assert texts_of(usage) == {
        "count/resourceclaims.resource.k8s.io": "1",
        "gpu.deviceclass.resource.k8s.io/devices": "7",
        "nic.deviceclass.resource.k8s.io/devices": "32",
    }
    assert all(one.resource.plural != "resourceclaims" for one in measures(KUBERNETES))
