"""Volumes: claims that are missing, bound elsewhere or wait for the first consumer; zones and limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewound.actors.messages import Object
from rewound.actors.scheduler import scheduler
from tests.actors.scheduler.scheduling import add_nodes, assigned, node, open_scheduling, pod, refusal
from tests.actors.workloads.bench import Bench

NOT_HELPFUL = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
CLASSES = "storageclasses.storage.k8s.io"


def with_claim(name: str, claim: str, **spec: Any) -> Object:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    return pod(name, volumes=[volume], **spec)


def claim(name: str, storage_class: str, size: str = "1Gi") -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        },
    }


def volume(name: str, storage_class: str, size: str, where: str) -> Object:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [where]}]}
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "storageClassName": storage_class,
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
        "status": {"phase": "Available"},
    }


def storage_class(name: str, provisioner: str) -> Object:
    return {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


async def test_a_claim_must_exist_and_be_bound(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a"), node("b"))
        await bench.create("pods", with_claim("p", "data"))
        await bench.rest()
        start = "0/2 nodes are available: 2 "
        assert refusal(bench, "p") == f'{start}persistentvolumeclaim "data" not found. {NOT_HELPFUL}'
        await bench.create("persistentvolumeclaims", claim("data", "manual"))
        await bench.rest(5)
        unbound = "pod has unbound immediate PersistentVolumeClaims"
        assert refusal(bench, "p") == f"{start}{unbound}. {NOT_HELPFUL}"


async def test_a_volume_is_chosen_with_the_node_and_bound_before_the_pod(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a"), node("b"))
        await bench.create(CLASSES, storage_class("local", "kubernetes.io/no-provisioner"))
        for name, size, where in (("large", "9Gi", "b"), ("small", "2Gi", "b"), ("tiny", "1Mi", "a")):
            made = volume(name, "local", size, where)
            await bench.create("persistentvolumes", made)
            await bench.patch("persistentvolumes", name, {"status": made["status"]}, "status")
        for name in ("data", "more", "third"):
            await bench.create("persistentvolumeclaims", claim(name, "local"))
        await bench.create("pods", with_claim("p", "data"))
        await bench.create("pods", with_claim("q", "more"))
        await bench.create("pods", with_claim("r", "third"))
        await bench.rest()
        # Nothing binds the claims, so the pods wait; each has its own volume, the smallest first.
        assert assigned(bench) == {"p": "", "q": "", "r": ""}
        found = {
            one["metadata"]["name"]: one["spec"].get("claimRef", {}).get("name")
            for one in bench.all("persistentvolumes", None)
        }
        assert found == {"small": "data", "large": "more", "tiny": None}
        assert refusal(bench, "r") == (
            "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. "
            + NOT_HELPFUL
        )
        done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
        await bench.patch("persistentvolumeclaims", "data", {**done, "spec": {"volumeName": "small"}})
        await bench.rest()
        assert assigned(bench) == {"p": "b", "q": "", "r": ""}
        await bench.rest(601)
        conditions = bench.get("pods", "q")["status"]["conditions"]
        assert conditions[0]["reason"] == "SchedulerError"
        assert conditions[0]["message"] == (
            'running PreBind plugin "VolumeBinding": binding volumes: timed out waiting for the condition'
        )


async def test_a_claim_is_provisioned_for_the_node(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a"), node("b", labels={"disk": "yes"}))
        made = storage_class("fast", "example.org/disks")
        made["allowedTopologies"] = [{"matchLabelExpressions": [{"key": "disk", "values": ["yes"]}]}]
        await bench.create(CLASSES, made)
        await bench.create("persistentvolumeclaims", claim("data", "fast"))
        await bench.create("pods", with_claim("p", "data"))
        await bench.rest()
        annotations = bench.get("persistentvolumeclaims", "data")["metadata"]["annotations"]
        assert annotations["volume.kubernetes.io/selected-node"] == "b"
        assert assigned(bench) == {"p": ""}
        done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
        await bench.patch("persistentvolumeclaims", "data", {**done, "spec": {"volumeName": "made"}})
        await bench.rest()
        assert assigned(bench) == {"p": "b"}


DONE = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}


def taken(bench: Bench) -> int:
    """How many keys the scheduler has taken from its queue."""
    (loop,) = (one for one in bench.workloads.loops if one.name == "scheduler")
    return loop.statistics()[1].taken


async def test_a_change_of_a_claim_wakes_the_pods_that_wait_for_it_alone(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a"))
        await bench.create(CLASSES, storage_class("fast", "example.org/disks"))
        for number in range(10):
            await bench.create("persistentvolumeclaims", claim(f"data-{number}", "fast"))
            await bench.create("pods", with_claim(f"p{number}", f"data-{number}"))
        await bench.rest()
        before = taken(bench)
        await bench.patch("persistentvolumeclaims", "data-3", {"metadata": {"labels": {"a": "b"}}})
        await bench.rest()
        assert taken(bench) - before == 1
        await bench.patch("persistentvolumeclaims", "data-3", {**DONE, "spec": {"volumeName": "made"}})
        await bench.rest()
        assert [name for name, where in assigned(bench).items() if where] == ["p3"]


async def test_pods_that_wait_for_volumes_are_limited_and_keep_no_others_waiting(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "MAX_WAITING_FOR_VOLUMES", 1)
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a"))
        await bench.create(CLASSES, storage_class("fast", "example.org/disks"))
        for name in ("one", "two"):
            await bench.create("persistentvolumeclaims", claim(name, "fast"))
            await bench.create("pods", with_claim(f"p-{name}", name))
            await bench.rest()
        await bench.create("pods", pod("plain"))
        await bench.rest()
        assert assigned(bench) == {"p-one": "", "p-two": "", "plain": "a"}
        condition = bench.get("pods", "p-two")["status"]["conditions"][0]
        assert condition["message"].endswith("pods wait for their volumes; this one is tried again later")
        await bench.patch("persistentvolumeclaims", "one", {**DONE, "spec": {"volumeName": "made"}})
        await bench.rest(20)
        annotations = bench.get("persistentvolumeclaims", "two")["metadata"].get("annotations", {})
        assert annotations["volume.kubernetes.io/selected-node"] == "a"


async def test_a_volume_that_is_removed_ends_the_wait_for_it(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a"))
        await bench.create(CLASSES, storage_class("local", "kubernetes.io/no-provisioner"))
        made = volume("disk", "local", "2Gi", "a")
        await bench.create("persistentvolumes", made)
        await bench.patch("persistentvolumes", "disk", {"status": made["status"]}, "status")
        await bench.create("persistentvolumeclaims", claim("data", "local"))
        await bench.create("pods", with_claim("p", "data"))
        await bench.rest()
        await bench.patch("persistentvolumes", "disk", {"metadata": {"finalizers": None}})
        await bench.delete("persistentvolumes", "disk")
        await bench.rest()
        condition = bench.get("pods", "p")["status"]["conditions"][0]
        assert 'could not find v1.PersistentVolume "disk"' in condition["message"]


async def test_binding_of_volumes_continues_after_a_restart(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a"), node("b"))
        await bench.create(CLASSES, storage_class("fast", "example.org/disks"))
        await bench.create(CLASSES, storage_class("local", "kubernetes.io/no-provisioner"))
        made = volume("disk", "local", "2Gi", "b")
        await bench.create("persistentvolumes", made)
        await bench.patch("persistentvolumes", "disk", {"status": made["status"]}, "status")
        await bench.create("persistentvolumeclaims", claim("data", "fast"))
        await bench.create("persistentvolumeclaims", claim("more", "local"))
        await bench.create("pods", with_claim("p", "data"))
        await bench.create("pods", with_claim("q", "more"))
        await bench.rest()
        chosen = bench.get("persistentvolumeclaims", "data")["metadata"]["annotations"]
    async with open_scheduling(tmp_path) as bench:
        await bench.rest()
        assert assigned(bench) == {"p": "", "q": ""}
        done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
        await bench.patch("persistentvolumeclaims", "more", {**done, "spec": {"volumeName": "disk"}})
        await bench.patch("persistentvolumeclaims", "data", {**done, "spec": {"volumeName": "made"}})
        await bench.rest()
        assert assigned(bench) == {"p": chosen["volume.kubernetes.io/selected-node"], "q": "b"}


async def test_a_disk_that_another_pod_has(tmp_path: Path, autojump_clock: object) -> None:
    disk = [{"name": "d", "gcePersistentDisk": {"pdName": "one"}}]
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a"))
        await bench.create("pods", pod("p", volumes=disk))
        await bench.rest()
        await bench.create("pods", pod("q", volumes=disk))
        await bench.rest()
        assert refusal(bench, "q").startswith("0/1 nodes are available: 1 node(s) had no available disk. ")
