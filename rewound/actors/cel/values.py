"""The values of CEL, and the errors of an evaluation.

bool, int, float, str, bytes and None are themselves; a list that an expression makes is a Python list. A CEL error is
raised as `EvaluationError`; where cel-go keeps an error as a value (in a variable of a comprehension, or as `self`),
the same object is that value.

Numbers are parsed and printed as in Go. Lists and maps of the object itself are in `actors.cel.data`; all of them
have the methods of the base classes here. `operations` has equality and containment, except for values of the object,
which have methods `equals` and `holds`.

A few operations make values that would be larger than any memory: `a + a`, doubled thirty times. Lists share their
parts and know their sizes, so that this costs nothing; whoever walks over values counts them in the budget first.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from rewound.actors.runtime.budget import Budget

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1
# The characters of Go's unicode.IsSpace.
SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


class Uint(int):
    """An unsigned 64-bit integer, which CEL distinguishes from an int."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Duration:
    nanoseconds: int  # 64 bits


@dataclass(frozen=True, slots=True)
class Timestamp:
    """Seconds since 1970 in UTC, and the zone to print it in, in seconds east of UTC."""

    seconds: int
    nanoseconds: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: the result of `type(x)` and the value of the identifiers int, string ..."""

    name: str


class EvaluationError(Exception):
    """A CEL error: `&&`, `||` and the macros may absorb it, otherwise it is the result of the rule."""

    @property
    def message(self) -> str:
        return str(self.args[0])


class BadData(EvaluationError):
    """A value of the object does not match its schema, for example 1.0 where an integer is declared."""


class NoSuchItem(EvaluationError):
    """A list has no item at an index; later versions have another text for it."""

    def __init__(self, index: Any, size: int) -> None:
        super().__init__(f"index '{index}' out of range in list size '{size}'")
        self.later = f"index out of bounds: {index}"


class EvaluationStopped(Exception):
    """The whole evaluation ends with this message; no operator absorbs it."""

    @property
    def message(self) -> str:
        return str(self.args[0])


class CostExceeded(EvaluationStopped):
    pass


class BudgetExceeded(EvaluationStopped):
    """It took more processor time or memory than its budget allows."""


class CannotCompile(Exception):
    """The types of the expression are right, but a constant in it is invalid: a regular expression, a duration ..."""


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
    NoSuchItem: "error",
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
    NoSuchItem: "*types.Err",
}


def type_name(value: Any) -> str:
    """Return the name that messages print for the type of this value."""
    name = TYPE_NAMES.get(value.__class__)
    return name if name is not None else str(value.type_name)


def go_type_name(value: Any) -> str:
    """Return the name of the type in cel-go, which two messages print."""
    name = _GO_NAMES.get(value.__class__)
    return name if name is not None else str(getattr(value, "go_name", "*types.baseList"))


def no_such_overload(function: str = "", *arguments: Any) -> EvaluationError:
    """Return the error. With arguments, the message names their types, as for functions of libraries."""
    if arguments:
        return EvaluationError(f"no such overload: {function}({', '.join(map(type_name, arguments))})")
    return EvaluationError(f"no such overload: {function}" if function else "no such overload")


_HEXADECIMAL: Final = re.compile(r"[+-]?0[xX]([0-9a-fA-F]*+(?:\.[0-9a-fA-F]*+)?+)[pP][+-]?[0-9]++")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)([eE][+-]?[0-9]++)?+")
_SPECIAL: Final = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
_MOST_DIGITS: Final = 4300  # what Python converts


def print_double(value: float) -> str:
    """Return the shortest text of this number; with an exponent below 0.0001 and from 1000000 on, like %g."""
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1, value) < 0 else ""
    digits, exponent = _decompose(abs(value))
    return sign + (_positional if -4 <= exponent < 6 else _scientific)(digits, exponent)


def print_seconds(value: float) -> str:
    """Return the shortest text without an exponent."""
    sign = "-" if value < 0 else ""
    return sign + _positional(*_decompose(abs(value)))


def _decompose(value: float) -> tuple[str, int]:
    """Return the digits, the first of which is not 0, and the power of ten of the first one."""
    if not value:
        return "0", 0
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    power = int(exponent or 0) + len(whole) - 1
    digits = whole + fraction
    stripped = digits.lstrip("0")
    return stripped.rstrip("0") or "0", power - (len(digits) - len(stripped))


def _scientific(digits: str, exponent: int) -> str:
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _positional(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    fraction = digits[exponent + 1 :]
    return f"{whole}.{fraction}" if fraction else whole


def parse_integer(text: str) -> int | None:
    """Parse a decimal number with or without a sign, or return None."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    return int(text) if digits.isdigit() and digits.isascii() and len(digits) <= _MOST_DIGITS else None


def parse_double(text: str) -> float | None:
    """Parse a number, or return None if Go's ParseFloat refuses it, as it does if it is too large."""
    if _DECIMAL.fullmatch(text):
        value = float(text)
        return None if math.isinf(value) else value
    found = _HEXADECIMAL.fullmatch(text)
    if found and found[1].strip("."):
        try:
            return float.fromhex(text)
        except OverflowError:
            return None
    special = _SPECIAL.get(text.lower().lstrip("+-"))
    if special is None or text[:2] in ("+-", "-+", "++", "--") or (math.isnan(special) and text[0] in "+-"):
        return None
    return -special if text[0] == "-" else special


