"""Writes an object as a message, by the field numbers of its declaration.

A struct is compiled once into the writers of its fields, ordered by number. Absent fields are not written: the reader
takes the zero value, which is what absence means in JSON too. Fields without a number (kind and apiVersion inside an
object) are not part of the message.
"""

from __future__ import annotations

import struct as binary
from base64 import b64decode
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

from rewound.actors.golang.json import unescaped
from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    FIELDS_V1,
    INT32,
    INT64,
    INT_OR_STRING,
    MICRO_TIME,
    QUANTITY,
    STRING,
    TIME,
    Field,
    JsonValue,
    ListOf,
    MapOf,
    Scalar,
    Struct,
    StructOr,
    Type,
)
from rewound.actors.kinds.values.times import duration_seconds, micros_of
from rewound.gateway.wire.protobuf.wire_format import (
    I64,
    LEN,
    ONE_BYTE,
    VARINT,
    delimited,
    string,
    tag,
    varint,
)

MessageWriter = Callable[[Mapping[str, Any]], bytes]
FieldWriter = Callable[[Any], bytes]  # a value to its bytes, with the tag

_MAX_PLANS: Final = 256  # writes a value of a type
_WHOLE_OBJECT: Final = ""  # in place of a field name: the writer gets the whole object


@lru_cache(maxsize=4096)
def message_writer(struct: Struct) -> MessageWriter:
    """The writer of objects of this type, without the envelope."""
    return _message(struct.fields)


def _message(fields: tuple[Field, ...]) -> MessageWriter:
    numbered = sorted((field for field in fields if field.number), key=_outer_number)
    writers: dict[str, tuple[int, str, FieldWriter]] = {}
    embedded: list[tuple[int, str, FieldWriter]] = []
    for number, group in groupby(numbered, key=_outer_number):
        inside = tuple(group)
        if inside[0].embedded:
            embedded.append((number, _WHOLE_OBJECT, _embedded(number, inside)))
        else:
            name = inside[0].name
            writers[name] = number, name, _field_writer(number, inside[0].type)
    plans: dict[tuple[str, ...], list[tuple[str, FieldWriter]]] = {}

    def plan(names: tuple[str, ...]) -> list[tuple[str, FieldWriter]]:
        """The writers for an object with these members, ordered by field number."""
        present = sorted([writers[name] for name in names if name in writers] + embedded)
        made = [(name, write_field) for _, name, write_field in present]
        if len(plans) >= _MAX_PLANS:
            plans.clear()
        plans[names] = made
        return made

    def write(value: Mapping[str, Any]) -> bytes:
        # Cached by the members present: most fields of most types are absent, and objects of a type are alike.
        names = tuple(value)
        fields = plans.get(names) or plan(names)
        return b"".join(
            [
                write_field(member)
                for name, write_field in fields
                if (member := value[name] if name else value) is not None
            ]
        )

    return write


def _outer_number(field: Field) -> int:
    return field.embedded or field.number


def _embedded(number: int, fields: tuple[Field, ...]) -> FieldWriter:
    """Writes a message whose fields JSON has inline in the object around it."""
    inner = _message(
        tuple(Field(field.name, field.type, field.number, embedded=field.embedded_inside) for field in fields)
    )

    def write(value: Mapping[str, Any]) -> bytes:
        content = inner(value)
        return delimited(number, content) if content else b""

    return write


def _field_writer(number: int, type_: Type) -> FieldWriter:
    if isinstance(type_, ListOf):
        if type_.boxed:
            return _wrapped_list(number, type_)
        one = _field_writer(number, type_.item)
        return lambda values: b"".join([one(value) for value in values])
    if isinstance(type_, MapOf):
        return _map_entries(number, type_.value)
    if isinstance(type_, Struct):
        return _nested(number, type_)
    if type_ in _VARINT_TYPES:
        start = tag(number, VARINT)
        return lambda value: start + varint(value)
    if type_ is DOUBLE:
        before = tag(number, I64)
        return lambda value: before + binary.pack("<d", value)
    if isinstance(type_, StructOr):
        return _delimited_writer(number, _struct_or(type_))
    return _delimited_writer(number, _raw_json if isinstance(type_, JsonValue) else _CONTENTS[type_])


def _struct_or(type_: StructOr) -> Callable[[Any], bytes]:
    """Writes a message with either of two fields; a struct in place of a bool counts as true as well."""
    number, other_number = type_.numbers
    write_struct, write_other = _nested(number, type_.struct), _field_writer(other_number, type_.other)
    beside = write_other(True) if type_.other is BOOL else b""
    return lambda value: beside + write_struct(value) if isinstance(value, dict) else write_other(value)


def _delimited_writer(number: int, content: Callable[[Any], bytes]) -> FieldWriter:
    start = tag(number, LEN)

    def write(value: Any) -> bytes:
        inside = content(value)
        size = len(inside)
        return b"%b%b%b" % (start, ONE_BYTE[size] if size < 0x80 else varint(size), inside)

    return write


def _nested(number: int, struct: Struct) -> FieldWriter:
    """The writer of a type, compiled on first use, because a type may contain itself."""
    return _delimited_writer(number, lambda value: message_writer(struct)(value))


def _map_entries(number: int, type_: Type) -> FieldWriter:
    """Writes a map as a repeated message of key and value, ordered by key.

    A null is a nil slice or a zero time in Go: the empty message.
    """
    write_value = _wrapped_list(2, type_) if isinstance(type_, ListOf) else _field_writer(2, type_)
    write_key, nothing = _field_writer(1, STRING), delimited(2, b"")

    def content(item: tuple[str, Any]) -> bytes:
        return write_key(item[0]) + (nothing if item[1] is None else write_value(item[1]))

    entry = _delimited_writer(number, content)
    return lambda value: b"".join([entry(item) for item in sorted(value.items())])


def _wrapped_list(number: int, type_: ListOf) -> FieldWriter:
    """Writes a list that is the only field of a message, as inside a map."""
    return _delimited_writer(number, _field_writer(1, ListOf(type_.item)))


def _time(value: str) -> bytes:
    return _timestamp(value, 1_000_000)


def _micro_time(value: str) -> bytes:
    return _timestamp(value, 1)


@lru_cache(maxsize=256)  # a document repeats a few times
def _timestamp(value: str, precision: int) -> bytes:
    micros = micros_of(value)
    micros -= micros % precision
    seconds, rest = divmod(micros, 1_000_000)
    return tag(1, VARINT) + varint(seconds) + tag(2, VARINT) + varint(rest * 1000)


def _int_or_string(value: int | str) -> bytes:
    is_string = isinstance(value, str)
    integer, text = (0, value) if isinstance(value, str) else (value, "")
    return tag(1, VARINT) + varint(is_string) + tag(2, VARINT) + varint(integer) + string(3, text)


def _raw_json(value: Any) -> bytes:
    return _raw(unescaped(value))


_raw: Final = _delimited_writer(1, bytes)
_VARINT_TYPES: Final = frozenset((BOOL, INT32, INT64))
_CONTENTS: Final[Mapping[Scalar, Callable[[Any], bytes]]] = {
    STRING: str.encode,
    BYTES: b64decode,
    TIME: _time,
    MICRO_TIME: _micro_time,
    QUANTITY: lambda value: string(1, value),
    DURATION: lambda value: tag(1, VARINT) + varint(round(duration_seconds(value) * 1e9)),
    INT_OR_STRING: _int_or_string,
    FIELDS_V1: _raw_json,
    ANY_JSON: _raw_json,
}
