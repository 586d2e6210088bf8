"""What CEL must know of a schema to read the values of an object: one shape for each node of the schema.

Whoever has a schema makes the shapes once, when the definition is read. `wrap` then makes a CEL value of a value of a
stored object, without a copy: lists and objects are wrapped, and their parts only when an expression looks at them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.cel.data.escaping import escape
from actors.cel.data.formats import FORMATS
from actors.cel.data.lists import DataList, KeyedList, SetList
from actors.cel.data.objects import DataMap, DataObject
from actors.cel.data.shape import Properties, Shape
from actors.cel.data.unknown import Unknown
from actors.cel.values import MAX_INT, MIN_INT, BadData


class StringShape(Shape):
    __slots__ = ("_read", "direct")

    def __init__(self, format: str = "", nullable: bool = False) -> None:
        super().__init__(nullable)
        self._read = FORMATS.get(format)
        self.direct = str if self._read is None else None

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
    direct = float

    def wrap(self, raw: Any) -> Any:
        if raw.__class__ is float:
            return raw
        if raw.__class__ is int:
            return float(raw)
        return self.reject(raw, "float")


class BooleanShape(Shape):
    __slots__ = ()
    direct = bool

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
    """An object with properties, or, if they are None, one that keeps unknown fields and has none."""

    __slots__ = ("properties",)

    def __init__(self, properties: Mapping[str, Shape] | None, nullable: bool = False) -> None:
        super().__init__(nullable)
        self.properties = Properties(properties)

    def wrap(self, raw: Any) -> Any:
        if isinstance(raw, dict):
            return DataObject(raw, self.properties)
        if raw is None:
            return self.reject(raw, "")
        raise BadData("invalid data, expected a map for the provided schema with type=object")


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


class UntypedShape(InvalidShape):
    """A node of which the schema says no type; `prefix` is that of the extensions with which it would not need one."""

    __slots__ = ()

    def __init__(self, type_name: str, prefix: str, nullable: bool = False) -> None:
        super().__init__(
            "invalid type, expected object, array, number, integer, boolean or string, or no type with "
            f"{prefix}int-or-string or {prefix}preserve-unknown-fields is true, got {type_name}",
            nullable,
        )


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
