"""Every rule and limit that the API documentation names: violations are refused at their field."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.documented import ANY, CLAIM, LABELS, valid_document
from tests.cases import cases

MEBIBYTE = 1024 * 1024
LONG = "x" * 200
OTHER_CLAIM = {"kind": "PersistentVolumeClaim", "name": "other"}


def volume(**source: Any) -> dict[str, Any]:
    return {"spec.volumes": [{"name": "v", **source}]}


def token(**fields: Any) -> dict[str, Any]:
    return volume(projected={"sources": [{"serviceAccountToken": fields}]})


def policy(path: str, value: Any) -> tuple[str, dict[str, Any]]:
    return "podsecuritypolicies", {f"spec.{path}": value}


# rule of the documentation, kind, changes that make a valid document violate it, the refused field
RULES: list[tuple[str, str, dict[str, Any], str]] = [
    (
        "verbs are required",
        "clusterroles",
        {"rules": [{"apiGroups": [""], "resources": ["a"]}]},
        "rules[0].verbs",
    ),
    (
        "resources or paths, not both",
        "clusterroles",
        {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["a"], "nonResourceURLs": ["/x"]}]},
        "rules[0].nonResourceURLs",
    ),
    ("serviceName is required", "statefulsets", {"spec.serviceName": ...}, "spec.serviceName"),
    ("selector is required", "statefulsets", {"spec.selector": ...}, "spec.selector"),
    (
        "selector matches the template",
        "statefulsets",
        {"spec.selector": {"matchLabels": {"app": "other"}}},
        "spec.template.metadata.labels",
    ),
    ("template is required", "statefulsets", {"spec.template": ...}, "spec.template.metadata.labels"),
    ("replicas is no negative number", "statefulsets", {"spec.replicas": -1}, "spec.replicas"),
    (
        "strategies are two",
        "statefulsets",
        {"spec.updateStrategy": {"type": "Other"}},
        "spec.updateStrategy",
    ),
    (
        "partition is no negative number",
        "statefulsets",
        {"spec.updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": -1}}},
        "spec.updateStrategy.rollingUpdate.partition",
    ),
    (
        "management policies are two",
        "statefulsets",
        {"spec.podManagementPolicy": "Other"},
        "spec.podManagementPolicy",
    ),
    (
        "minReadySeconds is no negative number",
        "statefulsets",
        {"spec.minReadySeconds": -1},
        "spec.minReadySeconds",
    ),
    ("keys are of letters, digits, - _ .", "configmaps", {"data": {"a b": "c"}}, "data[a b]"),
    ("keys of bytes too", "configmaps", {"binaryData": {"a/b": "AA=="}}, "binaryData[a/b]"),
    ("keys do not overlap", "configmaps", {"data": {"k": "v"}, "binaryData": {"k": "AA=="}}, "data[k]"),
    ("values within 1 MiB", "configmaps", {"data": {"k": "v" * (MEBIBYTE + 1)}}, ""),
    ("values within MaxSecretSize", "secrets", {"stringData": {"k": "v" * (MEBIBYTE + 1)}}, "data"),
    (
        "modes within 0777",
        "pods",
        volume(configMap={"name": "c", "defaultMode": 512}),
        "configMap.defaultMode",
    ),
    ("modes from 0", "pods", volume(secret={"secretName": "s", "defaultMode": -1}), "secret.defaultMode"),
    (
        "modes of items too",
        "pods",
        volume(configMap={"name": "c", "items": [{"key": "k", "path": "p", "mode": 512}]}),
        "configMap.items[0].mode",
    ),
    (
        "item paths are relative",
        "pods",
        volume(configMap={"name": "c", "items": [{"key": "k", "path": "/p"}]}),
        "configMap.items[0].path",
    ),
    (
        "item paths hold no ..",
        "pods",
        volume(secret={"secretName": "s", "items": [{"key": "k", "path": "a/../b"}]}),
        "secret.items[0].path",
    ),
    (
        "item paths do not start with ..",
        "pods",
        volume(secret={"secretName": "s", "items": [{"key": "k", "path": "..b"}]}),
        "secret.items[0].path",
    ),
    (
        "items need a key",
        "pods",
        volume(configMap={"name": "c", "items": [{"path": "p"}]}),
        "configMap.items[0].key",
    ),
    (
        "items need a path",
        "pods",
        volume(configMap={"name": "c", "items": [{"key": "k"}]}),
        "configMap.items[0].path",
    ),
    (
        "files of fields need a path",
        "pods",
        volume(downwardAPI={"items": [{"fieldRef": {"fieldPath": "metadata.name"}}]}),
        "downwardAPI.path",
    ),
    (
        "files of fields stay inside",
        "pods",
        volume(downwardAPI={"items": [{"path": "../a", "fieldRef": {"fieldPath": "metadata.name"}}]}),
        "downwardAPI.path",
    ),
    (
        "files of fields are of four fields",
        "pods",
        volume(downwardAPI={"items": [{"path": "a", "fieldRef": {"fieldPath": "spec.nodeName"}}]}),
        "downwardAPI.fieldRef.fieldPath",
    ),
    (
        "files of amounts are of four amounts",
        "pods",
        volume(
            downwardAPI={
                "items": [{"path": "a", "resourceFieldRef": {"containerName": "c", "resource": "x"}}]
            }
        ),
        "downwardAPI.resourceFieldRef.resource",
    ),
    ("tokens need a path", "pods", token(), "projected.path"),
    (
        "tokens last ten minutes at least",
        "pods",
        token(path="t", expirationSeconds=599),
        "projected.sources[0].serviceAccountToken.expirationSeconds",
    ),
    ("csi needs a driver", "pods", volume(csi={}), "csi.driver"),
    ("fc needs wwids or names", "pods", volume(fc={}), "fc.targetWWNs"),
    ("fc names come with a lun", "pods", volume(fc={"targetWWNs": ["w"]}), "fc.lun"),
    (
        "fc has not both",
        "pods",
        volume(fc={"targetWWNs": ["w"], "lun": 0, "wwids": ["w"]}),
        "fc.targetWWNs",
    ),
    (
        "iscsi needs a portal",
        "pods",
        volume(iscsi={"iqn": "iqn.2001-04.com.example:a"}),
        "iscsi.targetPortal",
    ),
    ("iscsi needs an iqn", "pods", volume(iscsi={"targetPortal": "p"}), "iscsi.iqn"),
    (
        "iscsi luns are small",
        "pods",
        volume(iscsi={"targetPortal": "p", "iqn": "iqn.2001-04.com.example:a", "lun": 256}),
        "iscsi.lun",
    ),
    ("flexVolume needs a driver", "pods", volume(flexVolume={}), "flexVolume.driver"),
    ("gitRepo needs a repository", "pods", volume(gitRepo={}), "gitRepo.repository"),
    ("ephemeral needs a template", "pods", volume(ephemeral={}), "ephemeral.volumeClaimTemplate"),
    (
        "of an ephemeral claim's metadata, labels and annotations",
        "pods",
        volume(ephemeral={"volumeClaimTemplate": {"metadata": {"name": "x"}, "spec": CLAIM}}),
        "ephemeral.volumeClaimTemplate.metadata",
    ),
    (
        "the combined name is one of a claim",
        "pods",
        {"metadata.name": LONG, **volume(name="v" * 63, ephemeral={"volumeClaimTemplate": {"spec": CLAIM}})},
        "name",
    ),
    (
        "both sources are equal",
        "persistentvolumeclaims",
        {"spec.dataSource": OTHER_CLAIM, "spec.dataSourceRef": {**OTHER_CLAIM, "name": "t"}},
        "spec",
    ),
    (
        "the newer source refuses what is not allowed",
        "persistentvolumeclaims",
        {"spec.dataSourceRef": {"kind": "ConfigMap", "name": "c"}},
        "spec.dataSourceRef",
    ),
    ("modes are two", "persistentvolumeclaims", {"spec.volumeMode": "Other"}, "spec.volumeMode"),
    (
        "terms are required",
        "persistentvolumes",
        {"spec.nodeAffinity": {"required": {"nodeSelectorTerms": []}}},
        "spec.nodeAffinity.required.nodeSelectorTerms",
    ),
    (
        "reclaim policies are three",
        "persistentvolumes",
        {"spec.persistentVolumeReclaimPolicy": "Other"},
        "spec.persistentVolumeReclaimPolicy",
    ),
    ("modes of volumes are two", "persistentvolumes", {"spec.volumeMode": "Other"}, "spec.volumeMode"),
    ("local needs a path", "persistentvolumes", {"spec.local": {}}, "spec.local.path"),
    ("group policies are three", "csidrivers", {"spec.fsGroupPolicy": "Other"}, "spec.fsGroupPolicy"),
    (
        "audiences differ",
        "csidrivers",
        {"spec.tokenRequests": [{"audience": "a"}, {"audience": "a"}]},
        "spec.tokenRequests[1].audience",
    ),
    (
        "at most one audience is empty",
        "csidrivers",
        {"spec.tokenRequests": [{"audience": ""}, {"audience": ""}]},
        "spec.tokenRequests[1].audience",
    ),
    (
        "lifecycle modes are two",
        "csidrivers",
        {"spec.volumeLifecycleModes": ["Other"]},
        "spec.volumeLifecycleModes",
    ),
    ("drivers have names", "csinodes", {"spec.drivers": [{"nodeID": "n"}]}, "spec.drivers[0].name"),
    ("drivers have node ids", "csinodes", {"spec.drivers": [{"name": "d"}]}, "spec.drivers[0].nodeID"),
    ("class is required", "csistoragecapacities", {"storageClassName": ...}, "storageClassName"),
    ("class is a domain name", "csistoragecapacities", {"storageClassName": "A_B"}, "storageClassName"),
    *(
        (f"{name} is required", "podsecuritypolicies", {f"spec.{name}": ...}, f"spec.{name}.rule")
        for name in ("runAsUser", "fsGroup", "supplementalGroups", "seLinux")
    ),
    (
        "ranges are in order",
        *policy("runAsUser", {"rule": "MustRunAs", "ranges": [{"min": 2, "max": 1}]}),
        "spec.runAsUser.ranges[0]",
    ),
    (
        "allowed and dropped",
        "podsecuritypolicies",
        {"spec.allowedCapabilities": ["A"], "spec.requiredDropCapabilities": ["A"]},
        "allowedCapabilities",
    ),
    (
        "added and dropped",
        "podsecuritypolicies",
        {"spec.defaultAddCapabilities": ["A"], "spec.requiredDropCapabilities": ["A"]},
        "defaultAddCapabilities",
    ),
    (
        "csi drivers have names",
        *policy("allowedCSIDrivers", [{}]),
        "spec.allowedCSIDrivers.allowedCSIDriver[0].name",
    ),
    (
        "flex volumes have drivers",
        *policy("allowedFlexVolumes", [{}]),
        "spec.allowedFlexVolumes.allowedFlexVolumes[0].driver",
    ),
    ("host paths have prefixes", *policy("allowedHostPaths", [{}]), "spec.allowedHostPaths[0]"),
    (
        "every class stands alone",
        *policy("runtimeClass", {"allowedRuntimeClassNames": ["*", "a"]}),
        "spec.runtimeClass.allowedRuntimeClassNames",
    ),
    (
        "the default class is allowed",
        *policy("runtimeClass", {"allowedRuntimeClassNames": ["a"], "defaultRuntimeClassName": "b"}),
        "spec.runtimeClass.allowedRuntimeClassNames",
    ),
    ("volumes are known plugins", *policy("volumes", ["other"]), "spec.volumes"),
    (
        "sysctls are names or prefixes",
        *policy("allowedUnsafeSysctls", ["a b"]),
        "spec.allowedUnsafeSysctls[0]",
    ),
]


@cases(
    ("plural", "changes", "field"),
    [pytest.param(*case[1:], id=f"{case[1]}-{case[0]}".replace(" ", "_")) for case in RULES],
)
def test_violation_of_documented_rule_is_refused_at_its_field(
    kinds: Definitions, plural: str, changes: dict[str, Any], field: str
) -> None:
    fields = [
        one.removeprefix("spec.volumes[0].")
        for one, _ in kinds.create_causes(plural, valid_document(plural, changes))
    ]
    assert any(one.startswith(field) for one in fields), fields


IMMUTABLE: list[tuple[str, str, Any, Any]] = [
    ("statefulsets", "spec.selector", LABELS, {"matchLabels": {"app": "y"}}),
    ("statefulsets", "spec.serviceName", "s", "t"),
    ("csidrivers", "spec.attachRequired", True, False),
    ("csidrivers", "spec.fsGroupPolicy", "File", "None"),
    ("csidrivers", "spec.podInfoOnMount", False, True),
    ("csidrivers", "spec.volumeLifecycleModes", ["Persistent"], ["Ephemeral"]),
    ("csistoragecapacities", "storageClassName", "fast", "slow"),
    ("csistoragecapacities", "nodeTopology", LABELS, {}),
    ("persistentvolumeclaims", "spec.storageClassName", "fast", "slow"),
    ("secrets", "type", "a", "b"),
]


@cases(
    ("plural", "path", "before", "after"),
    [pytest.param(*case, id=f"{case[0]}-{case[1]}") for case in IMMUTABLE],
)
def test_documented_immutable_field_cannot_change(
    kinds: Definitions, plural: str, path: str, before: Any, after: Any
) -> None:
    _, causes = kinds.update(
        plural, valid_document(plural, {path: before}), valid_document(plural, {path: after})
    )
    assert causes and all(path.startswith(field.split(".")[0]) for field, _ in causes)


@cases("plural", ["configmaps", "secrets"])
def test_immutable_objects_keep_their_data_but_not_their_metadata(kinds: Definitions, plural: str) -> None:
    before = valid_document(plural, {"data": {"k": "AA=="}, "immutable": True})
    _, causes = kinds.update(plural, before, {**before, "data": {"k": "AQ=="}})
    assert [field for field, _ in causes] == ["data"]
    labelled = {**before, "metadata": {"name": "a", "labels": {"x": "y"}}}
    assert kinds.update(plural, before, labelled)[1] == []


def test_storage_capacity_of_csi_driver_is_mutable(kinds: Definitions) -> None:
    before, after = valid_document("csidrivers"), valid_document("csidrivers", {"spec.storageCapacity": True})
    assert kinds.update("csidrivers", before, after)[1] == []


def test_create_copies_the_data_source_to_both_fields(kinds: Definitions) -> None:
    for path, other in (("spec.dataSource", "dataSourceRef"), ("spec.dataSourceRef", "dataSource")):
        stored = kinds.stored(
            "persistentvolumeclaims", valid_document("persistentvolumeclaims", {path: OTHER_CLAIM})
        )
        assert stored["spec"][other] == {"apiGroup": None, **OTHER_CLAIM}


def test_data_source_of_another_kind_is_dropped(kinds: Definitions) -> None:
    document = valid_document(
        "persistentvolumeclaims", {"spec.dataSource": {"kind": "ConfigMap", "name": "c"}}
    )
    assert "dataSource" not in kinds.stored("persistentvolumeclaims", document)["spec"]


def test_string_data_is_merged_into_data_and_never_stored(kinds: Definitions) -> None:
    document = valid_document("secrets", {"data": {"a": "AA==", "b": "AA=="}, "stringData": {"b": "x"}})
    stored = kinds.stored("secrets", document)
    assert stored["data"] == {"a": "AA==", "b": "eA=="} and "stringData" not in stored


def test_run_as_any_needs_no_ranges(kinds: Definitions) -> None:
    assert (
        kinds.create_causes(
            "podsecuritypolicies", valid_document("podsecuritypolicies", {"spec.runAsGroup": ANY})
        )
        == []
    )
