"""What all shapes are, and the properties of those of objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from actors.cel.data.escaping import escape, unescape
from actors.cel.data.native import go_type
from actors.cel.values import BadData


class Shape:
    """A node of a schema; `nullable` says whether null is a value of it."""

    __slots__ = ("nullable",)
    direct: type | None = None  # the class of values that `wrap` returns as they are, and of no others

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


class Property(NamedTuple):
    """A property by the identifier that expressions use; values of the class `direct` are CEL values as they are."""

    name: str  # in the object
    wrap: Callable[[Any], Any]
    direct: type | None


class Properties:
    __slots__ = ("any", "by_name", "fields")

    def __init__(self, properties: Mapping[str, Shape] | None) -> None:
        self.any = properties is not None
        self.by_name: dict[str, Shape] = dict(properties or {})
        self.fields: dict[str, Property] = {}
        for name, shape in self.by_name.items():
            identifier = escape(name)
            if identifier is not None:
                self.fields[identifier] = Property(name, shape.wrap, shape.direct)

    def lookup(self, key: str) -> Property | None:
        """The property that this identifier means, also one whose name needs no escape but is given as it is."""
        found = self.fields.get(key)
        if found is not None or not self.any:
            return found
        name = unescape(key)
        shape = self.by_name.get(name) if name is not None else None
        return None if name is None or shape is None else Property(name, shape.wrap, shape.direct)
