"""A simulated node creates mirror pods for the manifests of its folder, keeps them, and ends them with the manifest."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.messages import Object
from rewound.actors.nodes.simulator import NAME, SimulatedNodes
from tests.actors.nodes.simulated_cluster import bound_to
from tests.actors.workloads.bench import Bench, open_bench

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: static}, annotations: {sim/terminate-after: "9"}}
spec:
  priorityClassName: critical
  containers: [{name: c, image: IMAGE}]
"""


WRONG = (
    "empty: has 0 documents, but a manifest is one Pod",
    "two: has 2 documents, but a manifest is one Pod",
    "node: is not a Pod of v1",
    "torn: is neither YAML nor JSON at line",
    "unnamed: metadata.name: Required value",
    "large: has more than 1 MiB",
    "aliases: it ",  # has too many steps, or takes too much processor time on a slow machine
    'static pod default/A-node-0 cannot be created: Pod "A-node-0" is invalid',
)


def manifest(folder: Path, name: str, image: str = "i:1", file: str = "") -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / (file or f"{name}.yaml")
    path.write_text(MANIFEST.replace("NAME", name).replace("IMAGE", image))
    return path


@asynccontextmanager
async def cluster(path: Path, nodes: int = 2) -> AsyncIterator[Bench]:
    (path / "static").mkdir(exist_ok=True)
    simulated = (NAME, partial(SimulatedNodes, count=nodes, manifests=path / "static"))
    async with open_bench(path, pods_run=False, more=[simulated]) as bench:
        critical = {"metadata": {"name": "critical"}, "value": 1_000_000}
        if not bench.names("priorityclasses.scheduling.k8s.io", ""):
            await bench.create("priorityclasses.scheduling.k8s.io", critical)
        yield bench


async def until(bench: Bench, is_so: Callable[[], bool]) -> None:
    """Let time pass until it is so: manifests are read in a thread, for which virtual time does not wait."""
    latest = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < latest
        await bench.rest(1)


def phases(bench: Bench) -> dict[str, str]:
    return {one["metadata"]["name"]: one["status"]["phase"] for one in bench.all("pods")}


