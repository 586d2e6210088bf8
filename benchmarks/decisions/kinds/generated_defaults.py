"""What was rejected in docs/decisions/0011-defaults.md: one generated Python function for each struct with defaults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rewound.actors.kinds.schema.fields import NOTHING, Field, ListOf, MapOf, Struct, absent_value
from rewound.actors.kinds.schema.pydantic_decoder import Fill, must_be_present

_EACH: Final = {
    Struct: ("one = value[{name}]", "if one is not None:", "    {inner}(one)"),
    ListOf: ("for one in value[{name}] or ():", "    {inner}(one)"),
    MapOf: ("for one in (value[{name}] or {{}}).values():", "    {inner}(one)"),
}


class Generated:
    def __init__(self) -> None:
        self._made: dict[Struct, Fill | None] = {}

    def of(self, struct: Struct) -> Fill | None:
        if struct not in self._made:
            self._made[struct] = lambda value: _call(self._made[struct], value)
            self._made[struct] = self._generate(struct)
        return self._made[struct]

    def _generate(self, struct: Struct) -> Fill | None:
        names: dict[str, Any] = {}
        lines = [*self._members(struct, names), *_defaults(struct, names)]
        if not lines:
            return None
        source = "\n".join(("def fill(value):", *(f"    {line}" for line in lines)))
        exec(compile(source, f"<defaults of {struct.of}>", "exec"), names)
        made: Fill = names["fill"]
        return made

    def _members(self, struct: Struct, names: dict[str, Any]) -> Iterator[str]:
        for at, field in enumerate(struct.fields):
            inner = self.of(type_) if isinstance(type_ := _inside(field), Struct) else None
            if inner is not None:
                names[f"inner_{at}"] = inner
                yield f"if {field.name!r} in value:"
                for line in _EACH[type(field.type)]:
                    yield "    " + line.format(name=repr(field.name), inner=f"inner_{at}")


def _call(fill: Fill | None, value: dict[str, Any]) -> None:
    if fill is not None:
        fill(value)


def _inside(field: Field) -> Any:
    if isinstance(field.type, ListOf):
        return field.type.item
    return field.type.value if isinstance(field.type, MapOf) else field.type


def _defaults(struct: Struct, names: dict[str, Any]) -> Iterator[str]:
    defaults = [
        NOTHING if must_be_present(one) else absent_value(one, defaults=True) for one in struct.fields
    ]
    first = next((at for at, default in enumerate(defaults) if default is not NOTHING), len(defaults))
    if first < len(defaults):
        yield "missing = False"
    between: list[str] = []
    for at in range(first, len(defaults)):
        name = repr(struct.fields[at].name)
        if defaults[at] is NOTHING:
            between.append(name)
            continue
        yield from _moved(between)
        between.clear()
        yield f"if {name} not in value:"
        yield f"    value[{name}] = {_default(struct.fields[at], at, names)}"
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


def _default(field: Field, at: int, names: dict[str, Any]) -> str:
    default = absent_value(field, defaults=True)
    if isinstance(default, str | int | bool | None):
        names[f"default_{at}"] = default
        return f"default_{at}"
    if default == {}:
        return "{}"
    names[f"default_{at}"] = lambda: absent_value(field, defaults=True)
    return f"default_{at}()"
