"""The types of CEL, as the checker knows them. Types are compared with `==`; a message type is its name alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    """A type by the name that messages print for it: int, list(string), duration, the name of a message type ..."""

    name: str
    parameters: tuple[Type, ...] = ()
    # How many types it consists of. The checker bounds it: types can double with every nested expression.
    size: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", 1 + sum(parameter.size for parameter in self.parameters))

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.parameters))
        return f"{self.name}({inner})" if inner else self.name


@dataclass(frozen=True, slots=True)
class TypeParameter(Type):
    """A type variable: of a function's declaration, or the checker's own while it infers a type."""


BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null")
DYN: Final = Type("dyn")
ANY: Final = Type("any")  # google.protobuf.Any: dyn under another name
ERROR: Final = Type("!error!")
UNKNOWN: Final = Type("<nil>")  # what a call of an undeclared method has
DURATION: Final = Type("duration")
TIMESTAMP: Final = Type("timestamp")


def list_of(item: Type) -> Type:
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def type_of(of: Type) -> Type:
    """The type of a type: what `type(x)` and the identifiers `int`, `string` ... have."""
    return Type("type", (of,))


def wrapper_of(primitive: Type) -> Type:
    """A primitive type that also has null: what google.protobuf.Int64Value and its like are."""
    return Type("wrapper", (primitive,))


@dataclass(frozen=True, slots=True)
class MessageType:
    """An object type that expressions select fields of. `fields` may be filled after creation: types can be nested."""

    name: str
    fields: dict[str, Type]


@dataclass(frozen=True, slots=True)
class Environment:
    """What an expression may name: variables, and message types by name. Functions are always the whole library.

    `url_type` is the name of the type of URLs, which differs between dialects.
    """

    variables: dict[str, Type]
    messages: dict[str, MessageType]
    url_type: str
