"""The values of CEL that Python has no type for, and the errors of an evaluation.

bool, int, float, str, bytes and None are themselves; a list that an expression makes is a Python list. A CEL error is
raised as `EvaluationError`; the same object stands for itself where cel-go keeps an error as a value: in a variable of
a comprehension, or as `self`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1


class Uint(int):
    """An unsigned integer of 64 bits, which CEL tells from an int."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Duration:
    nanoseconds: int  # 64 bits


@dataclass(frozen=True, slots=True)
class Timestamp:
    """Seconds since 1970 in UTC, and the zone that its text is printed in, in seconds east of UTC."""

    seconds: int
    nanoseconds: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: what `type(x)` returns and what the identifiers int, string ... are."""

    name: str


class EvaluationError(Exception):
    """A CEL error: `&&`, `||` and the macros may absorb it, otherwise it is the result of the rule."""

    @property
    def message(self) -> str:
        return str(self.args[0])


class BadData(EvaluationError):
    """A value of the object is not what its schema says, for example 1.0 where an integer is declared."""


class EvaluationStopped(Exception):
    """The whole evaluation ends with this message; no operator absorbs it."""

    @property
    def message(self) -> str:
        return str(self.args[0])


class CostExceeded(EvaluationStopped):
    pass


class CannotCompile(Exception):
    """The expression is of correct type, but a constant in it is invalid: a regular expression, a duration ..."""


# By class; types of this package that are not here have an attribute `type_name`.
TYPE_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    EvaluationError: "error",
    BadData: "error",
}
_GO_NAMES: Final[dict[type, str]] = {
    bool: "types.Bool",
    int: "types.Int",
    Uint: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    TypeValue: "*types.TypeValue",
    EvaluationError: "*types.Err",
    BadData: "*types.Err",
}


def type_name(value: Any) -> str:
    """The name that messages print for the type of this value."""
    name = TYPE_NAMES.get(value.__class__)
    return name if name is not None else str(value.type_name)


def go_type_name(value: Any) -> str:
    """The name of the type in cel-go, which two messages print."""
    name = _GO_NAMES.get(value.__class__)
    return name if name is not None else str(getattr(value, "go_name", "*types.baseList"))


def no_such_overload(function: str = "", *arguments: Any) -> EvaluationError:
    """With arguments, the message names their types, as functions of libraries do."""
    if arguments:
        return EvaluationError(f"no such overload: {function}({', '.join(map(type_name, arguments))})")
    return EvaluationError(f"no such overload: {function}" if function else "no such overload")
