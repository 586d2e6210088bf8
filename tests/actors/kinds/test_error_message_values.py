"""Error messages format values without loss."""

from __future__ import annotations

from typing import Any

from rewound.actors.golang.format import format_value
from rewound.actors.kinds.validation import duplicate, forbidden, invalid, not_supported, required, too_long
from tests.cases import cases


@cases(
    ("value", "text"),
    [
        ("plain", '"plain"'),
        ("", '""'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("a\ab\x00\n\t", r'"a\ab\x00\n\t"'),
        ("ü 世界", '"ü 世界"'),
        ("\u200b\u00a0", r'"\u200b\u00a0"'),
        ("\U000e0001", r'"\U000e0001"'),
        (5, "5"),
        (True, "true"),
        (None, '"null"'),
        (["a", 'b"'], r'[]string{"a", "b\""}'),
        ([], "[]string{}"),
        ({"a": 1}, '{"a":1}'),
        ([{"a": 1}], '[{"a":1}]'),
    ],
)
def test_values_are_formatted_without_loss(value: Any, text: str) -> None:
    assert format_value(value) == text


def test_errors_have_the_texts_of_kubernetes() -> None:
    errors = [
        invalid("a", "x", "no"),
        invalid("a", "x", ""),
        required("a"),
        required("a", "why"),
        forbidden("a", "no"),
        duplicate("a", "x"),
        not_supported("a", "x", ("b", "c")),
        too_long("a", 5),
    ]
    assert [(error.reason, error.message) for error in errors] == [
        ("FieldValueInvalid", 'Invalid value: "x": no'),
        ("FieldValueInvalid", 'Invalid value: "x"'),
        ("FieldValueRequired", "Required value"),
        ("FieldValueRequired", "Required value: why"),
        ("FieldValueForbidden", "Forbidden: no"),
        ("FieldValueDuplicate", 'Duplicate value: "x"'),
        ("FieldValueNotSupported", 'Unsupported value: "x": supported values: "b", "c"'),
        ("FieldValueTooLong", "Too long: must have at most 5 bytes"),
    ]
    assert errors[0].cause().field == "a"
