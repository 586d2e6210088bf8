"""Volumes, claims, CSI drivers, attachments and projected volumes as each version validates, defaults and warns."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.validation import collect_with
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Causes, create, replace

CLAIM: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
VOLUME: Object = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "csi": {"driver": "d.example.com", "volumeHandle": "h"},
}
TERMS = [{"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "In", "values": ["linux"]}]}]
NOW = "2026-11-18T06:00:00Z"


@cache
def catalog(version: str, gates: str) -> Catalog:
    return built_in(KUBERNETES, choose_release(version, gates))


def kind(plural: str, version: str, gates: str = "") -> Definition:
    served = catalog(version, gates).definitions
    return next(one for one in served if one.plural == plural and one.version == "v1")


def decoded(definition: Definition, **parts: Any) -> Object:
    return definition.schema.decode_object({"metadata": {"name": "a"}, **parts}).object


def warned(definition: Definition, new: Object, old: Object | None = None) -> list[str]:
    warnings = definition.strategy.warnings
    return [] if warnings is None else warnings(new, old)


def update(definition: Definition, before: Object, after: Object) -> Causes:
    stored, _ = create(definition, decoded(definition, **before))
    stored = {**stored, **({"status": before["status"]} if "status" in before else {})}
    return replace(definition, decoded(definition, **after), stored)[1]


def test_new_volumes_have_the_time_of_their_phase() -> None:
    found = {}
    for version in ("1.28", "1.29"):
        volumes = kind("persistentvolumes", version)
        found[version] = create(volumes, decoded(volumes, spec=VOLUME))[0]["status"]
    time = "2020-01-01T00:00:00Z"  # of the write
    assert found == {
        "1.28": {"phase": "Pending"},
        "1.29": {"phase": "Pending", "lastPhaseTransitionTime": time},
    }


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        ({"phase": "Pending"}, "2026-01-01T00:00:00Z"),
        ({"phase": "Bound"}, NOW),
        ({"phase": "Bound", "lastPhaseTransitionTime": "2026-01-01T00:00:00Z"}, NOW),
        ({"phase": "Bound", "lastPhaseTransitionTime": "2026-02-01T00:00:00Z"}, "2026-02-01T00:00:00Z"),
    ],
)
def test_status_of_a_volume_records_when_its_phase_changed(sent: Object, wanted: str) -> None:
    status = kind("persistentvolumes", "1.36").subresource("status")
    assert status is not None and status.stamp is not None
    new: Object = {"status": sent}
    status.stamp(
        new, {"status": {"phase": "Pending", "lastPhaseTransitionTime": "2026-01-01T00:00:00Z"}}, NOW
    )
    assert new["status"]["lastPhaseTransitionTime"] == wanted


def test_volume_warnings_grow_with_the_version() -> None:
    spec = {**VOLUME, "persistentVolumeReclaimPolicy": "Recycle", "rbd": {"monitors": ["m"], "image": "i"}}
    annotations = {
        "volume.beta.kubernetes.io/storage-class": "x",
        "volume.beta.kubernetes.io/mount-options": "y",
    }
    found = {}
    for version in ("1.27", "1.28", "1.30", "1.31"):
        volumes = kind("persistentvolumes", version)
        found[version] = warned(volumes, decoded(volumes, metadata={"annotations": annotations}, spec=spec))
    old_class, source = (
        "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; "
        'use "storageClassName" attribute instead',
        "spec.rbd: deprecated in v1.28, non-functional in v1.31+",
    )
    assert found["1.27"] == []
    assert found["1.28"] == [old_class, source]
    assert [one.partition(":")[0] for one in found["1.30"]][1] == "spec.persistentVolumeReclaimPolicy"
    assert found["1.31"][1].endswith('use "mountOptions" attribute instead') and len(found["1.31"]) == 4


def test_source_of_a_volume_is_immutable_with_a_diff() -> None:
    other = {**VOLUME, "csi": {**VOLUME["csi"], "volumeHandle": "other"}}
    text = "Forbidden: spec.persistentvolumesource is immutable after creation"
    field = "spec.persistentvolumesource"
    assert update(kind("persistentvolumes", "1.33"), {"spec": VOLUME}, {"spec": other}) == [(field, text)]
    causes = update(kind("persistentvolumes", "1.36"), {"spec": VOLUME}, {"spec": other})
    assert causes[0][0] == field and causes[0][1].startswith(f"{text}\n@@ -22,7 +22,7 @@\n")
    assert '-  "VolumeHandle": "h",\n+  "VolumeHandle": "other",\n' in causes[0][1]


@pytest.mark.parametrize(("version", "count"), [("1.26", 1), ("1.27", 0), ("1.36", 0)])
def test_deprecated_labels_in_the_affinity_of_a_volume_may_be_replaced(version: str, count: int) -> None:
    newer = [{"matchExpressions": [{**TERMS[0]["matchExpressions"][0], "key": "kubernetes.io/os"}]}]
    before, after = (
        {"spec": {**VOLUME, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}
        for terms in (TERMS, newer)
    )
    volumes = kind("persistentvolumes", version)
    assert len(update(volumes, before, after)) == count
    assert len(update(volumes, after, before)) == 1


@pytest.mark.parametrize(("version", "kept"), [("1.30", True), ("1.31", False), ("1.36", True)])
def test_volume_drops_its_attributes_class_while_the_gate_is_off(version: str, kept: bool) -> None:
    volumes = kind("persistentvolumes", version)
    new, causes = create(volumes, decoded(volumes, spec={**VOLUME, "volumeAttributesClassName": "gold"}))
    assert causes == [] and ("volumeAttributesClassName" in new["spec"]) is kept


def test_attributes_class_of_a_volume_needs_a_csi_source() -> None:
    volumes = kind("persistentvolumes", "1.36")
    spec = {key: value for key, value in VOLUME.items() if key != "csi"}
    sent = decoded(volumes, spec={**spec, "hostPath": {"path": "/a"}, "volumeAttributesClassName": ""})
    assert create(volumes, sent)[1] == [
        ("spec.volumeAttributesClassName", "Required value: an empty string is disallowed"),
        ("spec.csi", "Required value: has to be specified when using volumeAttributesClassName"),
    ]


CLASS = "spec.volumeAttributesClassName"


@pytest.mark.parametrize(
    ("version", "status", "after", "fields"),
    [
        ("1.36", {"phase": "Bound"}, "silver", []),
        ("1.36", {"phase": "Pending"}, "silver", ["spec"]),
        ("1.36", {"phase": "Bound"}, None, []),
        ("1.36", {"phase": "Bound", "currentVolumeAttributesClassName": "gold"}, None, [CLASS]),
        ("1.36", {"phase": "Bound", "currentVolumeAttributesClassName": "gold"}, "", [CLASS]),
        ("1.33", {"phase": "Bound"}, None, ["spec", CLASS]),
        ("1.30", {"phase": "Pending"}, "silver", []),
    ],
)
def test_attributes_class_of_a_claim_changes_as_the_version_allows(
    version: str, status: Object, after: str | None, fields: list[str]
) -> None:
    gates = "" if version == "1.36" else "VolumeAttributesClass=true"
    claims = kind("persistentvolumeclaims", version, gates)
    wanted = {} if after is None else {"volumeAttributesClassName": after}
    before = {"spec": {**CLAIM, "volumeAttributesClassName": "gold"}, "status": status}
    causes = update(claims, before, {"spec": {**CLAIM, **wanted}})
    assert [field for field, _ in causes] == fields


def test_claim_may_name_data_of_another_namespace_only_with_the_gate() -> None:
    reference = {"apiGroup": "example.com", "kind": "Backup", "name": "b", "namespace": "other"}
    off = kind("persistentvolumeclaims", "1.36")
    new, _ = create(off, decoded(off, spec={**CLAIM, "dataSourceRef": reference}))
    assert "dataSourceRef" not in new["spec"]
    on = kind("persistentvolumeclaims", "1.36", "CrossNamespaceVolumeDataSource=true")
    new, causes = create(on, decoded(on, spec={**CLAIM, "dataSourceRef": reference}))
    assert causes == [] and new["spec"]["dataSourceRef"] == reference and "dataSource" not in new["spec"]


def test_states_of_resizing_by_resource() -> None:
    claims = kind("persistentvolumeclaims", "1.36")
    status = claims.subresource("status")
    assert status is not None
    old: Object = {"metadata": {"name": "a"}, "spec": CLAIM, "status": {}}
    states = {"cpu": "NodeResizePending", "storage": "NodeResizeFailed"}
    new = {**old, "status": {"allocatedResourceStatuses": states}}
    found = collect_with(claims.features, status.validate, new, old)
    field = "status.allocatedResourceStatuses"
    assert [one.field for one in found if one.field.startswith("status")] == [field, field]


def test_fractional_size_of_a_claim_is_warned_about() -> None:
    spec = {**CLAIM, "resources": {"requests": {"storage": "1500m"}}}
    text = 'spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer'
    for version, wanted in (("1.25", []), ("1.26", [text])):
        claims = kind("persistentvolumeclaims", version)
        assert warned(claims, decoded(claims, spec=spec)) == wanted


@pytest.mark.parametrize(("version", "fields"), [("1.29", ["spec.fsGroupPolicy"]), ("1.30", [])])
def test_fs_group_policy_of_a_driver_becomes_mutable(version: str, fields: list[str]) -> None:
    drivers = kind("csidrivers", version)
    causes = update(drivers, {"spec": {}}, {"spec": {"fsGroupPolicy": "File"}})
    assert [field for field, _ in causes] == fields


def test_driver_with_tokens_outside_of_secrets_is_warned_about() -> None:
    drivers = kind("csidrivers", "1.36")
    with_tokens = decoded(drivers, spec={"tokenRequests": [{"audience": "x"}]})
    assert len(warned(drivers, with_tokens)) == 1
    assert warned(drivers, with_tokens, with_tokens) == []
    unset = create(drivers, decoded(drivers, spec={"serviceAccountTokenInSecrets": True}))[1]
    assert [field for field, _ in unset] == ["spec.serviceAccountTokenInSecrets"]


@pytest.mark.parametrize(("version", "count"), [("1.30", 3), ("1.35", 2), ("1.36", 1)])
def test_absent_attacher_is_reported_once_in_the_newest_version(version: str, count: int) -> None:
    attachments = kind("volumeattachments", version)
    sent = decoded(attachments, spec={"source": {"persistentVolumeName": "p"}, "nodeName": "n"})
    assert len(create(attachments, sent)[1]) == count


@pytest.mark.parametrize(
    ("version", "fields"), [("1.30", ["CSINodeDriver"]), ("1.33", ["spec.drivers"]), ("1.36", [])]
)
def test_limits_of_a_driver_on_a_node_become_mutable(version: str, fields: list[str]) -> None:
    nodes = kind("csinodes", version)
    driver: Object = {"name": "d.example.com", "nodeID": "n"}
    before, after = ({"spec": {"drivers": [{**driver, "allocatable": {"count": one}}]}} for one in (1, 2))
    assert [field for field, _ in update(nodes, before, after)] == fields


def projected(version: str, gates: str, *sources: Object) -> list[tuple[str, str]]:
    pods = kind("pods", version, gates)
    volumes = [{"name": "v", "projected": {"sources": list(sources)}}]
    sent = decoded(
        pods,
        metadata={"name": "a", "namespace": "default"},
        spec={"serviceAccountName": "s", "containers": [{"name": "c", "image": "i"}], "volumes": volumes},
    )
    return create(pods, sent)[1]


def test_projected_trust_bundles() -> None:
    gates, field = "ClusterTrustBundle=true,ClusterTrustBundleProjection=true", "spec.volumes[0].projected"
    valid = {"clusterTrustBundle": {"signerName": "example.com/s", "path": "a"}}
    assert projected("1.36", gates, valid) == []
    wrong = (
        {"clusterTrustBundle": {"path": "a"}},
        {"clusterTrustBundle": {"name": "a:b:c", "path": "../b", "labelSelector": {}}},
        {"clusterTrustBundle": {"name": "x", "path": "a"}},
    )
    found = [name for name, _ in projected("1.36", gates, *wrong)]
    bundle = f"{field}.sources[{{}}].clusterTrustBundle"
    assert found == [
        bundle.format(0),
        f"{bundle.format(1)}.labelSelector",
        f"{bundle.format(1)}.path",
        field,
    ]


def test_projected_certificates() -> None:
    gates, field = "PodCertificateRequest=true", "spec.volumes[0].projected.sources[0].podCertificate"
    valid = {"signerName": "example.com/s", "keyType": "ED25519", "credentialBundlePath": "a"}
    assert projected("1.36", gates, {"podCertificate": valid}) == []
    wrong = {
        "signerName": "kubernetes.io/s",
        "keyType": "x",
        "maxExpirationSeconds": 86401,
        "userAnnotations": {"plain": "x"},
    }
    found = [name for name, _ in projected("1.36", gates, {"podCertificate": wrong})]
    assert found == [
        f"{field}.userAnnotations",
        f"{field}.keyType",
        f"{field}.maxExpirationSeconds",
        field,
    ]


@pytest.mark.parametrize(("version", "count"), [("1.29", 0), ("1.30", 1)])
def test_path_of_a_projected_token_stays_in_its_volume(version: str, count: int) -> None:
    assert len(projected(version, "", {"serviceAccountToken": {"path": "../x"}})) == count
