"""The types of CEL, as the checker knows them. Types are compared with `==`; a message type is its name alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    """A type by the name that messages print for it: int, list(string), google.protobuf.Duration ..."""

    name: str
    parameters: tuple[Type, ...] = ()

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.parameters))
        return f"{self.name}({inner})" if inner else self.name


@dataclass(frozen=True, slots=True)
class TypeParameter(Type):
    """A type variable of a function's declaration."""


BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null")
DYN: Final = Type("dyn")
ERROR: Final = Type("!error!")
DURATION: Final = Type("google.protobuf.Duration")
TIMESTAMP: Final = Type("google.protobuf.Timestamp")


def list_of(item: Type) -> Type:
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def type_of(of: Type) -> Type:
    """The type of a type: what `type(x)` and the identifiers `int`, `string` ... have."""
    return Type("type", (of,))


@dataclass(frozen=True, slots=True)
class MessageType:
    """An object type that expressions select fields of. `fields` may be filled after creation: types can be nested."""

    name: str
    fields: dict[str, Type]


@dataclass(frozen=True, slots=True)
class Environment:
    """What an expression may name: variables, and message types by name. Functions are always the whole library."""

    variables: dict[str, Type]
    messages: dict[str, MessageType]
