"""Leaf values: from what a document says to what an object holds, or the reason why not."""

from __future__ import annotations

import base64
import binascii
import string
from collections.abc import Callable
from typing import Any, Final

from actors.kinds.schema.fields import (
    BOOL,
    BYTES,
    FREE,
    INT32,
    INT64,
    INT_OR_STRING,
    INTEGER_RANGES,
    MICRO_TIME,
    OWNED_FIELDS,
    QUANTITY,
    STRING,
    TIME,
    Scalar,
    Type,
)
from actors.kinds.schema.scan import Number, plain
from actors.kinds.values.quantity import canonical_quantity
from actors.kinds.values.times import canonical_micros, canonical_seconds

_LONGEST_SHOWN: Final = 40
_BASE64: Final = frozenset(string.ascii_letters + string.digits + "+/")
_LINE_BREAKS: Final = "\r\n"


class WrongType(ValueError):
    """A value that the declared type cannot hold. The place grows from the inside out as the walk unwinds."""

    def __init__(self, found: str, type_: Type) -> None:
        self._found, self._type = found, type_
        self._struct = ""
        self._where: list[str] = []

    def inside(self, struct: str, field: str) -> None:
        self._struct = self._struct or struct
        self._where.insert(0, field)

    def __str__(self) -> str:
        place = f"Go struct field {self._struct}.{'.'.join(self._where)}" if self._where else "Go value"
        return f"json: cannot unmarshal {self._found} into {place} of type {self._type.spoken}"


def read_scalar(type_: Scalar, value: Any) -> Any:
    """The canonical value; None stands for a time that says nothing. Raises ValueError."""
    return _READERS[type_](type_, value)


def spoken(value: Any) -> str:
    """What kind of JSON value this is, as errors say it."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (Number, int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if type(value) is list else "object"


def _string(type_: Scalar, value: Any) -> str:
    if type(value) is not str:
        raise WrongType(spoken(value), type_)
    return value


def _bool(type_: Scalar, value: Any) -> bool:
    if type(value) is not bool:
        raise WrongType(spoken(value), type_)
    return value


def _integer(type_: Scalar, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (Number, int, float)):
        raise WrongType(spoken(value), type_)
    whole = _whole(value)
    low, high = INTEGER_RANGES[type_]
    if whole is None or not low <= whole <= high:
        raise WrongType(f"number {value!s:.{_LONGEST_SHOWN}}", type_)
    return whole


def _whole(value: Number | int | float) -> int | None:
    if isinstance(value, Number):
        return value.whole()
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value


def _bytes(type_: Scalar, value: Any) -> str:
    """Base64 in its one canonical spelling; line breaks inside are tolerated."""
    sent = _string(type_, value)
    text = sent.replace("\r", "").replace("\n", "")
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode()
    except (binascii.Error, ValueError):
        raise ValueError(f"illegal base64 data at input byte {_first_illegal(sent)}") from None


def _first_illegal(text: str) -> int:
    """Where a reader that takes four letters at a time gives up: a group that never ends is named by its start."""
    letters = 0
    for at, letter in enumerate(text):
        if letter in _BASE64:
            letters = (letters + 1) % 4
        elif letter == "=" and letters >= 2:
            return _after_padding(text, at + 1, wants_another=letters == 2)
        elif letter not in _LINE_BREAKS:
            return at
    return len(text) - letters


def _after_padding(text: str, start: int, *, wants_another: bool) -> int:
    rest = [at for at in range(start, len(text)) if text[at] not in _LINE_BREAKS]
    if wants_another and rest and text[rest[0]] != "=":
        return rest[0] - 1
    rest = rest[1:] if wants_another else rest
    return rest[0] if rest else len(text)


def _time(type_: Scalar, value: Any) -> str | None:
    return canonical_seconds(_string(type_, value))


def _micro_time(type_: Scalar, value: Any) -> str | None:
    return canonical_micros(_string(type_, value))


def _quantity(type_: Scalar, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise WrongType(spoken(value), type_)
    return canonical_quantity(str(value))


def _int_or_string(_: Scalar, value: Any) -> int | str:
    return value if type(value) is str else _integer(INT32, value)


def _as_sent(type_: Scalar, value: Any) -> Any:
    return plain(value)


_READERS: Final[dict[Scalar, Callable[[Scalar, Any], Any]]] = {
    STRING: _string,
    BOOL: _bool,
    INT32: _integer,
    INT64: _integer,
    BYTES: _bytes,
    TIME: _time,
    MICRO_TIME: _micro_time,
    QUANTITY: _quantity,
    INT_OR_STRING: _int_or_string,
    OWNED_FIELDS: _as_sent,
    FREE: _as_sent,
}
