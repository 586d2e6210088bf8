"""The scheduler end to end: pods get nodes, wait, and are retried when a change may help."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.actors.errors import Conflict
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Command, Object, Submit
from rewound.actors.quantity import NotAQuantity
from rewound.actors.scheduler.nodes import NodeState
from rewound.actors.scheduler.plugins import NodePorts, Prepared, SchedulingContext
from rewound.actors.scheduler.pods import PodFacts, Shapes
from rewound.actors.scheduler.scheduler import Scheduler
from tests.actors.scheduler.scheduling import (
    add_nodes,
    assigned,
    end,
    node,
    open_scheduling,
    pod,
    refusal,
    replica_set,
)


async def test_pods_get_nodes_in_turn(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a"), node("b"))
        for name in ("one", "two", "three", "four"):
            await bench.create("pods", pod(name, cpu="1"))
            await bench.rest()
        assert sorted(assigned(bench).values()) == ["a", "a", "b", "b"]
        assert bench.events("one") == [
            ("Scheduled", f"Successfully assigned default/one to {assigned(bench)['one']}")
        ]
        event = bench.all("events")[0]
        assert event["reportingComponent"] == "default-scheduler"
        assert event["action"] == "Binding"
        conditions = bench.get("pods", "one")["status"]["conditions"]
        assert [(one["type"], one["status"]) for one in conditions] == [("PodScheduled", "True")]


async def test_a_pod_waits_until_there_is_room(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await bench.create("pods", pod("early"))
        await bench.rest()
        assert refusal(bench, "early") == "no nodes available to schedule pods"
        await add_nodes(bench, node("a", cpu="2"))
        await bench.rest(2)
        assert assigned(bench) == {"early": "a"}
        await bench.create("pods", pod("one", cpu="2"))
        await bench.create("pods", pod("two", cpu="1"))
        await bench.rest()
        assert assigned(bench) == {"early": "a", "one": "a", "two": ""}
        assert refusal(bench, "two") == (
            "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod."
        )
        await end(bench, "one")
        await bench.rest(10)
        assert assigned(bench) == {"early": "a", "two": "a"}


async def test_pods_of_a_replica_set_spread_and_survive_a_restart(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_scheduling(tmp_path, "replicaset") as bench:
        await add_nodes(bench, node("a", cpu="2"), node("b", cpu="2"), node("c", cpu="2"))
        await bench.create("replicasets.apps", replica_set("web", 7, cpu="1"))
        await bench.rest()
        nodes = sorted(assigned(bench).values())
        assert nodes == ["", "a", "a", "b", "b", "c", "c"]
    async with open_scheduling(tmp_path, "replicaset") as bench:
        await bench.rest()
        assert sorted(assigned(bench).values()) == nodes
        await add_nodes(bench, node("d"))
        await bench.rest(2)
        assert sorted(assigned(bench).values()) == ["a", "a", "b", "b", "c", "c", "d"]


async def test_a_binding_that_is_refused_is_tried_again(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        refused: list[str] = []

        def refuse(definition: Definition, command: Command) -> None:
            if isinstance(command, Submit) and not refused:
                refused.append(command.name)
                raise Conflict(definition.resource, command.name, "not now")

        bench.directory.before = refuse
        await add_nodes(bench, node("a", cpu="1"))
        await bench.create("pods", pod("p", cpu="1"))
        await bench.rest()
        assert refused == ["p"]
        condition = bench.get("pods", "p")["status"]["conditions"][0]
        assert condition["reason"] == "SchedulerError"
        assert condition["message"].startswith("binding rejected: ")
        await bench.rest(300)
        assert assigned(bench) == {"p": "a"}


async def test_a_pod_that_another_scheduler_assigns_counts(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a", cpu="2"))
        await bench.create("pods", pod("theirs", cpu="2", schedulerName="other"))
        binding = {"metadata": {"name": "theirs"}, "target": {"kind": "Node", "name": "a"}}
        await bench.client.submit(bench.catalog.storage("pods"), "default", "theirs", "binding", binding)
        await bench.create("pods", pod("ours", cpu="1"))
        await bench.rest()
        assert assigned(bench) == {"theirs": "a", "ours": ""}
        await bench.patch("pods", "theirs", {"status": {"phase": "Succeeded"}}, "status")
        await bench.rest(2)
        assert assigned(bench) == {"theirs": "a", "ours": "a"}


async def test_labels_of_a_node_wake_a_pod(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a"))
        await bench.create("pods", pod("p", nodeSelector={"disk": "ssd"}))
        await bench.rest(20)
        assert assigned(bench) == {"p": ""}
        writes = len(bench.directory.commands)
        await bench.rest(100)
        assert len(bench.directory.commands) == writes  # nothing is written while nothing changes
        await bench.patch("nodes", "a", {"metadata": {"labels": {"disk": "ssd"}}})
        await bench.rest()
        assert assigned(bench) == {"p": "a"}


async def test_figures_of_the_scheduler(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a", cpu="1"))
        await bench.rest()  # else the node may arrive after a pod that has waited for it
        for name in ("one", "two"):
            await bench.create("pods", pod(name, cpu="1"))
        await bench.rest()
        (scheduler,) = (loop.controller for loop in bench.workloads.loops if loop.name == "scheduler")
        assert isinstance(scheduler, Scheduler)
        found = scheduler.statistics()
        profile = "default-scheduler"
        assert found.attempts == {("scheduled", profile): 1, ("unschedulable", profile): 1}
        assert found.pending == {"active": 0, "backoff": 0, "unschedulable": 1}
        assert (found.preemption_attempts, found.victims) == (1, 0)


async def test_a_pod_that_breaks_a_plugin_does_not_stop_the_others(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    prepare = NodePorts.prepare

    def broken(self: NodePorts, pod: PodFacts, around: SchedulingContext) -> Prepared:
        if pod.name == "bad":
            raise KeyError("ports")
        return prepare(self, pod, around)

    monkeypatch.setattr(NodePorts, "prepare", broken)
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a"))
        await bench.create("pods", pod("bad"))
        await bench.create("pods", pod("good", labels={"other": "yes"}))
        await bench.rest()
        assert assigned(bench) == {"bad": "", "good": "a"}
        assert bench.get("pods", "bad")["status"]["conditions"][0]["message"] == "KeyError: 'ports'"
    assert "the scheduler broke on pod default/bad" in caplog.text


async def test_pod_or_node_that_was_never_validated_is_skipped(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(kind: type, name: str) -> None:
        """Objects of this name raise, as invalid quantities in a recording might."""
        method = {Shapes: "facts", NodeState: "set_node"}[kind]
        original = getattr(kind, method)

        def broken(self: object, one: Object, *more: object) -> object:
            if one["metadata"]["name"] == name:
                raise NotAQuantity("many")
            return original(self, one, *more)

        monkeypatch.setattr(kind, method, broken)

    refuses(Shapes, "bad")
    refuses(NodeState, "bad")
    for name in ("before", "after"):  # the second server finds all of them at its start
        async with open_scheduling(tmp_path) as bench:
            if name == "before":
                await add_nodes(bench, node("bad"), node("a"))
                await bench.create("pods", pod("bad"))
            await bench.create("pods", pod(name))
            await bench.rest()
            assert assigned(bench)[name] == "a"
    assert "the scheduler left out pod default/bad" in caplog.text
    assert "the scheduler left out a change of node bad" in caplog.text


async def test_a_pod_that_is_being_deleted_is_skipped(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a", cpu="1"))
        waiting = pod("p", cpu="2")
        waiting["metadata"]["finalizers"] = ["example.org/hold"]
        await bench.create("pods", waiting)
        await bench.rest()
        await bench.delete("pods", "p")
        await bench.rest(2)
        await add_nodes(bench, node("b"))
        await bench.rest(300)
        assert assigned(bench) == {"p": ""}
        assert bench.events("p")[-1] == ("FailedScheduling", "skip schedule deleting pod: default/p")


async def test_namespaces_that_affinity_selects(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a"), node("b"))
        await bench.create("namespaces", {"metadata": {"name": "far", "labels": {"team": "one"}}})
        other = pod("other", labels={"app": "x"}, nodeSelector={"kubernetes.io/hostname": "b"})
        await bench.create("pods", other, "far")
        await bench.rest()
        term = {
            "labelSelector": {"matchLabels": {"app": "x"}},
            "namespaceSelector": {"matchLabels": {"team": "two"}},
            "topologyKey": "kubernetes.io/hostname",
        }
        near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        await bench.create("pods", pod("p", affinity=near))
        await bench.rest()
        assert refusal(bench, "p").startswith(
            "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."
        )
        await bench.patch("namespaces", "far", {"metadata": {"labels": {"team": "two"}}})
        await bench.rest(300)
        assert assigned(bench) == {"p": "b"}
