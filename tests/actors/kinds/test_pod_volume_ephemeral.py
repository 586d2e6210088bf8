"""Pod: ephemeral volumes, whose claims are named after pod and volume."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import SUBDOMAIN, create_causes, pod, volume_causes
from tests.cases import cases

SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
TEMPLATE = "ephemeral.volumeClaimTemplate"


def ephemeral(spec: Any = None, metadata: Any = None) -> dict[str, Any]:
    template = {"metadata": metadata or {}, "spec": spec or SPEC}
    return {"volumeClaimTemplate": template}


def test_valid_claim_template(kinds: Definitions) -> None:
    metadata = {"labels": {"a": "b"}, "annotations": {"A/b": "c"}}
    assert volume_causes(kinds, ephemeral=ephemeral(metadata=metadata)) == []


def test_claim_template_is_required(kinds: Definitions) -> None:
    assert volume_causes(kinds, ephemeral={}) == [(TEMPLATE, "Required value")]


@cases(
    ("part", "value", "reported"),
    [
        ("name", "x", "name"),
        ("namespace", "x", "namespace"),
        ("generateName", "x", "generateName"),
        ("finalizers", ["a/b"], "finalizers"),
        ("uid", "x", "uID"),
    ],
)
def test_template_metadata_has_only_labels_and_annotations(
    kinds: Definitions, part: str, value: Any, reported: str
) -> None:
    assert volume_causes(kinds, ephemeral=ephemeral(metadata={part: value})) == [
        (f"{TEMPLATE}.metadata.{reported}", "Forbidden: cannot be set for an ephemeral volume")
    ]


def test_labels_of_the_template_are_validated(kinds: Definitions) -> None:
    causes = volume_causes(kinds, ephemeral=ephemeral(metadata={"labels": {"a b": "c"}}))
    assert [field for field, _ in causes] == [f"{TEMPLATE}.metadata.labels"]


@cases(
    ("spec", "causes"),
    [
        (
            {"volumeName": "v"},
            [
                (".accessModes", "Required value: at least 1 access mode is required"),
                (".resources[storage]", "Required value"),
            ],
        ),
        (
            {**SPEC, "accessModes": ["Sometimes"]},
            [
                (
                    ".accessModes",
                    'Unsupported value: "Sometimes": supported values: "ReadOnlyMany", "ReadWriteMany", '
                    '"ReadWriteOnce"',
                )
            ],
        ),
        (
            {**SPEC, "resources": {"requests": {"storage": "0"}}},
            [(".resources[storage]", 'Invalid value: "0": must be greater than zero')],
        ),
        (
            {**SPEC, "storageClassName": "A"},
            [(".storageClassName", f'Invalid value: "A": {SUBDOMAIN}')],
        ),
        (
            {**SPEC, "volumeMode": "x"},
            [(".volumeMode", 'Unsupported value: "x": supported values: "Block", "Filesystem"')],
        ),
        (
            {**SPEC, "dataSource": {"kind": "", "name": ""}},
            [
                (".dataSource.name", "Required value"),
                (".dataSource.kind", "Required value"),
                (".dataSource", 'Invalid value: ""'),
            ],
        ),
        (
            {
                **SPEC,
                "dataSource": {"kind": "PersistentVolumeClaim", "name": "a"},
                "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "b"},
            },
            [
                (
                    "",
                    f'Invalid value: "spec.volumes[0].{TEMPLATE}.spec.dataSource": must match dataSourceRef',
                )
            ],
        ),
    ],
)
def test_claim_spec_is_validated(kinds: Definitions, spec: Any, causes: list[tuple[str, str]]) -> None:
    expected = [(f"{TEMPLATE}.spec{field}", text) for field, text in causes]
    assert volume_causes(kinds, ephemeral=ephemeral(spec)) == expected


def test_pod_and_volume_name_form_a_valid_claim_name(kinds: Definitions) -> None:
    name = "a" * 250
    document = pod(metadata={"name": name}, volumes=[{"name": "vol", "ephemeral": ephemeral()}])
    assert kinds.create_causes("pods", document) == [
        (
            "spec.volumes[0].name",
            f'Invalid value: "vol": PVC name "{name}-vol": must be no more than 253 characters',
        )
    ]
    template = {"metadata": {"name": "a"}, "template": {"spec": document["spec"]}}
    assert kinds.create_causes("podtemplates", template) == []


def test_other_volumes_cannot_use_the_claim_of_an_ephemeral_volume(kinds: Definitions) -> None:
    volumes = [
        {"name": "v", "ephemeral": ephemeral()},
        {"name": "w", "persistentVolumeClaim": {"claimName": "a-v"}},
    ]
    assert create_causes(kinds, volumes=volumes) == [
        (
            "spec.volumes[1].persistentVolumeClaim.claimName",
            'Invalid value: "a-v": must not reference a PVC that gets created for an ephemeral volume',
        )
    ]
