"""Reads a message as the object that JSON would contain; the schema validates it afterwards.

Go writes every field that is not a pointer, even if it is zero. So zero values of such fields are dropped. This
module neither sets defaults nor validates: the schema does. Unknown field numbers are skipped and reported. If a
field occurs twice, the last value wins, and messages are merged.
"""

from __future__ import annotations

import struct as binary
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
import orjson

from rewound.actors.kinds.schema.exact_decoder import MAX_PROBLEMS, Problems
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
from rewound.actors.kinds.values.times import micros_text, seconds_text
from rewound.actors.messages import Object
from rewound.actors.runtime.time_limit import check_time
from rewound.gateway.wire.protobuf.wire_format import (
    I64,
    LEN,
    VARINT,
    MalformedMessage,
    read_fields,
    read_varint,
)

Path = list[str | int]  # field names and list indices, innermost first


class UnknownFieldNumbers:
    """Field numbers that their message does not declare: the paths of the first ones, and the number of all."""

    __slots__ = ("count", "found")

    def __init__(self) -> None:
        self.found: list[tuple[int, Path]] = []
        self.count = 0

    def add(self, number: int) -> None:
        self.count += 1
        if len(self.found) <= MAX_PROBLEMS:
            self.found.append((number, []))

    def inside(self, place: str | int, since: int) -> None:
        """Extend the paths of all numbers found since index `since` by the field or list index around them."""
        for _, path in self.found[since:]:
            path.append(place)

    def problems(self) -> tuple[str, ...]:
        if not self.found:
            return ()
        problems = Problems(map(_problem, self.found))
        problems.leave_out(self.count - len(self.found))
        return problems.texts()


def _problem(found: tuple[int, Path]) -> str:
    number, path = found
    field = ""
    for part in reversed(path):
        field += f"[{part}]" if isinstance(part, int) else f".{part}" if field else part
    return f'unknown field number {number} in "{field}"' if field else f"unknown field number {number}"


Setter = Callable[[Object, Any, UnknownFieldNumbers], None]  # reads a value and sets it in the object
Read = Callable[[Any, UnknownFieldNumbers], Any]


class _Fields(msgspec.Struct, frozen=True):
    """The fields of a message type."""

    setters: Mapping[tuple[int, int], Setter]  # by number and wire type
    names: Mapping[int, str]  # by number


def read_message(
    struct: Struct, raw: bytes, unknown: UnknownFieldNumbers, into: Object | None = None
) -> Object:
    check_time()
    found: Object = {} if into is None else into
    known = len(unknown.found)
    fields = _fields_of(struct)
    for number, wire_type, value in read_fields(raw):
        set_field = fields.setters.get((number, wire_type))
        if set_field is None and number not in fields.names:
            unknown.add(number)
            known = len(unknown.found)
            continue
        try:
            if set_field is None:
                raise MalformedMessage(f"field number {number} cannot have wire type {wire_type}")
            set_field(found, value, unknown)
        except MalformedMessage as error:
            error.inside(fields.names[number])
            raise
        if len(unknown.found) > known:
            unknown.inside(fields.names[number], known)
            known = len(unknown.found)
    return found


@lru_cache(maxsize=4096)
def _fields_of(struct: Struct) -> _Fields:
    setters: dict[tuple[int, int], Setter] = {}
    names: dict[int, str] = {}
    for field in struct.fields:
        if field.number and not field.embedded:
            names[field.number] = field.name
            setters.update(((field.number, wire_type), setter) for wire_type, setter in _setters(field))
    for number in {field.embedded for field in struct.fields if field.embedded}:
        inside = tuple(field for field in struct.fields if field.embedded == number)
        names[number] = f"the message that holds {inside[0].name}"
        setters[number, LEN] = _embedded_setter(Struct("", *map(_without_embedding, inside)))
    return _Fields(setters, names)


def _embedded_setter(inner: Struct) -> Setter:
    """Sets the fields of a message that JSON has inline in the object around it."""

    def set_inline(into: Object, raw: bytes, unknown: UnknownFieldNumbers) -> None:
        read_message(inner, raw, unknown, into)

    return set_inline


def _without_embedding(field: Field) -> Field:
    inside = field.embedded_inside
    return Field(field.name, field.type, field.number, pointer=field.pointer, embedded=inside)


def _setters(field: Field) -> Iterator[tuple[int, Setter]]:
    """A setter for each wire type that the field may have."""
    type_ = field.type
    if not isinstance(type_, ListOf):
        yield _wire_type(type_), _setter(field)
        return
    append = _append_setter(field.name, type_.item)
    yield _wire_type(type_.item), append
    if type_.item in VARINT_TYPES:
        yield LEN, _packed_setter(append)


