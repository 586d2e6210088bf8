"""A node under pressure admits fewer pods, and evicts one after the other."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.nodes.pressure import rejection_under_pressure
from tests.actors.nodes.simulated_cluster import bound_to, simulated_cluster
from tests.actors.nodes.test_simulator import annotate, conditions, phase, recorded
from tests.cases import cases


@cases(
    "pressures, requests, rejected",
    [
        ([], {}, False),
        (["MemoryPressure"], {}, True),
        (["MemoryPressure"], {"cpu": "1"}, False),
        (["DiskPressure"], {"cpu": "1"}, True),
    ],
)
def test_pods_are_rejected_under_pressure(pressures: list[str], requests: Object, rejected: bool) -> None:
    node = {"status": {"conditions": [{"type": kind, "status": "True"} for kind in pressures]}}
    pod = {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}
    rejection = rejection_under_pressure(pod, node, KUBERNETES)
    assert (rejection is not None) == rejected
    if rejection is not None:
        assert rejection == ("Evicted", f"The node had condition: [{pressures[0]}]. ")


async def test_node_evicts_until_the_pressure_ends(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        for name, priority in (("low", 1), ("high", 9), ("large", 9)):
            usage = {"sim/memory": "1Gi"} if name == "large" else {}
            await cluster.create(
                "pods", name, content=bound_to("node-0", priority=priority), annotations=usage
            )
        await cluster.wait_until_idle()
        await annotate(cluster, "nodes", "node-0", pressure="memory")
        assert conditions(cluster.get("nodes", "node-0"))["MemoryPressure"] == "True"
        assert [phase(cluster, name) for name in ("large", "low", "high")] == ["Failed", "Running", "Running"]
        await cluster.wait_until_idle(10)
        assert [phase(cluster, name) for name in ("large", "low", "high")] == ["Failed", "Failed", "Running"]
        await annotate(cluster, "nodes", "node-0", pressure=None)
        await cluster.wait_until_idle(30)
        assert conditions(cluster.get("nodes", "node-0"))["MemoryPressure"] == "False"
        assert phase(cluster, "high") == "Running"
        evicted = cluster.get("pods", "low")
        assert evicted is not None and evicted["status"]["reason"] == "Evicted"
        assert {event["message"] for event in recorded(cluster, "Evicted")} == {
            "The node was low on resource: memory. "
        }
