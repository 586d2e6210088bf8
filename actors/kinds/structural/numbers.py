"""Numbers in the form in which they are stored: a floating-point number without a fraction is written without one.

Go's JSON does that, so an object that was created with 1.0 has 1 when it is read. `compile_numbers` goes only where a
schema allows numbers or anything at all; None: nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from actors.kinds.structural.node import Node

Convert = Callable[[Any], Any]

_SMALLEST, _LARGEST = -(2.0**63), 2.0**63
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
    def convert(value: Any) -> Any:
        if type(value) is list:
            return [items(item) for item in value] if items is not None else value
        if type(value) is not dict:
            return value
        changed = {}
        for name, member in value.items():
            step = inner.get(name) or (values if name not in declared else None)
            if step is not None and (converted := step(member)) is not member:
                changed[name] = converted
        return {**value, **changed} if changed else value

    return convert


def stored_numbers(value: Any) -> Any:
    if type(value) is float:
        return int(value) if value.is_integer() and _SMALLEST <= value < _LARGEST else value
    if type(value) is dict:
        return {name: stored_numbers(member) for name, member in value.items()}
    return [stored_numbers(item) for item in value] if type(value) is list else value
