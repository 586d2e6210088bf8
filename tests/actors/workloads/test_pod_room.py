"""A server that is short of memory creates no more pods for namespaces with many, but still does for others."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.workloads import pod_room
from tests.actors.workloads.bench import Bench, open_bench, pod_template

LABELS = {"app": "web"}


async def create_set(bench: Bench, namespace: str, replicas: int) -> None:
    selected = {"selector": {"matchLabels": LABELS}, "template": pod_template(LABELS)}
    new = {"metadata": {"name": "web"}, "spec": {"replicas": replicas, **selected}}
    await bench.create("replicasets.apps", new, namespace)


async def test_pods_wait_for_memory_where_there_are_many(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_room, "MANY", 3)
    async with open_bench(tmp_path, "replicaset") as bench:
        await bench.create("namespaces", {"metadata": {"name": "other"}})
        bench.is_short_of_memory = True
        await create_set(bench, "default", 10)
        await create_set(bench, "other", 2)
        await bench.rest()
        assert len(bench.names("pods", "other")) == 2
        assert len(bench.names("pods")) == 3
        status = bench.get("replicasets.apps", "web")["status"]
        (condition,) = status["conditions"]
        assert condition["reason"] == "FailedCreate" and "short of memory" in condition["message"]
        assert "larger --memory-limit" in bench.events("web")[-1][1]
        bench.is_short_of_memory = False
        await bench.rest(60)
        assert len(bench.names("pods")) == 10
