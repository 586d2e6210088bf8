"""StorageClass: provisioner, bounded parameters, unique topologies, and immutable fields."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions, distinct
from tests.cases import cases

NAMED = {"metadata": {"name": "a"}, "provisioner": "p"}


def expressions(*pairs: tuple[str, list[str]]) -> dict[str, Any]:
    return {"matchLabelExpressions": [{"key": key, "values": values} for key, values in pairs]}


CASES: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({}, []),
    ({"provisioner": ""}, [("provisioner", "Required value")]),
    ({"provisioner": "Example.com/P"}, []),
    ({"reclaimPolicy": ""}, []),
    (
        {"reclaimPolicy": "Recycle"},
        [("reclaimPolicy", 'Unsupported value: "Recycle": supported values: "Delete", "Retain"')],
    ),
    (
        {"volumeBindingMode": "Later"},
        [
            (
                "volumeBindingMode",
                'Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"',
            )
        ],
    ),
    ({"parameters": {"": "x"}}, [("parameters", 'Invalid value: "": field can not be empty.')]),
    ({"parameters": {"k": "x" * 262144}}, [("parameters", "Too long: must have at most 262144 bytes")]),
    (
        {"parameters": {str(i): "" for i in range(513)}},
        [("parameters", "Too long: must have at most 512 bytes")],
    ),
    (
        {"allowedTopologies": [expressions(("z", []))]},
        [("allowedTopologies[0].matchLabelExpressions[0].values", "Required value")],
    ),
    (
        {"allowedTopologies": [expressions(("z", ["a", "a"]))]},
        [("allowedTopologies[0].matchLabelExpressions[0].values[1]", 'Duplicate value: "a"')],
    ),
    (
        {"allowedTopologies": [expressions(("z", ["a"]), ("z", ["b"]))]},
        [("allowedTopologies[0].matchLabelExpressions[1].key", 'Duplicate value: "z"')],
    ),
    (
        {"allowedTopologies": [expressions(("z", ["a", "b"])), expressions(("z", ["b", "a"]))]},
        [("allowedTopologies[1].matchLabelExpressions", 'Duplicate value: ""')],
    ),
    (
        {"allowedTopologies": [{}, expressions(("z", ["a"]))]},
        2 * [("allowedTopologies[0].matchLabelExpressions", 'Duplicate value: ""')],
    ),
]


@cases(("parts", "expected"), CASES)
def test_create_reports_invalid_fields(
    kinds: Definitions, parts: Any, expected: list[tuple[str, str]]
) -> None:
    assert kinds.create_causes("storageclasses", {**NAMED, **parts}) == expected


@cases(
    ("parts", "expected"),
    [
        ({"allowVolumeExpansion": True, "mountOptions": ["soft"]}, []),
        ({"parameters": {"a": "b"}}, [("parameters", "Forbidden: updates to parameters are forbidden.")]),
        ({"provisioner": "q"}, [("provisioner", "Forbidden: updates to provisioner are forbidden.")]),
        (
            {"reclaimPolicy": "Retain"},
            [("reclaimPolicy", "Forbidden: updates to reclaimPolicy are forbidden.")],
        ),
        (
            {"volumeBindingMode": "WaitForFirstConsumer"},
            [("volumeBindingMode", 'Invalid value: "WaitForFirstConsumer": field is immutable')],
        ),
    ],
)
def test_update_of_immutable_field_is_refused(
    kinds: Definitions, parts: Any, expected: list[tuple[str, str]]
) -> None:
    assert kinds.update("storageclasses", NAMED, {**NAMED, **parts})[1] == expected


def test_update_reports_errors_of_the_object_before_those_of_the_change(kinds: Definitions) -> None:
    before = {**NAMED, "parameters": {"a": "b"}}
    _, causes = kinds.update("storageclasses", before, {"metadata": {"name": "a"}})
    assert [field for field, _ in distinct(causes)] == ["provisioner", "parameters", "provisioner"]


def test_deprecated_node_labels_cause_warnings(kinds: Definitions, names: Names) -> None:
    old = names.key("zone", "failure-domain.beta")
    new = kinds.stored(
        "storageclasses", {**NAMED, "allowedTopologies": [expressions(("z", ["a"]), (old, ["b"]))]}
    )
    assert kinds["storageclasses"].strategy.warnings(new, None) == [
        "allowedTopologies[0].matchLabelExpressions[1].key: "
        f'deprecated since v1.17; use "{names.key("zone", "topology")}" instead'
    ]


def test_delete_returns_the_object(kinds: Definitions) -> None:
    assert kinds["storageclasses"].deletion.returns_object
