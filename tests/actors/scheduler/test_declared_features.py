"""Pods that need a feature of their kubelet wait for a node that declares it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.actors.errors import Forbidden
from rewound.actors.kinds.core.declared_features import declared_by_kubelet
from rewound.actors.messages import Object
from rewound.actors.nodes.simulator import SimulatedNodes
from rewound.actors.scheduler.scheduler import Scheduler
from rewound.actors.versions.features import choose_release
from tests.actors.scheduler.scheduling import add_nodes, assigned, node, open_scheduling, pod, refusal
from tests.actors.workloads.bench import open_bench

NEWEST = choose_release("1.36")
NOT_DECLARED = "node(s) didn't match Pod's required features"


def restarting(name: str) -> Object:
    """A pod of which all containers restart when one ends with code 3."""
    one = pod(name)
    container = one["spec"]["containers"][0]
    exits = {"operator": "In", "values": [3]}
    container["restartPolicy"] = "Never"
    container["restartPolicyRules"] = [{"action": "RestartAllContainers", "exitCodes": exits}]
    return one


async def test_pod_waits_for_a_node_that_declares_what_it_needs(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_scheduling(tmp_path, release=NEWEST) as bench:
        await add_nodes(bench, node("a"), node("b"))
        await bench.create("pods", pod("plain"))
        await bench.create("pods", restarting("restarting"))
        await bench.rest(2)
        assert assigned(bench)["plain"] in ("a", "b")
        assert refusal(bench, "restarting").startswith(f"0/2 nodes are available: 2 {NOT_DECLARED}. ")
        declared = {"status": {"declaredFeatures": ["RestartAllContainersOnContainerExits"]}}
        await bench.patch("nodes", "b", declared, "status")
        await bench.rest(2)
        assert assigned(bench)["restarting"] == "b"


async def test_without_the_gate_any_node_does(tmp_path: Path, autojump_clock: object) -> None:
    release = choose_release("1.36", "NodeDeclaredFeatures=false")
    async with open_scheduling(tmp_path, release=release) as bench:
        await add_nodes(bench, node("a"))
        await bench.create("pods", restarting("restarting"))
        await bench.rest(2)
        assert assigned(bench) == {"restarting": "a"}


def test_kubelets_declare_by_version() -> None:
    assert declared_by_kubelet(NEWEST.features) == [
        "ExtendWebSocketsToKubelet",
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScalingInitContainers",
        "RestartAllContainersOnContainerExits",
    ]
    assert declared_by_kubelet(choose_release("1.35").features) == []
    early = choose_release("1.35", "NodeDeclaredFeatures=true")
    assert declared_by_kubelet(early.features) == ["GuaranteedQoSPodCPUResize"]


async def test_pods_change_only_as_their_node_declares(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path, release=NEWEST) as bench:
        await add_nodes(bench, node("a"))
        setup = {"name": "setup", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}
        whole = {"requests": {"cpu": "2"}}
        await bench.create("pods", pod("web", initContainers=[setup], resources=whole))
        await bench.rest(2)

        async def resize(spec: Object) -> None:
            await bench.client.patch(
                bench.catalog.storage("pods"), "default", "web", {"spec": spec}, "strategic", "resize"
            )

        larger = {**setup, "resources": {"requests": {"cpu": "1500m"}}}
        with pytest.raises(Forbidden) as refused:
            await resize({"initContainers": [larger], "resources": {"requests": {"cpu": "3"}}})
        assert str(refused.value) == (
            'pods "web" is forbidden: pod update requires features InPlacePodLevelResourcesVerticalScaling, '
            'InPlacePodVerticalScalingInitContainers which are not available on node "a"'
        )
        declared = {"status": {"declaredFeatures": ["InPlacePodVerticalScalingInitContainers"]}}
        await bench.patch("nodes", "a", declared, "status")
        with pytest.raises(Forbidden, match="features InPlacePodLevelResourcesVerticalScaling which"):
            await resize({"resources": {"requests": {"cpu": "3"}}})
        await resize({"resources": {"requests": {"cpu": "2000m"}}})  # the same amount
        await resize({"initContainers": [larger]})
        assert bench.get("pods", "web")["spec"]["initContainers"][0]["resources"] == larger["resources"]


async def test_simulated_nodes_declare_what_their_version_has(tmp_path: Path, autojump_clock: object) -> None:
    more = [(Scheduler.name, Scheduler), (SimulatedNodes.name, SimulatedNodes)]
    async with open_bench(tmp_path, "nodelifecycle", more=more, pods_run=False, release=NEWEST) as bench:
        await bench.create("nodes", {"metadata": {"name": "a", "annotations": {"sim/node": "true"}}})
        await bench.create("pods", restarting("restarting"))
        await bench.rest(60)
        assert bench.get("nodes", "a")["status"]["declaredFeatures"] == declared_by_kubelet(NEWEST.features)
        assert assigned(bench) == {"restarting": "a"}
