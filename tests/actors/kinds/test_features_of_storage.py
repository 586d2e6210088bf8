"""Features that are off by default: what volumes, claims, drivers and policies do with them on."""

from __future__ import annotations

from typing import Any

from actors.kinds.core import persistent_volume, persistent_volume_claim
from actors.kinds.declaration.definition import Definition
from actors.kinds.networking import network_policy
from actors.kinds.storage import csi_driver
from actors.names import CLUSTER
from tests.actors.kinds.declared import Causes, create, replace

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}


def on(*features: str) -> frozenset[str]:
    return frozenset(features)


def decoded(definition: Definition, **parts: Any) -> dict[str, Any]:
    return definition.schema.decode_object({"metadata": {"name": "a"}, **parts}).object


def stored(definition: Definition, **parts: Any) -> dict[str, Any]:
    """An object as it is stored once a controller has set its status."""
    made, _ = create(definition, decoded(definition, **parts))
    return {**made, "status": parts["status"]} if "status" in parts else made


def sized(size: str) -> dict[str, Any]:
    return {**CLAIM, "resources": {"requests": {"storage": size}}}


def test_one_pod_alone_may_write() -> None:
    claims = persistent_volume_claim.define(CLUSTER, on("ReadWriteOncePod"))
    alone = decoded(claims, spec={**CLAIM, "accessModes": ["ReadWriteOncePod"]})
    assert create(claims, alone)[1] == []
    mixed = decoded(claims, spec={**CLAIM, "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]})
    text = "Forbidden: may not use ReadWriteOncePod with other access modes"
    assert create(claims, mixed)[1] == [("spec.accessModes", text)]
    volumes = persistent_volume.define(CLUSTER, on("ReadWriteOncePod"))
    volume = decoded(
        volumes,
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOncePod"],
            "hostPath": {"path": "/x"},
        },
    )
    assert create(volumes, volume)[1] == []


def test_those_that_have_the_newest_mode_keep_it() -> None:
    claims = persistent_volume_claim.define(CLUSTER)
    alone = decoded(claims, spec={**CLAIM, "accessModes": ["ReadWriteOncePod"]})
    kept, causes = create(claims, alone)
    assert causes != []
    assert replace(claims, alone, kept)[1] == []


def test_a_failed_expansion_can_be_reverted() -> None:
    claims = persistent_volume_claim.define(CLUSTER, on("RecoverVolumeExpansionFailure"))
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    old = stored(claims, spec=sized("3Gi"), status=status)
    assert replace(claims, decoded(claims, spec=sized("2Gi"), status=status), old)[1] == []
    assert replace(claims, decoded(claims, spec=sized("1Gi"), status=status), old)[1] == [
        ("spec.resources.requests.storage", "Forbidden: field can not be less than status.capacity")
    ]


def test_how_far_an_expansion_is() -> None:
    claims = persistent_volume_claim.define(CLUSTER, on("RecoverVolumeExpansionFailure"))
    old = stored(claims, spec=CLAIM)

    def found(**status: Any) -> tuple[dict[str, Any], Causes]:
        return replace(claims, decoded(claims, spec=CLAIM, status=status), old, "status")

    new, causes = found(allocatedResources={"storage": "2Gi"}, resizeStatus="NodeExpansionPending")
    assert causes == [] and new["status"]["resizeStatus"] == "NodeExpansionPending"
    assert [field for field, _ in found(resizeStatus="Soon")[1]] == ["status.resizeStatus"]
    assert found(allocatedResources={"cpu": "1", "storage": "-1"})[1] == [
        ("status.allocatedResources", 'Unsupported value: "cpu": supported values: "storage"'),
        ("status.allocatedResources[storage]", "Invalid value: -1: must be a valid resource quantity"),
    ]


def test_a_class_may_come_afterwards() -> None:
    claims = persistent_volume_claim.define(CLUSTER, on("RetroactiveDefaultStorageClass"))
    old = stored(claims, spec=CLAIM)
    new = stored(claims, spec={**CLAIM, "storageClassName": "c"})
    assert replace(claims, new, old)[1] == []
    assert [field for field, _ in replace(claims, old, new)[1]] == ["spec"]


def test_nodes_may_need_a_secret_to_expand() -> None:
    secret = {"name": "s", "namespace": "n"}
    source = {"driver": "d.example.com", "volumeHandle": "h", "nodeExpandSecretRef": secret}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": source}
    for features, kept in ((on("CSINodeExpandSecret"), True), (on(), False)):
        volumes = persistent_volume.define(CLUSTER, features)
        volume, causes = create(volumes, decoded(volumes, spec=spec))
        assert ("nodeExpandSecretRef" in volume["spec"]["csi"]) is kept
        assert causes == []


def test_drivers_may_label_what_they_mount() -> None:
    drivers = csi_driver.define(CLUSTER, on("SELinuxMountReadWriteOncePod"))
    old = stored(drivers)
    assert old["spec"]["seLinuxMount"] is False
    new, _ = replace(drivers, decoded(drivers, spec={"seLinuxMount": True}), old)
    assert new["spec"]["seLinuxMount"] is True and new["metadata"]["generation"] == 1


def test_policies_may_have_a_status() -> None:
    policies = network_policy.define(CLUSTER, on("NetworkPolicyStatus"))
    old = stored(policies)
    condition = {"type": "Accepted", "status": "True", "reason": "Well", "message": ""}
    sent = decoded(policies, status={"conditions": [condition]})
    new, causes = replace(policies, sent, old, "status")
    assert new["status"]["conditions"][0]["type"] == "Accepted"
    assert causes == [("status.conditions[0].lastTransitionTime", "Required value: must be set")]
