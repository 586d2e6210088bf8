"""Cells of printer columns: values whose type is not the column's, and whole maps and lists as text."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.custom import MOST_OF_PATHS, table_of
from rewound.actors.kinds.declaration.columns import cells_of
from rewound.actors.kinds.json_path import MAX_LENGTH
from tests.cases import cases


def cell(type_: str, value: Any) -> Any:
    """What a column of this type shows for a value."""
    columns = table_of([{"name": "X", "type": type_, "jsonPath": ".spec.x"}]).columns
    return cells_of(columns, {"metadata": {"name": "a"}, "spec": {"x": value}}, 0)[1]


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


@cases("value", [1e300, -1e300, float(2**63)])
def test_integer_columns_show_64_bits_of_larger_numbers(value: float) -> None:
    assert cell("integer", value) == -(2**63)


def test_table_ends_where_its_paths_become_too_long() -> None:
    path = "." + "a" * (MAX_LENGTH - 1)
    declared = [{"name": f"X{index}", "type": "string", "jsonPath": path} for index in range(100)]
    assert len(table_of(declared).columns) == 1 + MOST_OF_PATHS // MAX_LENGTH
