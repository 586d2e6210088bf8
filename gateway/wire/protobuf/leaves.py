"""Leaf values: from what stands in a message to what JSON would have said.

Times, quantities, ports that may have names and raw JSON are messages of their own on the wire.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    BYTES,
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
from gateway.wire.protobuf.pieces import BLOCK, VARINT
from gateway.wire.protobuf.walk import NotAMessage, walk


def text_of(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise NotAMessage("is no UTF-8 text") from None


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _moment(raw: bytes) -> int | None:
    """In microseconds since 1970; None where nothing is said."""
    seconds = nanos = 0
    for number, wire, value in walk(raw):
        if wire == VARINT:
            seconds = _signed(value) if number == 1 else seconds
            nanos = _signed(value) if number == 2 else nanos
    return seconds * 1_000_000 + nanos // 1000 if raw else None


def _time(raw: bytes) -> str | None:
    return _spelled(_moment(raw), seconds_text)


def _micro_time(raw: bytes) -> str | None:
    return _spelled(_moment(raw), micros_text)


def _spelled(micros: int | None, text: Callable[[int], str]) -> str | None:
    try:
        return None if micros is None else text(micros)
    except OverflowError:
        raise NotAMessage("is a time outside the years 1 to 9999") from None


def _quantity(raw: bytes) -> Any:
    return _only(raw, text_of, "")


def _only(raw: bytes, read: Callable[[bytes], Any], nothing: Any) -> Any:
    """What stands in a message under the number one."""
    found = nothing
    for number, wire, value in walk(raw):
        if number == 1 and wire == BLOCK:
            found = read(value)
    return found


def _int_or_string(raw: bytes) -> int | str:
    spelled, number, word = 0, 0, ""
    for place, wire, value in walk(raw):
        if place == 1 and wire == VARINT:
            spelled = value
        elif place == 2 and wire == VARINT:
            number = _signed(value)
        elif place == 3 and wire == BLOCK:
            word = text_of(value)
    return word if spelled else number


def _raw(raw: bytes) -> Any:
    return _only(raw, _json, None)


def _json(raw: bytes) -> Any:
    try:
        return orjson.loads(raw) if raw else None
    except orjson.JSONDecodeError as error:
        raise NotAMessage(f"must be JSON: {error}") from None


WHOLE: Final = frozenset((BOOL, INT32, INT64))
READERS: Final[Mapping[Scalar, Callable[[Any], Any]]] = {
    STRING: text_of,
    BOOL: bool,
    INT32: _signed,
    INT64: _signed,
    BYTES: lambda raw: b64encode(raw).decode(),
    TIME: _time,
    MICRO_TIME: _micro_time,
    QUANTITY: _quantity,
    INT_OR_STRING: _int_or_string,
    FIELDS_V1: _raw,
    ANY_JSON: _raw,
}
