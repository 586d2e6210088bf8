"""Reads scalar values of a message as the values that JSON has in their place.

Times, quantities, IntOrString values and raw JSON are scalars in JSON, but messages in protobuf.
"""

from __future__ import annotations

import struct as binary
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    BYTES,
    DOUBLE,
    FIELDS_V1,
    INT32,
    INT64,
    INT_OR_STRING,
    MICRO_TIME,
    QUANTITY,
    STRING,
    TIME,
    Scalar,
)
from actors.kinds.values.times import micros_text, seconds_text
from gateway.wire.protobuf.wire_format import LEN, VARINT, MalformedMessage, read_fields


def text_of(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise MalformedMessage("is no UTF-8 text") from None


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _micros(raw: bytes) -> int | None:
    """Microseconds since 1970; None for an empty message."""
    seconds = nanos = 0
    for number, wire_type, value in read_fields(raw):
        if wire_type == VARINT:
            seconds = _signed(value) if number == 1 else seconds
            nanos = _signed(value) if number == 2 else nanos
    return seconds * 1_000_000 + nanos // 1000 if raw else None


def _time(raw: bytes) -> str | None:
    return _formatted(_micros(raw), seconds_text)


def _micro_time(raw: bytes) -> str | None:
    return _formatted(_micros(raw), micros_text)


def _formatted(micros: int | None, format_: Callable[[int], str]) -> str | None:
    try:
        return None if micros is None else format_(micros)
    except OverflowError:
        raise MalformedMessage("is a time outside the years 1 to 9999") from None


def _quantity(raw: bytes) -> Any:
    return _field_one(raw, text_of, "")


def _field_one(raw: bytes, read: Callable[[bytes], Any], default: Any) -> Any:
    """The value of field number 1 of a message."""
    found = default
    for number, wire_type, value in read_fields(raw):
        if number == 1 and wire_type == LEN:
            found = read(value)
    return found


def _int_or_string(raw: bytes) -> int | str:
    is_string, integer, text = 0, 0, ""
    for number, wire_type, value in read_fields(raw):
        if number == 1 and wire_type == VARINT:
            is_string = value
        elif number == 2 and wire_type == VARINT:
            integer = _signed(value)
        elif number == 3 and wire_type == LEN:
            text = text_of(value)
    return text if is_string else integer


def raw_json(raw: bytes) -> Any:
    return _field_one(raw, _json, None)


def _double(raw: bytes) -> float:
    value: float = binary.unpack("<d", raw)[0]
    return value


def _json(raw: bytes) -> Any:
    try:
        return orjson.loads(raw) if raw else None
    except orjson.JSONDecodeError as error:
        raise MalformedMessage(f"must be JSON: {error}") from None


VARINT_TYPES: Final = frozenset((BOOL, INT32, INT64))
READERS: Final[Mapping[Scalar, Callable[[Any], Any]]] = {
    STRING: text_of,
    BOOL: bool,
    INT32: _signed,
    INT64: _signed,
    BYTES: lambda raw: b64encode(raw).decode(),
    DOUBLE: _double,
    TIME: _time,
    MICRO_TIME: _micro_time,
    QUANTITY: _quantity,
    INT_OR_STRING: _int_or_string,
    FIELDS_V1: raw_json,
    ANY_JSON: raw_json,
}
