"""Fills in what a document omits: the second step of the pydantic decoder.

A declaration is compiled into one Python function for each struct that has defaults, at any depth:

    def fill(value):
        if "ports" in value:
            for one in value["ports"] or ():
                inner_0(one)
        missing = False
        if "protocol" not in value:
            value["protocol"] = made_0
            missing = True
        if missing:
            if "hostIP" in value:
                value["hostIP"] = value.pop("hostIP")

Fields stay in declared order: after one is filled in, those behind it are removed and inserted again. pydantic-core
could fill in defaults itself, but calls a function for each of them, and a pod has hundreds; loops over the
declaration took two and a half times as long as this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from actors.kinds.schema.fields import NOTHING, Field, ListOf, MapOf, Struct, absent_value

Fill = Callable[[dict[str, Any]], None]

_SHARED: Final = (str, int, bool, type(None))  # values that all objects may share
_EACH: Final = {
    Struct: ("one = value[{name}]", "if one is not None:", "    {inner}(one)"),
    ListOf: ("for one in value[{name}] or ():", "    {inner}(one)"),
    MapOf: ("for one in (value[{name}] or {{}}).values():", "    {inner}(one)"),
}


def must_be_given(field: Field) -> bool:
    """Documents that omit what the API requires are rare, mostly wrong, and left to the exact decoder."""
    return field.required and field.always and field.default is None


def compile_defaults(struct: Struct) -> Fill:
    return _Compiler().of(struct) or _nothing


def _nothing(_: dict[str, Any]) -> None:
    """For structs without defaults."""


class _Compiler:
    def __init__(self) -> None:
        self._made: dict[Struct, Fill | None] = {}

    def of(self, struct: Struct) -> Fill | None:
        if struct not in self._made:
            # A struct inside itself calls its own function, which is compiled below.
            self._made[struct] = lambda value: _call(self._made[struct], value)
            self._made[struct] = self._compile(struct)
        return self._made[struct]

    def _compile(self, struct: Struct) -> Fill | None:
        found: dict[str, Any] = {}
        lines = [*self._members(struct, found), *_defaults(struct, found)]
        if not lines:
            return None
        source = "\n".join(("def fill(value):", *(f"    {line}" for line in lines)))
        exec(compile(source, f"<defaults of {struct.of}>", "exec"), found)
        made: Fill = found["fill"]
        return made

    def _members(self, struct: Struct, found: dict[str, Any]) -> Iterator[str]:
        for at, field in enumerate(struct.fields):
            inner = self.of(type_) if isinstance(type_ := _inside(field), Struct) else None
            if inner is not None:
                found[f"inner_{at}"] = inner
                yield f"if {field.name!r} in value:"
                for line in _EACH[type(field.type)]:
                    yield "    " + line.format(name=repr(field.name), inner=f"inner_{at}")


def _inside(field: Field) -> Any:
    if isinstance(field.type, ListOf):
        return field.type.item
    return field.type.value if isinstance(field.type, MapOf) else field.type


def _call(fill: Fill | None, value: dict[str, Any]) -> None:
    if fill is not None:
        fill(value)


def _defaults(struct: Struct, found: dict[str, Any]) -> Iterator[str]:
    absent = {
        at
        for at, field in enumerate(struct.fields)
        if not must_be_given(field) and absent_value(field, defaults=True) is not NOTHING
    }
    if not absent:
        return
    yield "missing = False"
    between: list[str] = []
    for at in range(min(absent), len(struct.fields)):
        field = struct.fields[at]
        if at not in absent:
            between.append(repr(field.name))
            continue
        yield from _moved(between)
        between.clear()
        name = repr(field.name)
        yield f"if {name} not in value:"
        yield f"    value[{name}] = {_made(field, at, found)}"
        yield "    missing = True"
        yield "elif missing:"
        yield f"    value[{name}] = value.pop({name})"
    yield from _moved(between)


def _moved(names: list[str]) -> Iterator[str]:
    """Fields without defaults between two that have some."""
    if names:
        yield "if missing:"
    for name in names:
        yield f"    if {name} in value:"
        yield f"        value[{name}] = value.pop({name})"


def _made(field: Field, at: int, found: dict[str, Any]) -> str:
    """A value that all objects share, or a call that creates one for each."""
    absent = absent_value(field, defaults=True)
    if isinstance(absent, _SHARED):
        found[f"made_{at}"] = absent
        return f"made_{at}"
    if absent == {}:
        return "{}"
    found[f"made_{at}"] = lambda: absent_value(field, defaults=True)
    return f"made_{at}()"