def _wire_type(type_: Type) -> int:
    if type_ is DOUBLE:
        return I64
    return VARINT if type_ in VARINT_TYPES else LEN


def _packed_setter(append: Setter) -> Setter:
    """Sets a list of numbers, which may be packed into one length-delimited field."""

    def set_all(into: Object, raw: bytes, unknown: UnknownFieldNumbers) -> None:
        at = 0
        while at < len(raw):
            value, at = read_varint(raw, at)
            append(into, value, unknown)

    return set_all


def _setter(field: Field) -> Setter:
    name, type_ = field.name, field.type
    if isinstance(type_, MapOf):
        return _entry_setter(name, type_.value)
    if isinstance(type_, Struct):
        struct = type_

        def merge(into: Object, raw: bytes, unknown: UnknownFieldNumbers) -> None:
            into[name] = read_message(struct, raw, unknown, into.get(name))

        return merge
    if isinstance(type_, JsonValue):
        return _json_setter(name, _reader(type_))
    assert isinstance(type_, Scalar)
    read, keep_zero = READERS[type_], field.pointer or type_ is ANY_JSON

    def set_scalar(into: Object, raw: Any, unknown: UnknownFieldNumbers) -> None:
        value = read(raw)
        if value or (keep_zero and value is not None):
            into[name] = value
        else:
            into.pop(name, None)

    return set_scalar


def _json_setter(name: str, read: Read) -> Setter:
    """Sets a value that may be any JSON except null."""

    def set_json(into: Object, raw: Any, unknown: UnknownFieldNumbers) -> None:
        value = read(raw, unknown)
        if value is None:
            into.pop(name, None)
        else:
            into[name] = value

    return set_json


def _append_setter(name: str, type_: Type) -> Setter:
    read = _reader(type_)

    def append(into: Object, raw: Any, unknown: UnknownFieldNumbers) -> None:
        entries, known = into.setdefault(name, []), len(unknown.found)
        entries.append(read(raw, unknown))
        if len(unknown.found) > known:
            unknown.inside(len(entries) - 1, known)

    return append


def _entry_setter(name: str, type_: Type) -> Setter:
    """Sets an entry of a map, which is a repeated message of key and value."""
    read = _list_reader(type_.item) if isinstance(type_, ListOf) else _reader(type_)
    expected = LEN if isinstance(type_, ListOf) else _wire_type(type_)

    def set_entry(into: Object, raw: bytes, unknown: UnknownFieldNumbers) -> None:
        key = ""
        value: Any = b"" if expected == LEN else 0
        for number, wire_type, part in read_fields(raw):
            if number == 1 and wire_type == LEN:
                key = text_of(part)
            elif number == 2 and wire_type == expected:
                value = part
        into.setdefault(name, {})[key] = read(value, unknown)

    return set_entry


def _reader(type_: Type) -> Read:
    if isinstance(type_, Struct):
        return lambda raw, unknown: read_message(type_, raw, unknown)
    if isinstance(type_, StructOr):
        return _struct_or_reader(type_)
    if isinstance(type_, JsonValue):
        return lambda raw, _: raw_json(raw)
    if isinstance(type_, Scalar):
        read = READERS[type_]
        return lambda raw, _: read(raw)
    raise AssertionError(f"nothing declared has {type_!r} here")


def _struct_or_reader(type_: StructOr) -> Read:
    """Reads a message with either of two fields."""
    number, other_number = type_.numbers
    wrapper = Struct(
        "",
        Field("struct", type_.struct, number, pointer=True),
        Field("other", type_.other, other_number, pointer=True),
    )

    def read(raw: bytes, unknown: UnknownFieldNumbers) -> Any:
        found = read_message(wrapper, raw, unknown)
        return found["struct"] if "struct" in found else found.get("other")

    return read


def _list_reader(type_: Type) -> Read:
    """Reads a list inside a map, which is wrapped in a message."""
    wrapper = Struct("", Field("items", ListOf(type_), 1))
    return lambda raw, unknown: read_message(wrapper, raw, unknown).get("items", [])


def text_of(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise MalformedMessage("is not UTF-8 text") from None


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


def _duration(raw: bytes) -> str:
    nanos = 0
    for number, wire_type, value in read_fields(raw):
        if number == 1 and wire_type == VARINT:
            nanos = _signed(value)
    return f"{nanos / 1e9:g}s"


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
    DURATION: _duration,
    INT_OR_STRING: _int_or_string,
    FIELDS_V1: raw_json,
    ANY_JSON: raw_json,
}
