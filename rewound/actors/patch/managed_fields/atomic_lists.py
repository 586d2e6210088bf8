"""Sets and keyed lists inside atomic parts: an applied configuration may not repeat their items.

    rules: [{resourceRules: [{verbs: [get, get]}]}]      a FlowSchema, whose rules are atomic; verbs are a set

Shapes end at atomic parts, because nobody owns anything inside them, but the types of the lists inside still apply.
Only built-in kinds need this: the validation of custom kinds checks list types. Most kinds have no such list, and
their configurations are not walked.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from rewound.actors.kinds.schema.fields import Field, ListOf, MapOf, Struct, Type
from rewound.actors.patch.managed_fields.apply import AmbiguousItems, refuse_ambiguous
from rewound.actors.patch.managed_fields.field_set import FIELD, INDEX
from rewound.actors.patch.managed_fields.topology import LEAF, NOTHING, Elements, Entries, Shapes
from rewound.actors.runtime.time_limit import check_time

_SHAPES: Final = Shapes()


def check_atomic_lists(struct: Struct, config: Any) -> None:
    """Raise AmbiguousItems if such a list repeats an item. `config` is decoded, so its types are right."""
    if _has_any(struct):
        _check(struct, config, False)


@lru_cache(maxsize=256)  # more than there are kinds in all their versions
def _has_any(struct: Struct) -> bool:
    return any(_lists(struct, False, ()))


def _lists(type_: Type, atomic: bool, around: tuple[Struct, ...]) -> Iterator[Field]:
    """Return the fields inside atomic parts that are such lists."""
    if isinstance(type_, MapOf):
        yield from _lists(type_.value, atomic, around)
    if not isinstance(type_, Struct) or type_ in around:
        return
    for field in type_.fields:
        if atomic and _is_associative(field):
            yield field
        inner = field.type.item if isinstance(field.type, ListOf) else field.type
        yield from _lists(inner, atomic or _is_atomic(field), (*around, type_))


def _is_associative(field: Field) -> bool:
    return isinstance(_SHAPES.of_field(field, NOTHING), Elements | Entries)


def _is_atomic(field: Field) -> bool:
    return _SHAPES.of_field(field, NOTHING) is LEAF


def _check(type_: Type, value: Any, atomic: bool) -> None:
    if not value:
        return
    check_time()
    if isinstance(type_, MapOf):
        for name, member in value.items():
            _inside(FIELD + name, type_.value, member, atomic)
    elif isinstance(type_, Struct) and isinstance(value, dict):
        for name, member in value.items():
            field = type_.by_name.get(name)
            if field is not None and member and isinstance(field.type, Struct | MapOf | ListOf):
                _check_field(field, member, atomic)


def _check_field(field: Field, value: Any, atomic: bool) -> None:
    element, type_ = FIELD + field.name, field.type
    shape, inner = _SHAPES.of_field(field, NOTHING), atomic or _is_atomic(field)
    if not isinstance(type_, ListOf):
        _inside(element, type_, value, inner)
        return
    parts: dict[str, Any] = {f"{INDEX}{index}": item for index, item in enumerate(value)}
    if isinstance(shape, Elements | Entries):
        parts = shape.parts(value)
        if atomic:
            _with_path(element, refuse_ambiguous, shape, value, parts)
    for name, item in parts.items():
        _with_path(element, _inside, name, type_.item, item, inner)


def _inside(element: str, type_: Type, value: Any, atomic: bool) -> None:
    if isinstance(type_, Struct | MapOf):
        _with_path(element, _check, type_, value, atomic)


def _with_path(element: str, check: Any, *arguments: Any) -> None:
    try:
        check(*arguments)
    except AmbiguousItems as error:
        error.path = (element, *error.path)
        raise
