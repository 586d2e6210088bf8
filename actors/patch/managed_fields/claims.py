"""What an applied configuration lays claim to, and the way back: the part of an object that a set names.

    {"metadata": {"labels": {"a": "1"}}, "data": {}}     {"f:metadata": {"f:labels": {"f:a": {}}}, "f:data": {}}

A key of a map and an entry of a list are claimed with what is in them. A field of a struct is claimed through what
is in it, and itself only when it is null or empty: so two appliers can share a struct that none of them owns.
`claimed` is also where a configuration is refused that could not be told apart: entries with equal keys, or
without one that has no default.
"""

from __future__ import annotations

from typing import Any

from actors.patch.managed_fields import field_path
from actors.patch.managed_fields.field_set import HERE, WHOLE, Fields, Path, is_member
from actors.patch.managed_fields.topology import (
    Dictionary,
    Divided,
    Entries,
    Items,
    Leaf,
    Open,
    Record,
    Repeated,
    Shape,
)


class NotClaimable(Exception):
    """A configuration with entries that cannot be told apart."""

    def __init__(self, why: str) -> None:
        self.why = why
        self.path: Path = ()

    def __str__(self) -> str:
        return f"{field_path.spoken(self.path)}: {self.why}"


def claimed(shape: Divided, config: Any) -> Fields:
    if type(shape) is Record:
        return _of_record(shape, config)
    parts = shape.parts(config)
    if type(shape) is not Dictionary:
        _refuse_indistinct(shape, config, parts)
    inner = shape.part("")
    if type(inner) is Leaf:
        return dict.fromkeys(sorted(parts), WHOLE)
    fields: Fields = {}
    for element in sorted(parts):
        node = _claim(inner, element, parts[element])
        fields[element] = {HERE: {}, **node} if node else {}
    return fields


def _of_record(shape: Record, config: Any) -> Fields:
    fields: Fields = {}
    for name, element, inner in shape.plan(config):
        if type(inner) is Leaf:
            fields[element] = WHOLE
            continue
        node = _claim(inner, element, config[name])
        if node is not None:
            fields[element] = node
    return _with_keys(shape, fields) if shape.is_open else fields


def _with_keys(shape: Record, fields: Fields) -> Fields:
    return {
        element: node if shape.declares(element) or is_member(node) else {HERE: {}, **node}
        for element, node in fields.items()
    }


def _claim(shape: Divided | Open, element: str, part: Any) -> Fields | None:
    """The node of a part; None where it claims nothing, which only an empty list does."""
    if type(shape) is Open:
        settled = shape.of(part)
        if type(settled) is Leaf:
            return WHOLE
        shape = settled
    if not part and part != []:
        return {}
    try:
        return claimed(shape, part) or None
    except NotClaimable as error:
        error.path = (element, *error.path)
        raise


def _refuse_indistinct(shape: Items, config: Any, parts: dict[str, Any]) -> None:
    if len(parts) < len(config):
        twice = next(element for element, part in parts.items() if type(part) is Repeated)
        raise NotClaimable(f"duplicate entries for key {field_path.spoken((twice,))}")
    if type(shape) is Entries:
        for item in config:
            lacking = "value" if item is None else shape.lacks(item)
            if lacking:
                why = f"an entry of this list has no {lacking}, by which its entries are told apart"
                raise NotClaimable(why)


def extract(shape: Divided, value: Any, fields: Fields) -> Any:
    """The part of a value that is owned; what a claim was for, when nothing has come between."""
    named: dict[str, Any] = {}
    for element, part in shape.parts(value).items():
        if element in fields:
            named[element] = _owned(shape.part(element), part, fields[element])
    if isinstance(shape, Record | Dictionary):
        return {element[2:]: part for element, part in named.items()}
    return list(named.values())


def _owned(shape: Shape, part: Any, node: Fields) -> Any:
    if type(shape) is Open:
        shape = shape.of(part)
    if type(shape) is Leaf or not part:
        return part
    return extract(shape, part, node)
