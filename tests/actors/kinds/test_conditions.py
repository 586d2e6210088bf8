"""Conditions of newer kinds: unique types, a known status, a time, a machine-readable reason."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.declaration.meta import condition_rules
from rewound.actors.kinds.validation import collect
from tests.actors.kinds.definitions import causes_of
from tests.cases import cases

VALID = {
    "type": "Ready",
    "status": "True",
    "lastTransitionTime": "2020-01-01T00:00:00Z",
    "reason": "AllWell",
    "message": "",
}


def test_valid_conditions_are_accepted() -> None:
    assert collect(condition_rules, [VALID, {**VALID, "type": "example.com/Other"}], "c") == []


@cases(
    ("parts", "field", "message"),
    [
        (
            {"status": "Maybe"},
            "status",
            'Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
        ),
        (
            {"observedGeneration": -1},
            "observedGeneration",
            "Invalid value: -1: must be greater than or equal to zero",
        ),
        ({"lastTransitionTime": None}, "lastTransitionTime", "Required value: must be set"),
        ({"reason": ""}, "reason", "Required value: must be set"),
        ({"reason": "r" * 1025}, "reason", "Too long: must have at most 1024 bytes"),
        ({"message": "m" * 32769}, "message", "Too long: must have at most 32768 bytes"),
    ],
)
def test_condition_fields_are_validated(parts: Any, field: str, message: str) -> None:
    assert causes_of(collect(condition_rules, [{**VALID, **parts}], "c")) == [(f"c[0].{field}", message)]


def test_types_are_qualified_names_and_unique() -> None:
    assert [
        field for field, _ in causes_of(collect(condition_rules, [{**VALID, "type": "not ok"}], "c"))
    ] == ["c[0].type"]
    assert causes_of(collect(condition_rules, [VALID, VALID], "c")) == [
        ("c[1].type", 'Duplicate value: "Ready"')
    ]


def test_reasons_are_identifiers() -> None:
    for reason in ("A", "a_b", "A,B", "A:B_"):
        assert collect(condition_rules, [{**VALID, "reason": reason}], "c") == []
    for reason in ("1a", "a b", "a,"):
        [(field, message)] = causes_of(collect(condition_rules, [{**VALID, "reason": reason}], "c"))
        assert field == "c[0].reason" and "a condition reason must start with" in message
