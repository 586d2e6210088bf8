"""Lists of type set and map: no two items are equal, or have equal keys.

`compile_list_types` returns None for schemas without such lists. The first repetition of an item is reported, not the
ones after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from actors.kinds.structural.node import Node, may_have
from actors.kinds.validation import FieldErrors, duplicate, invalid
from actors.kinds.values.go_format import show
from actors.time_limit import check_time

Visit = Callable[[FieldErrors, Any, str], None]

_NO_KEY: Final = object()


def compile_list_types(node: Node | None) -> Visit | None:
    if node is None or not may_have(node, "list-type"):
        return None
    here = _own_check(node)
    items, values = compile_list_types(node.items), compile_list_types(node.values)
    properties = {
        name: check for name, one in node.properties.items() if (check := compile_list_types(one)) is not None
    }
    if not (here or items or values or properties):
        return None

    def visit(errors: FieldErrors, value: Any, path: str) -> None:
        if type(value) is list:
            check_time()
            if here is not None:
                here(errors, value, path)
            if items is not None:
                for index, item in enumerate(value):
                    items(errors, item, f"{path}[{index}]")
        elif type(value) is dict:
            for name, member in value.items():
                if values is not None:
                    values(errors, member, f"{path}[{name}]")
                if name in properties:
                    properties[name](errors, member, f"{path}.{name}" if path else name)

    return visit


def _own_check(node: Node) -> Visit | None:
    if node.list_type == "set":
        return _set
    if node.list_type != "map":
        return None
    keys = node.list_keys
    return lambda errors, value, path: _map(errors, value, path, keys)


def _set(errors: FieldErrors, value: list[Any], path: str) -> None:
    if _are_different(value):
        return
    for index in _repeated(value):
        errors.add(duplicate(f"{path}[{index}]", show(value[index])))


def _map(errors: FieldErrors, value: list[Any], path: str, names: Sequence[str]) -> None:
    if len(names) == 1 and _have_different(value, names[0]):
        return
    for index, item in enumerate(value):
        if item is not None and type(item) is not dict:
            text = "must be an object for an array of list-type map"
            errors.add(invalid(f"{path}[{index}]", show(item), text))
            return
    keys = [{name: item[name] for name in names if name in item} if item else {} for item in value]
    # With one key its value counts, so that a missing key differs from every value.
    compared = [key.get(names[0], _NO_KEY) for key in keys] if len(names) == 1 else keys
    for index in _repeated(compared):
        errors.add(duplicate(f"{path}[{index}]", show(keys[index])))


def _have_different(value: list[Any], key: str) -> bool:
    """Whether all items are objects with different keys; False also if a closer look is needed."""
    try:
        return _are_different([item[key] for item in value])
    except (KeyError, TypeError):
        return False


def _are_different(values: list[Any]) -> bool:
    try:
        return len(set(values)) == len(values)
    except TypeError:  # lists and objects have no hash
        return False


def _repeated(values: Sequence[Any]) -> list[int]:
    if len(values) < 2:
        return []
    seen: dict[Any, int] = {}
    found = []
    for index, value in enumerate(values):
        key = _comparable(value)
        times = seen[key] = seen.get(key, 0) + 1
        if times == 2:
            found.append(index)
    return found


def _comparable(value: Any) -> Any:
    """1, 1.0 and true are three values; objects are equal when their JSON is."""
    if isinstance(value, (dict, list)):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return type(value), value
