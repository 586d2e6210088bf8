"""Volumes are attached to the node of a pod before it starts, and detached when the node does not use them any more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from trio.testing import MockClock

from rewound.actors.messages import Object
from rewound.actors.nodes.simulator import NAME, SimulatedNodes
from rewound.actors.versions.features import choose_release
from tests.actors.workloads.bench import Bench, open_bench

CONTROLLERS = ("attachdetach", "nodelifecycle", "persistentvolume-binder")
ATTACHMENTS = "volumeattachments.storage.k8s.io"
DRIVER = "disk.example.io"
UNIQUE = f"kubernetes.io/csi/{DRIVER}^handle-"


@asynccontextmanager
async def nodes_with_storage(path: Path, *names: str, **options: Any) -> AsyncIterator[Bench]:
    nodes = (NAME, partial(SimulatedNodes, count=2))
    async with open_bench(path, *(names or CONTROLLERS), pods_run=False, more=[nodes], **options) as bench:
        await bench.rest(1)
        yield bench


async def make_disk(bench: Bench, name: str, mode: str = "ReadWriteOnce", **source: Any) -> None:
    """A bound claim, and its volume."""
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": [mode],
        "claimRef": {"namespace": "default", "name": name},
        **(source or {"csi": {"driver": DRIVER, "volumeHandle": f"handle-{name}"}}),
    }
    await bench.create("persistentvolumes", {"metadata": {"name": f"pv-{name}"}, "spec": volume})
    claim = {
        "accessModes": [mode],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
        "volumeName": f"pv-{name}",
    }
    await bench.create("persistentvolumeclaims", {"metadata": {"name": name}, "spec": claim})
    await bench.rest()


def user(name: str, node: str, claim: str, **metadata: Any) -> Object:
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    spec = {"nodeName": node, "containers": [container], "volumes": volumes}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def attached(bench: Bench, node: str) -> list[str]:
    return [one["name"] for one in bench.get("nodes", node)["status"].get("volumesAttached") or ()]


def in_use(bench: Bench, node: str) -> list[str]:
    return list(bench.get("nodes", node)["status"].get("volumesInUse") or ())


def phase(bench: Bench, pod: str) -> str:
    return str(bench.get("pods", pod)["status"]["phase"])


async def test_volume_is_attached_by_its_driver_before_the_pod_starts(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with nodes_with_storage(tmp_path) as bench:
        await make_disk(bench, "a")
        await bench.create("pods", user("p", "node-0", "a"))
        await bench.rest(1)
        assert phase(bench, "p") == "Running"
        assert (attached(bench, "node-0"), in_use(bench, "node-0")) == ([f"{UNIQUE}a"], [f"{UNIQUE}a"])
        [attachment] = bench.all(ATTACHMENTS, "")
        assert attachment["spec"] == {
            "attacher": DRIVER,
            "nodeName": "node-0",
            "source": {"persistentVolumeName": "pv-a"},
        }
        assert attachment["status"]["attached"] and attachment["metadata"]["name"].startswith("csi-")
        assert (
            "SuccessfulAttachVolume",
            'AttachVolume.Attach succeeded for volume "pv-a" ',
        ) in bench.events("p")
        type_id = bench.journal.type_id(ATTACHMENTS)
        with bench.journal.read() as view:
            written = [
                (event.user.rpartition(":")[2], event.verb) for event in view.events(0, type_id=type_id)
            ]
        assert written == [("attachdetach-controller", "create"), (NAME, "patch")]


async def test_volume_leaves_the_node_after_its_pod(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with nodes_with_storage(tmp_path) as bench:
        await make_disk(bench, "a")
        await bench.create("pods", user("p", "node-0", "a", annotations={"sim/terminate-after": "20"}))
        await bench.rest(1)
        await bench.delete("pods", "p")
        await bench.rest(10)  # its containers still stop
        assert attached(bench, "node-0") == in_use(bench, "node-0") == [f"{UNIQUE}a"]
        await bench.rest(15)
        assert bench.find("pods", "p") is None
        assert (attached(bench, "node-0"), in_use(bench, "node-0")) == ([], [])
        assert bench.all(ATTACHMENTS, "") == []


async def test_second_node_waits_until_the_first_has_detached(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with nodes_with_storage(tmp_path) as bench:
        await make_disk(bench, "a")
        await bench.create("pods", user("p", "node-0", "a"))
        await bench.rest(1)
        await bench.create("pods", user("q", "node-1", "a"))
        await bench.rest(200)
        assert phase(bench, "q") == "Pending" and attached(bench, "node-1") == []
        said = dict(bench.events("q"))
        assert said["FailedAttachVolume"] == (
            'Multi-Attach error for volume "pv-a" Volume is already used by pod(s) p'
        )
        assert said["FailedMount"] == (
            "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data]: "
            "timed out waiting for the condition"
        )
        await bench.delete("pods", "p")
        await bench.rest(1)
        assert phase(bench, "q") == "Running"
        assert (attached(bench, "node-0"), attached(bench, "node-1")) == ([], [f"{UNIQUE}a"])


async def test_shared_volume_is_attached_to_both_nodes(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with nodes_with_storage(tmp_path) as bench:
        await make_disk(bench, "a", "ReadWriteMany")
        for number in (0, 1):
            await bench.create("pods", user(f"p{number}", f"node-{number}", "a"))
        await bench.rest(1)
        assert [phase(bench, name) for name in ("p0", "p1")] == ["Running", "Running"]
        assert attached(bench, "node-0") == attached(bench, "node-1") == [f"{UNIQUE}a"]


async def test_node_that_is_down_keeps_its_volume_for_six_minutes(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with nodes_with_storage(tmp_path) as bench:
        await make_disk(bench, "a")
        await bench.create("pods", user("p", "node-0", "a"))
        await bench.rest(1)
        await bench.patch("nodes", "node-0", {"metadata": {"annotations": {"sim/stopped": "true"}}})
        await bench.rest(60)
        await bench.delete("pods", "p", grace=0)
        await bench.create("pods", user("q", "node-1", "a"))
        await bench.rest(350)
        assert phase(bench, "q") == "Pending"
        waiting = "Volume is already exclusively attached to one node and can't be attached to another"
        assert dict(bench.events("q"))["FailedAttachVolume"].endswith(waiting)
        await bench.rest(20)
        assert phase(bench, "q") == "Running"


async def test_taint_out_of_service_frees_the_volume_at_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with nodes_with_storage(tmp_path, release=choose_release("1.36")) as bench:
        await make_disk(bench, "a")
        await bench.create("pods", user("p", "node-0", "a"))
        await bench.rest(1)
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        stopped = {"sim/stopped": "true"}
        await bench.patch(
            "nodes", "node-0", {"metadata": {"annotations": stopped}, "spec": {"taints": [taint]}}
        )
        await bench.delete("pods", "p", grace=0)
        await bench.create("pods", user("q", "node-1", "a"))
        await bench.rest(1)
        assert phase(bench, "q") == "Running"
        assert attached(bench, "node-0") == []


async def test_driver_that_needs_no_attachment_gets_none(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with nodes_with_storage(tmp_path) as bench:
        await bench.create(
            "csidrivers.storage.k8s.io", {"metadata": {"name": DRIVER}, "spec": {"attachRequired": False}}
        )
        await make_disk(bench, "a")
        await bench.create("pods", user("p", "node-0", "a"))
        await bench.rest(1)
        assert phase(bench, "p") == "Running"
        assert (attached(bench, "node-0"), in_use(bench, "node-0")) == ([], [])
        assert bench.all(ATTACHMENTS, "") == []


async def test_disks_without_a_driver_are_attached_without_an_object(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with nodes_with_storage(tmp_path) as bench:
        await make_disk(
            bench, "i", iscsi={"targetPortal": "10.0.0.9:3260", "iqn": "iqn.2026-11.x:t", "lun": 2}
        )
        await make_disk(bench, "f", fc={"targetWWNs": ["50060e801049cfd1"], "lun": 0})
        await bench.create("pods", user("p", "node-0", "i"))
        await bench.create("pods", user("q", "node-0", "f"))
        await bench.rest(1)
        assert [phase(bench, name) for name in ("p", "q")] == ["Running", "Running"]
        expected = [
            "kubernetes.io/fc/[50060e801049cfd1]:0",
            "kubernetes.io/iscsi/10.0.0.9:3260:iqn.2026-11.x:t:2",
        ]
        assert attached(bench, "node-0") == in_use(bench, "node-0") == expected
        assert bench.all(ATTACHMENTS, "") == []


async def test_attachments_of_others_stay_and_wait_for_their_driver(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with nodes_with_storage(tmp_path) as bench:
        spec = {"attacher": DRIVER, "nodeName": "node-0", "source": {"persistentVolumeName": "none"}}
        await bench.create(ATTACHMENTS, {"metadata": {"name": "mine"}, "spec": spec})
        await make_disk(bench, "a")
        await bench.create("pods", user("p", "node-0", "a"))
        await bench.rest(1)
        await bench.delete("pods", "p")
        await bench.rest(1)
        assert bench.names(ATTACHMENTS, "") == ["mine"]
        assert not (bench.get(ATTACHMENTS, "mine").get("status") or {}).get("attached")


async def test_restart_detaches_what_no_pod_needs(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with nodes_with_storage(tmp_path) as bench:
        await make_disk(bench, "a")
        await bench.create("pods", user("p", "node-0", "a"))
        await bench.rest(1)
    async with open_bench(tmp_path, pods_run=False) as bench:  # without these controllers
        await bench.delete("pods", "p", grace=0)
    async with nodes_with_storage(tmp_path) as bench:
        await bench.rest(1)
        assert (attached(bench, "node-0"), in_use(bench, "node-0")) == ([], [])
        assert bench.all(ATTACHMENTS, "") == []


async def test_pods_do_not_wait_for_a_controller_that_does_not_run(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with nodes_with_storage(tmp_path, "persistentvolume-binder") as bench:
        await make_disk(bench, "a")
        await bench.create("pods", user("p", "node-0", "a"))
        await bench.rest(1)
        assert phase(bench, "p") == "Running"
        assert (attached(bench, "node-0"), in_use(bench, "node-0")) == ([], [f"{UNIQUE}a"])
