"""Label selectors in objects: operators with their values, keys and labels."""

from __future__ import annotations

from typing import Any

import pytest

from actors.kinds.declaration.label_selector import label_selector_rules
from actors.kinds.validation.field_errors import collect
from tests.actors.kinds.declared import causes_of


def one(operator: str, *values: str, key: str = "k") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    "selector", [None, {}, {"matchLabels": {"a": "b"}}, one("In", "x"), one("NotIn", "x", "y"), one("Exists")]
)
def test_good_ones(selector: Any) -> None:
    assert collect(label_selector_rules, selector, "s") == []


@pytest.mark.parametrize(
    ("selector", "field", "message"),
    [
        (one("In"), "values", "Required value: must be specified when `operator` is 'In' or 'NotIn'"),
        (one("NotIn"), "values", "Required value: must be specified when `operator` is 'In' or 'NotIn'"),
        (
            one("Exists", "x"),
            "values",
            "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        (
            one("DoesNotExist", "x"),
            "values",
            "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        (one("Near"), "operator", 'Invalid value: "Near": not a valid selector operator'),
    ],
)
def test_operators(selector: Any, field: str, message: str) -> None:
    assert causes_of(collect(label_selector_rules, selector, "s")) == [
        (f"s.matchExpressions[0].{field}", message)
    ]


def test_keys_and_values_are_those_of_labels() -> None:
    wrong = {"matchLabels": {"bad key": "v", "k": "bad value"}, **one("Exists", key="/")}
    assert [field for field, _ in causes_of(collect(label_selector_rules, wrong, "s"))] == [
        "s.matchLabels",
        "s.matchLabels",
        "s.matchExpressions[0].key",
        "s.matchExpressions[0].key",
        "s.matchExpressions[0].key",
    ]
