"""Values in error messages are formatted as in Go."""

from __future__ import annotations

from rewound.actors.golang.format import format_labels, format_selector, format_value
from tests.cases import cases

NO_REQUIREMENTS = "MatchExpressions:[]v1.LabelSelectorRequirement(nil)"


@cases(
    ("value", "text"),
    [
        (None, '"null"'),
        (True, "true"),
        (-1, "-1"),
        ('a"\n', r'"a\"\n"'),
        (["a", "b"], '[]string{"a", "b"}'),
        ({"key": "a", "effect": "b"}, '{"key":"a","effect":"b"}'),
        ([{"a": 1}], '[{"a":1}]'),
        ({}, "{}"),
        (
            {"matchLabels": {"b": "2", "a": "1"}},
            f'v1.LabelSelector{{MatchLabels:map[string]string{{"a":"1", "b":"2"}}, {NO_REQUIREMENTS}}}',
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}]},
            "v1.LabelSelector{MatchLabels:map[string]string(nil), MatchExpressions:[]v1.LabelSelectorRequirement{"
            'v1.LabelSelectorRequirement{Key:"a", Operator:"In", Values:[]string{"x"}}}}',
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
            "v1.LabelSelector{MatchLabels:map[string]string(nil), MatchExpressions:[]v1.LabelSelectorRequirement{"
            'v1.LabelSelectorRequirement{Key:"a", Operator:"Exists", Values:[]string(nil)}}}',
        ),
        (
            {"matchExpressions": [{"scopeName": "Terminating", "operator": "In"}]},
            '{"matchExpressions":[{"scopeName":"Terminating","operator":"In"}]}',
        ),
    ],
)
def test_values_are_formatted_as_in_go(value: object, text: str) -> None:
    assert format_value(value) == text


def test_labels_and_selectors_are_formatted_as_in_go() -> None:
    assert format_value(format_labels(None)) == "map[string]string(nil)"
    assert format_value(format_labels({})) == "map[string]string{}"
    assert (
        format_value(format_selector({}))
        == f"v1.LabelSelector{{MatchLabels:map[string]string(nil), {NO_REQUIREMENTS}}}"
    )
