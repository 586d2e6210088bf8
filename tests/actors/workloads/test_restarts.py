"""A server that is killed before any of its writes and restarted reaches the same end state as one that was not.

All controllers, the scheduler and simulated nodes run; a Deployment rolls out, a StatefulSet with claims and a
DaemonSet start, a Job ends, a Service has endpoints.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from rewound.actors.errors import AlreadyExists
from rewound.actors.messages import Object
from rewound.actors.nodes.simulator import NAME, SimulatedNodes
from rewound.actors.scheduler.scheduler import Scheduler
from rewound.gateway.settings.settings import CONTROLLERS, WORKLOAD_CONTROLLERS
from tests.actors.workloads.bench import Bench, open_bench, pod_template

LABELS = {"app": "web"}
# The rest need more than a bench has: tokens, certificates, metrics.
CHOSEN = {
    "attachdetach", "daemonset", "deployment", "endpoint", "endpointslice", "garbagecollector", "job", "namespace",
    "nodelifecycle", "persistentvolume-binder", "podgc", "replicaset", "statefulset",
}  # fmt: skip
MORE = ((NAME, partial(SimulatedNodes, count=3)), (Scheduler.name, Scheduler))
WRITES = 200  # at least this many commands are needed


def workload(name: str, **spec: Any) -> Object:
    labels = {"app": name}
    selected = {"selector": {"matchLabels": labels}, "template": pod_template(labels)}
    return {"metadata": {"name": name}, "spec": {**selected, **spec}}


def objects() -> Iterator[tuple[str, Object]]:
    ports = [{"port": 80, "protocol": "TCP"}]
    yield "services", {"metadata": {"name": "web"}, "spec": {"selector": LABELS, "ports": ports}}
    yield (
        "storageclasses.storage.k8s.io",
        {
            "metadata": {"name": "simulated"},
            "provisioner": "sim",
        },
    )
    yield "deployments.apps", workload("web", replicas=3)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    template = {"metadata": {"name": "data"}, "spec": {**claim, "storageClassName": "simulated"}}
    yield "statefulsets.apps", workload("db", replicas=2, serviceName="db", volumeClaimTemplates=[template])
    yield "daemonsets.apps", workload("agent")
    job = {**pod_template({"app": "job"}, phase="Succeeded")}
    job["spec"]["restartPolicy"] = "Never"
    yield "jobs.batch", {"metadata": {"name": "once"}, "spec": {"completions": 2, "template": job}}


async def tell(bench: Bench) -> None:
    """The user's actions: create everything, wait, then roll out another image. Skips what is already done."""
    for type_name, new in objects():
        try:
            await bench.create(type_name, new)
        except AlreadyExists:
            pass
    await bench.rest(30)
    patch = {"spec": {"template": pod_template(LABELS, "web:2")}}
    await bench.patch("deployments.apps", "web", patch)
    await bench.rest(60)


def world(bench: Bench) -> dict[str, Any]:
    """The end state, without names and times that are random or depend on the kill."""
    pods = sorted(
        (
            owner_of(pod),
            pod["spec"]["containers"][0]["image"],
            pod["status"]["phase"],
            "nodeName" in pod["spec"],
            sorted(one["type"] for one in pod["status"]["conditions"] if one["status"] == "True"),
        )
        for pod in bench.all("pods")
    )
    deployment, stateful = bench.get("deployments.apps", "web"), bench.get("statefulsets.apps", "db")
    counted = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "observedGeneration")
    return {
        "pods": pods,
        "deployment": {part: deployment["status"].get(part) for part in counted},
        "sets": {one["metadata"]["name"]: one["spec"]["replicas"] for one in bench.all("replicasets.apps")},
        "stateful": {part: stateful["status"].get(part) for part in counted},
        "revisions": bench.names("controllerrevisions.apps"),
        "claims": [
            (one["metadata"]["name"], one["status"]["phase"]) for one in bench.all("persistentvolumeclaims")
        ],
        "volumes": len(bench.names("persistentvolumes", None)),
        "daemons": bench.get("daemonsets.apps", "agent")["status"]["numberReady"],
        "job": {
            part: bench.get("jobs.batch", "once")["status"].get(part) for part in ("succeeded", "failed")
        },
        "addresses": [
            len(subset["addresses"]) for subset in bench.get("endpoints", "web").get("subsets") or ()
        ],
        "endpoints": [len(one["endpoints"]) for one in bench.all("endpointslices.discovery.k8s.io")],
    }


def owner_of(pod: Object) -> str:
    [reference] = pod["metadata"]["ownerReferences"]
    return f"{reference['kind']}/{reference['name']}"


def cluster(path: Path) -> Any:
    return open_bench(path, *sorted(CHOSEN), pods_run=False, more=MORE)


async def run_killed(path: Path, stop: int) -> tuple[bool, dict[str, Any]]:
    """The end state after a kill before the command with this number, and whether there was such a command."""
    async with cluster(path) as bench:
        bench.kill_before(stop, "")
        await tell(bench)
        return False, world(bench)
    async with cluster(path) as bench:
        await tell(bench)
        return True, world(bench)


async def test_world_without_a_kill(tmp_path: Path, autojump_clock: MockClock) -> None:
    assert {*CONTROLLERS, *WORKLOAD_CONTROLLERS} >= CHOSEN
    killed, made = await run_killed(tmp_path, 10_000)
    assert not killed
    assert [one[:3] for one in made["pods"] if one[0].startswith("ReplicaSet")] == [
        (f"ReplicaSet/{name}", "web:2", "Running")
        for name, count in made["sets"].items()
        for _ in range(count)
    ]
    assert made["deployment"] == {
        "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, "availableReplicas": 3, "observedGeneration": 2,
    }  # fmt: skip
    assert made["claims"] == [("data-db-0", "Bound"), ("data-db-1", "Bound")] and made["volumes"] == 2
    assert made["daemons"] == 3 and made["job"] == {"succeeded": 2, "failed": None}
    assert made["addresses"] == [3] and made["endpoints"] == [3]


SOME = [7, 41, 83, 131]
ALL = [pytest.param(stop, marks=pytest.mark.slow) for stop in range(1, 260) if stop not in SOME]


@pytest.mark.parametrize("stop", [*SOME, *ALL])
async def test_world_after_a_kill(tmp_path: Path, autojump_clock: MockClock, stop: int) -> None:
    expected = await expected_world(tmp_path / "whole")
    killed, made = await run_killed(tmp_path / "killed", stop)
    assert killed or stop > WRITES
    assert made == expected


_EXPECTED: list[dict[str, Any]] = []


async def expected_world(path: Path) -> dict[str, Any]:
    if not _EXPECTED:
        path.mkdir()
        _, made = await run_killed(path, 10_000)
        _EXPECTED.append(made)
    return _EXPECTED[0]
