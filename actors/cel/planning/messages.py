"""Messages that an expression makes: google.protobuf.Int64Value{value: 1} and the few others that CEL unwraps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from actors.cel.runtime import times
from actors.cel.values import CannotCompile, Timestamp, Uint

_WRAPPED: Final[dict[str, Any]] = {
    "google.protobuf.BoolValue": False,
    "google.protobuf.BytesValue": b"",
    "google.protobuf.DoubleValue": 0.0,
    "google.protobuf.FloatValue": 0.0,
    "google.protobuf.Int32Value": 0,
    "google.protobuf.Int64Value": 0,
    "google.protobuf.StringValue": "",
    "google.protobuf.UInt32Value": Uint(0),
    "google.protobuf.UInt64Value": Uint(0),
}


def make_message(name: str, fields: list[str]) -> Callable[[list[Any]], Any]:
    """The function that makes the value of the values of its fields."""
    if name in _WRAPPED:
        return lambda values: values[0] if values else _WRAPPED[name]
    if name == "google.protobuf.Duration":
        return lambda values: _duration(dict(zip(fields, values, strict=True)))
    if name == "google.protobuf.Timestamp":
        return lambda values: _timestamp(dict(zip(fields, values, strict=True)))
    raise CannotCompile(f"unknown type: {name}")


def _duration(fields: dict[str, int]) -> Any:
    return times.checked_duration(fields.get("seconds", 0) * times.SECOND + fields.get("nanos", 0))


def _timestamp(fields: dict[str, int]) -> Any:
    return Timestamp(fields.get("seconds", 0), fields.get("nanos", 0))