class ListValue:
    """A list that is not a Python list."""

    __slots__ = ()
    type_name: Final = "list"

    def size(self) -> int:
        raise NotImplementedError

    def get(self, index: Any) -> Any:
        """Return the item. Raises EvaluationError if there is none."""
        raise NotImplementedError

    def items(self) -> Iterator[Any]:
        """Return all items; an item that cannot be read is its EvaluationError."""
        raise NotImplementedError

    def add(self, other: Any, budget: Budget) -> Any:
        raise NotImplementedError

    def native(self) -> Any:
        """Return the items as they appear in an object."""
        raise NotImplementedError


class MapLike:
    """A map, or an object with properties."""

    __slots__ = ()
    type_name: Final = "map"

    def size(self) -> int:
        raise NotImplementedError

    def find(self, key: Any) -> tuple[bool, Any]:
        """Return whether the key exists, and its value."""
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


class Optional:
    """A value that may be missing."""

    __slots__ = ("_value", "has_value")
    type_name: Final = "optional_type"
    go_name: Final = "*types.Optional"

    def __init__(self, value: Any = None, *, has_value: bool = True) -> None:
        self._value, self.has_value = value, has_value

    @property
    def value(self) -> Any:
        if not self.has_value:
            raise EvaluationError("optional.none() dereference")
        return self._value


NONE: Final = Optional(has_value=False)


def optional_value(value: Any, field: str) -> Optional:
    """Return the value of an optional item, entry or field of a literal, which must be optional."""
    if not isinstance(value, Optional):
        raise EvaluationError(
            f"cannot initialize optional entry '{field}' from non-optional value {printed(value)}"
        )
    return value


class ListBuilder(list[Any]):
    """The accumulator of a macro that makes a list: `+` appends to it."""

    __slots__ = ()


def key_of(value: Any) -> Any:
    """Return a dict key that distinguishes 1, 1u, 1.0 and true. A list or map equals only itself."""
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
        """Return the entry whose key is the same number of another type."""
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
    """The concatenation of two lists, neither of which is copied."""

    __slots__ = ("_size", "next", "previous")
    go_name: Final = "*types.concatList"

    def __init__(self, previous: Any, following: Any) -> None:
        self.previous, self.next = previous, following
        self._size = list_size(previous) + list_size(following)

    def size(self) -> int:
        return self._size

    def get(self, index: Any) -> Any:
        position, part = list_index(index), self
        while part.__class__ is ConcatList:
            size = list_size(part.previous)
            if position < size:
                part = part.previous
            else:
                part, position = part.next, position - size
        return list_get(part, position)

    def parts(self) -> Iterator[Any]:
        """The lists of which it is made, none of which is a concatenation."""
        following = [self.next, self.previous]
        while following:
            part = following.pop()
            if part.__class__ is ConcatList:
                following += part.next, part.previous
            else:
                yield part

    def items(self) -> Iterator[Any]:
        for part in self.parts():
            yield from list_items(part)

    def add(self, other: Any, budget: Budget) -> Any:
        return concatenate(self, other, budget)

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
        raise NoSuchItem(position, len(value))
    return value[position]


_CHUNK: Final = 256


def walked(values: Any, budget: Budget) -> Iterator[Any]:
    """The items, which the budget counts before they are read."""
    items = list_items(values)
    while chunk := tuple(islice(items, _CHUNK)):
        budget.visit(len(chunk))
        yield from chunk


_REFERENCE: Final = 8  # bytes of an item in a list


def copied(values: Any, budget: Budget) -> list[Any]:
    """Return the items in a new list. Raises OverBudget if they are too many."""
    budget.take(_REFERENCE * list_size(values))
    return list(walked(values, budget))


def concatenate(left: Any, right: Any, budget: Budget) -> Any:
    """Concatenate two lists, the left one of which is not of the object."""
    if not is_list(right):
        raise no_such_overload()
    if left.__class__ is ListBuilder:
        if right.__class__ is list and len(right) == 1:
            left.append(right[0])
        else:
            left.extend(copied(right, budget))
        return left
    if not list_size(left):
        return right
    return ConcatList(left, right) if list_size(right) else left


def list_index(index: Any) -> int:
    """Return the position for an index of any number type."""
    if index.__class__ is int:
        return int(index)
    if index.__class__ is Uint or index.__class__ is float:
        if index == index and abs(index) <= MAX_INT and int(index) == index:
            return int(index)
        raise EvaluationError(f"unsupported index value {printed(index)} in list")
    raise EvaluationError(f"unsupported index type '{type_name(index)}' in list")


def printed(value: Any) -> str:
    """Format a key or an index for a message."""
    if value.__class__ is bool:
        return "true" if value else "false"
    if value.__class__ is float:
        return print_double(value)
    if isinstance(value, list | ListValue | MapLike | Optional):
        return _SHORT.repr(value)
    return str(value)


# Values may contain themselves twice, and so on: a message shows the first few of each.
_SHORT: Final = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxstring, _SHORT.maxlong = 3, 16, 200, 40
