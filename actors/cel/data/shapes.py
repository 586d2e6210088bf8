"""What CEL must know of a schema to read the values of an object: one shape for each node of the schema.

Whoever has a schema makes the shapes once, when the definition is read. `wrap` then makes a CEL value of a value of a
stored object, without a copy: lists and objects are wrapped, and their parts only when an expression looks at them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from actors.cel.data.escaping import escape, unescape
from actors.cel.data.formats import FORMATS
from actors.cel.data.lists import DataList, KeyedList, SetList
from actors.cel.data.native import go_type
from actors.cel.data.objects import DataMap, DataObject
from actors.cel.data.unknown import Unknown
from actors.cel.values import MAX_INT, MIN_INT, BadData


class Shape:
    """A node of a schema; `nullable` says whether null is a value of it."""

    __slots__ = ("nullable",)

    def __init__(self, nullable: bool = False) -> None:
        self.nullable = nullable

    def wrap(self, raw: Any) -> Any:
        """The CEL value; raises BadData for what the schema does not allow."""
        raise NotImplementedError

    def reject(self, raw: Any, expected: str) -> Any:
        """null if it is allowed, otherwise an error that names the type of the value."""
        if raw is None:
            if self.nullable:
                return None
            raise BadData("invalid data, got null for schema with nullable=false")
        raise BadData(f"invalid data, expected {expected}, got {go_type(raw)}")


class StringShape(Shape):
    __slots__ = ("_read",)

    def __init__(self, format: str = "", nullable: bool = False) -> None:
        super().__init__(nullable)
        self._read = FORMATS.get(format)

    def wrap(self, raw: Any) -> Any:
        if raw.__class__ is not str:
            return self.reject(raw, "string")
        return raw if self._read is None else self._read(raw)


class IntegerShape(Shape):
    __slots__ = ()

    def wrap(self, raw: Any) -> Any:
        if raw.__class__ is int and MIN_INT <= raw <= MAX_INT:
            return raw
        return self.reject(raw, "int")


class NumberShape(Shape):
    __slots__ = ()

    def wrap(self, raw: Any) -> Any:
        if raw.__class__ is float:
            return raw
        if raw.__class__ is int:
            return float(raw)
        return self.reject(raw, "float")


class BooleanShape(Shape):
    __slots__ = ()

    def wrap(self, raw: Any) -> Any:
        return raw if raw is True or raw is False else self.reject(raw, "bool")


class IntOrStringShape(Shape):
    __slots__ = ()

    def wrap(self, raw: Any) -> Any:
        if raw.__class__ is str or (raw.__class__ is int and MIN_INT <= raw <= MAX_INT):
            return raw
        if raw is None:
            return self.reject(raw, "")
        raise BadData("invalid data, expected XIntOrString value to be either a string or integer")


class ObjectShape(Shape):
    """An object with properties, or one that keeps unknown fields and has none.

    `fields` has the identifiers that expressions use, with the name in the object and the shape of the value.
    """

    __slots__ = ("fields", "has_properties", "properties")

    def __init__(self, properties: Mapping[str, Shape] | None, nullable: bool = False) -> None:
        super().__init__(nullable)
        self.has_properties = properties is not None
        self.properties: dict[str, Shape] = dict(properties or {})
        self.fields: dict[str, tuple[str, Shape]] = {}
        for name, shape in self.properties.items():
            identifier = escape(name)
            if identifier is not None:
                self.fields[identifier] = (name, shape)

    def wrap(self, raw: Any) -> Any:
        if isinstance(raw, dict):
            return DataObject(raw, self)
        if raw is None:
            return self.reject(raw, "")
        raise BadData("invalid data, expected a map for the provided schema with type=object")

    def lookup(self, key: str) -> tuple[str, Shape] | None:
        """The property that this identifier means, also one whose name needs no escape but is given as it is."""
        found = self.fields.get(key)
        if found is None and self.has_properties:
            name = unescape(key)
            shape = self.properties.get(name) if name is not None else None
            return None if name is None or shape is None else (name, shape)
        return found


class MapShape(Shape):
    """An object whose values all have one shape."""

    __slots__ = ("values",)

    def __init__(self, values: Shape, nullable: bool = False) -> None:
        super().__init__(nullable)
        self.values = values

    def wrap(self, raw: Any) -> Any:
        if isinstance(raw, dict):
            return DataMap(raw, self.values)
        if raw is None:
            return self.reject(raw, "")
        raise BadData("invalid data, expected a map for the provided schema with type=object")


class ListShape(Shape):
    """`list_type` is atomic, set or map; `keys` are the names of the properties that tell items of a map apart."""

    __slots__ = ("items", "keys", "list_type")

    def __init__(
        self,
        items: Shape | None,
        list_type: str | None = None,
        keys: tuple[str, ...] = (),
        nullable: bool = False,
    ) -> None:
        super().__init__(nullable)
        self.items, self.list_type = items, list_type
        self.keys = tuple(escape(key) or key for key in keys)

    def wrap(self, raw: Any) -> Any:
        if not isinstance(raw, list):
            if raw is None:
                return self.reject(raw, "")
            raise BadData("invalid data, expected an array for the provided schema with type=array")
        if self.items is None:
            raise BadData("invalid array type, expected Items with a non-empty Schema")
        if self.list_type == "set":
            return SetList(raw, self.items)
        if self.list_type == "map":
            return KeyedList(raw, self.items, self.keys)
        return DataList(raw, self.items)


class UnknownShape(Shape):
    """A value without a type, kept as it is: expressions can only compare what contains it."""

    __slots__ = ()

    def wrap(self, raw: Any) -> Any:
        return self.reject(raw, "") if raw is None else Unknown(raw)


class InvalidShape(Shape):
    """A node of which CEL can read nothing."""

    __slots__ = ("_message",)

    def __init__(self, message: str, nullable: bool = False) -> None:
        super().__init__(nullable)
        self._message = message

    def wrap(self, raw: Any) -> Any:
        if raw is None:
            return self.reject(raw, "")
        raise BadData(self._message)


class OpaqueObjectShape(InvalidShape):
    """An object of which the schema says neither properties nor the shape of its values."""

    __slots__ = ()

    def __init__(self, nullable: bool = False) -> None:
        super().__init__(
            "invalid object type, expected either Properties or AdditionalProperties with Allows=true and non-empty "
            "Schema",
            nullable,
        )

    def wrap(self, raw: Any) -> Any:
        if raw is not None and not isinstance(raw, dict):
            raise BadData("invalid data, expected a map for the provided schema with type=object")
        return super().wrap(raw)


UNTYPED: Final = (
    "invalid type, expected object, array, number, integer, boolean or string, or no type with "
    "x-cluster-int-or-string or x-cluster-preserve-unknown-fields is true, got "
)
