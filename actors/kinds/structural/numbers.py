"""Numbers in the form in which they are stored: a floating-point number without a fraction is written without one.

Go's JSON does that, so an object that was created with 1.0 has 1 when it is read. `compile_numbers` goes only where a
schema allows numbers or anything at all; None: nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any, Final

from actors.kinds.structural.node import Node

Convert = Callable[[Any], Any]

_SMALLEST, _LARGEST = -(2.0**63), 2.0**63
_MAY_CHANGE: Final = frozenset((float, list, dict))
_NUMERIC: Final = frozenset(("integer", "number", ""))


def compile_numbers(node: Node) -> Convert | None:
    if node.preserve or node.embedded or node.additional is True:
        return stored_numbers
    if node.type in _NUMERIC:
        return stored_numbers
    items = compile_numbers(node.items) if node.items is not None else None
    values = compile_numbers(node.values) if node.values is not None else None
    inner = {
        name: convert
        for name, one in node.properties.items()
        if (convert := compile_numbers(one)) is not None
    }
    if items is None and values is None and not inner:
        return None
    return _convert(inner, items, values, frozenset(node.properties))


def _convert(
    inner: dict[str, Convert], items: Convert | None, values: Convert | None, declared: frozenset[str]
) -> Convert:
    steps = tuple(inner.items())

    def convert(value: Any) -> Any:
        if type(value) is list:
            return _items(value, items) if items is not None else value
        if type(value) is not dict:
            return value
        changed: dict[str, Any] = {}
        for name, step in steps:
            member = value.get(name)
            if type(member) in _MAY_CHANGE and (converted := step(member)) is not member:
                changed[name] = converted
        if values is not None:
            for name, member in value.items():
                if type(member) in _MAY_CHANGE and name not in declared:
                    changed[name] = values(member)
        return {**value, **changed} if changed else value

    return convert


def _items(value: list[Any], convert: Convert) -> list[Any]:
    found = [convert(item) if type(item) in _MAY_CHANGE else item for item in value]
    return value if all(map(is_, found, value)) else found


def stored_numbers(value: Any) -> Any:
    if type(value) is float:
        return int(value) if value.is_integer() and _SMALLEST <= value < _LARGEST else value
    if type(value) is dict:
        return {name: stored_numbers(member) for name, member in value.items()}
    return [stored_numbers(item) for item in value] if type(value) is list else value
