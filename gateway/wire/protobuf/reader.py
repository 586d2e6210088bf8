"""From a message to the object that JSON would have said, for the schema to judge.

A message says more than a document: every plain field, also one that holds nothing. Zero values of fields that
cannot tell zero from absent are therefore left out, and nothing here fills or refuses anything that the schema
would. Numbers that no field has are passed over and reported. Of a field that comes twice the second counts, and
messages are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from actors.kinds.schema.fields import ANY_JSON, Field, ListOf, MapOf, Scalar, Struct, Type
from actors.kinds.schema.problems import MOST_PROBLEMS, Problems
from actors.messages import Object
from gateway.wire.protobuf.leaves import READERS, WHOLE, text_of
from gateway.wire.protobuf.pieces import BLOCK, VARINT
from gateway.wire.protobuf.walk import NotAMessage, read_varint, walk

Path = list[str | int]  # names and indices from the inside out


class UnknownNumbers:
    """Field numbers that the message around them does not declare: the first by place, the others counted."""

    __slots__ = ("count", "found")

    def __init__(self) -> None:
        self.found: list[tuple[int, Path]] = []
        self.count = 0

    def add(self, number: int) -> None:
        self.count += 1
        if len(self.found) <= MOST_PROBLEMS:
            self.found.append((number, []))

    def inside(self, place: str | int, since: int) -> None:
        """Those that were found from number `since` on are inside a field or an entry of a list."""
        for _, path in self.found[since:]:
            path.append(place)

    def problems(self) -> tuple[str, ...]:
        if not self.found:
            return ()
        problems = Problems(map(_unknown_number, self.found))
        problems.leave_out(self.count - len(self.found))
        return problems.texts()


def _unknown_number(one: tuple[int, Path]) -> str:
    number, path = one
    place = ""
    for part in reversed(path):
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
    return f'unknown field number {number} in "{place}"' if place else f"unknown field number {number}"


Take = Callable[[Object, Any, UnknownNumbers], None]  # adds what was read to the object
Read = Callable[[Any, UnknownNumbers], Any]


@dataclass(frozen=True, slots=True)
class _Fields:
    """What to do with the fields of a message, and what they are called, by number."""

    takers: Mapping[tuple[int, int], Take]  # by wire type too
    names: Mapping[int, str]


def read_message(struct: Struct, raw: bytes, unknown: UnknownNumbers, into: Object | None = None) -> Object:
    found: Object = {} if into is None else into
    known = len(unknown.found)
    fields = _fields_of(struct)
    for number, wire, value in walk(raw):
        take = fields.takers.get((number, wire))
        if take is None and number not in fields.names:
            unknown.add(number)
            known = len(unknown.found)
            continue
        try:
            if take is None:
                raise NotAMessage(f"field number {number} cannot have wire type {wire}")
            take(found, value, unknown)
        except NotAMessage as error:
            error.inside(fields.names[number])
            raise
        if len(unknown.found) > known:
            unknown.inside(fields.names[number], known)
            known = len(unknown.found)
    return found


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

    def join(into: Object, raw: bytes, unknown: UnknownNumbers) -> None:
        read_message(inner, raw, unknown, into)

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
    if type_.item in WHOLE:
        yield BLOCK, _packed(one)


def _wire(type_: Type) -> int:
    return VARINT if type_ in WHOLE else BLOCK


def _packed(one: Take) -> Take:
    """Numbers of a list may come together in a block."""

    def take(into: Object, raw: bytes, unknown: UnknownNumbers) -> None:
        at = 0
        while at < len(raw):
            value, at = read_varint(raw, at)
            one(into, value, unknown)

    return take


def _taker(field: Field) -> Take:
    name, type_ = field.name, field.type
    if isinstance(type_, MapOf):
        return _pair_taker(name, type_.value)
    if isinstance(type_, Struct):
        struct = type_

        def join(into: Object, raw: bytes, unknown: UnknownNumbers) -> None:
            into[name] = read_message(struct, raw, unknown, into.get(name))

        return join
    assert isinstance(type_, Scalar)
    read, keep_zero = READERS[type_], field.pointer or type_ is ANY_JSON

    def take(into: Object, raw: Any, unknown: UnknownNumbers) -> None:
        value = read(raw)
        if value or (keep_zero and value is not None):
            into[name] = value
        else:
            into.pop(name, None)

    return take


def _list_taker(name: str, type_: Type) -> Take:
    read = _reader(type_)

    def take(into: Object, raw: Any, unknown: UnknownNumbers) -> None:
        entries, known = into.setdefault(name, []), len(unknown.found)
        entries.append(read(raw, unknown))
        if len(unknown.found) > known:
            unknown.inside(len(entries) - 1, known)

    return take


def _pair_taker(name: str, type_: Type) -> Take:
    read = _items(type_.item) if isinstance(type_, ListOf) else _reader(type_)
    wire = BLOCK if isinstance(type_, ListOf) else _wire(type_)

    def take(into: Object, raw: bytes, unknown: UnknownNumbers) -> None:
        key = ""
        value: Any = b"" if wire == BLOCK else 0
        for number, found, part in walk(raw):
            if number == 1 and found == BLOCK:
                key = text_of(part)
            elif number == 2 and found == wire:
                value = part
        into.setdefault(name, {})[key] = read(value, unknown)

    return take


def _reader(type_: Type) -> Read:
    if isinstance(type_, Struct):
        return lambda raw, unknown: read_message(type_, raw, unknown)
    if isinstance(type_, Scalar):
        read = READERS[type_]
        return lambda raw, _: read(raw)
    raise AssertionError(f"nothing declared has {type_!r} here")


def _items(type_: Type) -> Read:
    """A list that stands in a message of its own."""
    holder = Struct("", Field("items", ListOf(type_), 1))
    return lambda raw, unknown: read_message(holder, raw, unknown).get("items", [])
