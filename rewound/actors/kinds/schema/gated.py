"""Dropping fields of gates that are off from requests, unless the stored object already uses them.

    drop = gated_fields(struct, features)      None: all gates of the struct are on
    drop(new, old)                             changes `new`; `old` is None on create

A field is in use if any part of the old object that is the same struct has it: a container may keep a field that
another container of the pod had before. Parts of the new object belong to the command too, so they are replaced, never
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import cache, partial
from typing import Any, Final

from rewound.actors.kinds.schema.fields import ListOf, MapOf, Struct, Type
from rewound.actors.kinds.schema.projection import struct_inside
from rewound.actors.messages import Object

Drop = Callable[[Object, "Object | None"], None]
Used = Set[tuple[Struct, str]]  # the gated fields that an object has
_NOTHING: Final[Object] = {}


def gated_fields(struct: Struct, features: Set[str]) -> Drop | None:
    """Return the function that drops fields of disabled features, or None if there are none to drop."""
    node = _nodes(frozenset(features)).of(struct)
    if node is None:
        return None

    def drop(new: Object, old: Object | None) -> None:
        found: set[tuple[Struct, str]] = set()
        node.find(new, found, old or {})
        if found:
            used: set[tuple[Struct, str]] = set()
            node.find(old or {}, used)
            unused = found - used
            if unused:
                new.update(node.without(new, unused))
                for name in node.names:
                    if (node.struct, name) in unused:
                        new.pop(name, None)

    return drop


class _Node:
    """A struct with disabled fields in it, or in the structs below it."""

    def __init__(self, struct: Struct) -> None:
        self.struct = struct
        self.names: tuple[str, ...] = ()  # of its own disabled fields
        self.below: tuple[tuple[str, Type, _Node], ...] = ()

    def find(self, value: Object, found: set[tuple[Struct, str]], same: Object = _NOTHING) -> None:
        """Add the gated fields that a value has, but not those of parts that are equal in `same`."""
        for name in self.names:
            if value.get(name) is not None:
                found.add((self.struct, name))
        for name, type_, node in self.below:
            inner = value.get(name)
            if inner and inner != (before := same.get(name)):
                if type(type_) is Struct:
                    node.find(inner, found, before or _NOTHING)
                elif type(type_) is ListOf and type(type_.item) is Struct:
                    for one in inner:
                        node.find(one, found)
                else:
                    node.find_in(type_, inner, found)

    def find_in(self, type_: Type, value: Any, found: set[tuple[Struct, str]]) -> None:
        """The same for the structs in a list or map."""
        if isinstance(type_, ListOf):
            for one in value:
                self.find_in(type_.item, one, found)
        elif isinstance(type_, MapOf):
            for one in value.values():
                self.find_in(type_.value, one, found)
        elif isinstance(value, dict):
            self.find(value, found)

    def without(self, value: Object, dropped: Used) -> Object:
        kept = {name: one for name, one in value.items() if (self.struct, name) not in dropped}
        for name, type_, node in self.below:
            if kept.get(name):
                kept[name] = _replaced(type_, kept[name], partial(node.without, dropped=dropped))
        return kept


@cache
def _nodes(features: frozenset[str]) -> _Nodes:
    return _Nodes(features)


class _Nodes:
    def __init__(self, features: Set[str]) -> None:
        self._features = features
        self._made: dict[Struct, _Node] = {}
        self._without: set[Struct] = set()  # structs in which nothing is disabled

    def of(self, struct: Struct) -> _Node | None:
        """Return the node of a struct, or None if nothing in it is disabled."""
        seen: set[Struct] = set()
        if self._has_disabled(struct, seen):
            return self._make(struct)
        self._without |= seen
        return None

    def _make(self, struct: Struct) -> _Node:
        if struct in self._made:
            return self._made[struct]
        node = self._made[struct] = _Node(struct)
        node.names = tuple(one.name for one in struct.fields if one.gate and one.gate not in self._features)
        below = []
        for field in struct.fields:
            inner = struct_inside(field.type)
            inside = self.of(inner) if inner is not None and field.name not in node.names else None
            if inside is not None:
                below.append((field.name, field.type, inside))
        node.below = tuple(below)
        return node

    def _has_disabled(self, struct: Struct, seen: set[Struct]) -> bool:
        if struct in self._made:
            return True
        if struct in self._without or struct in seen:
            return False
        seen.add(struct)
        for field in struct.fields:
            if field.gate and field.gate not in self._features:
                return True
            inner = struct_inside(field.type)
            if inner is not None and self._has_disabled(inner, seen):
                return True
        return False


def _replaced(type_: Type, value: Any, replace: Callable[[Object], Object]) -> Any:
    """Return a copy of a value in which the structs are replaced."""
    if isinstance(type_, ListOf):
        return [_replaced(type_.item, one, replace) for one in value]
    if isinstance(type_, MapOf):
        return {key: _replaced(type_.value, one, replace) for key, one in value.items()}
    return replace(value) if isinstance(value, dict) else value
