"""What a document leaves out, put in its place: the fast decoder's second step.

Compiled from a declaration into one function for each struct that has something to fill in, at any depth. A
function changes the object it is given, and keeps the declared order: what stands after a filled-in field is moved
behind it. pydantic-core could fill in defaults itself, but calls a function for each of them; a pod has hundreds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from actors.kinds.fields import NOTHING, Field, ListOf, MapOf, Struct, unsaid

Fill = Callable[[dict[str, Any]], None]

Maker = Callable[[], Any]
# A field's name, the value all objects may share or the function that makes one, and the fields after it.
Absent = tuple[str, Any, Maker | None, tuple[str, ...]]

_ONE, _LIST, _MAP = 0, 1, 2
_SHARED: Final = (str, int, bool, type(None))


def filling(struct: Struct) -> Fill:
    return _Compiler().of(struct) or _nothing


def _nothing(_: dict[str, Any]) -> None:
    """For structs that show what they were given."""


class _Compiler:
    def __init__(self) -> None:
        self._made: dict[Struct, Fill | None] = {}

    def of(self, struct: Struct) -> Fill | None:
        if struct not in self._made:
            # A struct inside itself is filled in by whatever its function turns out to be.
            self._made[struct] = lambda value: _call(self._made[struct], value)
            self._made[struct] = self._compile(struct)
        return self._made[struct]

    def _compile(self, struct: Struct) -> Fill | None:
        inside = tuple(found for field in struct.fields if (found := self._inside(field)) is not None)
        names = tuple(field.name for field in struct.fields)
        absent = tuple(
            (field.name, *_maker(field), names[at + 1 :])
            for at, field in enumerate(struct.fields)
            if unsaid(field, fill=True) is not NOTHING
        )
        if not absent:
            return _inside_only(inside) if inside else None
        return _function(inside, absent)

    def _inside(self, field: Field) -> tuple[str, int, Fill] | None:
        type_, shape = field.type, _ONE
        if isinstance(type_, ListOf):
            type_, shape = type_.item, _LIST
        elif isinstance(type_, MapOf):
            type_, shape = type_.value, _MAP
        fill = self.of(type_) if isinstance(type_, Struct) else None
        return None if fill is None else (field.name, shape, fill)


def _call(fill: Fill | None, value: dict[str, Any]) -> None:
    if fill is not None:
        fill(value)


def _maker(field: Field) -> tuple[Any, Maker | None]:
    """A value that all objects may share, or a function that makes one for each."""
    absent = unsaid(field, fill=True)
    if isinstance(absent, _SHARED):
        return absent, None
    if absent == {}:
        return None, dict
    return None, lambda: unsaid(field, fill=True)


def _inside_only(inside: tuple[tuple[str, int, Fill], ...]) -> Fill:
    def fill(value: dict[str, Any]) -> None:
        for name, shape, inner in inside:
            member = value.get(name)
            if member is not None:
                if shape == _ONE:
                    inner(member)
                else:
                    for item in member if shape == _LIST else member.values():
                        inner(item)

    return fill


def _function(inside: tuple[tuple[str, int, Fill], ...], absent: tuple[Absent, ...]) -> Fill:
    within = _inside_only(inside) if inside else None

    def fill(value: dict[str, Any]) -> None:
        if within is not None:
            within(value)
        behind: tuple[str, ...] | None = None
        for name, shared, make, later in absent:
            if name not in value:
                value[name] = shared if make is None else make()
                if behind is None:
                    behind = later
        if behind is not None:
            for name in behind:
                if name in value:
                    value[name] = value.pop(name)

    return fill
