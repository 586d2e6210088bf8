"""== and the order of values, across number types as dyn allows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from actors.cel.runtime.arithmetic import unsupported
from actors.cel.runtime.containers import (
    Building,
    ConcatList,
    MapLike,
    MapValue,
    is_list,
    list_get,
    list_items,
    list_size,
)
from actors.cel.values import (
    Duration,
    EvaluationError,
    Timestamp,
    TypeValue,
    Uint,
    no_such_overload,
)

_DIRECT: Final = frozenset(
    {int, str, bytes, bool}
)  # two of the same of these compare as Python compares them


def equal(left: Any, right: Any) -> bool:
    """What == means: null equals only null, whatever the other side is."""
    if left.__class__ is right.__class__ and left.__class__ in _DIRECT:
        return bool(left == right)
    if left is None or right is None:
        return left is right
    return same(left, right)


def same(left: Any, right: Any) -> bool:
    """Whether the left value finds that it equals the right one; raises an EvaluationError if it cannot compare."""
    compare = _SAME.get(left.__class__)
    return compare(left, right) if compare is not None else bool(left.equals(right))


def _same_type(left: Any, right: Any) -> bool:
    return right.__class__ is left.__class__ and bool(left == right)


def _same_integer(left: int, right: Any) -> bool:
    if right.__class__ is float:
        return float(left) == right
    return right.__class__ in (int, Uint) and int(left) == int(right)


def _same_double(left: float, right: Any) -> bool:
    return right.__class__ in (float, int, Uint) and left == float(right)


def _same_null(_: None, right: Any) -> bool:
    return right is None


def _same_timestamp(left: Timestamp, right: Any) -> bool:
    return right.__class__ is Timestamp and _instant(left) == _instant(right)


def _same_list(left: list[Any], right: Any) -> bool:
    if not is_list(right) or len(left) != list_size(right):
        return False
    for index, item in enumerate(left):
        try:
            other = list_get(right, index)
        except EvaluationError:
            return False  # no value equals an error
        try:
            if not equal(item, other):
                return False
        except EvaluationError:
            continue  # cel-go looks for false alone
    return True


def _same_sum(left: ConcatList, right: Any) -> bool:
    if not is_list(right) or left.size() != list_size(right):
        return False
    failed = None
    for item, other in zip(left.items(), list_items(right), strict=True):
        if isinstance(item, EvaluationError):
            failed = failed or item
            continue
        try:
            if not equal(item, other):
                return False
        except EvaluationError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return True


def _same_map(left: MapValue, right: Any) -> bool:
    if not isinstance(right, MapLike) or left.size() != right.size():
        return False
    for key, value in left.entries.values():
        try:
            found, other = right.find(key)
        except EvaluationError:
            return False
        try:
            if not found or not equal(value, other):
                return False
        except EvaluationError:
            continue
    return True


_SAME: Final[dict[type, Callable[[Any, Any], bool]]] = {
    bool: _same_type,
    int: _same_integer,
    Uint: _same_integer,
    float: _same_double,
    str: _same_type,
    bytes: _same_type,
    type(None): _same_null,
    list: _same_list,
    Building: _same_list,
    ConcatList: _same_sum,
    MapValue: _same_map,
    Duration: _same_type,
    Timestamp: _same_timestamp,
    TypeValue: _same_type,
}


def list_contains(value: Any, searched: Any) -> bool:
    if value.__class__ is ConcatList:
        return _sum_contains(value, searched)
    if not isinstance(value, list):
        return bool(value.holds(searched))
    for item in value:
        try:
            if same(searched, item):
                return True
        except EvaluationError:
            continue
    return False


def _sum_contains(value: ConcatList, searched: Any) -> bool:
    failed = None
    for part in (value.previous, value.next):
        try:
            if list_contains(part, searched):
                return True
        except EvaluationError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return False


def _instant(value: Timestamp) -> tuple[int, int]:
    return value.seconds, value.nanoseconds


def compare(left: Any, right: Any, function: str) -> int:
    """-1, 0 or 1; `function` is the operator that the message of an error names."""
    order = _ORDER.get(left.__class__)
    if order is None:
        raise unsupported(function, left)
    return order(left, right)


def _order(left: Any, right: Any) -> int:
    return -1 if left < right else int(left > right)


def _order_number(left: Any, right: Any) -> int:
    if left != left:
        raise EvaluationError("NaN values cannot be ordered")
    if right.__class__ not in (int, float, Uint):
        raise no_such_overload()
    if right != right:
        raise EvaluationError("NaN values cannot be ordered")
    if left.__class__ is float or right.__class__ is float:
        return _order(float(left), float(right))
    return _order(int(left), int(right))


def _order_same(left: Any, right: Any) -> int:
    if right.__class__ is not left.__class__:
        raise no_such_overload()
    return _order(left, right)


def _order_duration(left: Duration, right: Any) -> int:
    if right.__class__ is not Duration:
        raise no_such_overload()
    return _order(left.nanoseconds, right.nanoseconds)


def _order_timestamp(left: Timestamp, right: Any) -> int:
    if right.__class__ is not Timestamp:
        raise no_such_overload()
    return _order(_instant(left), _instant(right))


_ORDER: Final[dict[type, Callable[[Any, Any], int]]] = {
    bool: _order_same,
    int: _order_number,
    Uint: _order_number,
    float: _order_number,
    str: _order_same,
    bytes: _order_same,
    Duration: _order_duration,
    Timestamp: _order_timestamp,
}
COMPARABLE: Final = frozenset(_ORDER)


def less(left: Any, right: Any) -> bool:
    if left.__class__ is right.__class__ and left.__class__ in _DIRECT:
        return bool(left < right)
    return compare(left, right, "_<_") < 0


def less_equals(left: Any, right: Any) -> bool:
    if left.__class__ is right.__class__ and left.__class__ in _DIRECT:
        return bool(left <= right)
    return compare(left, right, "_<=_") <= 0


def greater(left: Any, right: Any) -> bool:
    if left.__class__ is right.__class__ and left.__class__ in _DIRECT:
        return bool(left > right)
    return compare(left, right, "_>_") > 0


def greater_equals(left: Any, right: Any) -> bool:
    if left.__class__ is right.__class__ and left.__class__ in _DIRECT:
        return bool(left >= right)
    return compare(left, right, "_>=_") >= 0
