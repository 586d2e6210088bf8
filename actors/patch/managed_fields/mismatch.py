"""Finds values of other types than the schema of a custom kind says.

Objects of built-in kinds have the right types once they are decoded. Those of custom kinds are validated after their
managers were found, and objects that are stored may have the types of an earlier schema.
"""

from __future__ import annotations

from typing import Any

from actors.patch.managed_fields.field_path import FIELD, path_text
from actors.patch.managed_fields.topology import Dictionary, Leaf, Open, Record, Shape
from actors.quoting import cut
from actors.time_limit import check_time

_LONGEST = 64  # characters of the value in a message


def find_mismatch(shape: Shape, value: Any) -> str:
    """Such as `.spec.ports: expected list, got 5`; empty if there is none."""
    found = _find(shape, value, ())
    if found is None:
        return ""
    path, expected, wrong = found
    return f"{path_text(path)}: expected {expected}, got {cut(str(wrong), _LONGEST)}"


def _find(shape: Shape, value: Any, path: tuple[str, ...]) -> tuple[tuple[str, ...], str, Any] | None:
    if value is None or type(shape) is Leaf or type(shape) is Open:
        return None
    check_time()
    if isinstance(shape, Record | Dictionary):
        if not isinstance(value, dict):
            return path, "map", value
        parts = [(element, value[element[len(FIELD) :]]) for element in shape.parts(value)]
    else:
        if not isinstance(value, list):
            return path, "list", value
        parts = [(f"i:{index}", item) for index, item in enumerate(value)]
    for element, part in parts:
        found = _find(shape.part(element), part, (*path, element))
        if found is not None:
            return found
    return None
