"""The operator `in`."""

from __future__ import annotations

from typing import Any, Final

from actors.cel.planning.attributes import Run
from actors.cel.planning.costs import Cells
from actors.cel.runtime.containers import MapLike, is_list, key_of
from actors.cel.runtime.equality import list_contains
from actors.cel.values import MAX_INT, EvaluationError, EvaluationStopped, Uint, no_such_overload

_PRIMITIVE: Final = frozenset({bool, bytes, float, int, str, Uint})


def contains(value: Any, container: Any) -> bool:
    if is_list(container):
        return list_contains(container, value)
    if isinstance(container, MapLike):
        return container.contains(value)
    raise no_such_overload()


def is_primitive(values: list[Any]) -> bool:
    return all(value.__class__ in _PRIMITIVE for value in values)


def in_constants(value_of: Run, values: list[Any]) -> Run:
    """`in` a list of constants, which costs nothing. An error on the left is in no list: the result is false."""
    members = frozenset(key for value in values for key in _keys(value))

    def run(cells: Cells) -> bool:
        try:
            value = value_of(cells)
        except EvaluationError:
            return False
        if value.__class__ is bytes:
            raise EvaluationStopped("internal error: runtime error: hash of unhashable type types.Bytes")
        return key_of(value) in members

    return run


def _keys(value: Any) -> list[Any]:
    """The value, and the same number of other types as far as they can express it."""
    keys = [key_of(value)]
    if value.__class__ is float and value.is_integer():
        keys += [(int, int(value)), (Uint, int(value))]
    elif value.__class__ is int:
        keys += [(float, float(value))] + ([(Uint, value)] if value >= 0 else [])
    elif value.__class__ is Uint:
        keys += [(float, float(value))] + ([(int, int(value))] if value <= MAX_INT else [])
    return keys
