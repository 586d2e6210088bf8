"""What cel-go's extensions add after v1.25: texts in quotes, lists that are sorted, cut, flattened or counted, and the
maps of macros with two variables. `format` is in `formatting`.

`DECLARATIONS` are read by `declarations`, by the feature that a language must have; `FUNCTIONS` and `WALKS` are what
runs: the name of the function, the overload, how its arguments are checked, and the function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any, Final

from rewound.actors.cel.formatting import format_text
from rewound.actors.cel.macros import MAP_INSERT, SORT_BY_KEYS
from rewound.actors.cel.operations import COMPARABLE, compare, same
from rewound.actors.cel.values import (
    NONE,
    EvaluationError,
    MapLike,
    MapValue,
    Optional,
    copied,
    is_list,
    key_of,
    list_get,
    list_size,
    no_such_overload,
    printed,
    type_name,
    walked,
)
from rewound.actors.runtime.budget import Budget
from rewound.actors.versions.features import (
    CEL_ENDS_OF_LISTS,
    CEL_LISTS,
    CEL_STRINGS,
    CEL_TWO_VARIABLES,
)

COMPARED: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")

DECLARATIONS: Final = {
    CEL_STRINGS: """
format string_format string.(list(dyn)) string
strings.quote strings_quote (string) string
""",
    CEL_ENDS_OF_LISTS: """
