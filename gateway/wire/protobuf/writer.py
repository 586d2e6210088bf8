"""From an object to its message, by the numbers of its declaration.

A struct is compiled once into the writers of its fields, in the order of their numbers. What the object does not
hold is not written: a reader takes the zero value for it, which is what its absence means in JSON too. Fields that
have no number (kind and apiVersion inside an object) have no place in a message.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import groupby
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
    Field,
    ListOf,
    MapOf,
    Scalar,
    Struct,
    Type,
)
from actors.kinds.values.times import micros_of
from gateway.wire.protobuf.pieces import BLOCK, VARINT, block, tag, text, varint

Message = Callable[[Mapping[str, Any]], bytes]
Put = Callable[[Any], bytes]  # a value to its bytes on the wire, tag and all

_ITSELF: Final = ""  # in place of a member's name: the object as a whole


@lru_cache(maxsize=4096)
def message_of(struct: Struct) -> Message:
    """How objects of this type are written, without what would stand around them."""
    return _message(struct.fields)


def _message(fields: tuple[Field, ...]) -> Message:
    numbered = sorted((field for field in fields if field.number), key=_place)
    steps: list[tuple[str, Put]] = []
    for place, group in groupby(numbered, key=_place):
        inside = tuple(group)
        if inside[0].embedded:
            steps.append((_ITSELF, _carrier(place, inside)))
        else:
            steps.append((inside[0].name, _put(place, inside[0].type)))

    def write(value: Mapping[str, Any]) -> bytes:
        written = []
        for name, put in steps:
            member = value.get(name) if name else value
            if member is not None:
                written.append(put(member))
        return b"".join(written)

    return write


def _place(field: Field) -> int:
    return field.embedded or field.number


def _carrier(number: int, fields: tuple[Field, ...]) -> Put:
    """Of a nameless message: its fields stand beside the others in JSON."""
    inner = _message(tuple(Field(field.name, field.type, field.number) for field in fields))

    def carry(value: Mapping[str, Any]) -> bytes:
        content = inner(value)
        return block(number, content) if content else b""

    return carry


def _put(number: int, type_: Type) -> Put:
    if isinstance(type_, ListOf):
        if type_.boxed:
            return _boxed(number, type_)
        one = _put(number, type_.item)
        return lambda values: b"".join([one(value) for value in values])
    if isinstance(type_, MapOf):
        return _pairs(number, type_.value)
    if isinstance(type_, Struct):
        return _nested(number, type_)
    if type_ in _WHOLE:
        start = tag(number, VARINT)
        return lambda value: start + varint(value)
    return _sized(number, _CONTENTS[type_])


def _sized(number: int, content: Callable[[Any], bytes]) -> Put:
    start = tag(number, BLOCK)

    def put(value: Any) -> bytes:
        inside = content(value)
        return b"%b%b%b" % (start, varint(len(inside)), inside)

    return put


def _nested(number: int, struct: Struct) -> Put:
    """Compiled when first met: a type may hold itself."""
    return _sized(number, lambda value: message_of(struct)(value))


def _pairs(number: int, type_: Type) -> Put:
    """A map is a list of pairs, in the order of its keys."""
    put = _boxed(2, type_) if isinstance(type_, ListOf) else _put(2, type_)
    pair = _sized(number, lambda item: text(1, item[0]) + put(item[1]))
    return lambda value: b"".join([pair(item) for item in sorted(value.items())])


def _boxed(number: int, type_: ListOf) -> Put:
    """A list where a message must stand: one that has nothing else in it."""
    return _sized(number, _put(1, ListOf(type_.item)))


def _time(value: str) -> bytes:
    return _moment(value, 1_000_000)


def _micro_time(value: str) -> bytes:
    return _moment(value, 1)


@lru_cache(maxsize=256)  # times of one document are few and the same
def _moment(value: str, grain: int) -> bytes:
    micros = micros_of(value)
    micros -= micros % grain
    seconds, rest = divmod(micros, 1_000_000)
    return tag(1, VARINT) + varint(seconds) + tag(2, VARINT) + varint(rest * 1000)


def _int_or_string(value: int | str) -> bytes:
    spelled = isinstance(value, str)
    number, word = (0, value) if isinstance(value, str) else (value, "")
    return tag(1, VARINT) + varint(spelled) + tag(2, VARINT) + varint(number) + text(3, word)


def _raw(value: Any) -> bytes:
    return block(1, orjson.dumps(value))


_WHOLE: Final = frozenset((BOOL, INT32, INT64))
_CONTENTS: Final[Mapping[Scalar, Callable[[Any], bytes]]] = {
    STRING: str.encode,
    BYTES: b64decode,
    TIME: _time,
    MICRO_TIME: _micro_time,
    QUANTITY: lambda value: text(1, value),
    INT_OR_STRING: _int_or_string,
    FIELDS_V1: _raw,
    ANY_JSON: _raw,
}
