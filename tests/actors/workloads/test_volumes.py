"""Claims are bound to volumes; volumes are provisioned and reclaimed, with the phases and Events of v1.25."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from rewound.actors.controllers.options import WorkloadOptions
from rewound.actors.errors import ShuttingDown
from rewound.actors.messages import Object
from rewound.actors.runtime import turns
from rewound.actors.versions.features import choose_release
from rewound.actors.workloads import volumes
from rewound.actors.workloads.volume_matching import VolumeKeys, is_free_match
from tests.actors.workloads.bench import Bench, open_bench

BINDER = ("persistentvolume-binder", "persistentvolume-expander", "pv-protection", "pvc-protection")
CLASSES, VOLUMES, CLAIMS = "storageclasses.storage.k8s.io", "persistentvolumes", "persistentvolumeclaims"
BOUND, COMPLETED = "pv.kubernetes.io/bound-by-controller", "pv.kubernetes.io/bind-completed"
ONCE, MANY = "ReadWriteOnce", "ReadWriteMany"


def volume(name: str, size: str = "1Gi", modes: tuple[str, ...] = (ONCE,), **spec: Any) -> Object:
    source = {} if "nfs" in spec or "csi" in spec else {"hostPath": {"path": f"/tmp/none/{name}"}}
    described = {"capacity": {"storage": size}, "accessModes": list(modes), **source, **spec}
    return {"metadata": {"name": name, "labels": {"name": name}}, "spec": described}


def claim(name: str, size: str = "1Gi", modes: tuple[str, ...] = (ONCE,), **spec: Any) -> Object:
    requests = {"requests": {"storage": size}}
    described = {"accessModes": list(modes), "resources": requests, "storageClassName": "", **spec}
    return {"metadata": {"name": name}, "spec": described}


def storage_class(name: str, provisioner: str = "sim", **more: Any) -> Object:
    return {"metadata": {"name": name}, "provisioner": provisioner, **more}


def pod(name: str, of: str, **spec: Any) -> Object:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": of}}]
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": volumes, **spec},
    }


def phase(bench: Bench, type_name: str, name: str) -> str:
    return str(bench.get(type_name, name)["status"]["phase"])


async def test_claim_gets_the_smallest_volume_that_satisfies_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, *BINDER) as bench:
        await bench.create(VOLUMES, volume("large", "10Gi"))
        await bench.create(VOLUMES, volume("many", "2Gi", (ONCE, MANY)))
        await bench.create(VOLUMES, volume("other-class", "2Gi", storageClassName="fast"))
        await bench.create(VOLUMES, volume("block", "2Gi", volumeMode="Block"))
        await bench.create(VOLUMES, volume("small", "1Gi"))
        await bench.rest()
        assert {phase(bench, VOLUMES, name) for name in bench.names(VOLUMES, "")} == {"Available"}
        await bench.create(CLAIMS, claim("c", "1500Mi"))
        await bench.rest()
        bound = bench.get(CLAIMS, "c")
        # Fewer access modes are preferred to a smaller size.
        assert bound["spec"]["volumeName"] == "large"
        assert bound["status"] == {"phase": "Bound", "accessModes": [ONCE], "capacity": {"storage": "10Gi"}}
        assert bound["metadata"]["annotations"] == {BOUND: "yes", COMPLETED: "yes"}
        chosen = bench.get(VOLUMES, "large")
        assert chosen["status"]["phase"] == "Bound" and chosen["metadata"]["annotations"] == {BOUND: "yes"}
        reference = chosen["spec"]["claimRef"]
        assert (reference["kind"], reference["name"], reference["uid"]) == (
            "PersistentVolumeClaim",
            "c",
            bound["metadata"]["uid"],
        )
        await bench.create(CLAIMS, claim("shared", "1Gi", (MANY,)))
        await bench.create(CLAIMS, claim("fast", storageClassName="fast"))
        await bench.create(CLAIMS, claim("block", volumeMode="Block"))
        await bench.create(CLAIMS, claim("labelled", selector={"matchLabels": {"name": "nothing"}}))
        await bench.rest()
        given = {one["metadata"]["name"]: one["spec"].get("volumeName") for one in bench.all(CLAIMS)}
        assert given == {
            "c": "large",
            "shared": "many",
            "fast": "other-class",
            "block": "block",
            "labelled": None,
        }
        assert bench.events("labelled") == [
            ("FailedBinding", "no persistent volumes available for this claim and no storage class is set")
        ]


async def test_many_claims_get_a_volume_each(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, *BINDER) as bench:
        for number in range(20):
            await bench.create(CLAIMS, claim(f"c{number}"))
        for number in range(20):
            await bench.create(VOLUMES, volume(f"v{number}"))
        await bench.rest()
        assert len({one["spec"]["volumeName"] for one in bench.all(CLAIMS)}) == 20
        assert {one["status"]["phase"] for one in (*bench.all(CLAIMS), *bench.all(VOLUMES, ""))} == {"Bound"}


async def test_many_claims_and_volumes_are_compared_in_turns(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Volumes that change while claims wait, and claims that find no volume; each claim gets its own in the end."""
    taken, wait = 0, turns.next_turn

    async def counted() -> None:
        nonlocal taken
        taken += 1
        await wait()

    monkeypatch.setattr(turns, "TURN", 0.0)
    monkeypatch.setattr(turns, "next_turn", counted)
    async with open_bench(tmp_path, *BINDER) as bench:
        for number in range(100):
            await bench.create(CLAIMS, claim(f"c{number}"))
        await bench.rest()
        before = taken
        await bench.create(VOLUMES, volume("v"))
        await bench.rest()
        assert taken >= before + 2  # two parts of the claims
        for number in range(99):
            await bench.create(VOLUMES, volume(f"v{number}"))
        await bench.rest()
        assert len({one["spec"].get("volumeName") for one in bench.all(CLAIMS)}) == 100


