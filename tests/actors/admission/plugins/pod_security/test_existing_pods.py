"""When a namespace gets a stricter level: which of its pods are evaluated, and how the warnings group them."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from rewound.actors.admission.plugins.pod_security import plugins as existing_pods
from rewound.actors.admission.plugins.pod_security.plugins import PodSecurityOfExistingPods
from rewound.actors.admission.plugins.pod_security.policy import (
    PodSecurityConfiguration,
    Policy,
    PolicyLabels,
)
from rewound.actors.admission.plugins.pod_security.standards import Standards
from rewound.actors.admission.request import UPDATE, AdmissionRequest
from rewound.actors.names import CLUSTER
from tests.actors.object_store import Store, open_store

HEADING = 'existing pods in namespace "default" violate the new PodSecurity enforce level "baseline:latest"'
HOST = {"hostNetwork": True}
CONFIGURATION = PodSecurityConfiguration(
    exempt_namespaces=frozenset({"exempt"}), exempt_runtime_classes=frozenset({"sandboxed"})
)


def namespace(level: str) -> dict[str, Any]:
    return {"metadata": {"name": "default", "labels": {"pod-security.cluster.io/enforce": level}}}


def tightening(store: Store, name: str = "default") -> AdmissionRequest:
    new, old = namespace("baseline"), namespace("privileged")
    return AdmissionRequest(UPDATE, store.definition("namespaces"), "", name, "", new, old, "user", False)


def plugin(store: Store, limit: int = existing_pods.MAX_PODS) -> PodSecurityOfExistingPods:
    labels = PolicyLabels(CLUSTER, Policy())
    return PodSecurityOfExistingPods(store.journal, labels, Standards(CLUSTER), CONFIGURATION, limit)


async def add_pod(store: Store, name: str, controller: str = "", **spec: Any) -> None:
    metadata: dict[str, Any] = {"name": name}
    if controller:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": controller, "uid": controller}
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    containers = [{"name": "c", "image": "i"}]
    await store.create("pods", {"metadata": metadata, "spec": {"containers": containers, **spec}})


async def warnings(store: Store, limit: int = existing_pods.MAX_PODS) -> list[str]:
    return list((await plugin(store, limit).admit(tightening(store))).warnings)


async def test_pods_with_the_same_reasons_share_a_warning() -> None:
    async with open_store() as store:
        await add_pod(store, "good")
        assert await warnings(store) == []
        for name in ("c", "b", "d"):
            await add_pod(store, name, **HOST)
        for name in ("f", "e"):
            await add_pod(
                store,
                name,
                hostPID=True,
                containers=[{"name": "c", "image": "i", "securityContext": {"privileged": True}}],
            )
        await add_pod(store, "a", hostIPC=True, volumes=[{"name": "v", "hostPath": {"path": "/"}}])
        await store.create("runtimeclasses", {"metadata": {"name": "sandboxed"}, "handler": "h"})
        await add_pod(store, "z", **HOST, runtimeClassName="sandboxed")
        assert await warnings(store) == [
            HEADING,
            "a: host namespaces, hostPath volumes",
            "b (and 2 other pods): host namespaces",
            "e (and 1 other pod): host namespaces, privileged",
        ]


async def test_past_the_limit_one_pod_of_each_controller_comes_first() -> None:
    async with open_store() as store:
        for name, controller in (("a", "x"), ("b", "x"), ("c", "x"), ("d", "y"), ("e", "")):
            await add_pod(store, name, controller, **HOST)
        only = "new PodSecurity enforce level only checked against the first 3 of 5 existing pods"
        # a of x, d of y, and e, which has no controller.
        assert await warnings(store, 3) == [only, HEADING, "a (and 2 other pods): host namespaces"]
        assert await warnings(store, 5) == [HEADING, "a (and 4 other pods): host namespaces"]


async def test_evaluation_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(existing_pods, "MAX_SECONDS", 0.0)
    async with open_store() as store:
        for name in ("a", "b"):
            await add_pod(store, name, **HOST)
        only = "new PodSecurity enforce level only checked against the first 1 of 2 existing pods"
        assert await warnings(store) == [only, HEADING, "a: host namespaces"]


async def test_work_runs_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every turn ends after one pod: other tasks run in between."""
    monkeypatch.setattr("rewound.actors.runtime.turns.TURN", 0.0)
    async with open_store() as store, trio.open_nursery() as nursery:
        for name in "abcdefgh":
            await add_pod(store, name, **HOST)
        ran = 0

        async def count() -> None:
            nonlocal ran
            while True:
                await trio.lowlevel.checkpoint()
                ran += 1

        nursery.start_soon(count)
        assert await warnings(store) == [HEADING, "a (and 7 other pods): host namespaces"]
        nursery.cancel_scope.cancel()
    assert ran >= 8


async def test_large_pods_are_evaluated_too() -> None:
    async with open_store() as store:
        command = ["x" * 1000] * 70
        await add_pod(store, "a", **HOST, containers=[{"name": "c", "image": "i", "command": command}])
        assert await warnings(store) == [HEADING, "a: host namespaces"]


async def test_only_stricter_levels_of_namespaces_that_are_not_exempt_need_it() -> None:
    async with open_store() as store:
        subject = plugin(store)
        assert subject.concerns(tightening(store))
        assert not subject.concerns(tightening(store, "exempt"))
        relaxed = tightening(store)
        relaxed.object, relaxed.old = relaxed.old, relaxed.object
        assert not subject.concerns(relaxed)
        unchanged = tightening(store)
        unchanged.object = unchanged.old
        assert not subject.concerns(unchanged)
