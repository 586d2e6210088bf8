"""Alpha features of volumes, claims, CSI drivers and network policies, when they are enabled."""

from __future__ import annotations

import dataclasses
from typing import Any

from rewound.actors.kinds import networking, storage
from rewound.actors.kinds.core import persistent_volumes
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import CLUSTER
from tests.actors.kinds.definitions import Causes, create, replace

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}


def on(*features: str) -> frozenset[str]:
    return frozenset(features)


def decoded(definition: Definition, **parts: Any) -> dict[str, Any]:
    return definition.schema.decode_object({"metadata": {"name": "a"}, **parts}).object


def stored(definition: Definition, **parts: Any) -> dict[str, Any]:
    """An object as stored after a controller has set its status."""
    new, _ = create(definition, decoded(definition, **parts))
    return {**new, "status": parts["status"]} if "status" in parts else new


def sized(size: str) -> dict[str, Any]:
    return {**CLAIM, "resources": {"requests": {"storage": size}}}


def test_read_write_once_pod_excludes_other_access_modes() -> None:
    features = on("ReadWriteOncePod")
    claims = dataclasses.replace(persistent_volumes.define_claim(CLUSTER, features), features=features)
    alone = decoded(claims, spec={**CLAIM, "accessModes": ["ReadWriteOncePod"]})
    assert create(claims, alone)[1] == []
    mixed = decoded(claims, spec={**CLAIM, "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]})
    text = "Forbidden: may not use ReadWriteOncePod with other access modes"
    assert create(claims, mixed)[1] == [("spec.accessModes", text)]
    volumes = persistent_volumes.define_volume(CLUSTER, on("ReadWriteOncePod"))
    volume = decoded(
        volumes,
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOncePod"],
            "hostPath": {"path": "/x"},
        },
    )
    assert create(volumes, volume)[1] == []


def test_update_may_keep_read_write_once_pod_while_its_feature_is_disabled() -> None:
    claims = persistent_volumes.define_claim(CLUSTER)
    alone = decoded(claims, spec={**CLAIM, "accessModes": ["ReadWriteOncePod"]})
    stored_claim, causes = create(claims, alone)
    assert causes != []
    assert replace(claims, alone, stored_claim)[1] == []


def test_failed_expansion_can_be_reverted_down_to_the_capacity() -> None:
    claims = persistent_volumes.define_claim(CLUSTER, on("RecoverVolumeExpansionFailure"))
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    old = stored(claims, spec=sized("3Gi"), status=status)
    assert replace(claims, decoded(claims, spec=sized("2Gi"), status=status), old)[1] == []
    assert replace(claims, decoded(claims, spec=sized("1Gi"), status=status), old)[1] == [
        ("spec.resources.requests.storage", "Forbidden: field can not be less than status.capacity")
    ]


def test_status_update_validates_the_state_of_an_expansion() -> None:
    claims = persistent_volumes.define_claim(CLUSTER, on("RecoverVolumeExpansionFailure"))
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


def test_storage_class_can_be_set_on_an_existing_claim() -> None:
    claims = persistent_volumes.define_claim(CLUSTER, on("RetroactiveDefaultStorageClass"))
    old = stored(claims, spec=CLAIM)
    new = stored(claims, spec={**CLAIM, "storageClassName": "c"})
    assert replace(claims, new, old)[1] == []
    assert [field for field, _ in replace(claims, old, new)[1]] == ["spec"]


def test_node_expand_secret_is_dropped_while_its_feature_is_disabled() -> None:
    secret = {"name": "s", "namespace": "n"}
    source = {"driver": "d.example.com", "volumeHandle": "h", "nodeExpandSecretRef": secret}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": source}
    for features, enabled in ((on("CSINodeExpandSecret"), True), (on(), False)):
        volumes = persistent_volumes.define_volume(CLUSTER, features)
        volume, causes = create(volumes, decoded(volumes, spec=spec))
        assert ("nodeExpandSecretRef" in volume["spec"]["csi"]) is enabled
        assert causes == []


def test_se_linux_mount_can_be_set_with_its_feature() -> None:
    drivers = storage.define_csi_driver(CLUSTER, on("SELinuxMountReadWriteOncePod"))
    old = stored(drivers)
    assert old["spec"]["seLinuxMount"] is False
    new, _ = replace(drivers, decoded(drivers, spec={"seLinuxMount": True}), old)
    assert new["spec"]["seLinuxMount"] is True and new["metadata"]["generation"] == 1


def test_network_policy_status_can_be_updated_with_its_feature() -> None:
    policies = networking.define_network_policy(CLUSTER, on("NetworkPolicyStatus"))
    old = stored(policies)
    condition = {"type": "Accepted", "status": "True", "reason": "Well", "message": ""}
    sent = decoded(policies, status={"conditions": [condition]})
    new, causes = replace(policies, sent, old, "status")
    assert new["status"]["conditions"][0]["type"] == "Accepted"
    assert causes == [("status.conditions[0].lastTransitionTime", "Required value: must be set")]
