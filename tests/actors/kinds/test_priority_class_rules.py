"""PriorityClass: the maximum for users, reserved names of the system, and an immutable value."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

NAMED = {"metadata": {"name": "a"}, "value": 5}
RESERVED = "Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: "

CASES = [
    ({"value": 1_000_000_000}, []),
    (
        {"value": 1_000_000_001},
        [("value", "Forbidden: maximum allowed value of a user defined priority is 1000000000")],
    ),
    (
        {"preemptionPolicy": "Sometimes"},
        [
            (
                "preemptionPolicy",
                'Unsupported value: "Sometimes": supported values: "PreemptLowerPriority", "Never"',
            )
        ],
    ),
    ({"preemptionPolicy": ""}, [("preemptionPolicy", "Required value")]),
    (
        {"metadata": {"name": "system-mine"}},
        [("metadata.name", RESERVED + "system-mine is not a known system priority class")],
    ),
    (
        {"metadata": {"name": "system-node-critical"}},
        [("metadata.name", RESERVED + "value of system-node-critical PriorityClass must be 2000001000")],
    ),
    ({"metadata": {"name": "system-cluster-critical"}, "value": 2_000_000_000}, []),
    (
        {"metadata": {"name": "system-cluster-critical"}, "value": 2_000_000_000, "globalDefault": True},
        [
            (
                "metadata.name",
                RESERVED + "globalDefault of system-cluster-critical PriorityClass must be false",
            )
        ],
    ),
]


@cases(("parts", "expected"), CASES)
def test_create_reports_invalid_fields(
    kinds: Definitions, parts: Any, expected: list[tuple[str, str]]
) -> None:
    assert kinds.create_causes("priorityclasses", {**NAMED, **parts}) == expected


@cases(
    ("parts", "expected"),
    [
        ({"description": "d", "globalDefault": True}, []),
        ({"value": 6}, [("value", "Forbidden: may not be changed in an update.")]),
        ({"preemptionPolicy": "Never"}, [("preemptionPolicy", 'Invalid value: "Never": field is immutable')]),
    ],
)
def test_update_of_immutable_field_is_refused(
    kinds: Definitions, parts: Any, expected: list[tuple[str, str]]
) -> None:
    assert kinds.update("priorityclasses", NAMED, {**NAMED, **parts})[1] == expected


def test_generation_is_always_one(kinds: Definitions) -> None:
    assert kinds.stored("priorityclasses", NAMED)["metadata"]["generation"] == 1
