"""The table columns of a custom kind: its printer columns, or the name and the time of creation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from actors.kinds.custom.json_path import JsonPath, NotAPath
from actors.kinds.declaration.columns import DEFAULT_COLUMNS, NAME, Column, since
from actors.kinds.declaration.definition import Table
from actors.kinds.values.go_format import float_text
from actors.kinds.values.times import canonical_seconds
from actors.messages import Object

# A column that shows a whole list or map shows no more of it: tables are for people.
LONGEST_CELL: Final = 64 * 1024
_HTML: Final = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})

Convert = Callable[[Any, int], Any]  # value and now, to what the cell shows


def table_of(declared: list[Object]) -> Table:
    """Columns behind one whose path cannot be parsed are left out, and it as well."""
    if not declared:
        return Table(DEFAULT_COLUMNS)
    columns = [NAME]
    for one in declared:
        try:
            columns.append(_column(one))
        except NotAPath:
            break
    return Table(tuple(columns))


def _column(declared: Object) -> Column:
    path = declared["jsonPath"]
    text = declared.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    cell = Cell(JsonPath(path), _CONVERSIONS[declared["type"]])
    return Column(
        declared["name"],
        declared["type"],
        text,
        cell,
        format=declared.get("format", ""),
        priority=declared.get("priority", 0),
    )


class Cell:
    def __init__(self, path: JsonPath, convert: Convert) -> None:
        self._path, self._convert = path, convert

    def __call__(self, shown: Object, now: int) -> Any:
        """None where there is no value, or one of another type."""
        found = self._path.first(shown)
        return None if found is None else self._convert(found, now)


def _text(value: Any, _: int) -> str:
    """Maps and lists as Go's JSON encoder writes them: sorted, and safe to put into HTML."""
    if isinstance(value, (dict, list)):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode().translate(_HTML)[:LONGEST_CELL]
    if isinstance(value, bool):
        return "true" if value else "false"
    return float_text(value) if isinstance(value, float) else str(value)


def _integer(value: Any, _: int) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _number(value: Any, _: int) -> int | float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _boolean(value: Any, _: int) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: int) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        moment = canonical_seconds(value) if value else None
    except ValueError:
        return "<invalid>"
    return since(moment, now)


_CONVERSIONS: Final[dict[str, Convert]] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
