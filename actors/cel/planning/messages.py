"""Protobuf's well-known messages that an expression makes: google.protobuf.Int64Value{value: 1} is 1.

Struct, Value and ListValue are data of JSON: every number in them is a double.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any, Final

from actors.cel.runtime import times
from actors.cel.runtime.containers import ListValue, MapLike, MapValue, list_items
from actors.cel.runtime.conversions import to_string
from actors.cel.values import (
    CannotCompile,
    Duration,
    EvaluationError,
    Timestamp,
    Uint,
    no_such_overload,
    type_name,
)

_PREFIX: Final = "google.protobuf."
_WRAPPED: Final[dict[str, Any]] = {
    "BoolValue": False,
    "BytesValue": b"",
    "DoubleValue": 0.0,
    "FloatValue": 0.0,
    "Int32Value": 0,
    "Int64Value": 0,
    "StringValue": "",
    "UInt32Value": Uint(0),
    "UInt64Value": Uint(0),
}
_SAFE: Final = 2**53 - 1  # larger integers are texts in JSON
_BOUNDS: Final = {
    "Int32Value": (-(2**31), 2**31 - 1, "integer overflow"),
    "UInt32Value": (0, 2**32 - 1, "unsigned integer overflow"),
}


class Empty:
    type_name: Final = "google.protobuf.Empty"
    go_name: Final = "*types.protoObj"

    def equals(self, other: Any) -> bool:
        if not isinstance(other, Empty):
            raise no_such_overload()
        return True


def make_message(name: str, fields: list[str]) -> Callable[[list[Any]], Any]:
    """The function that makes the value of the values of its fields."""
    short = name.removeprefix(_PREFIX)
    make = _MAKERS.get(short)
    if short in _WRAPPED:
        return lambda values: _wrapped(short, values)
    if make is None:
        raise CannotCompile(f"unknown type: {name}")
    return lambda values: make(dict(zip(fields, values, strict=True)))


def _wrapped(name: str, values: list[Any]) -> Any:
    value = values[-1] if values else _WRAPPED[name]
    if name == "FloatValue" and value.__class__ is float:
        return _single(value)
    if name in _BOUNDS and isinstance(value, int):
        least, most, text = _BOUNDS[name]
        if not least <= value <= most:
            raise EvaluationError(f"field type conversion error for {_PREFIX}{name}.value value type: {text}")
    return value


def _single(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _duration(fields: dict[str, int]) -> Any:
    return times.checked_duration(fields.get("seconds", 0) * times.SECOND + fields.get("nanos", 0))


def _timestamp(fields: dict[str, int]) -> Any:
    return times.add_duration(Timestamp(fields.get("seconds", 0)), fields.get("nanos", 0))


def _value(fields: dict[str, Any]) -> Any:
    for name, value in fields.items():
        return None if name == "null_value" else _json(value)
    return None


def _any(_: dict[str, Any]) -> Any:
    raise EvaluationError("unsupported conversion to ref.Val: (*anypb.Any)")


def _json(value: Any) -> Any:
    if value.__class__ in (int, Uint):
        return float(value) if abs(value) <= _SAFE else str(int(value))
    if value.__class__ is bytes:
        return base64.b64encode(value).decode()
    if value.__class__ in (Duration, Timestamp):
        return to_string(value)
    if isinstance(value, list | ListValue):
        return [_json(item) for item in list_items(value)]
    if isinstance(value, MapLike):
        keys = list(value.keys())
        return MapValue([(_json_key(key), _json(value.get(key))) for key in keys])
    if value is None or value.__class__ in (bool, float, str):
        return value
    raise EvaluationError(f"type conversion error from '{type_name(value)}' to '*structpb.Value'")


def _json_key(key: Any) -> str:
    if key.__class__ is not str:
        raise EvaluationError(f"unsupported type conversion from '{type_name(key)}' to string")
    return str(key)


_MAKERS: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "Duration": _duration,
    "Timestamp": _timestamp,
    "Struct": lambda fields: _json(fields.get("fields", MapValue([]))),
    "ListValue": lambda fields: _json(fields.get("values", [])),
    "Value": _value,
    "Any": _any,
    "Empty": lambda _: Empty(),
}
