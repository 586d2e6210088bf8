"""A Deployment replaces the pods of one template by those of another, as v1.25 does."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from rewound.actors.messages import Object
from tests.actors.workloads.bench import open_bench, pod_template

DEPLOYMENTS, SETS = "deployments.apps", "replicasets.apps"


def deployment(name: str, replicas: int, image: str = "web:1", **spec: object) -> Object:
    labels = {"app": name}
    template = pod_template(labels, image)
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


async def test_a_deployment_makes_a_replica_set_and_its_pods(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "deployment", "replicaset") as bench:
        await bench.create(DEPLOYMENTS, deployment("web", 3))
        await bench.rest()
        made = bench.get(DEPLOYMENTS, "web")
        assert made["status"]["readyReplicas"] == 3
