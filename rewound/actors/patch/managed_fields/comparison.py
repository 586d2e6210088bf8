"""Compares two objects of one shape: which fields a write added or changed, and which it removed.

    before {"data": {"a": "1", "b": "1"}}                 changed {"f:data": {"f:a": {}}}
    after  {"data": {"a": "2"}, "immutable": true}                {"f:immutable": {}}
                                                          removed {"f:data": {"f:b": {}}}

A new part is a member together with everything in it: a new map is a member beside its keys. A part that both objects
have is never a member itself, only what differs in it. An absent field differs from null, and an absent map from an
empty one. Equal parts are not walked into, so a small change of a large object is cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any, NamedTuple

from rewound.actors.patch.managed_fields.field_set import HERE, WHOLE, Fields
from rewound.actors.patch.managed_fields.topology import (
    MAX_PLANS,
    Dictionary,
    Divided,
    Leaf,
    Open,
    Record,
    Repeated,
    Shape,
)


class Changes(NamedTuple):
    changed: Fields
    removed: Fields

    def __bool__(self) -> bool:
        return bool(self.changed or self.removed)


def compare(shape: Record, before: Any, after: Any) -> Changes:
    return Changes(*_differences(shape, before, after))


_Part = Callable[[Any], Fields | None]  # the fields in the value of a member; None if there are none
_NewPlan = tuple[tuple[str, str, _Part | None], ...]  # name, element; a member without a part is one value


class NewObjects:
    """The fields of new objects, the most frequent write: `compare(shape, nothing, value).changed`.

    `nothing` is the object without any field set: it has structs that are never absent, and lists that are null. What
    to do with each member is computed once for each combination of members.
    """

    __slots__ = ("_nothing", "_plans", "_shape")

    def __init__(self, shape: Record, nothing: Any) -> None:
        self._shape, self._nothing = shape, nothing
        self._plans: dict[tuple[str, ...], _NewPlan] = {}

    def fields(self, value: Any) -> Fields | None:
        """Return the fields of a new object, or None if it has none."""
        if not value:
            return {} if not self._nothing and value != self._nothing else None
        plan = self._plans.get(tuple(value))
        if plan is None:
            plan = self._planned(value)
        found: Fields = {}
        for name, element, part in plan:
            if part is None:
                found[element] = WHOLE
            elif (node := part(value[name])) is not None:
                found[element] = node
        return found or None

    def flat_maps(
        self, of_object: tuple[str, ...], of_metadata: tuple[str, ...]
    ) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Return the flat maps in metadata and in an object with these members, or None if it has others, such as
        lists.

        Call `fields` of such an object first.
        """
        found: tuple[list[str], list[str]] = [], []
        for name, element, part in self._plans.get(of_object, ()):
            inner = part.__self__ if isinstance(part, MethodType) else None
            if name == "metadata" and type(inner) is NewObjects:
                if not _only_maps(inner._plans.get(of_metadata, ()), found[0]):
                    return None
            elif not _only_maps(((name, element, part),), found[1]):
                return None
        return tuple(found[0]), tuple(found[1])

    def _planned(self, value: Any) -> _NewPlan:
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        plan = self._plans[tuple(value)] = tuple(
            (name, element, self._part(name, element, inner))
            for name, element, inner in self._shape.plan(value)
        )
        return plan

    def _part(self, name: str, element: str, inner: Shape) -> _Part | None:
        was = (self._nothing or _NOTHING).get(name, _MISSING)
        if was is _MISSING:
            if type(inner) is Leaf:
                return None
            if type(inner) is Dictionary and inner.is_flat:
                return inner.whole
            return partial(all_fields, inner)
        if type(inner) is Record:
            return NewObjects(inner, was).fields
        return partial(_difference, inner, element, was)


