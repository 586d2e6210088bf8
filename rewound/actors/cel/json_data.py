"""JSON values without a schema as CEL values: the objects that admission policies and match conditions see.

cel-go sees them as Go's maps and slices: null is a value, every key exists that the JSON has, and a number is an int
if it is written as one. `from_json` wraps maps and lists without a copy, and their parts only when an expression looks
at them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rewound.actors.cel.operations import equal, same
from rewound.actors.cel.values import (
    MAX_INT,
    MIN_INT,
    EvaluationError,
    ListValue,
    MapLike,
    concatenate,
    is_list,
    list_index,
    list_items,
    list_size,
    printed,
    walked,
)
from rewound.actors.runtime.budget import Budget

_MISSING: Final = object()


class JsonMap(MapLike):
    __slots__ = ("raw",)
    go_name: Final = "*types.baseMap"

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw

    def size(self) -> int:
        return len(self.raw)

    def get(self, key: Any) -> Any:
        value: Any = self.raw.get(key, _MISSING) if key.__class__ is str else _MISSING
        kind = value.__class__
        if kind is str:
            return value
        if kind is dict:
            return JsonMap(value)
        if value is _MISSING:
            raise EvaluationError(f"no such key: {printed(key)}")
        return from_json(value)

    def find(self, key: Any) -> tuple[bool, Any]:
        value = self.raw.get(key, _MISSING) if key.__class__ is str else _MISSING
        return (False, None) if value is _MISSING else (True, from_json(value))

    def contains(self, key: Any) -> bool:
        return key.__class__ is str and key in self.raw

    def keys(self) -> Iterator[Any]:
        return iter(list(self.raw))

    def equals(self, other: Any, budget: Budget) -> bool:
        if not isinstance(other, MapLike) or len(self.raw) != other.size():
            return False
        if other.__class__ is JsonMap and self.raw is other.raw:
            return True
        budget.visit(len(self.raw))
        for key, value in self.raw.items():
            found, theirs = other.find(key)
            if not found or not equal(from_json(value), theirs, budget):
                return False
        return True

    def native(self) -> Any:
        return self.raw


class JsonList(ListValue):
    __slots__ = ("raw",)
    go_name: Final = "*types.baseList"

    def __init__(self, raw: list[Any]) -> None:
        self.raw = raw

    def size(self) -> int:
        return len(self.raw)

    def get(self, index: Any) -> Any:
        position = index if index.__class__ is int else list_index(index)
        if not 0 <= position < len(self.raw):
            raise EvaluationError(f"index out of bounds: {printed(index)}")
        return from_json(self.raw[position])

    def items(self) -> Iterator[Any]:
        return map(from_json, self.raw)

    def holds(self, value: Any, budget: Budget) -> bool:
        for item in walked(self, budget):
            try:
                if same(value, item, budget):
                    return True
            except EvaluationError:
                continue
        return False

    def equals(self, other: Any, budget: Budget) -> bool:
        if not is_list(other) or len(self.raw) != list_size(other):
            return False
        for mine, item in zip(walked(self, budget), list_items(other), strict=True):
            if isinstance(item, EvaluationError):
                raise item
            if not equal(mine, item, budget):
                return False
        return True

    def add(self, other: Any, budget: Budget) -> Any:
        return concatenate(self, other, budget)

    def native(self) -> Any:
        return self.raw


def from_json(value: Any) -> Any:
    """Return the CEL value of a decoded JSON value."""
    kind = value.__class__
    if kind is str or kind is bool or value is None or kind is float:
        return value
    if kind is dict:
        return JsonMap(value)
    if kind is list:
        return JsonList(value)
    if kind is int:
        return value if MIN_INT <= value <= MAX_INT else float(value)
    return (
        JsonMap(value) if isinstance(value, dict) else JsonList(value) if isinstance(value, list) else value
    )
