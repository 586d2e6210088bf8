"""Fills in what a document omits: the second step of the pydantic decoder.

For each struct that has defaults, at any depth, there is one function over two tables: the members to enter, and the
fields from the first that has a default, with that default. Fields stay in declared order: after one is filled in,
those behind it are removed and inserted again. pydantic-core could fill in defaults itself, but calls a function for
each of them, and a pod has hundreds. Rejected: Python source generated for each struct, which saves a few percent of
the create of a pod (docs/decisions/0011-defaults.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from actors.kinds.schema.fields import NOTHING, Field, ListOf, MapOf, Struct, absent_value

Fill = Callable[[dict[str, Any]], None]
Visit = Callable[[Any, Fill], None]  # calls a function with each dict inside a member
Row = tuple[
    str, Any, Callable[[], Any] | None
]  # name, default, and how to create one that objects cannot share

_SHARED: Final = (str, int, bool, type(None))  # values that all objects may share


def must_be_given(field: Field) -> bool:
    """Documents that omit what the API requires are rare, mostly wrong, and left to the exact decoder."""
    return field.required and field.always and field.default is None


def fill_of(struct: Struct) -> Fill:
    """The function that fills in the defaults of a struct and of everything in it."""
    return _Fills().of(struct) or _nothing


def _nothing(_: dict[str, Any]) -> None:
    """For structs without defaults."""


class _Fills:
    def __init__(self) -> None:
        self._made: dict[Struct, Fill | None] = {}

    def of(self, struct: Struct) -> Fill | None:
        if struct not in self._made:
            # A struct inside itself calls its own function, which is made below.
            self._made[struct] = lambda value: (self._made[struct] or _nothing)(value)
            self._made[struct] = self._make(struct)
        return self._made[struct]

    def _make(self, struct: Struct) -> Fill | None:
        members: list[tuple[str, Visit, Fill]] = []
        for field in struct.fields:
            visit, type_ = _inside(field)
            inner = self.of(type_) if isinstance(type_, Struct) else None
            if inner is not None:
                members.append((field.name, visit, inner))
        rows = [_row(field) for field in struct.fields]
        while rows and rows[0][1] is NOTHING:
            del rows[0]
        return _fill(members, rows) if members or rows else None


def _fill(members: list[tuple[str, Visit, Fill]], rows: list[Row]) -> Fill:
    defaulted = [name for name, default, _ in rows if default is not NOTHING]

    def fill(value: dict[str, Any]) -> None:
        for name, visit, inner in members:
            if name in value:
                visit(value[name], inner)
        for name in defaulted:
            if name not in value:
                insert(value)
                return

    def insert(value: dict[str, Any]) -> None:
        moved = False
        for name, default, create in rows:
            if name in value:
                if moved:
                    value[name] = value.pop(name)
            elif default is not NOTHING:
                value[name] = default if create is None else create()
                moved = True

    return fill


def _row(field: Field) -> Row:
    default = NOTHING if must_be_given(field) else absent_value(field, defaults=True)
    if default is NOTHING or isinstance(default, _SHARED):
        return field.name, default, None
    return field.name, default, dict if default == {} else lambda: absent_value(field, defaults=True)


def _inside(field: Field) -> tuple[Visit, Any]:
    if isinstance(field.type, ListOf):
        return _each_item, field.type.item
    return (_each_value, field.type.value) if isinstance(field.type, MapOf) else (_struct, field.type)


def _struct(value: dict[str, Any] | None, fill: Fill) -> None:
    if value is not None:
        fill(value)


def _each_item(values: list[dict[str, Any]] | None, fill: Fill) -> None:
    for value in values or ():
        fill(value)


def _each_value(values: dict[str, dict[str, Any]] | None, fill: Fill) -> None:
    for value in (values or {}).values():
        fill(value)
