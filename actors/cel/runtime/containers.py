"""Maps that expressions make, and lists that are the sum of two.

A list or map of the object itself is in `actors.cel.data`; all of them have the methods of the base classes here. Which
values they equal and contain is in `equality`, and for those of the object in methods `equals` and `holds` of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from actors.cel.runtime.numbers import print_double
from actors.cel.values import MAX_INT, EvaluationError, Uint, no_such_overload, type_name


class ListValue:
    """A list that is not a Python list."""

    __slots__ = ()
    type_name: Final = "list"

    def size(self) -> int:
        raise NotImplementedError

    def get(self, index: Any) -> Any:
        """The item; raises an EvaluationError."""
        raise NotImplementedError

    def items(self) -> Iterator[Any]:
        """All items; one that cannot be read is its EvaluationError."""
        raise NotImplementedError

    def add(self, other: Any) -> Any:
        raise NotImplementedError

    def native(self) -> Any:
        """What the list holds, as it appears in an object."""
        raise NotImplementedError


class MapLike:
    """A map, or an object with properties."""

    __slots__ = ()
    type_name: Final = "map"

    def size(self) -> int:
        raise NotImplementedError

    def find(self, key: Any) -> tuple[bool, Any]:
        """Whether the key is there, and its value."""
        raise NotImplementedError

    def keys(self) -> Iterator[Any]:
        raise NotImplementedError

    def get(self, key: Any) -> Any:
        found, value = self.find(key)
        if not found:
            raise EvaluationError(f"no such key: {printed(key)}")
        return value

    def contains(self, key: Any) -> bool:
        return self.find(key)[0]

    def native(self) -> Any:
        return self


class Building(list[Any]):
    """The accumulator of a macro that makes a list: `+` appends to it."""

    __slots__ = ()


def key_of(value: Any) -> Any:
    """A key of a Python dict that tells 1, 1u, 1.0 and true apart. A list or map is the same as itself alone."""
    if value.__class__ is str:
        return value
    return (value.__class__, id(value) if isinstance(value, list | ListValue | MapLike) else value)


class MapValue(MapLike):
    """A map that an expression makes."""

    __slots__ = ("entries",)
    go_name: Final = "*types.baseMap"

    def __init__(self, entries: list[tuple[Any, Any]]) -> None:
        self.entries = {key_of(key): (key, value) for key, value in entries}

    def size(self) -> int:
        return len(self.entries)

    def find(self, key: Any) -> tuple[bool, Any]:
        entry = self.entries.get(key_of(key)) or self._numeric(key)
        return (False, None) if entry is None else (True, entry[1])

    def _numeric(self, key: Any) -> tuple[Any, Any] | None:
        """The entry whose key is the same number of another type."""
        if key.__class__ is float:
            if not key.is_integer():
                return None
            return self.entries.get((int, int(key))) or self.entries.get((Uint, int(key)))
        if key.__class__ is int and key >= 0:
            return self.entries.get((Uint, key))
        if key.__class__ is Uint and key <= MAX_INT:
            return self.entries.get((int, int(key)))
        return None

    def keys(self) -> Iterator[Any]:
        return iter([key for key, _ in self.entries.values()])


class ConcatList(ListValue):
    """The sum of two lists, neither of which is copied."""

    __slots__ = ("next", "previous")
    go_name: Final = "*types.concatList"

    def __init__(self, previous: Any, following: Any) -> None:
        self.previous, self.next = previous, following

    def size(self) -> int:
        return list_size(self.previous) + list_size(self.next)

    def get(self, index: Any) -> Any:
        position = list_index(index)
        size = list_size(self.previous)
        return list_get(self.previous, position) if position < size else list_get(self.next, position - size)

    def items(self) -> Iterator[Any]:
        yield from list_items(self.previous)
        yield from list_items(self.next)

    def add(self, other: Any) -> Any:
        return concatenate(self, other)

    def native(self) -> Any:
        return self


def is_list(value: Any) -> bool:
    return isinstance(value, list | ListValue)


def list_size(value: Any) -> int:
    return len(value) if isinstance(value, list) else value.size()


def list_items(value: Any) -> Iterator[Any]:
    return iter(value) if isinstance(value, list) else value.items()


def list_get(value: Any, index: Any) -> Any:
    if not isinstance(value, list):
        return value.get(index)
    position = index if index.__class__ is int else list_index(index)
    if not 0 <= position < len(value):
        raise EvaluationError(f"index '{position}' out of range in list size '{len(value)}'")
    return value[position]


def concatenate(left: Any, right: Any) -> Any:
    """The sum of two lists, of which the left one is not of the object."""
    if not is_list(right):
        raise no_such_overload()
    if left.__class__ is Building:
        left.extend(list_items(right))
        return left
    if not list_size(left):
        return right
    return ConcatList(left, right) if list_size(right) else left


def list_index(index: Any) -> int:
    """The position that an index of any number type means."""
    if index.__class__ is int:
        return int(index)
    if index.__class__ is Uint or index.__class__ is float:
        if index == index and abs(index) <= MAX_INT and int(index) == index:
            return int(index)
        raise EvaluationError(f"unsupported index value {printed(index)} in list")
    raise EvaluationError(f"unsupported index type '{type_name(index)}' in list")


def printed(value: Any) -> str:
    """A key or an index in a message."""
    if value.__class__ is bool:
        return "true" if value else "false"
    if value.__class__ is float:
        return print_double(value)
    return str(value)
