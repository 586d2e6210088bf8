"""The ephemeral volume controller creates claims owned by their pod, and does not touch claims of other owners."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from rewound.actors.messages import DeleteOptions, Object
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane

CLAIMS = "persistentvolumeclaims"
SPEC: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
TEMPLATE: Object = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": SPEC}


async def create_pod(cluster: ControlPlane) -> Object:
    volumes = [{"name": name, "ephemeral": {"volumeClaimTemplate": TEMPLATE}} for name in ("v", "w")]
    containers = [{"name": "c", "image": "i"}]
    return await cluster.create("pods", "p", content={"spec": {"containers": containers, "volumes": volumes}})


async def remove_pod(cluster: ControlPlane) -> None:
    at_once = DeleteOptions(grace_period_seconds=0)
    await cluster.client.delete(cluster.catalog.storage("pods"), "default", "p", at_once)


async def test_each_ephemeral_volume_gets_a_claim_that_goes_with_the_pod(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        pod = await create_pod(cluster)
        await cluster.wait_until_idle(1)
        assert cluster.names(CLAIMS) == ["p-v", "p-w"]
        claim = cluster.get(CLAIMS, "p-v")
        assert claim
        metadata = claim["metadata"]
        assert (metadata["labels"], metadata["annotations"]) == ({"a": "b"}, {"c": "d"})
        assert metadata["ownerReferences"] == [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "p",
                "uid": pod["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        assert claim["spec"] == {**SPEC, "volumeMode": "Filesystem"}
        await remove_pod(cluster)
        await cluster.wait_until_idle(5)
        assert cluster.names(CLAIMS) == [] and cluster.names("events") == []


async def test_deleted_claim_is_created_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_pod(cluster)
        await cluster.wait_until_idle(1)
        before = cluster.get(CLAIMS, "p-v")
        await cluster.delete(CLAIMS, "p-v")
        await cluster.wait_until_idle(1)
        after = cluster.get(CLAIMS, "p-v")
        assert before and after and before["metadata"]["uid"] != after["metadata"]["uid"]


async def test_foreign_claim_is_left_alone_and_reported_until_it_is_removed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        protected = ["cluster.io/pvc-protection"]
        foreign = await cluster.create(CLAIMS, "p-v", content={"spec": SPEC}, finalizers=protected)
        await create_pod(cluster)
        await cluster.wait_until_idle(600)
        assert cluster.get(CLAIMS, "p-v") == foreign
        (name,) = cluster.names("events")
        event = cluster.get("events", name)
        assert event and (event["type"], event["reason"]) == ("Warning", "FailedBinding")
        assert event["message"] == (
            "ephemeral volume v: PVC default/p-v was not created for pod default/p (pod is not owner)"
        )
        await cluster.delete(CLAIMS, "p-v")
        await cluster.wait_until_idle(1)
        own = cluster.get(CLAIMS, "p-v")
        assert own and own["metadata"]["ownerReferences"][0]["name"] == "p"


async def test_pods_that_were_created_while_the_server_was_down_get_their_claims(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_pod(cluster)
        assert cluster.names(CLAIMS) == []
    async with open_control_plane(tmp_path) as cluster:
        await cluster.wait_until_idle(1)
        assert cluster.names(CLAIMS) == ["p-v", "p-w"]
        await remove_pod(cluster)
        await cluster.wait_until_idle(5)
        assert cluster.names(CLAIMS) == []
