"""Every field that the API documentation names is accepted and stored as sent, by the field's path."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.kinds.schema.fields import Field, ListOf, Struct, Type
from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.documented import CLAIM, LABELS, TERM, valid_document, value_at
from tests.cases import cases

RANGES = {"rule": "MustRunAs", "ranges": [{"min": 1, "max": 2}]}
KEY = {"key": "k", "path": "p/q", "mode": 0o400}

FIELDS: list[tuple[str, str, Any]] = [
    ("clusterroles", "aggregationRule", {"clusterRoleSelectors": [LABELS]}),
    ("clusterroles", "rules", [{"verbs": ["get"], "apiGroups": ["", "*"], "resources": ["*"]}]),
    (
        "clusterroles",
        "rules",
        [{"verbs": ["*"], "apiGroups": ["a"], "resources": ["b"], "resourceNames": ["c"]}],
    ),
    ("clusterroles", "rules", [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/logs/*"]}]),
    ("statefulsets", "spec.replicas", 0),
    ("statefulsets", "spec.updateStrategy", {"type": "OnDelete"}),
    (
        "statefulsets",
        "spec.updateStrategy",
        {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}},
    ),
    ("statefulsets", "spec.podManagementPolicy", "Parallel"),
    ("statefulsets", "spec.revisionHistoryLimit", 0),
    ("statefulsets", "spec.minReadySeconds", 5),
    ("configmaps", "data", {"Letters-1_2.3": "text"}),
    ("configmaps", "binaryData", {"Letters-1_2.3": "AAE="}),
    ("configmaps", "immutable", True),
    ("configmaps", "immutable", False),
    ("secrets", "data", {"k": "AAE="}),
    ("secrets", "type", "example.com/mine"),
    ("secrets", "immutable", True),
    (
        "pods",
        "spec.volumes",
        [
            {"name": "a", "configMap": {"name": "c", "optional": True, "defaultMode": 0, "items": [KEY]}},
            {
                "name": "b",
                "secret": {"secretName": "s", "optional": True, "defaultMode": 511, "items": [KEY]},
            },
            {
                "name": "c",
                "downwardAPI": {
                    "defaultMode": 256,
                    "items": [
                        {"path": f, "fieldRef": {"fieldPath": f"metadata.{f}", "apiVersion": "v1"}}
                        for f in ("annotations", "labels", "name", "namespace")
                    ]
                    + [
                        {
                            "path": f,
                            "resourceFieldRef": {"containerName": "c", "resource": f, "divisor": "1"},
                            "mode": 0o600,
                        }
                        for f in ("limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
                    ],
                },
            },
            {
                "name": "d",
                "projected": {
                    "defaultMode": 288,
                    "sources": [
                        {"configMap": {"name": "c", "optional": False, "items": [{"key": "a", "path": "a"}]}},
                        {"secret": {"name": "s", "optional": True, "items": [{"key": "b", "path": "b"}]}},
                        {
                            "downwardAPI": {
                                "items": [
                                    {
                                        "path": "c",
                                        "fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"},
                                    }
                                ]
                            }
                        },
                        {"serviceAccountToken": {"path": "t", "audience": "vault", "expirationSeconds": 600}},
                    ],
                },
            },
            {
                "name": "e",
                "csi": {
                    "driver": "d",
                    "fsType": "ext4",
                    "nodePublishSecretRef": {"name": "s"},
                    "readOnly": True,
                    "volumeAttributes": {"a": "b"},
                },
            },
            {"name": "f", "fc": {"fsType": "ext4", "lun": 0, "readOnly": True, "targetWWNs": ["w"]}},
            {"name": "g", "fc": {"wwids": ["w"]}},
            {
                "name": "h",
                "iscsi": {
                    "iqn": "iqn.2001-04.com.example:a",
                    "lun": 1,
                    "targetPortal": "p",
                    "chapAuthDiscovery": True,
                    "chapAuthSession": True,
                    "fsType": "ext4",
                    "initiatorName": "iqn.2001-04.com.example:b",
                    "iscsiInterface": "i",
                    "portals": ["q"],
                    "readOnly": True,
                    "secretRef": {"name": "s"},
                },
            },
            {
                "name": "i",
                "flexVolume": {
                    "driver": "d",
                    "fsType": "ext4",
                    "options": {"a": "b"},
                    "readOnly": True,
                    "secretRef": {"name": "s"},
                },
            },
            {
                "name": "j",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "metadata": {
                            "labels": {"a": "b"},
                            "annotations": {"c": "d"},
                            "creationTimestamp": None,
                        },
                        "spec": {**CLAIM, "volumeMode": "Block"},
                    }
                },
            },
            {"name": "k", "gitRepo": {"repository": "r", "directory": "d", "revision": "v"}},
        ],
    ),
    ("persistentvolumeclaims", "spec.volumeName", "v"),
    ("persistentvolumeclaims", "spec.storageClassName", "fast"),
    ("persistentvolumeclaims", "spec.volumeMode", "Block"),
    ("persistentvolumes", "spec.nodeAffinity", {"required": {"nodeSelectorTerms": [TERM, TERM]}}),
    (
        "persistentvolumes",
        "spec.nodeAffinity",
        {
            "required": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
                ]
            }
        },
    ),
    ("persistentvolumes", "spec.persistentVolumeReclaimPolicy", "Delete"),
    ("persistentvolumes", "spec.storageClassName", "fast"),
    ("persistentvolumes", "spec.volumeMode", "Block"),
    ("persistentvolumes", "spec.local", {"path": "/d", "fsType": "ext4"}),
    ("csidrivers", "spec.attachRequired", False),
    ("csidrivers", "spec.fsGroupPolicy", "File"),
    ("csidrivers", "spec.podInfoOnMount", True),
    ("csidrivers", "spec.requiresRepublish", True),
    ("csidrivers", "spec.storageCapacity", True),
    ("csidrivers", "spec.tokenRequests", [{"audience": "a", "expirationSeconds": 600}, {"audience": ""}]),
    ("csidrivers", "spec.volumeLifecycleModes", ["Persistent", "Ephemeral"]),
    (
        "csinodes",
        "spec.drivers",
        [{"name": "d", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 5}}],
    ),
    ("csistoragecapacities", "capacity", "1Gi"),
    ("csistoragecapacities", "maximumVolumeSize", "1Gi"),
    ("csistoragecapacities", "nodeTopology", LABELS),
    ("csistoragecapacities", "nodeTopology", {}),
    *(
        ("podsecuritypolicies", f"spec.{path}", value)
        for path, value in {
            "runAsUser": RANGES,
            "runAsGroup": RANGES,
            "fsGroup": RANGES,
            "supplementalGroups": RANGES,
            "seLinux": {
                "rule": "MustRunAs",
                "seLinuxOptions": {"user": "u", "role": "r", "type": "t", "level": "l"},
            },
            "readOnlyRootFilesystem": True,
            "privileged": True,
            "hostIPC": True,
            "hostNetwork": True,
            "hostPID": True,
            "allowPrivilegeEscalation": False,
            "defaultAllowPrivilegeEscalation": False,
            "allowedCSIDrivers": [{"name": "d"}],
            "allowedCapabilities": ["A"],
            "requiredDropCapabilities": ["B"],
            "defaultAddCapabilities": ["C"],
            "allowedFlexVolumes": [{"driver": "d"}],
            "allowedHostPaths": [{"pathPrefix": "/foo", "readOnly": True}],
            "allowedUnsafeSysctls": ["kernel.msg*"],
            "forbiddenSysctls": ["*"],
            "hostPorts": [{"min": 1, "max": 65535}],
            "runtimeClass": {"allowedRuntimeClassNames": ["a", "b"], "defaultRuntimeClassName": "a"},
            "volumes": ["configMap", "secret"],
        }.items()
    ),
    ("podsecuritypolicies", "spec.volumes", ["*"]),
    ("podsecuritypolicies", "spec.runtimeClass", {"allowedRuntimeClassNames": ["*"]}),
]


@cases(("plural", "path", "value"), [pytest.param(*case, id=f"{case[0]}-{case[1]}") for case in FIELDS])
def test_documented_field_is_stored_as_sent(kinds: Definitions, plural: str, path: str, value: Any) -> None:
    changes = {path: value}
    if (plural, path) == ("persistentvolumes", "spec.volumeMode"):
        changes["spec.local"] = {"path": "/d"}
    document = valid_document(plural, changes)
    assert kinds.create_causes(plural, document) == []
    assert value_at(kinds.stored(plural, document), path) == value


STATUS: list[tuple[str, Any]] = [
    (
        "statefulsets",
        {
            "observedGeneration": 7,
            "replicas": 6,
            "readyReplicas": 5,
            "currentReplicas": 4,
            "updatedReplicas": 3,
            "currentRevision": "r1",
            "updateRevision": "r2",
            "collisionCount": 2,
            "conditions": [
                {
                    "type": "t",
                    "status": "Unknown",
                    "lastTransitionTime": "2020-01-01T00:00:00Z",
                    "reason": "r",
                    "message": "m",
                }
            ],
            "availableReplicas": 1,
        },
    ),
    (
        "persistentvolumeclaims",
        {
            "phase": "Bound",
            "capacity": {"storage": "1Gi"},
            "conditions": [
                {
                    "type": "Resizing",
                    "status": "True",
                    "lastProbeTime": "2020-01-01T00:00:00Z",
                    "lastTransitionTime": "2020-01-01T00:00:00Z",
                    "reason": "ResizeStarted",
                    "message": "m",
                }
            ],
        },
    ),
]


@cases(("plural", "status"), [pytest.param(*case, id=case[0]) for case in STATUS])
def test_status_subresource_stores_the_status_as_sent(kinds: Definitions, plural: str, status: Any) -> None:
    before = valid_document(plural)
    stored, causes = kinds.update(plural, before, {**before, "status": status}, "status")
    assert (stored["status"], causes) == (status, [])


@cases("plural", ["statefulsets", "persistentvolumeclaims"])
def test_conditions_are_merged_by_type(kinds: Definitions, plural: str) -> None:
    conditions = field(kinds[plural].fields, "status", "conditions")
    assert (conditions.patch, conditions.merge_key) == ("merge", "type")


def test_drivers_of_csi_node_are_merged_by_name(kinds: Definitions) -> None:
    drivers = field(kinds["csinodes"].fields, "spec", "drivers")
    assert (drivers.patch, drivers.merge_key) == ("merge", "name")


def test_token_requests_are_atomic(kinds: Definitions) -> None:
    assert field(kinds["csidrivers"].fields, "spec", "tokenRequests").list_type == "atomic"


def field(struct: Struct, *path: str) -> Field:
    found = struct.by_name[path[0]]
    for name in path[1:]:
        inner: Type = found.type.item if isinstance(found.type, ListOf) else found.type
        assert isinstance(inner, Struct)
        found = inner.by_name[name]
    return found
