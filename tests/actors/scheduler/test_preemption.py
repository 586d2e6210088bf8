"""Preemption: pods of lower priority are evicted, on the node where that costs least."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewound.actors.messages import Object
from rewound.actors.versions.features import choose_release
from tests.actors.scheduler.scheduling import add_nodes, assigned, end, node, open_scheduling, pod, refusal
from tests.actors.workloads.bench import Bench


async def add_classes(bench: Bench) -> None:
    group = "scheduling.k8s.io"
    for name, value in (("high", 1000), ("middle", 500), ("low", 100)):
        await bench.create(f"priorityclasses.{group}", {"metadata": {"name": name}, "value": value})
    await bench.create(
        f"priorityclasses.{group}",
        {"metadata": {"name": "patient"}, "value": 1000, "preemptionPolicy": "Never"},
    )


async def run(bench: Bench, name: str, priority: str, where: str = "", cpu: str = "2", **more: Any) -> None:
    selector = {"nodeSelector": {"kubernetes.io/hostname": where}} if where else {}
    await bench.create("pods", pod(name, cpu=cpu, priorityClassName=priority, **selector, **more))
    await bench.rest()


def terminating(bench: Bench) -> list[str]:
    return [one["metadata"]["name"] for one in bench.all("pods") if "deletionTimestamp" in one["metadata"]]


async def test_the_cheapest_victim_goes(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_classes(bench)
        await add_nodes(bench, node("a", cpu="2"), node("b", cpu="2"))
        await run(bench, "on-a", "middle", "a")
        await run(bench, "on-b", "low", "b")
        await run(bench, "big", "high")
        assert terminating(bench) == ["on-b"]
        big = bench.get("pods", "big")
        assert big["status"]["nominatedNodeName"] == "b"
        assert refusal(bench, "big") == "0/2 nodes are available: 2 Insufficient cpu."
        assert ("Preempted", "Preempted by a pod on node b") in bench.events("on-b")
        await bench.patch("pods", "big", {"metadata": {"labels": {"a": "b"}}})  # it is tried again
        await bench.rest(2)
        assert refusal(bench, "big") == (
            "0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible due to a terminating pod on "
            "the nominated node."
        )
        await end(bench, "on-b")
        await bench.rest(10)
        assert assigned(bench) == {"on-a": "a", "big": "b"}


async def test_as_few_as_possible_go(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_classes(bench)
        await add_nodes(bench, node("a", cpu="4"))
        for name, priority, cpu in (("one", "low", "1"), ("two", "middle", "1"), ("three", "low", "2")):
            await run(bench, name, priority, cpu=cpu)
        await run(bench, "big", "high", cpu="1")
        # More important pods keep their place; among the low ones, the older one.
        assert terminating(bench) == ["three"]


async def test_a_nominated_place_is_kept(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_classes(bench)
        await add_nodes(bench, node("a", cpu="2"))
        await run(bench, "small", "low")
        await run(bench, "big", "high")
        await run(bench, "middle", "middle")
        await end(bench, "small")
        await bench.rest(20)
        assert assigned(bench) == {"big": "a", "middle": ""}


async def test_who_must_not_preempt_waits(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_classes(bench)
        await add_nodes(bench, node("a", cpu="2"))
        await run(bench, "small", "low")
        await run(bench, "big", "patient")
        assert terminating(bench) == []
        assert refusal(bench, "big") == (
            "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
        )


async def test_budgets_are_kept_where_possible(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_classes(bench)
        await add_nodes(bench, node("a", cpu="2"), node("b", cpu="2"))
        await run(bench, "guarded", "low", "a", labels={"app": "guarded"})
        await run(bench, "free", "middle", "b")
        budget: Object = {
            "metadata": {"name": "guard"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
        }
        await bench.create("poddisruptionbudgets.policy", budget)
        await run(bench, "big", "high")
        assert terminating(bench) == ["free"]
        await run(bench, "bigger", "high")
        assert terminating(bench) == ["free", "guarded"]


@pytest.mark.parametrize(
    ("version", "gone"), [("1.28", ["a-free", "a-guarded"]), ("1.29", ["b-free", "b-guarded"])]
)
async def test_the_most_important_victim_of_a_node_counts_since_1_29(
    tmp_path: Path, autojump_clock: object, version: str, gone: list[str]
) -> None:
    """Before, it was the first one that a budget protects."""
    async with open_scheduling(tmp_path, release=choose_release(version)) as bench:
        await add_classes(bench)
        some = {"metadata": {"name": "some"}, "value": 300}
        await bench.create("priorityclasses.scheduling.k8s.io", some)
        await add_nodes(bench, node("a", cpu="2"), node("b", cpu="2"))
        guarded = {"app": "guarded"}
        await run(bench, "a-guarded", "low", "a", "1", labels=guarded)
        await run(bench, "a-free", "middle", "a", "1")
        await run(bench, "b-guarded", "some", "b", "1", labels=guarded)
        await run(bench, "b-free", "low", "b", "1")
        spec = {"minAvailable": 2, "selector": {"matchLabels": guarded}}
        await bench.create("poddisruptionbudgets.policy", {"metadata": {"name": "guard"}, "spec": spec})
        await run(bench, "big", "high")
        assert terminating(bench) == gone


async def test_required_anti_affinity_of_a_nominated_pod_counts(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_classes(bench)
        await add_nodes(bench, node("a", cpu="1"))
        same = {"app": "x"}
        term = {"labelSelector": {"matchLabels": same}, "topologyKey": "kubernetes.io/hostname"}
        alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        await run(bench, "p0", "high", cpu="600m", labels=same)
        await bench.create("pods", pod("a", cpu="400m", labels=same))
        await run(bench, "h", "high", cpu="100m", affinity=alone)
        await bench.create("pods", pod("b", cpu="300m", labels=same))
        await bench.rest(20)
        assert assigned(bench) == {"p0": "a", "a": "a", "h": "", "b": ""}
        await end(bench, "p0")
        await bench.rest(20)
        assert terminating(bench) == ["a"]
        assert bench.get("pods", "h")["status"]["nominatedNodeName"] == "a"
        assert refusal(bench, "b").startswith(
            "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."
        )
        await end(bench, "a")
        await bench.rest(20)
        assert assigned(bench) == {"h": "a", "b": ""}
