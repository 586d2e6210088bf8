"""A bench with the scheduler, and short helpers for nodes and pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.scheduler.configuration import SchedulerConfiguration
from rewound.actors.scheduler.scheduler import Scheduler
from rewound.actors.versions.features import V1_25 as FIRST_RELEASE
from rewound.actors.versions.features import Release
from tests.actors.workloads.bench import Bench, open_bench


@asynccontextmanager
async def open_scheduling(
    path: Path,
    *names: str,
    configuration: SchedulerConfiguration | None = None,
    release: Release = FIRST_RELEASE,
) -> AsyncIterator[Bench]:
    scheduler = partial(Scheduler, configuration=configuration)
    more = [(Scheduler.name, scheduler)]
    async with open_bench(path, *names, pods_run=False, more=more, release=release) as bench:
        yield bench


def node(
    name: str, cpu: str = "4", pods: str = "110", labels: dict[str, str] | None = None, **spec: Any
) -> Object:
    resources = {"cpu": cpu, "memory": "8Gi", "pods": pods}
    hostname = {"kubernetes.io/hostname": name}
    return {
        "metadata": {"name": name, "labels": hostname | (labels or {})},
        "spec": spec,
        "status": {"capacity": resources, "allocatable": resources},
    }


async def add_nodes(bench: Bench, *nodes: Object) -> None:
    """Create ready nodes, without the taint that admission gives new ones."""
    for one in nodes:
        await bench.create("nodes", one)
        await bench.patch("nodes", one["metadata"]["name"], {"spec": {"taints": one["spec"].get("taints")}})


async def end(bench: Bench, name: str) -> None:
    """Delete a terminated pod at once."""
    await bench.client.delete(
        bench.catalog.storage("pods"), "default", name, DeleteOptions(grace_period_seconds=0)
    )


def pod(
    name: str, cpu: str = "", memory: str = "", labels: dict[str, str] | None = None, **spec: Any
) -> Object:
    requests = {kind: amount for kind, amount in (("cpu", cpu), ("memory", memory)) if amount}
    container = {"name": "main", "image": "web:1", "resources": {"requests": requests}}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [container], **spec},
    }


def assigned(bench: Bench) -> dict[str, str]:
    """The nodes of the pods; "" for a pod without one."""
    return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in bench.all("pods")}


def refusal(bench: Bench, name: str) -> str:
    """Why a pod has no node, from its condition."""
    conditions = bench.get("pods", name)["status"]["conditions"]
    found = next(one for one in conditions if one["type"] == "PodScheduled")
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    message: str = found["message"]
    return message


def replica_set(name: str, replicas: int, cpu: str = "") -> Object:
    labels = {"app": name}
    template = pod("", cpu=cpu, labels=labels)
    del template["metadata"]["name"]
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }
