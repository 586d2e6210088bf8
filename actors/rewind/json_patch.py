"""The JSON patch (RFC 6902) that turns one document into another, exactly.

    patch_between({"a": 1, "b": [1, 2]}, {"b": [1, 3, 4]})
        [{"op": "remove", "path": "/a"},
         {"op": "add", "path": "/b/2", "value": 4}, {"op": "replace", "path": "/b/1", "value": 3}]

Lists are compared from both ends, so that an item that was inserted or removed is one operation. It uses its own stack:
documents may be nested deeper than the recursion limit of Python.
"""

from __future__ import annotations

from typing import Any

import orjson

Operation = dict[str, Any]
Operations = list[Operation]


def patch_between(before: Any, after: Any) -> Operations:
    operations: Operations = []
    left: list[tuple[str, Any, Any]] = [("", before, after)]
    while left:
        path, one, other = left.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            left.extend(reversed(_members(path, one, other, operations)))
        elif isinstance(one, list) and isinstance(other, list):
            left.extend(reversed(_items(path, one, other, operations)))
        elif not _same(one, other):
            operations.append({"op": "replace", "path": path, "value": other})
    return operations


def _members(
    path: str, one: dict[str, Any], other: dict[str, Any], operations: Operations
) -> list[tuple[str, Any, Any]]:
    for key in one:
        if key not in other:
            operations.append({"op": "remove", "path": pointer(path, key)})
    both = []
    for key, value in other.items():
        if key in one:
            both.append((pointer(path, key), one[key], value))
        else:
            operations.append({"op": "add", "path": pointer(path, key), "value": value})
    return both


def _items(path: str, one: list[Any], other: list[Any], operations: Operations) -> list[tuple[str, Any, Any]]:
    """Items at both ends are compared pair by pair; operations on the others do not move these."""
    shorter = min(len(one), len(other))
    start = 0
    while start < shorter and _same(one[start], other[start]):
        start += 1
    end = 0
    while end < shorter - start and _same(one[-1 - end], other[-1 - end]):
        end += 1
    first, last = len(one) - end, len(other) - end
    pairs = min(first, last)
    for position in range(first - 1, pairs - 1, -1):
        operations.append({"op": "remove", "path": f"{path}/{position}"})
    for position in range(pairs, last):
        operations.append({"op": "add", "path": f"{path}/{position}", "value": other[position]})
    return [(f"{path}/{position}", one[position], other[position]) for position in range(start, pairs)]


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1, 1.0 and true are equal in Python."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (dict, list)):
        return bool(one == other) and orjson.dumps(one, option=_SORTED) == orjson.dumps(other, option=_SORTED)
    return bool(one == other)


_SORTED = orjson.OPT_SORT_KEYS


def pointer(path: str, key: str) -> str:
    """The JSON pointer (RFC 6901) of a member."""
    if "~" in key or "/" in key:
        key = key.replace("~", "~0").replace("/", "~1")
    return f"{path}/{key}"
