"""The list functions of Kubernetes: isSorted, sum, min, max, indexOf, lastIndexOf."""

from __future__ import annotations

import itertools
from typing import Any

from actors.cel.runtime.arithmetic import add
from actors.cel.runtime.containers import list_get, list_items, list_size
from actors.cel.runtime.equality import COMPARABLE, compare, same
from actors.cel.values import EvaluationError, no_such_overload


def _comparable(values: Any) -> list[Any]:
    items = list(list_items(values))
    for item in items:
        if item.__class__ not in COMPARABLE:
            raise item if isinstance(item, EvaluationError) else no_such_overload()
    return items


def _order(left: Any, right: Any) -> int:
    """0 also for what cannot be compared: NaN."""
    try:
        return compare(left, right, "")
    except EvaluationError:
        return 0


def is_sorted(values: Any) -> bool:
    items = _comparable(values)
    return all(_order(left, right) <= 0 for left, right in itertools.pairwise(items))


def total(values: Any, zero: Any) -> Any:
    result = zero
    for item in list_items(values):
        if isinstance(item, EvaluationError):
            raise item
        result = add(result, item)
    return result


def smallest(values: Any) -> Any:
    return _extreme(values, "min", 1)


def largest(values: Any) -> Any:
    return _extreme(values, "max", -1)


def _extreme(values: Any, name: str, replaced: int) -> Any:
    items = _comparable(values)
    if not items:
        raise EvaluationError(f"{name} called on empty list")
    result = items[0]
    for item in items[1:]:
        if _order(result, item) == replaced:
            result = item
    return result


def index_of(values: Any, searched: Any) -> int:
    return _first(values, searched, range(list_size(values)))


def last_index_of(values: Any, searched: Any) -> int:
    return _first(values, searched, range(list_size(values) - 1, -1, -1))


def _first(values: Any, searched: Any, indexes: range) -> int:
    for index in indexes:
        try:
            if same(list_get(values, index), searched):
                return index
        except EvaluationError:
            continue
    return -1
