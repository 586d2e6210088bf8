"""Features that are off unless switched on: what volumes, claims, drivers and policies do once they are on."""

from __future__ import annotations

from typing import Any

from actors.kinds.core import persistent_volume, persistent_volume_claim
from actors.kinds.declaration.definition import Definition
from actors.kinds.networking import network_policy
from actors.kinds.storage import csi_driver
from actors.kinds.validation.field_errors import collect
from actors.names import CLUSTER
from tests.actors.kinds.declared import SYSTEM, told

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}


def on(*features: str) -> frozenset[str]:
    return frozenset(features)


def decoded(definition: Definition, **parts: Any) -> dict[str, Any]:
    made = definition.schema.decode_object({"metadata": {"name": "a"}, **parts}).object
    made["metadata"].update(SYSTEM)
    if definition.namespaced:
        made["metadata"]["namespace"] = "ns"
    return made


def sized(size: str) -> dict[str, Any]:
    return {**CLAIM, "resources": {"requests": {"storage": size}}}


def test_one_pod_alone_may_write() -> None:
    claims = persistent_volume_claim.define(CLUSTER, on("ReadWriteOncePod"))
    alone = decoded(claims, spec={**CLAIM, "accessModes": ["ReadWriteOncePod"]})
    assert collect(claims.strategy.validate_create, alone) == []
    mixed = decoded(claims, spec={**CLAIM, "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]})
    text = "Forbidden: may not use ReadWriteOncePod with other access modes"
    assert told(collect(claims.strategy.validate_create, mixed)) == [("spec.accessModes", text)]
    volumes = persistent_volume.define(CLUSTER, on("ReadWriteOncePod"))
    volume = decoded(
        volumes,
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOncePod"],
            "hostPath": {"path": "/x"},
        },
    )
    assert collect(volumes.strategy.validate_create, volume) == []


def test_those_that_have_the_newest_mode_keep_it() -> None:
    claims = persistent_volume_claim.define(CLUSTER)
    alone = decoded(claims, spec={**CLAIM, "accessModes": ["ReadWriteOncePod"]})
    assert told(collect(claims.strategy.validate_create, alone)) != []
    assert collect(claims.strategy.validate_update, alone, alone) == []


def test_a_failed_expansion_can_be_taken_back() -> None:
    claims = persistent_volume_claim.define(CLUSTER, on("RecoverVolumeExpansionFailure"))
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    old = decoded(claims, spec=sized("3Gi"), status=status)
    assert (
        collect(claims.strategy.validate_update, decoded(claims, spec=sized("2Gi"), status=status), old) == []
    )
    assert told(
        collect(claims.strategy.validate_update, decoded(claims, spec=sized("1Gi"), status=status), old)
    ) == [("spec.resources.requests.storage", "Forbidden: field can not be less than status.capacity")]


def test_how_far_an_expansion_is() -> None:
    claims = persistent_volume_claim.define(CLUSTER, on("RecoverVolumeExpansionFailure"))
    old = decoded(claims, spec=CLAIM)

    def found(**status: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        new = decoded(claims, spec=CLAIM, status=status)
        claims.prepare_status_update(new, old)
        return new, told(collect(claims.validate_status_update, new, old))

    new, causes = found(allocatedResources={"storage": "2Gi"}, resizeStatus="NodeExpansionPending")
    assert causes == [] and new["status"]["resizeStatus"] == "NodeExpansionPending"
    assert [field for field, _ in found(resizeStatus="Soon")[1]] == ["status.resizeStatus"]
    assert found(allocatedResources={"cpu": "1", "storage": "-1"})[1] == [
        ("status.allocatedResources", 'Unsupported value: "cpu": supported values: "storage"'),
        ("status.allocatedResources[storage]", "Invalid value: -1: must be a valid resource quantity"),
    ]


def test_a_class_may_come_afterwards() -> None:
    claims = persistent_volume_claim.define(CLUSTER, on("RetroactiveDefaultStorageClass"))
    old = decoded(claims, spec=CLAIM)
    new = decoded(claims, spec={**CLAIM, "storageClassName": "c"})
    assert collect(claims.strategy.validate_update, new, old) == []
    assert [error.field for error in collect(claims.strategy.validate_update, old, new)] == ["spec"]


def test_nodes_may_need_a_secret_to_expand() -> None:
    secret = {"name": "s", "namespace": "n"}
    source = {"driver": "d.example.com", "volumeHandle": "h", "nodeExpandSecretRef": secret}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": source}
    for features, kept in ((on("CSINodeExpandSecret"), True), (on(), False)):
        volumes = persistent_volume.define(CLUSTER, features)
        volume = decoded(volumes, spec=spec)
        volumes.strategy.prepare_for_create(volume)
        assert ("nodeExpandSecretRef" in volume["spec"]["csi"]) is kept
        assert collect(volumes.strategy.validate_create, volume) == []


def test_drivers_may_label_what_they_mount() -> None:
    drivers = csi_driver.define(CLUSTER, on("SELinuxMountReadWriteOncePod"))
    old = decoded(drivers)
    drivers.strategy.prepare_for_create(old)
    assert old["spec"]["seLinuxMount"] is False
    new = decoded(drivers, spec={"seLinuxMount": True})
    drivers.strategy.prepare_for_update(new, old)
    assert new["spec"]["seLinuxMount"] is True and new["metadata"]["generation"] == 1


def test_policies_may_have_a_status() -> None:
    policies = network_policy.define(CLUSTER, on("NetworkPolicyStatus"))
    old = decoded(policies)
    condition = {"type": "Accepted", "status": "True", "reason": "Well", "message": ""}
    new = decoded(policies, status={"conditions": [condition]})
    policies.prepare_status_update(new, old)
    assert new["status"]["conditions"][0]["type"] == "Accepted"
    assert told(collect(policies.validate_status_update, new, old)) == [
        ("status.conditions[0].lastTransitionTime", "Required value: must be set")
    ]
