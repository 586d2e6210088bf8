"""int(), uint(), double(), bool(), string(), bytes(), duration(), timestamp(), type() and dyn()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from actors.cel.runtime import times
from actors.cel.runtime.numbers import parse_double, parse_integer, print_double
from actors.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    Duration,
    EvaluationError,
    Timestamp,
    TypeValue,
    Uint,
    type_name,
)

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
