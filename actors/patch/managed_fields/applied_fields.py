"""The fields that an applied configuration sets, and the reverse: the part of an object that a field set names.

    {"metadata": {"labels": {"a": "1"}}, "data": {}}     {"f:metadata": {"f:labels": {"f:a": {}}}, "f:data": {}}

A map key and a list entry are members of the set together with what they contain. A struct field is a member only when
it is null or empty, otherwise only its content is: so two appliers can share a struct that neither of them owns.
`applied_fields` also refuses a configuration whose list entries have equal keys, or lack a key that has no default.
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


class AmbiguousItems(Exception):
    """A configuration has list entries with equal or missing keys."""

    def __init__(self, why: str) -> None:
        self.why = why
        self.path: Path = ()

    def __str__(self) -> str:
        return f"{field_path.path_text(self.path)}: {self.why}"


def applied_fields(shape: Divided, config: Any) -> Fields:
    if type(shape) is Record:
        return _of_record(shape, config)
    parts = shape.parts(config)
    if type(shape) is not Dictionary:
        _refuse_ambiguous(shape, config, parts)
    inner = shape.part("")
    if type(inner) is Leaf:
        return dict.fromkeys(sorted(parts), WHOLE)
    fields: Fields = {}
    for element in sorted(parts):
        node = _fields_of_part(inner, element, parts[element])
        fields[element] = {HERE: {}, **node} if node else {}
    return fields


def _of_record(shape: Record, config: Any) -> Fields:
    fields: Fields = {}
    for name, element, inner in shape.plan(config):
        if type(inner) is Leaf:
            fields[element] = WHOLE
            continue
        node = _fields_of_part(inner, element, config[name])
        if node is not None:
            fields[element] = node
    return _with_keys(shape, fields) if shape.is_open else fields


def _with_keys(shape: Record, fields: Fields) -> Fields:
    return {
        element: node if shape.declares(element) or is_member(node) else {HERE: {}, **node}
        for element, node in fields.items()
    }


def _fields_of_part(shape: Divided | Open, element: str, part: Any) -> Fields | None:
    """The node of a part; None for an empty list, which sets nothing."""
    if type(shape) is Open:
        resolved = shape.of(part)
        if type(resolved) is Leaf:
            return WHOLE
        shape = resolved
    if not part and part != []:
        return {}
    try:
        return applied_fields(shape, part) or None
    except AmbiguousItems as error:
        error.path = (element, *error.path)
        raise


def _refuse_ambiguous(shape: Items, config: Any, parts: dict[str, Any]) -> None:
    if len(parts) < len(config):
        twice = next(element for element, part in parts.items() if type(part) is Repeated)
        raise AmbiguousItems(f"duplicate entries for key {field_path.path_text((twice,))}")
    if type(shape) is Entries:
        for item in config:
            lacking = "value" if item is None else shape.lacks(item)
            if lacking:
                why = f"an entry of this list has no {lacking}, which identifies its entries"
                raise AmbiguousItems(why)


def extract(shape: Divided, value: Any, fields: Fields) -> Any:
    """The part of a value that the set names."""
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
