"""PersistentVolume: defaults, access modes, capacity, node affinity, immutable fields, and status."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions, distinct
from tests.cases import cases

PLURAL = "persistentvolumes"
AFFINITY = {
    "required": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "h", "operator": "In", "values": ["n"]}]}]
    }
}


def volume(**spec: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    if "hostPath" not in spec:
        base["hostPath"] = {"path": "/data"}
    whole = {**base, **spec}
    return {"metadata": {"name": "a"}, "spec": {k: v for k, v in whole.items() if v is not None}}


def test_create_sets_defaults(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, {**volume(), "status": {"phase": "Bound"}})
    assert stored["spec"] == {
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/data", "type": ""},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
    }
    assert list(stored["spec"])[-2:] == ["persistentVolumeReclaimPolicy", "volumeMode"]
    assert stored["status"] == {"phase": "Pending"}
    assert kinds.create_causes(PLURAL, volume()) == []


@cases(
    ("spec", "expected"),
    [
        ({"accessModes": []}, [("accessModes", "Required value")]),
        (
            {"accessModes": ["ReadWriteOncePod"]},
            [
                (
                    "accessModes",
                    'Unsupported value: "ReadWriteOncePod": supported values: '
                    '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce"',
                )
            ],
        ),
        (
            {"persistentVolumeReclaimPolicy": "Keep"},
            [
                (
                    "persistentVolumeReclaimPolicy",
                    'Unsupported value: "Keep": supported values: "Delete", "Recycle", "Retain"',
                )
            ],
        ),
        (
            {"persistentVolumeReclaimPolicy": "Recycle", "hostPath": {"path": "/"}},
            [
                (
                    "persistentVolumeReclaimPolicy",
                    "Forbidden: may not be 'recycle' for a hostPath mount of '/'",
                )
            ],
        ),
        ({"persistentVolumeReclaimPolicy": "Recycle"}, []),
        (
            {"volumeMode": "Tape"},
            [("volumeMode", 'Unsupported value: "Tape": supported values: "Block", "Filesystem"')],
        ),
        ({"volumeMode": "Block", "storageClassName": "fast", "mountOptions": ["ro"]}, []),
        (
            {"capacity": {"storage": "0"}},
            [("capacity[storage]", 'Invalid value: "0": must be greater than zero')],
        ),
        (
            {"capacity": {"storage": "-1"}},
            [
                ("capacity[storage]", "Invalid value: -1: must be a valid resource quantity"),
                ("capacity[storage]", 'Invalid value: "-1": must be greater than zero'),
            ],
        ),
    ],
)
def test_create_reports_invalid_fields(
    kinds: Definitions, spec: Any, expected: list[tuple[str, str]]
) -> None:
    assert kinds.create_causes(PLURAL, volume(**spec)) == [
        (f"spec.{field}", text) for field, text in expected
    ]


def test_capacity_has_only_storage(kinds: Definitions) -> None:
    assert kinds.create_causes(PLURAL, volume(capacity=None)) == [
        ("spec.capacity", "Required value"),
        ("spec.capacity", 'Unsupported value: core.ResourceList(nil): supported values: "storage"'),
    ]
    for capacity in ({"cpu": "1"}, {"storage": "1Gi", "cpu": "1"}):
        [(field, text)] = kinds.create_causes(PLURAL, volume(capacity=capacity))
        assert field == "spec.capacity" and text.endswith('supported values: "storage"')


def test_capacity_is_rounded_up_to_a_thousandth(kinds: Definitions) -> None:
    assert kinds.decode(PLURAL, volume(capacity={"storage": "1500u"}))["spec"]["capacity"] == {
        "storage": "2m"
    }


def test_storage_class_name_is_a_dns_subdomain(kinds: Definitions) -> None:
    assert [field for field, _ in kinds.create_causes(PLURAL, volume(storageClassName="Bad_"))] == [
        "spec.storageClassName"
    ]


@cases(
    ("affinity", "field", "message"),
    [
        ({}, "required", "Required value: must specify required node constraints"),
        (
            {"required": {"nodeSelectorTerms": []}},
            "required.nodeSelectorTerms",
            "Required value: must have at least one node selector term",
        ),
    ],
)
def test_node_affinity_is_validated(kinds: Definitions, affinity: Any, field: str, message: str) -> None:
    assert kinds.create_causes(PLURAL, volume(nodeAffinity=affinity)) == [
        (f"spec.nodeAffinity.{field}", message)
    ]


def test_mount_options_annotation_needs_a_source_that_supports_it(kinds: Definitions, names: Names) -> None:
    key = names.key("mount-options", "volume.beta")

    def annotated(**spec: Any) -> dict[str, Any]:
        return {**volume(**spec), "metadata": {"name": "a", "annotations": {key: "ro"}}}

    assert kinds.create_causes(PLURAL, annotated()) == [
        (
            f"metadata.annotations.{key}",
            "Forbidden: may not specify mount options for this volume type",
        )
    ]
    assert kinds.create_causes(PLURAL, annotated(hostPath=None, nfs={"server": "s", "path": "/"})) == []


def test_source_volume_mode_and_node_affinity_are_immutable(kinds: Definitions) -> None:
    fixed = "Forbidden: spec.persistentvolumesource is immutable after creation"
    for spec in ({"hostPath": {"path": "/b"}}, {"hostPath": None, "nfs": {"server": "s", "path": "/"}}):
        assert kinds.update(PLURAL, volume(), volume(**spec))[1] == [("spec.persistentvolumesource", fixed)]
    assert kinds.update(PLURAL, volume(), volume(volumeMode="Block"))[1] == [
        ("volumeMode", 'Invalid value: "Block": field is immutable')
    ]
    _, causes = kinds.update(PLURAL, volume(nodeAffinity=AFFINITY), volume())
    assert causes == [("nodeAffinity", 'Invalid value: "null": field is immutable')]


def test_update_of_mutable_field_is_valid(kinds: Definitions) -> None:
    changed = volume(
        storageClassName="c",
        capacity={"storage": "5Gi"},
        mountOptions=["ro"],
        accessModes=["ReadOnlyMany"],
        nodeAffinity=AFFINITY,
        claimRef={"name": "c"},
        persistentVolumeReclaimPolicy="Delete",
    )
    assert kinds.update(PLURAL, volume(), changed)[1] == []
    assert distinct(kinds.update(PLURAL, volume(), volume(accessModes=[]))[1]) == [
        ("spec.accessModes", "Required value")
    ]


def csi(**source: Any) -> dict[str, Any]:
    return volume(hostPath=None, csi={"driver": "d.example.com", "volumeHandle": "h", **source})


def test_controller_expand_secret_can_be_set_once(kinds: Definitions) -> None:
    secret = {"name": "s", "namespace": "n"}
    assert kinds.update(PLURAL, csi(), csi(controllerExpandSecretRef=secret))[1] == []
    _, causes = kinds.update(PLURAL, csi(controllerExpandSecretRef=secret), csi())
    assert [field for field, _ in causes] == ["spec.persistentvolumesource"]


def test_node_expand_secret_is_dropped_while_its_feature_is_disabled(kinds: Definitions) -> None:
    secret = {"name": "s", "namespace": "n"}
    assert "nodeExpandSecretRef" not in kinds.stored(PLURAL, csi(nodeExpandSecretRef=secret))["spec"]["csi"]
    new, _ = kinds.update(PLURAL, csi(), csi(nodeExpandSecretRef=secret))
    assert "nodeExpandSecretRef" not in new["spec"]["csi"]


def test_update_may_keep_stored_subdomain_secret_names(kinds: Definitions) -> None:
    with_subdomain = csi(nodePublishSecretRef={"name": "a.b", "namespace": "n"})
    assert [field for field, _ in kinds.create_causes(PLURAL, with_subdomain)] == [
        "spec.csi.nodePublishSecretRef.name"
    ]
    assert kinds.update(PLURAL, with_subdomain, with_subdomain)[1] == []


def test_status_subresource_changes_only_the_status(kinds: Definitions) -> None:
    found = {**volume(storageClassName="z"), "status": {"phase": "Available", "message": "m", "reason": "R"}}
    new, causes = kinds.update(PLURAL, volume(), found, "status")
    assert causes == [] and "storageClassName" not in new["spec"]
    assert new["status"] == {"phase": "Available", "message": "m", "reason": "R"}
    assert kinds.update(PLURAL, volume(), found)[0]["status"] == {"phase": "Pending"}


def test_create_warns_about_deprecated_node_labels(kinds: Definitions, names: Names) -> None:
    old = names.key("arch", "beta")
    affinity = {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": old, "operator": "Exists"}]}]}
    }
    stored = kinds.stored(PLURAL, volume(nodeAffinity=affinity))
    assert kinds[PLURAL].strategy.warnings(stored, None) == [
        "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: "
        f'{old} is deprecated since v1.14; use "{names.key("arch")}" instead'
    ]


def test_delete_returns_the_object(kinds: Definitions) -> None:
    assert kinds[PLURAL].deletion.returns_object
