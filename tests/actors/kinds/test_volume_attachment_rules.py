"""VolumeAttachment: an immutable spec with one source, and a status of its own."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

PLURAL = "volumeattachments"
INLINE = {"csi": {"driver": "d.example.com", "volumeHandle": "h"}, "accessModes": ["ReadWriteOnce"]}


def attachment(**spec: Any) -> dict[str, Any]:
    whole = {
        "attacher": "d.example.com",
        "nodeName": "n1",
        "source": {"persistentVolumeName": "pv1"},
        **spec,
    }
    return {"metadata": {"name": "a"}, "spec": whole}


def inline(**spec: Any) -> dict[str, Any]:
    whole = {**INLINE, **spec}
    return attachment(source={"inlineVolumeSpec": {k: v for k, v in whole.items() if v is not None}})


def test_create_resets_the_status(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, {**attachment(), "status": {"attached": True}})
    assert stored["status"] == {"attached": False}
    assert kinds.create_causes(PLURAL, attachment()) == kinds.create_causes(PLURAL, inline()) == []


def test_inline_volume_gets_no_defaults(kinds: Definitions) -> None:
    assert kinds.decode(PLURAL, inline())["spec"]["source"]["inlineVolumeSpec"] == INLINE


ONE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


@cases(
    ("source", "field", "message"),
    [
        ({}, "", f"Required value: {ONE}"),
        ({"persistentVolumeName": "a", "inlineVolumeSpec": INLINE}, "", f"Forbidden: {ONE}"),
    ],
)
def test_create_reports_invalid_sources(kinds: Definitions, source: Any, field: str, message: str) -> None:
    assert kinds.create_causes(PLURAL, attachment(source=source)) == [(f"spec.source{field}", message)]


@cases(
    ("spec", "field", "message"),
    [
        (
            {"capacity": {"storage": "1Gi"}},
            "capacity",
            "Forbidden: may not be specified in the context of inline volumes",
        ),
        ({"claimRef": {}}, "claimRef", "Forbidden: may not be specified in the context of inline volumes"),
        (
            {"nodeAffinity": {}},
            "nodeAffinity",
            "Forbidden: may not be specified in the context of inline volumes",
        ),
        (
            {"storageClassName": "c"},
            "storageClassName",
            "Forbidden: may not be specified in the context of inline volumes",
        ),
        (
            {"persistentVolumeReclaimPolicy": "Delete"},
            "persistentVolumeReclaimPolicy",
            "Forbidden: may only be Retain in the context of inline volumes",
        ),
        (
            {"volumeMode": "Block"},
            "volumeMode",
            "Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes",
        ),
        ({"accessModes": None}, "accessModes", "Required value"),
        (
            {"csi": None, "nfs": {"server": "s", "path": "/"}},
            "csi",
            "Required value: has to be specified in the context of inline volumes",
        ),
    ],
)
def test_create_reports_invalid_inline_volumes(
    kinds: Definitions, spec: Any, field: str, message: str
) -> None:
    assert kinds.create_causes(PLURAL, inline(**spec)) == [(f"spec.source.inlineVolumeSpec.{field}", message)]


def test_local_inline_volume_is_refused(kinds: Definitions) -> None:
    local = inline(csi=None, local={"path": "/disk"}, nodeAffinity={})
    found = [
        field.removeprefix("spec.source.inlineVolumeSpec.") for field, _ in kinds.create_causes(PLURAL, local)
    ]
    assert found == ["csi", "nodeAffinity", "nodeAffinity"]


def fields(causes: list[tuple[str, str]]) -> list[str]:
    return [field for field, _ in causes]


def test_names_are_validated(kinds: Definitions) -> None:
    assert fields(kinds.create_causes(PLURAL, attachment(attacher=""))) == ["spec.attacher"] * 3
    assert fields(kinds.create_causes(PLURAL, attachment(attacher="Bad_"))) == ["spec.attacher"]
    assert fields(kinds.create_causes(PLURAL, attachment(nodeName=""))) == ["spec.nodeName"]
    causes = kinds.create_causes(PLURAL, attachment(source={"persistentVolumeName": ""}))
    assert fields(causes) == ["spec.source.persistentVolumeName"] * 2
    assert causes[0][1] == "Required value: must specify non empty persistentVolumeName"


def test_spec_is_immutable(kinds: Definitions) -> None:
    for spec in ({"nodeName": "n2"}, {"attacher": "e"}, {"source": {"persistentVolumeName": "b"}}):
        _, causes = kinds.update(PLURAL, attachment(), attachment(**spec))
        assert fields(causes) == ["spec"] and causes[0][1].endswith(": field is immutable")


def test_status_subresource_changes_neither_spec_nor_metadata(kinds: Definitions) -> None:
    found = {
        **attachment(nodeName="n2"),
        "metadata": {"name": "a", "labels": {"a": "b"}, "finalizers": ["example.com/f"]},
        "status": {
            "attached": True,
            "attachmentMetadata": {"k": "v"},
            "attachError": {"time": "2020-01-01T00:00:00Z", "message": "m"},
        },
    }
    new, causes = kinds.update(PLURAL, attachment(), found, "status")
    assert causes == [] and new["spec"]["nodeName"] == "n1" and new["status"] == found["status"]
    assert "labels" not in new["metadata"] and "finalizers" not in new["metadata"]
    assert kinds.update(PLURAL, attachment(), attachment())[0]["status"] == {"attached": False}


def test_status_update_limits_metadata_and_messages(kinds: Definitions) -> None:
    def causes_of_update(**status: Any) -> list[tuple[str, str]]:
        return kinds.update(PLURAL, attachment(), {**attachment(), "status": status}, "status")[1]

    assert (
        causes_of_update(attachmentMetadata={"k": "v" * 262144})
        == [("status.attachmentMetadata", "Too long: must have at most 262144 bytes")] * 2
    )
    assert fields(causes_of_update(detachError={"message": "m" * 1025})) == ["status.detachError.message"] * 2


def test_update_needs_a_resource_version_and_delete_returns_the_object(kinds: Definitions) -> None:
    assert kinds[PLURAL].deletion.returns_object and not kinds[PLURAL].strategy.allow_unconditional_update
