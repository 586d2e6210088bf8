"""Objects and maps of the object that a rule looks at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from actors.cel.data.escaping import escape
from actors.cel.data.shape import Properties, Property, Shape
from actors.cel.data.unknown import deep_equal
from actors.cel.runtime.containers import MapLike
from actors.cel.runtime.equality import same
from actors.cel.values import EvaluationError, no_such_overload


class Raw(MapLike):
    __slots__ = ("raw",)
    go_name: Final = "*cel.unstructuredMap"
    raw: dict[str, Any]

    def size(self) -> int:
        return len(self.raw)

    def native(self) -> Any:
        return self.raw

    def shape_of(self, name: str) -> Shape | None:
        """The shape of the value with this name in the object; None if the schema does not know it."""
        raise NotImplementedError

    def equals(self, other: Any) -> bool:
        """Compares what the schema knows as CEL values, and the rest as JSON. The keys are those of this side."""
        if not isinstance(other, MapLike):
            raise no_such_overload()
        if len(self.raw) != other.size():
            return False
        for name, raw in self.raw.items():
            shape = self.shape_of(name)
            if shape is None:
                if not self._same_unknown(name, raw, other):
                    return False
                continue
            try:
                found, value = other.find(name)
            except EvaluationError as error:
                found, value = True, error
            if not found or not same(shape.wrap(raw), value):
                return False
        return True

    @staticmethod
    def _same_unknown(name: str, raw: Any, other: MapLike) -> bool:
        if not isinstance(other, Raw):
            raise no_such_overload()
        return name not in other.raw or deep_equal(raw, other.raw[name])


class DataObject(Raw):
    """An object with properties. A property that is null counts as absent."""

    __slots__ = ("properties",)

    def __init__(self, raw: dict[str, Any], properties: Properties) -> None:
        self.raw, self.properties = raw, properties

    def get(self, key: Any) -> Any:
        field = self.properties.fields.get(key) or self._lookup(key)
        if field is not None:
            raw = self.raw.get(field.name)
            if raw is not None:
                return field.wrap(raw)
        raise EvaluationError(f"no such key: {key}")

    def find(self, key: Any) -> tuple[bool, Any]:
        field = self._lookup(key)
        if field is not None:
            raw = self.raw.get(field.name)
            if raw is not None:
                return True, field.wrap(raw)
        return False, None

    def _lookup(self, key: Any) -> Property | None:
        if key.__class__ is not str:
            raise no_such_overload()
        return self.properties.lookup(key)

    def shape_of(self, name: str) -> Shape | None:
        return self.properties.by_name.get(name)

    def keys(self) -> Iterator[Any]:
        for name in self.raw:
            if name in self.properties.by_name:
                yield (escape(name) or name) if self.properties.any else name


class DataMap(Raw):
    """A map: all values have one shape, and null is a value."""

    __slots__ = ("values",)

    def __init__(self, raw: dict[str, Any], values: Shape) -> None:
        self.raw, self.values = raw, values

    def find(self, key: Any) -> tuple[bool, Any]:
        if key.__class__ is not str:
            raise no_such_overload()
        return (True, self.values.wrap(self.raw[key])) if key in self.raw else (False, None)

    def shape_of(self, name: str) -> Shape | None:
        return self.values

    def equals(self, other: Any) -> bool:
        if other.__class__ is not DataMap:
            return super().equals(other)
        mine, others = self.values.wrap, other.values.wrap
        if len(self.raw) != len(other.raw):
            return False
        for name, raw in self.raw.items():
            if name not in other.raw:
                return False
            try:
                value = others(other.raw[name])
            except EvaluationError as error:
                value = error
            if not same(mine(raw), value):
                return False
        return True

    def keys(self) -> Iterator[Any]:
        return iter(list(self.raw))
