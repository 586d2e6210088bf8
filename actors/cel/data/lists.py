"""Lists of the object that a rule looks at: plain ones, sets, and lists with keys.

Sets and keyed lists compare without order, but only where they are the left side. Adding to a set leaves out what it
already has; the set remembers what was added, so that later comparisons and additions of the same value in the rules of
one node count it as present. Kubernetes v1.25 does so, and rules depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actors.cel.data.native import go_key, native
from actors.cel.data.shape import Shape
from actors.cel.runtime.containers import ListValue, is_list, list_get, list_items, list_size, printed
from actors.cel.runtime.equality import same
from actors.cel.values import EvaluationError, no_such_overload


class DataList(ListValue):
    __slots__ = ("raw", "shape")
    go_name = "*cel.unstructuredList"

    def __init__(self, raw: list[Any], shape: Shape) -> None:
        self.raw, self.shape = raw, shape

    def size(self) -> int:
        return len(self.raw)

    def get(self, index: Any) -> Any:
        if index.__class__ is not int:
            raise EvaluationError(f"unsupported index: {printed(index)}")
        if not 0 <= index < len(self.raw):
            raise EvaluationError(f"index out of bounds: {index}")
        return self.shape.wrap(self.raw[index])

    def items(self) -> Iterator[Any]:
        wrap = self.shape.wrap
        try:
            return iter([wrap(raw) for raw in self.raw])
        except EvaluationError:
            return iter([self._value_or_error(raw) for raw in self.raw])

    def _value_or_error(self, raw: Any) -> Any:
        try:
            return self.shape.wrap(raw)
        except EvaluationError as error:
            return error.with_traceback(None)

    def holds(self, value: Any) -> bool:
        failed = None
        wrap = self.shape.wrap
        for raw in self.raw:
            try:
                if same(wrap(raw), value):
                    return True
            except EvaluationError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return False

    def equals(self, other: Any) -> bool:
        if not self._same_size(other):
            return False
        wrap = self.shape.wrap
        return all(same(wrap(raw), list_get(other, index)) for index, raw in enumerate(self.raw))

    def _same_size(self, other: Any) -> bool:
        if not is_list(other):
            raise no_such_overload()
        return len(self.raw) == list_size(other)

    def add(self, other: Any) -> Any:
        return DataList(self.raw + self._natives(other), self.shape)

    @staticmethod
    def _natives(other: Any) -> list[Any]:
        if not is_list(other):
            raise no_such_overload()
        return [native(item) for item in list_items(other)]

    def native(self) -> Any:
        return self.raw


class SetList(DataList):
    __slots__ = ("_members",)
    go_name = "*cel.unstructuredSetList"

    def __init__(self, raw: list[Any], shape: Shape) -> None:
        super().__init__(raw, shape)
        self._members: set[Any] | None = None

    def members(self) -> set[Any]:
        if self._members is None:
            self._members = {go_key(raw) for raw in self.raw}
        return self._members

    def equals(self, other: Any) -> bool:
        if not self._same_size(other):
            return False
        members = self.members()
        return all(go_key(native(item)) in members for item in list_items(other))

    def add(self, other: Any) -> Any:
        members, raw = self.members(), list(self.raw)
        for added in self._natives(other):
            key = go_key(added)
            if key not in members:
                members.add(key)
                raw.append(added)
        return SetList(raw, self.shape)


class KeyedList(DataList):
    __slots__ = ("_keys", "_positions")
    go_name = "*cel.unstructuredMapList"

    def __init__(self, raw: list[Any], shape: Shape, keys: tuple[str, ...]) -> None:
        super().__init__(raw, shape)
        self._keys = keys
        self._positions: dict[Any, int] | None = None

    def _key(self, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return object()  # what has no keys equals no other
        return tuple(go_key(raw.get(key)) for key in self._keys)

    def _by_key(self) -> dict[Any, int]:
        return {self._key(raw): index for index, raw in enumerate(self.raw)}

    def equals(self, other: Any) -> bool:
        if not self._same_size(other):
            return False
        if self._positions is None:
            self._positions = self._by_key()
        for item in list_items(other):
            index = self._positions.get(self._key(native(item)))
            if index is None or not same(self.shape.wrap(self.raw[index]), item):
                return False
        return True

    def add(self, other: Any) -> Any:
        raw, positions = list(self.raw), self._by_key()
        for added in self._natives(other):
            index = positions.get(self._key(added))
            if index is None:
                raw.append(added)
            else:
                raw[index] = added
        return KeyedList(raw, self.shape, self._keys)
