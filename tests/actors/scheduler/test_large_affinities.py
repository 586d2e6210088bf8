"""The scheduler and a simulated node compile thousands of terms of a pod in steps."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from rewound.actors.messages import Object
from rewound.actors.nodes.simulator import NAME, SimulatedNodes
from rewound.actors.scheduler.scheduler import Scheduler
from tests.actors.workloads.bench import open_bench
from tests.counted_steps import counted_steps

TERMS = 6000
LONGEST = (
    150_000  # lines of Python; comparing these terms with one node takes 97,000, and compiling them 235,000
)
MORE = ((NAME, partial(SimulatedNodes, count=3)), (Scheduler.name, Scheduler))
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node_terms(count: int) -> Object:
    terms = [{"matchExpressions": [{"key": f"k{n}", "operator": "DoesNotExist"}]} for n in range(count)]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def preferred_node_terms(count: int) -> Object:
    terms = [
        {"weight": 1, "preference": {"matchExpressions": [{"key": f"k{n}", "operator": "Exists"}]}}
        for n in range(count)
    ]
    return {"nodeAffinity": {PREFERRED: terms}}


@pytest.mark.parametrize("make", [node_terms, preferred_node_terms])
async def test_no_step_grows_with_the_terms_of_a_pod(
    tmp_path: Path, autojump_clock: MockClock, make: Any
) -> None:
    def new(name: str, count: int) -> Object:
        spec = {"containers": [{"name": "c", "image": "i"}], "affinity": make(count)}
        return {"metadata": {"name": name}, "spec": spec}

    def runs(name: str) -> bool:
        return bool(bench.get("pods", name)["status"].get("phase") == "Running")

    async with open_bench(tmp_path, "nodelifecycle", more=MORE, pods_run=False) as bench:
        await bench.create("pods", new("small", 1))
        await bench.until(lambda: runs("small"))
        with counted_steps() as steps:
            await bench.create("pods", new("large", TERMS))
            await bench.until(lambda: runs("large"))
        assert steps.longest.lines < LONGEST, steps.longest