async def test_bound_volumes_are_compared_with_no_claim(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each provisioned volume would be compared with all claims that wait for theirs."""
    compared = 0

    def counted(volume: Object, claim: Object, keys: VolumeKeys) -> bool:
        nonlocal compared
        compared += 1
        return is_free_match(volume, claim, keys)

    monkeypatch.setattr(volumes, "is_free_match", counted)
    async with open_bench(tmp_path, *BINDER) as bench:
        await bench.create(CLASSES, storage_class("fast"))
        for number in range(30):
            await bench.create(CLAIMS, claim(f"c{number}", storageClassName="fast"))
        await bench.rest()
        assert {phase(bench, CLAIMS, one) for one in bench.names(CLAIMS)} == {"Bound"}
        assert compared == 0


async def test_reserved_volume_and_named_volume(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, *BINDER) as bench:
        reserved = {"name": "c", "namespace": "default"}
        await bench.create(VOLUMES, volume("reserved", "9Gi", claimRef=reserved, storageClassName="any"))
        await bench.create(VOLUMES, volume("free"))
        await bench.create(CLAIMS, claim("c"))
        await bench.rest()
        assert bench.get(CLAIMS, "c")["spec"]["volumeName"] == "reserved"
        found = bench.get(VOLUMES, "reserved")
        assert "annotations" not in found["metadata"] and found["spec"]["claimRef"]["uid"]
        await bench.create(CLAIMS, claim("late", volumeName="later"))
        await bench.create(CLAIMS, claim("big", "5Gi", volumeName="free"))
        await bench.create(CLAIMS, claim("robbed", volumeName="reserved"))
        await bench.rest()
        assert [phase(bench, CLAIMS, name) for name in ("late", "big", "robbed")] == ["Pending"] * 3
        assert bench.events("late") == []
        assert bench.events("big") == [
            ("VolumeMismatch", 'Cannot bind to requested volume "free": requested PV is too small')
        ]
        assert bench.events("robbed") == [
            ("FailedBinding", 'volume "reserved" already bound to a different claim.')
        ]
        await bench.create(VOLUMES, volume("later"))
        await bench.rest()
        late = bench.get(CLAIMS, "late")
        assert late["status"]["phase"] == "Bound" and late["metadata"]["annotations"] == {COMPLETED: "yes"}


async def test_lost_and_misbound_claims(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "persistentvolume-binder") as bench:
        await bench.create(VOLUMES, volume("v"))
        await bench.create(CLAIMS, claim("c"))
        await bench.rest()
        other = claim("other", volumeName="v")
        other["metadata"]["annotations"] = {COMPLETED: "yes"}
        await bench.create(CLAIMS, other)
        await bench.rest()
        assert bench.get(CLAIMS, "other")["status"] == {"phase": "Lost"}
        assert bench.events("other") == [
            ("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
        ]
        await bench.delete(VOLUMES, "v")
        await bench.patch(VOLUMES, "v", {"metadata": {"finalizers": None}})
        await bench.rest(60)
        assert bench.get(CLAIMS, "c")["status"] == {"phase": "Lost"}
        assert bench.events("c") == [
            ("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
        ]


async def test_reclaim_policies(tmp_path: Path, autojump_clock: MockClock) -> None:
    policies = {
        "keep": volume("keep", persistentVolumeReclaimPolicy="Retain"),
        "drop": volume("drop", persistentVolumeReclaimPolicy="Delete"),
        "wipe": volume("wipe", persistentVolumeReclaimPolicy="Recycle"),
        "far": volume("far", persistentVolumeReclaimPolicy="Delete", nfs={"server": "s", "path": "/"}),
        "stuck": volume("stuck", persistentVolumeReclaimPolicy="Delete", hostPath={"path": "/var/lib/stuck"}),
        "raw": volume(
            "raw", persistentVolumeReclaimPolicy="Recycle", csi={"driver": "d", "volumeHandle": "h"}
        ),
    }
    async with open_bench(tmp_path, *BINDER) as bench:
        for name, one in policies.items():
            await bench.create(VOLUMES, one)
            await bench.create(CLAIMS, claim(name, volumeName=name))
        await bench.rest()
        assert {one["status"]["phase"] for one in bench.all(VOLUMES, "")} == {"Bound"}
        for name in policies:
            await bench.delete(CLAIMS, name)
        await bench.rest()
        recycler = bench.get("pods", "recycler-for-wipe")
        assert recycler["spec"]["volumes"] == [
            {"name": "vol", "hostPath": {"path": "/tmp/none/wipe", "type": ""}}
        ]
        assert recycler["spec"]["activeDeadlineSeconds"] == 60 and phase(bench, VOLUMES, "wipe") == "Released"
        await bench.patch(
            "pods", "recycler-for-wipe", {"metadata": {"annotations": {"sim/phase": "Succeeded"}}}
        )
        await bench.rest()
        assert bench.names("pods") == []
        assert bench.names(CLAIMS) == [] and "drop" not in bench.names(VOLUMES, "")
        phases = {one["metadata"]["name"]: one["status"] for one in bench.all(VOLUMES, "")}
        no_deleter = "no deletable volume plugin matched"
        messages = {
            "far": f'error getting deleter volume plugin for volume "far": {no_deleter}',
            "stuck": "host_path deleter only supports /tmp/.+ but received provided /var/lib/stuck",
            "raw": "No recycler plugin found for the volume!",
        }
        assert phases == {
            "keep": {"phase": "Released"},
            "wipe": {"phase": "Available"},
            **{name: {"phase": "Failed", "message": text} for name, text in messages.items()},
        }
        assert "claimRef" in bench.get(VOLUMES, "keep")["spec"]
        assert "claimRef" not in bench.get(VOLUMES, "wipe")["spec"] or not bench.get(VOLUMES, "wipe")["spec"][
            "claimRef"
        ].get("uid")
        assert bench.events("wipe") == [("VolumeRecycled", "Volume recycled")]
        about = {"kind": "Pod", "name": "recycler-for-keep", "namespace": "default"}
        reported = {"involvedObject": about, "type": "Normal", "reason": "Pulled", "message": "it runs"}
        await bench.create("events", {"metadata": {"name": "recycler-for-keep.1"}, **reported})
        await bench.rest()
        assert bench.events("keep") == [("RecyclerPod", "Recycler pod: it runs")]
        assert bench.events("far") == [("VolumeFailedDelete", messages["far"])]
        assert bench.events("raw") == [("VolumeFailedRecycle", messages["raw"])]
        # A claim of the same name is another claim.
        await bench.create(CLAIMS, claim("keep"))
        await bench.rest()
        assert bench.get(CLAIMS, "keep")["spec"].get("volumeName") != "keep"
        await bench.patch(VOLUMES, "keep", {"spec": {"claimRef": None}})
        await bench.rest()
        assert phase(bench, VOLUMES, "keep") in ("Available", "Bound")


async def test_simulated_provisioner(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, *BINDER) as bench:
        expandable = storage_class(
            "standard", allowVolumeExpansion=True, mountOptions=["ro"], reclaimPolicy="Delete"
        )
        expandable["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
        await bench.create(CLASSES, expandable)
        wanted = claim("c", "3Gi", (MANY,))
        del wanted["spec"]["storageClassName"]
        await bench.create(CLAIMS, wanted)
        await bench.rest()
        bound = bench.get(CLAIMS, "c")
        name = f"pvc-{bound['metadata']['uid']}"
        assert bound["spec"]["volumeName"] == name and bound["status"]["phase"] == "Bound"
        assert bound["metadata"]["annotations"] == {
            BOUND: "yes",
            COMPLETED: "yes",
            "volume.beta.kubernetes.io/storage-provisioner": "sim",
            "volume.kubernetes.io/storage-provisioner": "sim",
        }
        made = bench.get(VOLUMES, name)
        assert made["metadata"]["annotations"] == {BOUND: "yes", "pv.kubernetes.io/provisioned-by": "sim"}
        assert made["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
        assert made["status"]["phase"] == "Bound" and made["spec"]["storageClassName"] == "standard"
        assert made["spec"]["csi"] == {"driver": "sim", "volumeHandle": name}
        assert bench.events("c") == [
            ("ProvisioningSucceeded", f"Successfully provisioned volume {name} using sim")
        ]
        await bench.patch(CLAIMS, "c", {"spec": {"resources": {"requests": {"storage": "5Gi"}}}})
        await bench.rest()
        assert bench.get(VOLUMES, name)["spec"]["capacity"] == {"storage": "5Gi"}
        assert bench.get(CLAIMS, "c")["status"]["capacity"] == {"storage": "5Gi"}
        await bench.delete(CLAIMS, "c")
        await bench.rest()
        assert bench.names(VOLUMES, "") == [] == bench.names(CLAIMS)


async def test_other_volumes_wait_for_their_drivers_to_grow(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, *BINDER) as bench:
        await bench.create(CLASSES, storage_class("x", "example.com/d", allowVolumeExpansion=True))
        await bench.create(VOLUMES, volume("v", storageClassName="x"))
        await bench.create(CLAIMS, claim("c", storageClassName="x"))
        await bench.rest()
        await bench.patch(CLAIMS, "c", {"spec": {"resources": {"requests": {"storage": "5Gi"}}}})
        await bench.rest(60)
        assert bench.events("c") == [
            (
                "ExternalExpanding",
                "Ignoring the PVC: didn't find a plugin capable of expanding the volume; "
                "waiting for an external controller to process this PVC.",
            )
        ]
        assert bench.get(CLAIMS, "c")["status"]["capacity"] == {"storage": "1Gi"}


async def test_failed_recycling_is_tried_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, *BINDER) as bench:
        await bench.create(VOLUMES, volume("v", persistentVolumeReclaimPolicy="Recycle"))
        await bench.create(CLAIMS, claim("c"))
        await bench.rest()
        await bench.delete(CLAIMS, "c")
        await bench.rest()
        await bench.patch("pods", "recycler-for-v", {"metadata": {"annotations": {"sim/phase": "Failed"}}})
        await bench.rest()
        failed = "Recycle failed: failed to recycle volume: pod failed, pod.Status.Message unknown"
        assert bench.get(VOLUMES, "v")["status"] == {"phase": "Failed", "message": failed}
        assert bench.names("pods") == []
        await bench.rest(16)
        await bench.patch("pods", "recycler-for-v", {"metadata": {"annotations": {"sim/phase": "Succeeded"}}})
        await bench.rest()
        assert phase(bench, VOLUMES, "v") == "Available" and bench.names("pods") == []


async def test_claims_that_wait_for_a_pod(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, *BINDER, pods_run=False) as bench:
        late = storage_class(
            "late", volumeBindingMode="WaitForFirstConsumer", parameters={"topology": "zone"}
        )
        await bench.create(CLASSES, late)
        await bench.create("nodes", {"metadata": {"name": "n", "labels": {"zone": "z1"}}})
        await bench.create(VOLUMES, volume("free", storageClassName="late"))
        await bench.create(CLAIMS, claim("c", storageClassName="late"))
        await bench.rest()
        assert phase(bench, CLAIMS, "c") == "Pending"
        waiting = ("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
        assert bench.events("c") == [waiting]
        await bench.create("pods", pod("p", "c"))
        await bench.rest(16)
        assert bench.events("c") == [waiting, ("WaitForPodScheduled", "waiting for pod p to be scheduled")]
        await bench.create("pods", pod("q", "c"))
        await bench.rest(15)
        assert bench.events("c")[-1] == ("WaitForPodScheduled", "waiting for pods p,q to be scheduled")
        selected = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}}
        await bench.patch(CLAIMS, "c", selected)
        await bench.rest()
        found = bench.get(CLAIMS, "c")
        assert found["spec"]["volumeName"].startswith("pvc-") and found["status"]["phase"] == "Bound"
        terms = bench.get(VOLUMES, found["spec"]["volumeName"])["spec"]["nodeAffinity"]["required"]
        expression = {"key": "zone", "operator": "In", "values": ["z1"]}
        assert terms == {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


async def test_what_cannot_be_provisioned_is_reported(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, *BINDER) as bench:
        for name, provisioner in {
            "manual": "kubernetes.io/no-provisioner",
            "moved": "kubernetes.io/aws-ebs",
            "host": "kubernetes.io/host-path",
            "nfs": "kubernetes.io/nfs",
            "foreign": "example.com/disks",
        }.items():
            await bench.create(CLASSES, storage_class(name, provisioner))
        await bench.create(CLASSES, storage_class("wrong", parameters={"kind": "ssd"}))
        await bench.create(CLASSES, storage_class("at-once", parameters={"topology": "zone"}))
        expected = {
            "none": ("ProvisioningFailed", 'storageclass.storage.k8s.io "none" not found'),
            "manual": (
                "ProvisioningFailed",
                "no volume plugin matched name: kubernetes.io/no-provisioner",
            ),
            "moved": _external("ebs.csi.aws.com"),
            "host": (
                "ProvisioningFailed",
                "Failed to create provisioner: provisioning in volume plugin "
                '"kubernetes.io/host-path" is disabled',
            ),
            "nfs": ("ProvisioningFailed", "no provisionable volume plugin matched"),
            "foreign": _external("example.com/disks"),
            "wrong": (
                "ProvisioningFailed",
                'Failed to provision volume with StorageClass "wrong": there is no parameter kind; '
                "only topology, a label of nodes",
            ),
            "at-once": (
                "ProvisioningFailed",
                'Failed to provision volume with StorageClass "at-once": '
                "topology needs the volumeBindingMode WaitForFirstConsumer",
            ),
        }
        for name in expected:
            await bench.create(CLAIMS, claim(name, storageClassName=name))
        await bench.rest()
        assert {name: bench.events(name) for name in expected} == {
            name: [event] for name, event in expected.items()
        }
        assert {one["status"]["phase"] for one in bench.all(CLAIMS)} == {"Pending"}
        annotated = bench.get(CLAIMS, "moved")["metadata"]["annotations"]
        assert annotated["volume.kubernetes.io/storage-provisioner"] == "ebs.csi.aws.com"
        # Nothing is lost by waiting until the class exists.
        await bench.create(CLASSES, storage_class("none"))
        await bench.rest()
        assert phase(bench, CLAIMS, "none") == "Bound"


def _external(driver: str) -> tuple[str, str]:
    return (
        "ExternalProvisioning",
        f'waiting for a volume to be created, either by external provisioner "{driver}" '
        "or manually created by system administrator",
    )


async def test_binding_is_finished_after_a_stop_at_any_write(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    for step in range(1, 6):
        path = tmp_path / str(step)
        async with open_bench(path, *BINDER) as bench:
            await bench.create(CLASSES, storage_class("standard"))
            writes = 0

            def stop(definition: object, command: Any, step: int = step) -> None:
                nonlocal writes
                if command.context.user.endswith(":persistent-volume-binder"):
                    writes += 1
                    if writes >= step:
                        raise ShuttingDown

            bench.directory.before = stop
            await bench.create(CLAIMS, claim("c", storageClassName="standard"))
            await bench.rest()
        async with open_bench(path, *BINDER) as bench:
            await bench.rest()
            assert phase(bench, CLAIMS, "c") == "Bound", step
            (made,) = bench.all(VOLUMES, "")
            assert made["status"]["phase"] == "Bound" and made["spec"]["claimRef"]["name"] == "c"


async def test_default_class_is_made_once(tmp_path: Path, autojump_clock: MockClock) -> None:
    options = WorkloadOptions(default_storage_class="standard")
    for _ in range(2):
        async with open_bench(tmp_path, *BINDER, workloads=options) as bench:
            (made,) = bench.all(CLASSES, "")
            assert made["provisioner"] == "sim" and made["metadata"]["name"] == "standard"
            if "c" not in bench.names(CLAIMS):
                wanted = claim("c")
                del wanted["spec"]["storageClassName"]
                await bench.create(CLAIMS, wanted)
            await bench.rest()
            assert phase(bench, CLAIMS, "c") == "Bound"


@pytest.mark.parametrize(("version", "named"), [("1.25", None), ("1.26", "b")])
async def test_claims_get_a_default_class_that_is_created_later_since_1_26(
    tmp_path: Path, autojump_clock: MockClock, version: str, named: str | None
) -> None:
    unnamed = claim("c")
    del unnamed["spec"]["storageClassName"]
    annotated = {**unnamed, "metadata": {"name": "annotated"}}
    annotated["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": "none"}
    async with open_bench(tmp_path, *BINDER, release=choose_release(version)) as bench:
        for one in (unnamed, annotated, claim("empty")):
            await bench.create(CLAIMS, one)
        await bench.rest(1)
        for name in ("a", "c", "b"):  # the newest one, of several the first by name
            if name == "c":
                await bench.rest(5)
            new = storage_class(name)
            new["metadata"]["annotations"] = {
                f"storageclass{'.beta' * (name == 'b')}.kubernetes.io/is-default-class": "true"
            }
            await bench.create(CLASSES, new)
        await bench.rest(60)
        assert bench.get(CLAIMS, "c")["spec"].get("storageClassName") == named
        assert phase(bench, CLAIMS, "c") == ("Bound" if named else "Pending")
        assert "storageClassName" not in bench.get(CLAIMS, "annotated")["spec"]
        assert bench.get(CLAIMS, "empty")["spec"]["storageClassName"] == ""
