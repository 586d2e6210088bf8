"""From a message to the object that JSON would have said, for the schema to judge.

A message says more than a document: every plain field, also one that holds nothing. Zero values of fields that
cannot tell zero from absent are therefore left out, and nothing here fills or refuses anything that the schema
would. Numbers that no field has are passed over, as protobuf wants it. Of a field that comes twice the second
counts, and messages are joined.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson

from actors.kinds.fields import (
    BOOL,
    BYTES,
    FREE,
    INT32,
    INT64,
    INT_OR_STRING,
    MICRO_TIME,
    OWNED_FIELDS,
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
from actors.kinds.times import micros_text, seconds_text
from actors.messages import Object
from gateway.wire.protobuf.pieces import BLOCK, EIGHT_BYTES, FOUR_BYTES, VARINT

Take = Callable[[Object, Any], None]  # adds what was read to the object

_SKIPPED: Final = {EIGHT_BYTES: 8, FOUR_BYTES: 4}
_MOST_BITS: Final = 63


class NotAMessage(ValueError):
    """The bytes are no message of this type. The place grows from the inside out."""

    def __init__(self, why: str) -> None:
        self._why = why
        self._where: list[str] = []

    def inside(self, name: str) -> None:
        self._where.insert(0, name)

    def __str__(self) -> str:
        return f"{'.'.join(self._where)}: {self._why}" if self._where else self._why


@dataclass(frozen=True, slots=True)
class _Fields:
    """What to do with the fields of a message, and what they are called, by number."""

    takers: Mapping[tuple[int, int], Take]  # by wire type too
    names: Mapping[int, str]


def read_message(struct: Struct, raw: bytes, into: Object | None = None) -> Object:
    found: Object = {} if into is None else into
    fields = _fields_of(struct)
    for number, wire, value in walk(raw):
        take = fields.takers.get((number, wire))
        if take is None and number not in fields.names:
            continue
        try:
            if take is None:
                raise NotAMessage(f"field number {number} cannot have wire type {wire}")
            take(found, value)
        except NotAMessage as error:
            error.inside(fields.names[number])
            raise
    return found


def walk(raw: bytes) -> Iterator[tuple[int, int, Any]]:
    """Field number, wire type and value of everything in a message."""
    at, end = 0, len(raw)
    while at < end:
        key, at = _varint(raw, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = _varint(raw, at)
            yield number, wire, value
            continue
        size = _SKIPPED.get(wire)
        if wire == BLOCK:
            size, at = _varint(raw, at)
        if size is None or not number:
            raise NotAMessage(f"a field numbered {number} of wire type {wire}, which does not exist")
        if size > end - at:
            raise NotAMessage("unexpected EOF: a field is longer than the message that it stands in")
        yield number, wire, raw[at : at + size]
        at += size


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    try:
        while (byte := raw[at]) > 0x7F:
            value |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if shift > _MOST_BITS:
                raise NotAMessage("a number has more than 64 bits")
    except IndexError:
        raise NotAMessage("unexpected EOF: the message ends in the middle of a number") from None
    return (value | byte << shift) & (1 << 64) - 1, at + 1


@lru_cache(maxsize=4096)
def _fields_of(struct: Struct) -> _Fields:
    takers: dict[tuple[int, int], Take] = {}
    names: dict[int, str] = {}
    for field in struct.fields:
        if field.number and not field.embedded:
            names[field.number] = field.name
            takers.update(((field.number, wire), take) for wire, take in _takers(field))
    for number in {field.embedded for field in struct.fields if field.embedded}:
        inside = tuple(field for field in struct.fields if field.embedded == number)
        names[number] = f"the message that holds {inside[0].name}"
        takers[number, BLOCK] = _joiner(Struct("", *map(_bare, inside)))
    return _Fields(takers, names)


def _joiner(inner: Struct) -> Take:
    """Of a nameless message: its fields stand beside the others in JSON."""

    def join(into: Object, raw: bytes) -> None:
        read_message(inner, raw, into)

    return join


def _bare(field: Field) -> Field:
    return Field(field.name, field.type, field.number, pointer=field.pointer)


def _takers(field: Field) -> Iterator[tuple[int, Take]]:
    """By the wire types that a field may have."""
    type_ = field.type
    if not isinstance(type_, ListOf):
        yield _wire(type_), _taker(field)
        return
    one = _list_taker(field.name, type_.item)
    yield _wire(type_.item), one
    if type_.item in _WHOLE:
        yield BLOCK, _packed(one)


def _wire(type_: Type) -> int:
    return VARINT if type_ in _WHOLE else BLOCK


def _packed(one: Take) -> Take:
    """Numbers of a list may come together in a block."""

    def take(into: Object, raw: bytes) -> None:
        at = 0
        while at < len(raw):
            value, at = _varint(raw, at)
            one(into, value)

    return take


def _taker(field: Field) -> Take:
    name, type_ = field.name, field.type
    if isinstance(type_, MapOf):
        return _pair_taker(name, type_.value)
    if isinstance(type_, Struct):
        struct = type_

        def join(into: Object, raw: bytes) -> None:
            into[name] = read_message(struct, raw, into.get(name))

        return join
    assert isinstance(type_, Scalar)
    read, keep_zero = _READERS[type_], field.pointer or type_ is FREE

    def take(into: Object, raw: Any) -> None:
        value = read(raw)
        if value or (keep_zero and value is not None):
            into[name] = value
        else:
            into.pop(name, None)

    return take


def _list_taker(name: str, type_: Type) -> Take:
    read = _reader(type_)

    def take(into: Object, raw: Any) -> None:
        into.setdefault(name, []).append(read(raw))

    return take


def _pair_taker(name: str, type_: Type) -> Take:
    read = _items(type_.item) if isinstance(type_, ListOf) else _reader(type_)
    wire = BLOCK if isinstance(type_, ListOf) else _wire(type_)

    def take(into: Object, raw: bytes) -> None:
        key = ""
        value: Any = b"" if wire == BLOCK else 0
        for number, found, part in walk(raw):
            if number == 1 and found == BLOCK:
                key = _text(part)
            elif number == 2 and found == wire:
                value = part
        into.setdefault(name, {})[key] = read(value)

    return take


def _reader(type_: Type) -> Callable[[Any], Any]:
    if isinstance(type_, Struct):
        return lambda raw: read_message(type_, raw)
    if isinstance(type_, Scalar):
        return _READERS[type_]
    raise AssertionError(f"nothing declared has {type_!r} here")


def _items(type_: Type) -> Callable[[bytes], list[Any]]:
    """A list that stands in a message of its own."""
    holder = Struct("", Field("items", ListOf(type_), 1))
    return lambda raw: read_message(holder, raw).get("items", [])


def _text(raw: bytes) -> str:
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
    return _only(raw, _text, "")


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
            word = _text(value)
    return word if spelled else number


def _raw(raw: bytes) -> Any:
    return _only(raw, _json, None)


def _json(raw: bytes) -> Any:
    try:
        return orjson.loads(raw) if raw else None
    except orjson.JSONDecodeError as error:
        raise NotAMessage(f"must be JSON: {error}") from None


_WHOLE: Final = frozenset((BOOL, INT32, INT64))
_READERS: Final[Mapping[Scalar, Callable[[Any], Any]]] = {
    STRING: _text,
    BOOL: bool,
    INT32: _signed,
    INT64: _signed,
    BYTES: lambda raw: b64encode(raw).decode(),
    TIME: _time,
    MICRO_TIME: _micro_time,
    QUANTITY: _quantity,
    INT_OR_STRING: _int_or_string,
    OWNED_FIELDS: _raw,
    FREE: _raw,
}
