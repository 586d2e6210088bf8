"""Every default that the API documentation names, by the field's path."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.documented import valid_document, value_at
from tests.cases import cases

VOLUME = "spec.volumes.0"

# kind, path, other fields of the document, the default
DEFAULTS: list[tuple[str, str, dict[str, Any], Any]] = [
    ("statefulsets", "spec.replicas", {}, 1),
    ("statefulsets", "spec.updateStrategy.type", {}, "RollingUpdate"),
    ("statefulsets", "spec.updateStrategy.rollingUpdate.partition", {}, 0),
    ("statefulsets", "spec.podManagementPolicy", {}, "OrderedReady"),
    ("statefulsets", "spec.revisionHistoryLimit", {}, 10),
    ("statefulsets", "spec.minReadySeconds", {}, None),  # 0, which is omitted
    ("configmaps", "immutable", {}, None),
    ("secrets", "type", {}, "Opaque"),
    ("secrets", "immutable", {}, None),
    ("pods", f"{VOLUME}.configMap.defaultMode", {"volumes": {"configMap": {"name": "x"}}}, 0o644),
    ("pods", f"{VOLUME}.secret.defaultMode", {"volumes": {"secret": {"secretName": "x"}}}, 0o644),
    ("pods", f"{VOLUME}.downwardAPI.defaultMode", {"volumes": {"downwardAPI": {}}}, 0o644),
    (
        "pods",
        f"{VOLUME}.projected.sources.0.serviceAccountToken.expirationSeconds",
        {"volumes": {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}},
        3600,
    ),
    (
        "pods",
        f"{VOLUME}.projected.sources.0.serviceAccountToken.audience",  # absent: the audience of this server
        {"volumes": {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}},
        None,
    ),
    ("pods", f"{VOLUME}.csi.readOnly", {"volumes": {"csi": {"driver": "d"}}}, None),  # false
    (
        "pods",
        f"{VOLUME}.iscsi.iscsiInterface",
        {"volumes": {"iscsi": {"iqn": "iqn.2001-04.com.example:a", "lun": 0, "targetPortal": "p"}}},
        "default",
    ),
    (
        "pods",
        f"{VOLUME}.ephemeral.volumeClaimTemplate.spec.volumeMode",
        {
            "volumes": {
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1"}},
                        }
                    }
                }
            }
        },
        "Filesystem",
    ),
    ("persistentvolumeclaims", "spec.volumeMode", {}, "Filesystem"),
    ("persistentvolumes", "spec.volumeMode", {}, "Filesystem"),
    ("persistentvolumes", "spec.persistentVolumeReclaimPolicy", {}, "Retain"),
    ("persistentvolumes", "spec.storageClassName", {}, None),  # empty: no class
    ("csidrivers", "spec.attachRequired", {}, True),
    ("csidrivers", "spec.fsGroupPolicy", {}, "ReadWriteOnceWithFSType"),
    ("csidrivers", "spec.podInfoOnMount", {}, False),
    ("csidrivers", "spec.requiresRepublish", {}, False),
    ("csidrivers", "spec.storageCapacity", {}, False),
    ("csidrivers", "spec.volumeLifecycleModes", {}, ["Persistent"]),
    ("csinodes", "spec.drivers.0.allocatable", {}, None),  # no limit
    ("csistoragecapacities", "capacity", {}, None),  # not available
    ("csistoragecapacities", "maximumVolumeSize", {}, None),
    ("csistoragecapacities", "nodeTopology", {}, None),
    ("podsecuritypolicies", "spec.allowPrivilegeEscalation", {}, True),
    ("podsecuritypolicies", "spec.defaultAllowPrivilegeEscalation", {}, None),
    ("podsecuritypolicies", "spec.privileged", {}, None),
    ("podsecuritypolicies", "spec.allowedUnsafeSysctls", {}, None),
    ("podsecuritypolicies", "spec.forbiddenSysctls", {}, None),
    ("podsecuritypolicies", "spec.volumes", {}, None),
    ("podsecuritypolicies", "spec.runAsGroup", {}, None),
]


@cases(
    ("plural", "path", "given", "default"),
    [pytest.param(*case, id=f"{case[0]}-{case[1]}") for case in DEFAULTS],
)
def test_field_gets_its_documented_default(
    kinds: Definitions, plural: str, path: str, given: dict[str, Any], default: Any
) -> None:
    document = valid_document(plural)
    if "volumes" in given:
        document["spec"]["volumes"] = [{"name": "v", **given["volumes"]}]
    assert value_at(kinds.stored(plural, document), path) == default
    assert kinds.create_causes(plural, document) == []
