"""What a write changed: two objects of one shape, to the fields that came or changed and those that went.

    before {"data": {"a": "1", "b": "1"}}                 changed {"f:data": {"f:a": {}}}
    after  {"data": {"a": "2"}, "immutable": true}                {"f:immutable": {}}
                                                          removed {"f:data": {"f:b": {}}}

Something that was not there at all comes with everything in it and with itself: a new map is a member beside its
keys. A part that both objects have is never a member, only what differs in it is. Nothing and null are different,
an empty map and no map too. Parts that are equal are not walked into: a small change of a large object is cheap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from actors.patch.field_set import HERE, WHOLE, Fields
from actors.patch.topology import Divided, Leaf, Record, Repeated, Shape


class Changes(NamedTuple):
    changed: Fields
    removed: Fields

    def __bool__(self) -> bool:
        return bool(self.changed or self.removed)


def compare(shape: Record, before: Any, after: Any) -> Changes:
    changed, removed = _differences(shape, before, after)
    return Changes(changed, removed)


def everything(shape: Shape, value: Any) -> Fields:
    """A part as it comes or goes whole."""
    if type(shape) is Leaf or type(value) is Repeated:
        return WHOLE
    if not value:
        return {}
    parts = shape.parts(value)
    node: Fields = {HERE: {}}
    for element in sorted(parts):
        inner = shape.part(element)
        node[element] = WHOLE if type(inner) is Leaf else everything(inner, parts[element])
    return node


def _differences(shape: Divided, before: Any, after: Any) -> tuple[Fields, Fields]:
    changed: Fields = {}
    removed: Fields = {}
    old = shape.parts(before) if before else {}
    new = shape.parts(after) if after else {}
    for element in sorted(new):
        part, was = new[element], old.get(element, _MISSING)
        if was == part:
            continue
        inner = shape.part(element)
        if was is _MISSING:
            changed[element] = everything(inner, part)
        elif type(inner) is Leaf or type(was) is Repeated or type(part) is Repeated:
            changed[element] = WHOLE
        elif not was and not part:
            changed[element] = {}
        else:
            came, went = _differences(inner, was, part)
            if came:
                changed[element] = came
            if went:
                removed[element] = went
    for element in sorted(old.keys() - new.keys()):
        removed[element] = everything(shape.part(element), old[element])
    return changed, removed


_MISSING = object()
