"""PVC, PV and VAC protection: a deleted claim, volume or class loses its finalizer when nothing uses it any more."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.controllers.storage import PodsByClaim, _uses
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.versions.features import choose_release
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane, owner_reference

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
PROTECTED = {CLAIMS: ["cluster.io/pvc-protection"], VOLUMES: ["cluster.io/pv-protection"]}
CLAIM_SPEC: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME_SPEC: Object = {
    "accessModes": ["ReadWriteOnce"],
    "capacity": {"storage": "1Gi"},
    "hostPath": {"path": "/data"},
}
DIRECT: Object = {"persistentVolumeClaim": {"claimName": "c"}}
EPHEMERAL: Object = {"ephemeral": {"volumeClaimTemplate": {"spec": CLAIM_SPEC}}}
LATER = 0.5


async def create_claim(cluster: ControlPlane, name: str = "c", **metadata: object) -> Object:
    metadata = {"finalizers": PROTECTED[CLAIMS], **metadata}
    return await cluster.create(CLAIMS, name, content={"spec": CLAIM_SPEC}, **metadata)


async def create_volume(cluster: ControlPlane, phase: str) -> None:
    created = await cluster.create(VOLUMES, "v", content={"spec": VOLUME_SPEC}, finalizers=PROTECTED[VOLUMES])
    changed = {**created, "status": {"phase": phase}}
    await cluster.client.replace(cluster.catalog.storage(VOLUMES), changed, "status")


async def create_pod(
    cluster: ControlPlane, volume: Object = DIRECT, node: str = "n", **metadata: object
) -> Object:
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", **volume}]}
    node_name = {"nodeName": node} if node else {}
    return await cluster.create("pods", "p", content={"spec": {**spec, **node_name}}, **metadata)


async def remove_pod(cluster: ControlPlane) -> None:
    at_once = DeleteOptions(grace_period_seconds=0)
    await cluster.client.delete(cluster.catalog.storage("pods"), "default", "p", at_once)


async def test_unused_claim_is_removed_when_it_is_deleted(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_claim(cluster)
        await cluster.wait_until_idle(LATER)
        assert cluster.get(CLAIMS, "c")
        await cluster.delete(CLAIMS, "c")
        await cluster.wait_until_idle(LATER)
        assert cluster.get(CLAIMS, "c") is None
        assert cluster.events(CLAIMS, "c")[-1].user.endswith(":pvc-protection-controller")


async def test_other_finalizers_stay(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_claim(cluster, finalizers=["example.com/mine", *PROTECTED[CLAIMS]])
        await cluster.delete(CLAIMS, "c")
        await cluster.wait_until_idle(3600)
        claim = cluster.get(CLAIMS, "c")
        assert claim and claim["metadata"]["finalizers"] == ["example.com/mine"]
        assert len(cluster.events(CLAIMS, "c")) == 3  # created, being deleted, released


async def test_claim_stays_until_its_pod_is_removed(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_claim(cluster)
        pod = await create_pod(cluster)
        await cluster.delete(CLAIMS, "c")
        await cluster.wait_until_idle(3600)
        finished = {**pod, "status": {**pod["status"], "phase": "Succeeded"}}
        await cluster.client.replace(cluster.catalog.storage("pods"), finished, "status")
        await cluster.wait_until_idle(3600)
        assert cluster.is_being_deleted(CLAIMS, "c")
        await remove_pod(cluster)
        await cluster.wait_until_idle(LATER)
        assert cluster.get(CLAIMS, "c") is None


async def test_pods_without_a_node_or_in_another_namespace_do_not_use_a_claim(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_claim(cluster)
        await create_pod(cluster, node="")
        await create_pod(cluster, namespace="cluster-system")
        await cluster.delete(CLAIMS, "c")
        await cluster.wait_until_idle(LATER)
        assert cluster.get(CLAIMS, "c") is None


@pytest.mark.parametrize("owned", [True, False])
async def test_ephemeral_volume_uses_only_the_claim_of_its_pod(
    tmp_path: Path, autojump_clock: MockClock, owned: bool
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        pod = await create_pod(cluster, EPHEMERAL)
        owners = [owner_reference(pod, "Pod", controller=True)] if owned else []
        await create_claim(cluster, "p-v", owners=owners)
        await cluster.delete(CLAIMS, "p-v")
        await cluster.wait_until_idle(LATER)
        assert cluster.is_being_deleted(CLAIMS, "p-v") is owned


async def test_pod_that_its_finalizer_keeps_releases_its_ephemeral_claim(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        pod = await create_pod(cluster, EPHEMERAL, finalizers=["example.com/keep"])
        await create_claim(cluster, "p-v", owners=[owner_reference(pod, "Pod", controller=True)])
        await cluster.delete(CLAIMS, "p-v")
        await remove_pod(cluster)
        await cluster.wait_until_idle(LATER)
        assert cluster.is_being_deleted("pods", "p") and cluster.get(CLAIMS, "p-v") is None


async def test_after_a_restart_used_claims_stay_and_unused_ones_go(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_claim(cluster)
        await create_claim(cluster, "unused")
        await create_pod(cluster)
        await cluster.delete(CLAIMS, "c")
        await cluster.delete(CLAIMS, "unused")
    async with open_control_plane(tmp_path) as cluster:
        await cluster.wait_until_idle(LATER)
        assert cluster.names(CLAIMS) == ["c"]
        await remove_pod(cluster)
        await cluster.wait_until_idle(LATER)
        assert cluster.names(CLAIMS) == []


async def test_claim_that_changes_during_the_release_is_released_afterwards(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def change() -> None:
        claim = cluster.get(CLAIMS, "c")
        assert claim
        claim["metadata"]["labels"] = {"changed": "yes"}
        await cluster.replace(CLAIMS, claim)

    async with open_control_plane(tmp_path) as cluster:
        await create_claim(cluster)
        await cluster.delete(CLAIMS, "c")
        cluster.before_write("pvc-protection-controller", change)
        await cluster.wait_until_idle(3 * LATER)
        assert cluster.get(CLAIMS, "c") is None
        assert b"changed" in cluster.events(CLAIMS, "c")[-1].body


async def test_volume_stays_while_it_is_bound(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_volume(cluster, "Bound")
        await cluster.delete(VOLUMES, "v")
        await cluster.wait_until_idle(3600)
        volume = cluster.get(VOLUMES, "v")
        assert volume and cluster.is_being_deleted(VOLUMES, "v")
        volume["status"]["phase"] = "Released"
        await cluster.client.replace(cluster.catalog.storage(VOLUMES), volume, "status")
        await cluster.wait_until_idle(LATER)
        assert cluster.get(VOLUMES, "v") is None


async def test_unbound_volume_is_removed(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_volume(cluster, "Available")
        await cluster.delete(VOLUMES, "v")
        await cluster.wait_until_idle(LATER)
        assert cluster.get(VOLUMES, "v") is None


def test_index_holds_nothing_for_pods_that_are_removed() -> None:
    index, pod = PodsByClaim(_uses), ("n", "p")
    volumes = b'[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]'
    index.update(
        pod, b'{"metadata":{"name":"p","uid":"u"},"spec":{"nodeName":"n","volumes":' + volumes + b"}}"
    )
    assert index.uses(("n", "c"), ())
    assert index.remove(pod) == [("n", "c")] and not index.uses(("n", "c"), ())
    assert not index._claims and not index._pods


async def test_missing_finalizers_are_added(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_claim(cluster, finalizers=["example.com/mine"])
        await cluster.create(VOLUMES, "v", content={"spec": VOLUME_SPEC})
        await cluster.wait_until_idle(LATER)
        claim, volume = cluster.get(CLAIMS, "c"), cluster.get(VOLUMES, "v")
        assert claim and claim["metadata"]["finalizers"] == ["example.com/mine", *PROTECTED[CLAIMS]]
        assert volume and volume["metadata"]["finalizers"] == PROTECTED[VOLUMES]


async def test_deleted_object_gets_no_finalizer(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_claim(cluster, finalizers=["example.com/mine"])
        await cluster.delete(CLAIMS, "c")
    async with open_control_plane(tmp_path) as cluster:
        await cluster.wait_until_idle(LATER)
        claim = cluster.get(CLAIMS, "c")
        assert claim and claim["metadata"]["finalizers"] == ["example.com/mine"]


async def test_attributes_class_stays_until_no_claim_names_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    classes = "volumeattributesclasses.storage.cluster.io"
    async with open_control_plane(tmp_path, release=choose_release("1.36")) as cluster:
        for name in ("gold", "silver"):
            content = {"driverName": "d.example.com", "parameters": {"a": "b"}}
            await cluster.create(classes, name, content=content)
        spec = {**CLAIM_SPEC, "volumeAttributesClassName": "gold"}
        await cluster.create(CLAIMS, "c", content={"spec": spec})
        await cluster.wait_until_idle(LATER)
        found = cluster.get(classes, "gold")
        assert found and found["metadata"]["finalizers"] == ["cluster.io/vac-protection"]
        await cluster.delete(classes, "gold")
        await cluster.delete(classes, "silver")
        await cluster.wait_until_idle(3600)
        assert cluster.is_being_deleted(classes, "gold") and cluster.get(classes, "silver") is None
        await cluster.delete(CLAIMS, "c")
        await cluster.wait_until_idle(LATER)
        assert cluster.get(classes, "gold") is None
        user = cluster.events(classes, "gold")[-1].user
        assert user.endswith(":volumeattributesclass-protection-controller")


def unused(cluster: ControlPlane, name: str = "c") -> tuple[str, str]:
    claim = cluster.get(CLAIMS, name)
    assert claim
    (found,) = (one for one in claim["status"]["conditions"] if one["type"] == "Unused")
    return found["status"], found["reason"]


async def test_claim_says_since_when_no_pod_has_used_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    release = choose_release("1.36", "PersistentVolumeClaimUnusedSinceTime=true")
    async with open_control_plane(tmp_path, release=release) as cluster:
        resizing = {"type": "Resizing", "status": "True"}
        created = await create_claim(cluster)
        changed = {**created, "status": {"conditions": [resizing]}}
        await cluster.client.replace(cluster.catalog.storage(CLAIMS), changed, "status")
        await cluster.wait_until_idle(LATER)
        assert unused(cluster) == ("True", "NoPodsUsingPVC")
        await create_pod(cluster, node="")  # it need not have a node
        await cluster.wait_until_idle(LATER)
        assert unused(cluster) == ("False", "PodUsingPVC")
        versions = len(cluster.events(CLAIMS, "c"))
        pod = cluster.get("pods", "p")
        assert pod
        finished = {**pod, "status": {**pod["status"], "phase": "Succeeded"}}
        await cluster.client.replace(cluster.catalog.storage("pods"), finished, "status")
        await cluster.wait_until_idle(3600)
        assert unused(cluster) == ("True", "NoPodsUsingPVC")
        await remove_pod(cluster)
        await cluster.wait_until_idle(3600)
        assert len(cluster.events(CLAIMS, "c")) == versions + 1
        claim = cluster.get(CLAIMS, "c")
        assert claim and [one["type"] for one in claim["status"]["conditions"]] == ["Resizing", "Unused"]
        assert cluster.events(CLAIMS, "c")[-1].user.endswith(":pvc-protection-controller")


async def test_claim_that_somebody_else_made_is_not_used_by_an_ephemeral_volume(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    release = choose_release("1.36", "PersistentVolumeClaimUnusedSinceTime=true")
    async with open_control_plane(tmp_path, release=release) as cluster:
        await create_claim(cluster, "p-v")
        await create_pod(cluster, EPHEMERAL)
        await cluster.wait_until_idle(LATER)
        assert unused(cluster, "p-v") == ("True", "NoPodsUsingPVC")
        await cluster.delete(CLAIMS, "p-v")
        await cluster.wait_until_idle(LATER)
        made = cluster.get(CLAIMS, "p-v")  # by the controller of ephemeral volumes
        assert made and made["metadata"]["ownerReferences"][0]["name"] == "p"
        assert unused(cluster, "p-v") == ("False", "PodUsingPVC")


async def test_without_the_gate_claims_do_not_say_so(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path, release=choose_release("1.36")) as cluster:
        await create_claim(cluster)
        await create_pod(cluster)
        await cluster.wait_until_idle(3600)
        assert len(cluster.events(CLAIMS, "c")) == 1
