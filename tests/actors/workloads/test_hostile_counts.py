"""Whatever number a user writes into an object, controllers do bounded work for it, and other users are served."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.messages import Object
from rewound.actors.nodes.simulator import NAME, SimulatedNodes
from rewound.actors.scheduler.scheduler import Scheduler
from tests.actors.workloads.bench import Bench, open_bench, pod_template

LARGEST = 2**31 - 1
ENOUGH = 3000  # pods: several passes of every controller
NOWHERE = {"nodeSelector": {"nowhere": "true"}}  # hostile pods leave room on the nodes
CONTROLLERS = (
    "deployment", "disruption", "endpoint", "endpointslice", "garbagecollector", "job", "nodelifecycle", "replicaset",
    "replicationcontroller", "statefulset",
)  # fmt: skip
MORE = ((NAME, partial(SimulatedNodes, count=1)), (Scheduler.name, Scheduler))


def workload(name: str, labels: dict[str, str], **spec: Any) -> Object:
    template = pod_template(labels)
    template["spec"] |= NOWHERE
    selected = {"selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": {**selected, **spec}}


def hostile(kind: str) -> tuple[str, Object]:
    labels = {"app": "hostile"}
    new = partial(workload, "hostile", labels)
    job = workload("hostile", labels, parallelism=LARGEST)
    del job["spec"]["selector"]
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    controller = new(replicas=LARGEST)
    controller["spec"]["selector"] = labels
    surge = {"rollingUpdate": {"maxSurge": LARGEST, "maxUnavailable": LARGEST}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    templates = [{"metadata": {"name": "data"}, "spec": claim}]
    indexed = {"completionMode": "Indexed", "completions": LARGEST, "parallelism": 100_000}
    return {
        "ordered StatefulSet": ("statefulsets.apps", new(replicas=LARGEST)),
        "parallel StatefulSet": (
            "statefulsets.apps",
            new(replicas=LARGEST, podManagementPolicy="Parallel"),
        ),
        "StatefulSet with claims": (
            "statefulsets.apps",
            new(replicas=LARGEST, podManagementPolicy="Parallel", volumeClaimTemplates=templates),
        ),
        "partition": (
            "statefulsets.apps",
            new(replicas=1, updateStrategy={"rollingUpdate": {"partition": LARGEST}}),
        ),
        "ReplicaSet": ("replicasets.apps", new(replicas=LARGEST)),
        "ReplicationController": ("replicationcontrollers", controller),
        "Deployment": ("deployments.apps", new(replicas=LARGEST, strategy=surge)),
        "Job": ("jobs.batch", job),
        "Indexed Job": ("jobs.batch", {**job, "spec": {**job["spec"], **indexed}}),
    }[kind]


async def until_ready(bench: Bench, namespace: str) -> None:
    """Wait until the Deployment of the namespace has all its pods; the time limit of tests bounds it."""
    while True:
        found = bench.find("deployments.apps", "web", namespace)
        if found is not None and found["status"].get("availableReplicas") == 3:
            return
        await trio.sleep(0.01)


def pods_in(bench: Bench, namespace: str) -> int:
    with bench.journal.read() as view:
        return view.count(bench.journal.type_id("pods"), namespace)


def neighbour(name: str) -> Object:
    labels = {"app": "web"}
    template = pod_template(labels)
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


KINDS = ("ordered StatefulSet", "parallel StatefulSet", "ReplicaSet", "Indexed Job")
SLOW = ("StatefulSet with claims", "partition", "ReplicationController", "Deployment", "Job")


@pytest.mark.parametrize("kind", [*KINDS, *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)])
async def test_neighbour_is_served_beside_hostile_object_and_after_a_restart(
    tmp_path: Path, autojump_clock: MockClock, kind: str
) -> None:
    autojump_clock.rate = 1.0  # time also passes while controllers never rest
    async with open_bench(tmp_path, *CONTROLLERS, pods_run=False, more=MORE, rests=False) as bench:
        for name in ("hostile", "first", "second"):
            await bench.create("namespaces", {"metadata": {"name": name}})
        type_name, new = hostile(kind)
        await bench.create(type_name, new, "hostile")
        await bench.create("deployments.apps", neighbour("web"), "first")
        await until_ready(bench, "first")
        made = pods_in(bench, "hostile")
        assert 1 <= made < ENOUGH
    async with open_bench(tmp_path, *CONTROLLERS, pods_run=False, more=MORE, rests=False) as bench:
        await bench.create("deployments.apps", neighbour("web"), "second")
        await until_ready(bench, "second")
        assert pods_in(bench, "hostile") < 2 * ENOUGH


async def test_pods_of_many_budgets_and_services_are_counted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """More pods than a listener visits for each change of a pod."""
    async with open_bench(tmp_path, "disruption", "endpoint", "replicaset") as bench:
        labels = {"app": "web"}
        for number in range(30):
            spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
            await bench.create(
                "poddisruptionbudgets.policy", {"metadata": {"name": f"b{number}"}, "spec": spec}
            )
            service = {"selector": labels, "ports": [{"port": 80}]}
            await bench.create("services", {"metadata": {"name": f"s{number}"}, "spec": service})
        await bench.create("replicasets.apps", workload("web", labels, replicas=3))
        await bench.rest(60)
        for number in range(30):
            status = bench.get("poddisruptionbudgets.policy", f"b{number}")["status"]
            assert (status["currentHealthy"], status["disruptionsAllowed"]) == (3, 2)
        pod = bench.names("pods")[0]
        await bench.patch("pods", pod, {"metadata": {"labels": {"app": "other"}}})
        await bench.rest(60)
        statuses = [one["status"] for one in bench.all("poddisruptionbudgets.policy")]
        # The ReplicaSet has made another one for it.
        assert {one["expectedPods"] for one in statuses} == {3}
        assert len(bench.names("pods")) == 4