def deleted(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


async def test_manifests_of_all_nodes_and_of_one_become_mirror_pods(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    manifest(tmp_path / "static", "agent")
    manifest(tmp_path / "static" / "node-1", "etcd")
    manifest(tmp_path / "static" / "node-9", "nobody")
    manifest(tmp_path / "static", "hidden", file=".hidden.yaml")
    async with cluster(tmp_path) as bench:
        names = ("agent-node-0", "agent-node-1", "etcd-node-1")
        await until(bench, lambda: phases(bench) == dict.fromkeys(names, "Running"))
        pod, node = bench.get("pods", "etcd-node-1"), bench.get("nodes", "node-1")
        own = {key.rpartition("/")[2]: text for key, text in pod["metadata"]["annotations"].items()}
        assert own["config.source"] == "file" and own["config.hash"] == own["config.mirror"]
        assert own["config.seen"] and pod["metadata"]["labels"] == {"app": "static"}
        assert pod["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "name": "node-1",
                "uid": node["metadata"]["uid"],
                "controller": True,
            }
        ]
        assert {"operator": "Exists", "effect": "NoExecute"} in pod["spec"]["tolerations"]
        assert pod["spec"]["priority"] == 1_000_000 and pod["spec"]["nodeName"] == "node-1"


async def test_deleted_mirror_pod_comes_back_with_its_containers(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    manifest(tmp_path / "static" / "node-0", "etcd")
    async with cluster(tmp_path) as bench:
        await until(bench, lambda: phases(bench) == {"etcd-node-0": "Running"})
        before = bench.get("pods", "etcd-node-0")
        for grace in (None, 0):
            await bench.rest(20)
            await bench.delete("pods", "etcd-node-0", grace=grace)
            await bench.rest(0)
            pod = bench.get("pods", "etcd-node-0")
            assert pod["metadata"]["uid"] != before["metadata"]["uid"] and not deleted(pod)
            for part in ("startTime", "podIP"):
                assert pod["status"][part] == before["status"][part]
            assert [one["state"] for one in pod["status"]["containerStatuses"]] == [
                one["state"] for one in before["status"]["containerStatuses"]
            ]


async def test_pod_ends_with_its_manifest_within_its_grace_period(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    path = manifest(tmp_path / "static" / "node-0", "etcd")
    async with cluster(tmp_path) as bench:
        await until(bench, lambda: phases(bench) == {"etcd-node-0": "Running"})
        path.unlink()
        await until(bench, lambda: deleted(bench.get("pods", "etcd-node-0")))
        await bench.rest(5)
        assert bench.find("pods", "etcd-node-0") is not None  # sim/terminate-after: 9
        await bench.rest(60)
        assert bench.find("pods", "etcd-node-0") is None


async def test_changed_manifest_replaces_the_pod(tmp_path: Path, autojump_clock: MockClock) -> None:
    path = manifest(tmp_path / "static" / "node-0", "etcd")
    async with cluster(tmp_path) as bench:
        await until(bench, lambda: phases(bench) == {"etcd-node-0": "Running"})
        path.write_text(path.read_text().replace("i:1", "i:2"))
        os.utime(path, (1, 1))
        await until(
            bench,
            lambda: (
                [(one["spec"]["containers"][0]["image"], one["status"]["phase"]) for one in bench.all("pods")]
                == [("i:2", "Running")]
            ),
        )


async def test_restart_finds_its_mirror_pods(tmp_path: Path, autojump_clock: MockClock) -> None:
    manifest(tmp_path / "static" / "node-0", "etcd")
    async with cluster(tmp_path) as bench:
        await until(bench, lambda: phases(bench) == {"etcd-node-0": "Running"})
        uid = bench.get("pods", "etcd-node-0")["metadata"]["uid"]
    async with cluster(tmp_path) as bench:
        manifest(tmp_path / "static" / "node-0", "second")
        await until(bench, lambda: phases(bench).get("second-node-0") == "Running")
        assert bench.get("pods", "etcd-node-0")["metadata"]["uid"] == uid
    for path in (tmp_path / "static" / "node-0").iterdir():
        path.unlink()  # while the server does not run
    async with cluster(tmp_path) as bench:
        await until(bench, lambda: phases(bench) == {})


async def test_wrong_manifests_are_reported_and_others_play(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "static"
    manifest(folder, "good")
    (folder / "empty").write_text("")
    (folder / "two").write_text("{}\n---\n{}")
    (folder / "node").write_text("{apiVersion: v1, kind: Node, metadata: {name: n}}")
    (folder / "torn").write_text("{apiVersion: v1, kind: Po")
    (folder / "unnamed").write_text("{apiVersion: v1, kind: Pod, spec: {containers: [{name: c, image: i}]}}")
    (folder / "invalid").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: A}, spec: {containers: []}}"
    )
    (folder / "wrong-type").write_text("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: 3}")
    (folder / "large").write_bytes(b" " * (2 << 20))
    aliases = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    (folder / "aliases").write_text(f"apiVersion: v1\nkind: Pod\na0: &a0 [x]\n{aliases}")
    os.mkfifo(folder / "pipe")
    (folder / "nowhere").symlink_to(folder / "none")
    with caplog.at_level(logging.WARNING):
        async with cluster(tmp_path, nodes=1) as bench:
            await until(bench, lambda: phases(bench) == {"good-node-0": "Running"})
            await until(bench, lambda: all(each in caplog.text for each in WRONG))


async def test_pod_of_somebody_else_is_left_alone(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with cluster(tmp_path, nodes=1) as bench:
        other = bound_to("node-0")
        await bench.create("pods", {"metadata": {"name": "etcd-node-0"}, **other})
        await bench.rest(1)
        uid = bench.get("pods", "etcd-node-0")["metadata"]["uid"]
        path = manifest(tmp_path / "static" / "node-0", "etcd")
        manifest(tmp_path / "static" / "node-0", "next")
        await until(bench, lambda: phases(bench).get("next-node-0") == "Running")
        path.unlink()
        await bench.rest(60)
        assert bench.get("pods", "etcd-node-0")["metadata"]["uid"] == uid


def test_a_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    from rewound.actors.kinds.built_in import built_in
    from rewound.actors.names import KUBERNETES
    from rewound.actors.nodes.static_pods import StaticPods

    with pytest.raises(ValueError, match="none is no folder; create it"):
        StaticPods(tmp_path / "none", KUBERNETES, built_in(KUBERNETES).storage("pods"))
