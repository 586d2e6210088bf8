"""Pods that are bound to a deleted node are deleted after 40 seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.controllers import orphaned_pods
from rewound.actors.controllers.options import WorkloadOptions
from rewound.actors.messages import Object
from rewound.actors.runtime import steps, turns
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane


async def create_pod(cluster: ControlPlane, name: str, node: str = "n", **metadata: object) -> Object:
    spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
    return await cluster.create("pods", name, content={"spec": spec}, **metadata)


async def test_pods_of_a_deleted_node_are_deleted_after_the_quarantine(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        for node in ("n", "m"):
            await cluster.create("nodes", node)
        await create_pod(cluster, "of-n")
        await create_pod(cluster, "of-m", "m")
        await create_pod(cluster, "of-none", "", annotations={"a": '{"nodeName":"n"}'})
        terminating = await create_pod(cluster, "terminating")
        await cluster.delete("pods", terminating["metadata"]["name"])
        await cluster.delete("nodes", "n")
        await cluster.wait_until_idle(39)
        assert cluster.names("pods") == ["of-m", "of-n", "of-none", "terminating"]
        await cluster.wait_until_idle(2)
        assert cluster.names("pods") == ["of-m", "of-none"]


async def test_node_that_returns_keeps_its_pods(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("nodes", "n")
        await create_pod(cluster, "p")
        await cluster.delete("nodes", "n")
        await cluster.wait_until_idle(30)
        await cluster.create("nodes", "n")
        await cluster.wait_until_idle(600)
        assert cluster.names("pods") == ["p"]


async def test_pods_of_nodes_that_never_existed_stay(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_pod(cluster, "p")
        await cluster.wait_until_idle(600)
        assert cluster.names("pods") == ["p"]


async def test_pod_that_is_bound_after_the_deletion_is_deleted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("nodes", "n")
        await cluster.delete("nodes", "n")
        await cluster.wait_until_idle(600)
        await create_pod(cluster, "p")
        await cluster.wait_until_idle(41)
        assert cluster.names("pods") == []


async def test_nodes_that_were_deleted_while_the_server_was_down(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await cluster.create("nodes", "n")
        await create_pod(cluster, "p")
        await cluster.delete("nodes", "n")
    async with open_control_plane(tmp_path) as cluster:
        await cluster.wait_until_idle(30)
        assert cluster.names("pods") == ["p"]
        await cluster.wait_until_idle(11)
        assert cluster.names("pods") == []


async def test_pods_of_unknown_nodes_go_in_a_whole_cluster(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path, whole_cluster=True) as cluster:
        await cluster.create("nodes", "n")
        await create_pod(cluster, "kept")
        await create_pod(cluster, "lost", "never")
        await create_pod(cluster, "waiting", "")
        await cluster.wait_until_idle(39)
        assert cluster.names("pods") == ["kept", "lost", "waiting"]
        await cluster.wait_until_idle(2)
        assert cluster.names("pods") == ["kept", "waiting"]


async def test_oldest_finished_pods_go_when_there_are_too_many(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    options = WorkloadOptions(terminated_pod_gc_threshold=2)
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await cluster.create("nodes", "n")
        for name in ("d", "c", "running"):
            pod = await create_pod(cluster, name)
            await cluster.wait_until_idle(2)
            await finish(cluster, pod, "Running" if name == "running" else "Failed")
    async with open_control_plane(tmp_path, whole_cluster=True, workloads=options) as cluster:
        assert cluster.names("pods") == ["c", "d", "running"]
        for name in ("b", "a"):
            pod = await create_pod(cluster, name)
            await cluster.wait_until_idle(2)
            await finish(cluster, pod, "Succeeded")
            await cluster.wait_until_idle()
        assert cluster.names("pods") == ["a", "b", "running"]


async def test_finished_pods_are_looked_at_in_turns_and_not_for_each_that_finishes(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, wait = 0, turns.next_turn

    async def counted() -> None:
        nonlocal taken
        taken += 1
        await wait()

    monkeypatch.setattr(turns, "TURN", 0.0)
    monkeypatch.setattr(turns, "next_turn", counted)
    monkeypatch.setattr(steps, "_SORTED_PART", 1)
    monkeypatch.setattr(orphaned_pods, "SECONDS_FOR_EACH", 10.0)
    options = WorkloadOptions(terminated_pod_gc_threshold=1)
    async with open_control_plane(tmp_path, whole_cluster=True, workloads=options) as cluster:
        await cluster.create("nodes", "n")
        for name in ("a", "b", "c", "d"):
            await finish(cluster, await create_pod(cluster, name), "Succeeded")
            await cluster.wait_until_idle(1)
        assert taken >= 2  # two pods, each a part
        assert cluster.names("pods") == ["b", "c", "d"]
        await cluster.wait_until_idle(30)
        assert cluster.names("pods") == ["d"]


async def finish(cluster: ControlPlane, pod: Object, phase: str) -> None:
    definition = cluster.catalog.storage("pods")
    await cluster.client.replace(definition, {**pod, "status": {**pod["status"], "phase": phase}}, "status")