last list_last list(A).() optional_type(A)
first list_first list(A).() optional_type(A)
optional.unwrap optional_unwrap (list(optional_type(A))) list(A)
unwrapOpt optional_unwrapOpt list(optional_type(A)).() list(A)
""",
    CEL_TWO_VARIABLES: f"""
{MAP_INSERT} @mapInsert_map_key_value (map(A, B), A, B) map(A, B)
{MAP_INSERT} @mapInsert_map_map (map(A, B), map(A, B)) map(A, B)
""",
    CEL_LISTS: "\n".join(
        (
            "slice list_slice list(A).(int, int) list(A)",
            "flatten list_flatten list(list(A)).() list(A)",
            "flatten list_flatten_int list(dyn).(int) list(dyn)",
            *(f"sort list_{kind}_sort list({kind}).() list({kind})" for kind in COMPARED),
            *(
                f"{SORT_BY_KEYS} list_{kind}_sortByAssociatedKeys list(A).(list({kind})) list(A)"
                for kind in COMPARED
            ),
            "lists.range lists_range (int) list(int)",
            "reverse list_reverse list(A).() list(A)",
            "distinct list_distinct list(A).() list(A)",
        )
    ),
}


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


_ESCAPES: Final = {
    ord(character): written
    for character, written in {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }.items()
}


def _slice(budget: Budget, values: Any, start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        text = "start index must be less than or equal to end index"
        raise EvaluationError(f"cannot slice({start}, {end}), {text}")
    if list_size(values) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {list_size(values)}")
    budget.take(8 * (end - start))
    found = []
    for index in range(start, end):
        budget.visit(1)
        found.append(list_get(values, index))
    return found


def _flatten(budget: Budget, values: Any, *depths: Any) -> list[Any]:
    if not is_list(values) or any(depth.__class__ is not int for depth in depths):
        kinds = ", ".join(map(type_name, depths))
        raise EvaluationError(f"no such overload: {type_name(values)}.flatten({kinds})")
    depth = depths[0] if depths else 1
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    found: list[Any] = []
    for value in walked(values, budget):
        if is_list(value) and depth:
            found.extend(_flatten(budget, value, depth - 1))
        else:
            budget.take(8)
            found.append(value)
    return found


def _sort(budget: Budget, values: Any) -> Any:
    if not is_list(values):
        raise no_such_overload("sort")
    return _sort_by_keys(budget, values, values)


def _sort_by_keys(budget: Budget, values: Any, keys: Any) -> Any:
    """Sort by the list of the keys of the values. Values with the same key keep their order."""
    sizes = list_size(values), list_size(keys)
    if sizes[0] != sizes[1]:
        text = "expected a list of the same size as the associated keys list"
        raise EvaluationError(
            f"{SORT_BY_KEYS}() {text}, but got {sizes[0]} and {sizes[1]} elements respectively"
        )
    if not sizes[0]:
        return values
    compared = copied(keys, budget)
    if compared[0].__class__ not in COMPARABLE:
        raise EvaluationError("list elements must be comparable")
    if any(key.__class__ is not compared[0].__class__ for key in compared):
        raise EvaluationError("list elements must have the same type")
    pairs: list[tuple[Any, Any]] = list(zip(compared, copied(values, budget), strict=True))

    def order(left: tuple[Any, Any], right: tuple[Any, Any]) -> int:
        budget.visit(1)
        try:
            return compare(left[0], right[0], "")
        except EvaluationError:
            return 0

    pairs.sort(key=cmp_to_key(order))
    return [value for _, value in pairs]


def _range(budget: Budget, count: int) -> list[Any]:
    budget.visit(max(count, 0))
    budget.take(32 * max(count, 0))
    return list(range(count))


def _reverse(budget: Budget, values: Any) -> list[Any]:
    return copied(values, budget)[::-1]


def distinct(values: Any, budget: Budget) -> Any:
    """Return the list without items that are equal to one before them."""
    if not is_list(values):
        raise no_such_overload("distinct", values)
    if not list_size(values):
        return values
    found: list[Any] = []
    texts: set[str] = set()
    for value in walked(values, budget):
        if value.__class__ is str:
            if value not in texts:
                texts.add(value)
                found.append(value)
            continue
        for other in walked(found, budget):
            if _are_same(value, other, budget):
                break
        else:
            found.append(value)
    return found


def _are_same(left: Any, right: Any, budget: Budget) -> bool:
    try:
        return same(left, right, budget)
    except EvaluationError:
        return False


class MapBuilder(MapValue):
    """The accumulator of a macro that makes a map: entries are added to it."""

    __slots__ = ()

    def finished(self) -> MapValue:
        made = MapValue([])
        made.entries = self.entries
        return made

    def plus(self, key: Any, value: Any) -> MapBuilder:
        if self.find(key)[0]:
            raise EvaluationError(f"insert failed: key {printed(key)} already exists")
        self.entries[key_of(key)] = (key, value)
        return self


_ENTRY: Final = 100  # bytes


def _insert(budget: Budget, made: Any, key: Any, value: Any) -> MapBuilder:
    return _builder(made, budget).plus(key, value)


def _insert_all(budget: Budget, made: Any, others: Any) -> MapBuilder:
    builder = _builder(made, budget)
    if not isinstance(others, MapLike):
        raise no_such_overload(MAP_INSERT, made, others)
    budget.visit(others.size())
    for key in list(others.keys()):
        builder.plus(key, others.get(key))
    return builder


def _builder(made: Any, budget: Budget) -> MapBuilder:
    if isinstance(made, MapBuilder):
        return made
    if not isinstance(made, MapLike):
        raise no_such_overload(MAP_INSERT, made)
    budget.visit(made.size())
    budget.take(_ENTRY * made.size())
    return MapBuilder([(key, made.get(key)) for key in list(made.keys())])


def _first(values: Any) -> Optional:
    return Optional(list_get(values, 0)) if list_size(values) else NONE


def _last(values: Any) -> Optional:
    return Optional(list_get(values, list_size(values) - 1)) if list_size(values) else NONE


def _unwrap(budget: Budget, values: Any) -> list[Any]:
    found = []
    for value in walked(values, budget):
        if not isinstance(value, Optional):
            raise EvaluationError(f"value {printed(value)} is not optional")
        if value.has_value:
            found.append(value.value)
    return found


LIST: Final = "list"  # accepts every list
OPTIONALS: Final = "optionals"  # accepts lists of optional values
FUNCTIONS: Final[list[tuple[str, str, tuple[type | str | None, ...], Callable[..., Any]]]] = [
    ("strings.quote", "strings_quote", (str,), _quote),
    ("last", "list_last", (LIST,), _last),
    ("first", "list_first", (LIST,), _first),
]
# Those that walk over lists and maps, and get the budget first.
WALKS: Final[list[tuple[str, str, tuple[type | str | None, ...], Callable[..., Any]]]] = [
    ("format", "string_format", (str, LIST), format_text),
    ("slice", "list_slice", (LIST, int, int), _slice),
    ("flatten", "list_flatten", (None,), _flatten),
    ("flatten", "list_flatten_int", (None, None), _flatten),
    ("sort", "", (None,), _sort),
    (SORT_BY_KEYS, "", (LIST, LIST), _sort_by_keys),
    ("lists.range", "lists_range", (int,), _range),
    ("reverse", "list_reverse", (LIST,), _reverse),
    ("optional.unwrap", "optional_unwrap", (OPTIONALS,), _unwrap),
    ("unwrapOpt", "optional_unwrapOpt", (OPTIONALS,), _unwrap),
    (MAP_INSERT, "@mapInsert_map_key_value", (None, None, None), _insert),
    (MAP_INSERT, "@mapInsert_map_map", (None, None), _insert_all),
]
