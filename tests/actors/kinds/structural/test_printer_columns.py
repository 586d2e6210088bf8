"""Cells of printer columns: values whose type is not the column's, and whole maps and lists as text."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.custom import table_of
from tests.cases import cases


def cell(type_: str, value: Any) -> Any:
    """What a column of this type shows for a value."""
    _, column = table_of([{"name": "X", "type": type_, "jsonPath": ".spec.x"}]).columns
    return column.cell({"metadata": {"name": "a"}, "spec": {"x": value}}, 0)


@cases(
    "value, text",
    [
        ({"b": "<&>", "a": [1, None]}, '{"a":[1,null],"b":"\\u003c\\u0026\\u003e"}'),
        (["y", "x"], '["y","x"]'),
        (2.0, "2"),
        (1.5, "1.5"),
        (True, "true"),
        (5, "5"),
        (None, None),
    ],
)
def test_text_columns_show_any_value(value: Any, text: str | None) -> None:
    assert cell("string", value) == text


@cases("type_, value", [("integer", "5"), ("number", "x"), ("boolean", 1), ("date", 5)])
def test_other_columns_show_nothing_for_another_type(type_: str, value: Any) -> None:
    assert cell(type_, value) is None
