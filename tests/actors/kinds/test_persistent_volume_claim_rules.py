"""PersistentVolumeClaim: requests, the two data sources, immutable fields, expansion, and status."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions, replace
from tests.cases import cases

PLURAL = "persistentvolumeclaims"
OTHER_CLAIM = {"apiGroup": None, "kind": "PersistentVolumeClaim", "name": "other"}
CUSTOM = {"apiGroup": "example.com", "kind": "Custom", "name": "c"}


def claim(size: str = "1Gi", **spec: Any) -> dict[str, Any]:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    return {"metadata": {"name": "a"}, "spec": whole}


def bound(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}


def test_create_sets_defaults(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, {**claim(), "status": {"phase": "Bound"}})
    assert stored["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeMode": "Filesystem",
    }
    assert stored["status"] == {"phase": "Pending"}
    assert kinds.create_causes(PLURAL, claim()) == []


@cases(
    ("spec", "field", "message"),
    [
        ({"accessModes": []}, "accessModes", "Required value: at least 1 access mode is required"),
        (
            {"accessModes": ["ReadWriteOncePod"]},
            "accessModes",
            'Unsupported value: "ReadWriteOncePod": supported values: '
            '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce"',
        ),
        ({"resources": {}}, "resources[storage]", "Required value"),
        (
            {"resources": {"requests": {"storage": "0"}}},
            "resources[storage]",
            'Invalid value: "0": must be greater than zero',
        ),
        (
            {"volumeMode": "Tape"},
            "volumeMode",
            'Unsupported value: "Tape": supported values: "Block", "Filesystem"',
        ),
        (
            {"selector": {"matchExpressions": [{"key": "k", "operator": "Near"}]}},
            "selector.matchExpressions[0].operator",
            'Invalid value: "Near": not a valid selector operator',
        ),
    ],
)
def test_create_reports_invalid_fields(kinds: Definitions, spec: Any, field: str, message: str) -> None:
    assert kinds.create_causes(PLURAL, claim(**spec)) == [(f"spec.{field}", message)]


def sources(kinds: Definitions, **spec: Any) -> tuple[Any, Any]:
    stored = kinds.stored(PLURAL, claim(**spec))["spec"]
    return stored.get("dataSource"), stored.get("dataSourceRef")


def test_create_copies_the_data_source_to_both_fields(kinds: Definitions, names: Names) -> None:
    snapshot = {"apiGroup": f"snapshot.{names.group('storage')}", "kind": "VolumeSnapshot", "name": "s"}
    for source in (OTHER_CLAIM, snapshot):
        assert sources(kinds, dataSource=source) == (source, source)
        assert sources(kinds, dataSourceRef=source) == (source, source)
        assert kinds.create_causes(PLURAL, claim(dataSource=source)) == []
    stored = kinds.stored(PLURAL, claim(dataSourceRef=CUSTOM))["spec"]
    assert list(stored)[-2:] == ["dataSource", "dataSourceRef"] and stored["dataSource"] == CUSTOM


def test_data_source_of_another_kind_is_dropped(kinds: Definitions) -> None:
    assert sources(kinds, dataSource=CUSTOM) == (None, None)
    assert sources(kinds, dataSource={"kind": "Pod", "name": "p"}) == (None, None)
    assert sources(kinds, dataSource=CUSTOM, dataSourceRef=CUSTOM) == (CUSTOM, CUSTOM)


def test_invalid_data_source_ref_is_refused(kinds: Definitions) -> None:
    causes = kinds.create_causes(PLURAL, claim(dataSourceRef={"kind": "Pod", "name": "p"}))
    assert [field for field, _ in causes] == ["spec.dataSource", "spec.dataSourceRef"]
    causes = kinds.create_causes(PLURAL, claim(dataSourceRef={"apiGroup": "example.com"}))
    assert [field for field, _ in causes] == [
        "spec.dataSource.name",
        "spec.dataSource.kind",
        "spec.dataSourceRef.name",
        "spec.dataSourceRef.kind",
    ]


def test_data_source_and_data_source_ref_must_match(kinds: Definitions) -> None:
    causes = kinds.create_causes(PLURAL, claim(dataSource=OTHER_CLAIM, dataSourceRef=CUSTOM))
    assert [(field, text.rpartition(": ")[2]) for field, text in causes] == [
        ("spec", "must match dataSourceRef")
    ]


def test_update_with_one_of_the_two_data_sources_changes_nothing(kinds: Definitions) -> None:
    before = claim(dataSourceRef=CUSTOM)
    for after in (claim(dataSource=CUSTOM), claim(dataSourceRef=CUSTOM)):
        new, causes = kinds.update(PLURAL, before, after)
        assert causes == [] and new["spec"]["dataSource"] == new["spec"]["dataSourceRef"] == CUSTOM


IMMUTABLE = "Forbidden: spec is immutable after creation except resources.requests for bound claims"


@cases(
    "spec",
    [
        {"accessModes": ["ReadOnlyMany"]},
        {"storageClassName": "x"},
        {"selector": {"matchLabels": {"a": "b"}}},
        {"dataSource": OTHER_CLAIM},
        {"size": "2Gi"},
    ],
)
def test_spec_is_immutable(kinds: Definitions, spec: Any) -> None:
    assert kinds.update(PLURAL, claim(), claim(**spec))[1] == [("spec", IMMUTABLE)]


def test_same_size_in_other_units_is_no_change(kinds: Definitions) -> None:
    assert kinds.update(PLURAL, claim("1Gi"), claim("1073741824"))[1] == []


def test_change_of_volume_mode_has_two_causes(kinds: Definitions) -> None:
    assert kinds.update(PLURAL, claim(), claim(volumeMode="Block"))[1] == [
        ("spec", IMMUTABLE),
        ("volumeMode", 'Invalid value: "Block": field is immutable'),
    ]


def test_volume_name_can_be_set_once(kinds: Definitions) -> None:
    assert kinds.update(PLURAL, claim(), claim(volumeName="v"))[1] == []
    assert kinds.update(PLURAL, claim(volumeName="v"), claim(volumeName="w"))[1] == [("spec", IMMUTABLE)]
    assert kinds.update(PLURAL, claim(volumeName="v"), claim())[1] == [("spec", IMMUTABLE)]


def resize_causes(kinds: Definitions, before: Any, after: Any) -> list[tuple[str, str]]:
    old = kinds.stored(PLURAL, before)
    old["status"] = bound(before)["status"]
    return replace(kinds[PLURAL], kinds.stored(PLURAL, after), old)[1]


def test_bound_claim_can_only_grow(kinds: Definitions) -> None:
    assert resize_causes(kinds, claim("1Gi"), claim("2Gi")) == []
    assert resize_causes(kinds, claim("2Gi"), claim("1Gi")) == [
        ("spec.resources.requests.storage", "Forbidden: field can not be less than previous value")
    ]
    assert resize_causes(kinds, claim("1Gi"), claim("2Gi", storageClassName="x")) == [("spec", IMMUTABLE)]


def test_unbound_claim_cannot_shrink(kinds: Definitions) -> None:
    assert [field for field, _ in kinds.update(PLURAL, claim("2Gi"), claim("1Gi"))[1]] == [
        "spec",
        "spec.resources.requests.storage",
    ]


def test_storage_class_can_move_from_the_annotation_to_the_spec(kinds: Definitions, names: Names) -> None:
    key = names.key("storage-class", "volume.beta")

    def annotated(name: str, **spec: Any) -> dict[str, Any]:
        return {**claim(**spec), "metadata": {"name": "a", "annotations": {key: name}}}

    before = annotated("c")
    assert kinds.update(PLURAL, before, annotated("c", storageClassName="c"))[1] == []
    assert kinds.update(PLURAL, before, claim(storageClassName="c"))[1] == []
    assert kinds.update(PLURAL, before, annotated("c", storageClassName="d"))[1] == [("spec", IMMUTABLE)]
    assert kinds.update(PLURAL, before, annotated("d"))[1] == [
        (f"metadata.annotations.{key}", 'Invalid value: "d": field is immutable')
    ]


def test_status_subresource_changes_only_the_status(kinds: Definitions) -> None:
    found = {
        **claim("9Gi"),
        "status": {
            "phase": "Bound",
            "capacity": {"storage": "1Gi"},
            "conditions": [{"type": "Resizing", "status": "True"}],
            "allocatedResources": {"storage": "2Gi"},
            "resizeStatus": "NodeExpansionPending",
        },
    }
    new, causes = kinds.update(PLURAL, claim(), found, "status")
    assert causes == [] and new["spec"]["resources"] == {"requests": {"storage": "1Gi"}}
    assert new["status"] == {
        "phase": "Bound",
        "capacity": {"storage": "1Gi"},
        "conditions": [
            {"type": "Resizing", "status": "True", "lastProbeTime": None, "lastTransitionTime": None}
        ],
    }
    assert kinds.update(PLURAL, claim(), found)[0]["status"] == {"phase": "Pending"}
    negative = {**claim(), "status": {"capacity": {"storage": "-1"}}}
    assert kinds.update(PLURAL, claim(), negative, "status")[1] == [
        ("status.capacity[storage]", "Invalid value: -1: must be a valid resource quantity")
    ]


def test_delete_returns_the_object(kinds: Definitions) -> None:
    assert kinds[PLURAL].deletion.returns_object
