"""The operators and conversions of CEL, for every pair of types.

+ - * / % and unary - raise an error where Go's 64 bits would overflow. == and ordering work across number types where
dyn allows it. What walks over lists and maps takes a budget, which counts what it visits: a list that contains
another one twice is visited twice as often. The conversions are int(), uint(), double(), bool(), string(), bytes(),
duration(), timestamp(), type() and dyn().
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from typing import Any, Final

from rewound.actors.cel import times
from rewound.actors.cel.addresses import CIDR, IP
from rewound.actors.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    ConcatList,
    Duration,
    EvaluationError,
    ListBuilder,
    ListValue,
    MapLike,
    MapValue,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    concatenate,
    is_list,
    list_items,
    list_size,
    no_such_overload,
    parse_double,
    parse_integer,
    print_double,
    type_name,
    walked,
)
from rewound.actors.runtime.budget import Budget

Binary = Callable[[Any, Any], Any]
# An operation that may walk over lists and maps, which its budget counts.
Walk = Callable[[Any, Any, Budget], Any]

# For these types cel-go tries a method of the value first; the error message then lacks the operator.
RECEIVERS: Final = frozenset({str, Duration, Timestamp})


def unsupported(function: str, value: Any) -> EvaluationError:
    """Return the error for a first operand that does not have this operator at all."""
    return no_such_overload("" if value.__class__ in RECEIVERS else function)


def _arithmetic_same_type(left: Any, right: Any) -> None:
    if right.__class__ is not left.__class__:
        raise no_such_overload()


def _int(value: int) -> int:
    if MIN_INT <= value <= MAX_INT:
        return value
    raise EvaluationError("integer overflow")


def _uint(value: int) -> Uint:
    if 0 <= value <= MAX_UINT:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def _add_int(left: int, right: Any) -> int:
    _arithmetic_same_type(left, right)
    return _int(left + right)


def _add_uint(left: Uint, right: Any) -> Uint:
    _arithmetic_same_type(left, right)
    return _uint(int(left) + int(right))


def _add_same(left: Any, right: Any) -> Any:
    _arithmetic_same_type(left, right)
    return left + right


def _add_duration(left: Duration, right: Any) -> Any:
    if right.__class__ is Duration:
        return times.checked_duration(left.nanoseconds + right.nanoseconds)
    if right.__class__ is Timestamp:
        return times.add_duration(right, left.nanoseconds)
    raise no_such_overload()


def _add_timestamp(left: Timestamp, right: Any) -> Any:
    if right.__class__ is Duration:
        return times.add_duration(left, right.nanoseconds)
    raise no_such_overload()


_ADD: Final[dict[type, Binary]] = {
    int: _add_int,
    Uint: _add_uint,
    float: _add_same,
    str: _add_same,
    bytes: _add_same,
    Duration: _add_duration,
    Timestamp: _add_timestamp,
}


def add(left: Any, right: Any, budget: Budget) -> Any:
    if left.__class__ is int and right.__class__ is int:
        result: int = left + right
        return result if MIN_INT <= result <= MAX_INT else _int(result)
    if isinstance(left, list):
        return concatenate(left, right, budget)
    operation = _ADD.get(left.__class__)
    if operation is not None:
        return operation(left, right)
    if isinstance(left, ListValue):
        return left.add(right, budget)
    raise unsupported("_+_", left)


def _subtract_int(left: int, right: Any) -> int:
    _arithmetic_same_type(left, right)
    return _int(left - right)


def _subtract_uint(left: Uint, right: Any) -> Uint:
    _arithmetic_same_type(left, right)
    return _uint(int(left) - int(right))


def _subtract_double(left: float, right: Any) -> float:
    _arithmetic_same_type(left, right)
    return left - float(right)


def _subtract_duration(left: Duration, right: Any) -> Duration:
    _arithmetic_same_type(left, right)
    return times.checked_duration(left.nanoseconds - right.nanoseconds)


def _subtract_timestamp(left: Timestamp, right: Any) -> Any:
    if right.__class__ is Duration:
        if right.nanoseconds == MIN_INT:
            raise EvaluationError("integer overflow")
        return times.add_duration(left, -right.nanoseconds)
    if right.__class__ is Timestamp:
        return times.difference(left, right)
    raise no_such_overload()


def _multiply_int(left: int, right: Any) -> int:
    _arithmetic_same_type(left, right)
    return _int(left * right)


def _multiply_uint(left: Uint, right: Any) -> Uint:
    _arithmetic_same_type(left, right)
    return _uint(int(left) * int(right))


def _multiply_double(left: float, right: Any) -> float:
    _arithmetic_same_type(left, right)
    return left * float(right)


def _divide_int(left: int, right: Any) -> int:
    _arithmetic_same_type(left, right)
    if not right:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return _int(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_uint(left: Uint, right: Any) -> Uint:
    _arithmetic_same_type(left, right)
    if not right:
        raise EvaluationError("division by zero")
    return Uint(int(left) // int(right))


def _divide_double(left: float, right: Any) -> float:
    _arithmetic_same_type(left, right)
    if right:
        return left / float(right)
    if not left or left != left:
        return math.nan
    return math.copysign(math.inf, math.copysign(1, left) * math.copysign(1, right))


def _modulo_int(left: int, right: Any) -> int:
    _arithmetic_same_type(left, right)
    if not right:
        raise EvaluationError("modulus by zero")
    if left == MIN_INT and right == -1:
        raise EvaluationError("integer overflow")
    rest: int = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _modulo_uint(left: Uint, right: Any) -> Uint:
    _arithmetic_same_type(left, right)
    if not right:
        raise EvaluationError("modulus by zero")
    return Uint(int(left) % int(right))


def _operator(function: str, operations: dict[type, Any]) -> Binary:
    def apply(left: Any, right: Any) -> Any:
        operation = operations.get(left.__class__)
        if operation is None:
            raise unsupported(function, left)
        return operation(left, right)

    return apply


subtract: Final = _operator(
    "_-_",
    {
        int: _subtract_int,
        Uint: _subtract_uint,
        float: _subtract_double,
        Duration: _subtract_duration,
        Timestamp: _subtract_timestamp,
    },
)
multiply: Final = _operator("_*_", {int: _multiply_int, Uint: _multiply_uint, float: _multiply_double})
divide: Final = _operator("_/_", {int: _divide_int, Uint: _divide_uint, float: _divide_double})
modulo: Final = _operator("_%_", {int: _modulo_int, Uint: _modulo_uint})


def negate(value: Any) -> Any:
    kind = value.__class__
    if kind is int:
        return _int(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return times.checked_duration(-value.nanoseconds)
    if kind is bool:
        raise no_such_overload()
    raise unsupported("-_", value)


def logical_not(value: Any) -> bool:
    if value is True:
        return False
    if value is False:
        return True
    if value.__class__ in (int, float, Duration):
        raise no_such_overload()
    raise unsupported("!_", value)


_DIRECT: Final = frozenset(
    {int, str, bytes, bool}
)  # two values of the same of these types compare as in Python


def equal(left: Any, right: Any, budget: Budget) -> bool:
    """The result of ==: null equals only null, whatever the other side is."""
    if left.__class__ is right.__class__ and left.__class__ in _DIRECT:
        return bool(left == right)
    if left is None or right is None:
        return left is right
    return same(left, right, budget)


def same(left: Any, right: Any, budget: Budget) -> bool:
    """Whether the left value equals the right one, by its own rules. Raises EvaluationError if it cannot compare
    them.
    """
    compare = _SAME.get(left.__class__)
    if compare is not None:
        return compare(left, right)
    walk = _SAME_PARTS.get(left.__class__)
    if walk is None:
        return bool(left.equals(right, budget))
    if right.__class__ not in _SHARED or left.__class__ not in _SHARED:
        return walk(left, right, budget)
    return _same_parts(walk, left, right, budget)


def _same_parts(walk: Callable[[Any, Any, Budget], bool], left: Any, right: Any, budget: Budget) -> bool:
    """Compare two values that may share their parts, each pair of parts once: `[v, v] == [w, w]`, doubled thirty
    times, has a billion.
    """
    known = budget.equal_parts
    if known is None:
        budget.equal_parts = {}
        try:
            return walk(left, right, budget)
        finally:
            budget.equal_parts = None
    pair = id(left), id(right)
    if pair in known:
        return True
    if not walk(left, right, budget):
        return False
    known[pair] = left, right  # keeps them, so that no other value gets their ids
    return True


def _equality_same_type(left: Any, right: Any) -> bool:
    return right.__class__ is left.__class__ and bool(left == right)


def _same_integer(left: int, right: Any) -> bool:
    if right.__class__ is float:
        return float(left) == right
    return right.__class__ in (int, Uint) and int(left) == int(right)


def _same_double(left: float, right: Any) -> bool:
    return right.__class__ in (float, int, Uint) and left == float(right)


def _same_null(_: None, right: Any) -> bool:
    return right is None


def _same_timestamp(left: Timestamp, right: Any) -> bool:
    return right.__class__ is Timestamp and _instant(left) == _instant(right)


def _same_list(left: list[Any], right: Any, budget: Budget) -> bool:
    if not is_list(right) or len(left) != list_size(right):
        return False
    for item, other in zip(walked(left, budget), list_items(right), strict=True):
        if isinstance(other, EvaluationError):
            return False  # no value equals an error
        try:
            if not equal(item, other, budget):
                return False
        except EvaluationError:
            continue  # cel-go checks only for false
    return True


def _same_sum(left: ConcatList, right: Any, budget: Budget) -> bool:
    if not is_list(right) or left.size() != list_size(right):
        return False
    failed = None
    for item, other in zip(walked(left, budget), list_items(right), strict=True):
        if isinstance(item, EvaluationError):
            failed = failed or item
            continue
        try:
            if not equal(item, other, budget):
                return False
        except EvaluationError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return True


def _same_map(left: MapValue, right: Any, budget: Budget) -> bool:
    if not isinstance(right, MapLike) or left.size() != right.size():
        return False
    budget.visit(left.size())
    for key, value in left.entries.values():
        try:
            found, other = right.find(key)
        except EvaluationError:
            return False
        try:
            if not found or not equal(value, other, budget):
                return False
        except EvaluationError:
            continue
    return True


def _same_optional(left: Optional, right: Any, budget: Budget) -> bool:
    if right.__class__ is not Optional or left.has_value is not right.has_value:
        return False
    return not left.has_value or same(left.value, right.value, budget)


_SAME: Final[dict[type, Callable[[Any, Any], bool]]] = {
    bool: _equality_same_type,
    int: _same_integer,
    Uint: _same_integer,
    float: _same_double,
    str: _equality_same_type,
    bytes: _equality_same_type,
    type(None): _same_null,
    Duration: _equality_same_type,
    Timestamp: _same_timestamp,
    TypeValue: _equality_same_type,
}
_SAME_PARTS: Final[dict[type, Callable[[Any, Any, Budget], bool]]] = {
    list: _same_list,
    ListBuilder: _same_list,
    ConcatList: _same_sum,
    MapValue: _same_map,
    Optional: _same_optional,
}

# Values that expressions make and never change, so that what is equal stays equal.
_SHARED: Final = frozenset({list, ConcatList, MapValue})


def list_contains(value: Any, searched: Any, budget: Budget) -> bool:
    if value.__class__ is ConcatList:
        return _sum_contains(value, searched, budget)
    if not isinstance(value, list):
        return bool(value.holds(searched, budget))
    for item in walked(value, budget):
        try:
            if same(searched, item, budget):
                return True
        except EvaluationError:
            continue
    return False


def _sum_contains(value: ConcatList, searched: Any, budget: Budget) -> bool:
    failed = None
    for part in value.parts():
        budget.visit(1)
        try:
            if list_contains(part, searched, budget):
                return True
        except EvaluationError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return False


def _instant(value: Timestamp) -> tuple[int, int]:
    return value.seconds, value.nanoseconds


def compare(left: Any, right: Any, function: str) -> int:
    """Return -1, 0 or 1; `function` is the operator that an error message names."""
    order = _ORDER.get(left.__class__)
    if order is None:
        raise unsupported(function, left)
    return order(left, right)


def _order(left: Any, right: Any) -> int:
    return -1 if left < right else int(left > right)


def _order_number(left: Any, right: Any) -> int:
    if left != left:
        raise EvaluationError("NaN values cannot be ordered")
    if right.__class__ not in (int, float, Uint):
        raise no_such_overload()
    if right != right:
        raise EvaluationError("NaN values cannot be ordered")
    if left.__class__ is float or right.__class__ is float:
        return _order(float(left), float(right))
    return _order(int(left), int(right))


def _order_same(left: Any, right: Any) -> int:
    if right.__class__ is not left.__class__:
        raise no_such_overload()
    return _order(left, right)


def _order_duration(left: Duration, right: Any) -> int:
    if right.__class__ is not Duration:
        raise no_such_overload()
    return _order(left.nanoseconds, right.nanoseconds)


def _order_timestamp(left: Timestamp, right: Any) -> int:
    if right.__class__ is not Timestamp:
        raise no_such_overload()
    return _order(_instant(left), _instant(right))


_ORDER: Final[dict[type, Callable[[Any, Any], int]]] = {
    bool: _order_same,
    int: _order_number,
    Uint: _order_number,
    float: _order_number,
    str: _order_same,
    bytes: _order_same,
    Duration: _order_duration,
    Timestamp: _order_timestamp,
}
COMPARABLE: Final = frozenset(_ORDER)


def less(left: Any, right: Any) -> bool:
    if left.__class__ is right.__class__ and left.__class__ in _DIRECT:
        return bool(left < right)
    return compare(left, right, "_<_") < 0


def less_equals(left: Any, right: Any) -> bool:
    if left.__class__ is right.__class__ and left.__class__ in _DIRECT:
        return bool(left <= right)
    return compare(left, right, "_<=_") <= 0


def greater(left: Any, right: Any) -> bool:
    if left.__class__ is right.__class__ and left.__class__ in _DIRECT:
        return bool(left > right)
    return compare(left, right, "_>_") > 0


def greater_equals(left: Any, right: Any) -> bool:
    if left.__class__ is right.__class__ and left.__class__ in _DIRECT:
        return bool(left >= right)
    return compare(left, right, "_>=_") >= 0


_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _impossible(value: Any, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_name(value)}' to '{target}'")


def to_int(value: Any) -> int:
    kind = value.__class__
    if kind is int:
        return int(value)
    if kind is Uint:
        if value > MAX_INT:
            raise EvaluationError("integer overflow")
        return int(value)
    if kind is float:
        if not -(2.0**63) < value < 2.0**63:
            raise EvaluationError("integer overflow")
        return int(value)
    if kind is str:
        number = parse_integer(value)
        if number is not None and MIN_INT <= number <= MAX_INT:
            return number
    if kind is Timestamp:
        return int(value.seconds)
    if kind is Duration:
        return int(value.nanoseconds)
    raise _impossible(value, "int")


def to_uint(value: Any) -> Uint:
    kind = value.__class__
    if kind is Uint:
        return Uint(value)
    if kind is int:
        if value < 0:
            raise EvaluationError("unsigned integer overflow")
        return Uint(value)
    if kind is float:
        if not 0 <= value < 2.0**64:
            raise EvaluationError("unsigned integer overflow")
        return Uint(value)
    if kind is str and value[:1] not in ("+", "-"):
        number = parse_integer(value)
        if number is not None and number <= MAX_UINT:
            return Uint(number)
    raise _impossible(value, "uint")


def to_double(value: Any) -> float:
    kind = value.__class__
    if kind is float or kind is int or kind is Uint:
        return float(value)
    if kind is str:
        number = parse_double(value)
        if number is not None:
            return number
    raise _impossible(value, "double")


def to_bool(value: Any) -> bool:
    if value.__class__ is bool:
        return bool(value)
    if value.__class__ is str and (value in _TRUE or value in _FALSE):
        return value in _TRUE
    raise _impossible(value, "bool")


def to_string(value: Any) -> str:
    convert = _PRINTED.get(value.__class__)
    if convert is None:
        raise _impossible(value, "string")
    return convert(value)


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


_PRINTED: Final[dict[type, Callable[[Any], str]]] = {
    str: str,
    bool: lambda value: "true" if value else "false",
    int: str,
    Uint: lambda value: str(int(value)),
    float: print_double,
    bytes: _decode,
    type(None): lambda _: "null",
    Duration: times.print_duration,
    Timestamp: times.print_timestamp,
    TypeValue: lambda value: value.name,
    IP: str,
    CIDR: str,
}


def to_bytes(value: Any) -> bytes:
    if value.__class__ is bytes:
        return bytes(value)
    if value.__class__ is str:
        return str(value).encode(errors="surrogatepass")
    raise _impossible(value, "bytes")


def to_duration(value: Any) -> Duration:
    if value.__class__ is Duration:
        return Duration(value.nanoseconds)
    if value.__class__ is str:
        parsed = times.parse_duration(value)
        if parsed is not None:
            return parsed
    raise _impossible(value, "google.protobuf.Duration")


def to_timestamp(value: Any) -> Timestamp:
    kind = value.__class__
    parsed = None
    if kind is Timestamp:
        return Timestamp(value.seconds, value.nanoseconds, value.offset)
    if kind is int:
        parsed = Timestamp(value)
    if kind is str:
        parsed = times.parse_timestamp(value)
    if parsed is None:
        raise _impossible(value, "google.protobuf.Timestamp")
    if not times.MIN_SECONDS <= parsed.seconds <= times.MAX_SECONDS:
        raise EvaluationError("timestamp overflow")
    return parsed


def to_type(value: Any) -> TypeValue:
    return TypeValue(type_name(value))


def to_dyn(value: Any) -> Any:
    return value


CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "int": to_int,
    "uint": to_uint,
    "double": to_double,
    "bool": to_bool,
    "string": to_string,
    "bytes": to_bytes,
    "duration": to_duration,
    "timestamp": to_timestamp,
    "type": to_type,
    "dyn": to_dyn,
}


_SAFE_INTEGER: Final = 2**53 - 1  # larger ones are texts in JSON


_MEMBER: Final = 64  # bytes of a member of a map, and what is around the members


def as_json(value: Any, budget: Budget) -> Any:
    """Return a value as google.protobuf.Value has it: every number is a double. Raises EvaluationError."""
    if value.__class__ in (int, Uint):
        return float(value) if abs(value) <= _SAFE_INTEGER else str(int(value))
    if value.__class__ is bytes:
        return base64.b64encode(value).decode()
    if value.__class__ in (Duration, Timestamp):
        return to_string(value)
    if value.__class__ is str:
        budget.take(len(value))
        return value
    if isinstance(value, list | ListValue):
        budget.take(_MEMBER * (1 + list_size(value)))
        return [as_json(item, budget) for item in walked(value, budget)]
    if isinstance(value, MapLike):
        budget.visit(value.size())
        budget.take(_MEMBER * (1 + value.size()))
        keys = list(value.keys())
        return MapValue([(_json_key(key), as_json(value.get(key), budget)) for key in keys])
    if value is None or value.__class__ in (bool, float):
        return value
    raise EvaluationError(f"type conversion error from '{type_name(value)}' to '*structpb.Value'")


def _json_key(key: Any) -> str:
    if key.__class__ is not str:
        raise EvaluationError(f"unsupported type conversion from '{type_name(key)}' to string")
    return str(key)
