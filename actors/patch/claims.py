"""What an applied configuration lays claim to, and the way back: the part of an object that a set names.

    {"metadata": {"labels": {"a": "1"}}, "data": {}}     {"f:metadata": {"f:labels": {"f:a": {}}}, "f:data": {}}

A key of a map and an entry of a list are claimed with what is in them. A field of a struct is claimed through what
is in it, and itself only when it is null or empty: so two appliers can share a struct that none of them owns.
`claimed` is also where a configuration is refused that could not be told apart: entries without or with equal keys.
"""

from __future__ import annotations

from typing import Any, Final

from actors.patch import field_path
from actors.patch.field_set import HERE, Fields, Path
from actors.patch.topology import Dictionary, Divided, Entries, Leaf, Record, Repeated, Shape

_NO_KEY: Final = ":null"  # what an entry without a key is spelled with, besides others


class NotClaimable(Exception):
    """A configuration with entries that cannot be told apart."""

    def __init__(self, why: str) -> None:
        self.why = why
        self.path: Path = ()

    def __str__(self) -> str:
        return f"{field_path.spoken(self.path)}: {self.why}"


def claimed(shape: Divided, config: Any) -> Fields:
    fields: Fields = {}
    named = type(shape) is Record
    parts = shape.parts(config)
    for element in sorted(parts):
        part, inner = parts[element], shape.part(element)
        if type(part) is Repeated or _NO_KEY in element:
            _refuse(shape, element, part)
        if type(inner) is Leaf or part is None or part == {}:
            fields[element] = {}
            continue
        node = _claim(inner, element, part)
        if not named:
            fields[element] = {HERE: {}, **node}
        elif node:
            fields[element] = node
    return fields


def _claim(shape: Divided, element: str, part: Any) -> Fields:
    try:
        return claimed(shape, part)
    except NotClaimable as error:
        error.path = (element, *error.path)
        raise


def _refuse(shape: Divided, element: str, part: Any) -> None:
    if type(part) is Repeated:
        raise NotClaimable(f"duplicate entries for key {field_path.spoken((element,))}")
    if type(shape) is Entries and (lacking := shape.lacks(part or {})):
        raise NotClaimable(f"an entry of this list has no {lacking}, by which its entries are told apart")


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
    if type(shape) is Leaf or not part:
        return part
    return extract(shape, part, node)