def _only_maps(plan: _NewPlan, names: list[str]) -> bool:
    """Add the names of flat maps; return False if a member is neither a flat map nor a single value."""
    for name, _, part in plan:
        if part is not None:
            if not (isinstance(part, MethodType) and type(part.__self__) is Dictionary):
                return False
            names.append(name)
    return True


def _difference(shape: Shape, element: str, was: Any, now: Any) -> Fields | None:
    changed: Fields = {}
    if was != now:
        _compare_part(shape, element, was, now, changed, {})
    return changed.get(element)


def all_fields(shape: Shape, value: Any) -> Fields:
    """Return all fields of a part that was added or removed as a whole."""
    if type(shape) is Open:
        shape = shape.of(value)
    if type(shape) is Leaf or type(value) is Repeated:
        return WHOLE
    if type(shape) is Dictionary and shape.is_flat:
        return shape.whole(value)
    if not value:
        return {}
    node: Fields = {HERE: {}}
    if type(shape) is Record:
        for name, element, inner in shape.plan(value):
            node[element] = WHOLE if type(inner) is Leaf else all_fields(inner, value[name])
        return node
    parts, inner = shape.parts(value), shape.part("")
    for element in sorted(parts):
        node[element] = WHOLE if type(inner) is Leaf else all_fields(inner, parts[element])
    return node


def _differences(shape: Divided, before: Any, after: Any) -> tuple[Fields, Fields]:
    """Return the differences of two parts that both exist."""
    if type(shape) is Record:
        return _of_records(shape, before or _NOTHING, after or _NOTHING)
    changed: Fields = {}
    removed: Fields = {}
    if type(shape) is Dictionary:
        old, new = before or _NOTHING, after or _NOTHING
    else:
        old, new = shape.parts(before or ()), shape.parts(after or ())
    inner = shape.part("")
    for name, now in new.items():
        was = old.get(name, _MISSING)
        if was is not now and was != now:
            _compare_part(inner, shape.element(name), was, now, changed, removed)
    for name in old.keys() - new.keys():
        removed[shape.element(name)] = all_fields(inner, old[name])
    return _in_order(changed), _in_order(removed)


def _of_records(shape: Record, old: Any, new: Any) -> tuple[Fields, Fields]:
    """Compare two records. Skips fields that no manager can own, such as a long managedFields."""
    changed: Fields = {}
    removed: Fields = {}
    element_of = shape.element
    for name, now in new.items():
        element = element_of(name)
        if element is not None:
            was = old.get(name, _MISSING)
            if was is not now and was != now:
                _compare_part(shape.part(element), element, was, now, changed, removed)
    for name in old.keys() - new.keys():
        element = element_of(name)
        if element is not None:
            removed[element] = all_fields(shape.part(element), old[name])
    return _in_order(changed), _in_order(removed)


def _compare_part(shape: Shape, element: str, was: Any, now: Any, changed: Fields, removed: Fields) -> None:
    if was is _MISSING:
        changed[element] = all_fields(shape, now)
    elif type(shape) is Open:
        _compare_open(shape, element, was, now, changed, removed)
    elif type(shape) is Leaf or type(was) is Repeated or type(now) is Repeated:
        changed[element] = WHOLE
    elif not was and not now:
        changed[element] = {}
    else:
        came, went = _differences(shape, was, now)
        if came:
            changed[element] = came
        if went:
            removed[element] = went


def _compare_open(shape: Open, element: str, was: Any, now: Any, changed: Fields, removed: Fields) -> None:
    """Compare parts without a schema.

    A change between a map and a single value replaces the part; compared with a map, null is an empty map.
    """
    resolved = shape.of(was if now is None else now)
    if was is None or now is None or shape.of(was) is resolved:
        _compare_part(resolved, element, was, now, changed, removed)
    else:
        changed[element] = all_fields(resolved, now)


def _in_order(fields: Fields) -> Fields:
    return dict(sorted(fields.items())) if len(fields) > 1 else fields


_MISSING = object()
_NOTHING: Fields = {}
