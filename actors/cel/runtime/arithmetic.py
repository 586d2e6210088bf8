"""The operators + - * / % and unary -, for every pair of types; an error where Go's 64 bits would overflow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from actors.cel.runtime import times
from actors.cel.runtime.containers import Building, ListValue, concatenate
from actors.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    Duration,
    EvaluationError,
    Timestamp,
    Uint,
    no_such_overload,
)

Binary = Callable[[Any, Any], Any]

# Types on which cel-go tries a method of the value before it gives up; the message then lacks the operator.
RECEIVERS: Final = frozenset({str, Duration, Timestamp})


def unsupported(function: str, value: Any) -> EvaluationError:
    """The first operand has no such operator at all."""
    return no_such_overload("" if value.__class__ in RECEIVERS else function)


def _same_type(left: Any, right: Any) -> None:
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
    _same_type(left, right)
    return _int(left + right)


def _add_uint(left: Uint, right: Any) -> Uint:
    _same_type(left, right)
    return _uint(int(left) + int(right))


def _add_same(left: Any, right: Any) -> Any:
    _same_type(left, right)
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
    list: concatenate,
    Building: concatenate,
    Duration: _add_duration,
    Timestamp: _add_timestamp,
}


def add(left: Any, right: Any) -> Any:
    if left.__class__ is int and right.__class__ is int:
        result: int = left + right
        return result if MIN_INT <= result <= MAX_INT else _int(result)
    operation = _ADD.get(left.__class__)
    if operation is not None:
        return operation(left, right)
    if isinstance(left, ListValue):
        return left.add(right)
    raise unsupported("_+_", left)


def _subtract_int(left: int, right: Any) -> int:
    _same_type(left, right)
    return _int(left - right)


def _subtract_uint(left: Uint, right: Any) -> Uint:
    _same_type(left, right)
    return _uint(int(left) - int(right))


def _subtract_double(left: float, right: Any) -> float:
    _same_type(left, right)
    return left - float(right)


def _subtract_duration(left: Duration, right: Any) -> Duration:
    _same_type(left, right)
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
    _same_type(left, right)
    return _int(left * right)


def _multiply_uint(left: Uint, right: Any) -> Uint:
    _same_type(left, right)
    return _uint(int(left) * int(right))


def _multiply_double(left: float, right: Any) -> float:
    _same_type(left, right)
    return left * float(right)


def _divide_int(left: int, right: Any) -> int:
    _same_type(left, right)
    if not right:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return _int(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_uint(left: Uint, right: Any) -> Uint:
    _same_type(left, right)
    if not right:
        raise EvaluationError("division by zero")
    return Uint(int(left) // int(right))


def _divide_double(left: float, right: Any) -> float:
    _same_type(left, right)
    if right:
        return left / float(right)
    if not left or left != left:
        return math.nan
    return math.copysign(math.inf, math.copysign(1, left) * math.copysign(1, right))


def _modulo_int(left: int, right: Any) -> int:
    _same_type(left, right)
    if not right:
        raise EvaluationError("modulus by zero")
    if left == MIN_INT and right == -1:
        raise EvaluationError("integer overflow")
    rest: int = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _modulo_uint(left: Uint, right: Any) -> Uint:
    _same_type(left, right)
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
