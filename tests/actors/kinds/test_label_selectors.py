"""Label selectors in objects: operators with their values, keys and labels."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from rewound.actors.kinds.declaration.meta import LabelMatcher, label_selector_matches, label_selector_rules
from rewound.actors.kinds.validation import collect
from tests.actors.kinds.definitions import causes_of
from tests.cases import cases


def selector_of(operator: str, *values: str, key: str = "k") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@cases(
    "selector",
    [
        None,
        {},
        {"matchLabels": {"a": "b"}},
        selector_of("In", "x"),
        selector_of("NotIn", "x", "y"),
        selector_of("Exists"),
    ],
)
def test_valid_selectors_are_accepted(selector: Any) -> None:
    assert collect(label_selector_rules, selector, "s") == []


@cases(
    ("selector", "field", "message"),
    [
        (selector_of("In"), "values", "Required value: must be specified when `operator` is 'In' or 'NotIn'"),
        (
            selector_of("NotIn"),
            "values",
            "Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            selector_of("Exists", "x"),
            "values",
            "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        (
            selector_of("DoesNotExist", "x"),
            "values",
            "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        (selector_of("Near"), "operator", 'Invalid value: "Near": not a valid selector operator'),
    ],
)
def test_operators_need_or_exclude_values(selector: Any, field: str, message: str) -> None:
    assert causes_of(collect(label_selector_rules, selector, "s")) == [
        (f"s.matchExpressions[0].{field}", message)
    ]


def test_keys_and_values_are_validated_like_labels() -> None:
    invalid = {"matchLabels": {"bad key": "v", "k": "bad value"}, **selector_of("Exists", key="/")}
    assert [field for field, _ in causes_of(collect(label_selector_rules, invalid, "s"))] == [
        "s.matchLabels",
        "s.matchLabels",
        "s.matchExpressions[0].key",
        "s.matchExpressions[0].key",
        "s.matchExpressions[0].key",
    ]


REQUIREMENTS = [
    {"key": key, "operator": operator, **({"values": values} if values else {})}
    for key in ("a", "b")
    for operator, values in (
        ("In", ["x"]), ("In", ["x", "y"]), ("NotIn", ["x"]), ("NotIn", ["y", "z"]),
        ("Exists", None), ("DoesNotExist", None),
    )
]  # fmt: skip
LABELS = [{}, {"a": "x"}, {"a": "y"}, {"b": "x"}, {"a": "x", "b": "x"}, {"a": "z", "b": "y"}, {"c": "x"}]


def test_a_matcher_of_many_objects_agrees_with_the_selector() -> None:
    for match_labels in ({}, {"a": "x"}, {"a": "x", "b": "y"}):
        for expressions in ([], *map(list, combinations(REQUIREMENTS, 2))):
            selector = {"matchLabels": match_labels, "matchExpressions": expressions}
            for labels in LABELS:
                expected = label_selector_matches(selector, labels)
                assert LabelMatcher(selector).matches(labels) is expected, (selector, labels)


def test_a_matcher_of_many_objects_does_not_look_at_all_requirements_for_each() -> None:
    class Labels(dict[str, str]):
        asked = 0

        def get(self, *key: Any) -> Any:
            self.asked += 1
            return super().get(*key)

        def __contains__(self, key: object) -> bool:
            self.asked += 1
            return super().__contains__(key)

    operators = ("In", "NotIn", "Exists", "DoesNotExist")
    for operator in operators:
        many = [{"key": f"k{number}", "operator": operator, "values": ["v"]} for number in range(1000)]
        labels = Labels(k0="v", a="b")
        LabelMatcher({"matchExpressions": many}).matches(labels)
        assert labels.asked <= 2
