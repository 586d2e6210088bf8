"""Writes the entries of an OpenAPI 2.0 document in protobuf, the only media type that kubectl asks for.

The messages are those of `openapi.v2.Document`: the tables below list JSON keys with their field numbers. A map is a
repeated message of key and value; values of any type are YAML text, and JSON is YAML. Only the keys that our documents
use are here; any other key raises KeyError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from gateway.describe.openapi.version_2 import Encoded, Entry
from gateway.wire.protobuf.wire_format import I64, VARINT, delimited, string, tag, varint

Writer = Callable[[int, Any], bytes]  # a field's number and value -> its bytes


def _flag(number: int, value: bool) -> bytes:
    return tag(number, VARINT) + varint(value)


def _any(number: int, value: Any) -> bytes:
    return delimited(number, string(2, orjson.dumps(value).decode()))


def _each(writer: Writer) -> Writer:
    return lambda number, values: b"".join(writer(number, value) for value in values)


def _wrapped(writer: Writer) -> Writer:
    """The value as field 1 of a message."""
    return lambda number, value: delimited(number, writer(1, value))


def _pair(writer: Writer) -> Writer:
    return lambda number, pair: delimited(number, string(1, pair[0]) + writer(2, pair[1]))


def _map(writer: Writer) -> Writer:
    pair = _pair(writer)
    return lambda number, value: delimited(number, b"".join(pair(1, item) for item in value.items()))


class _Message:
    """`extensions` is the field number of the keys that begin with x-."""

    def __init__(self, extensions: int = 0) -> None:
        self.fields: Mapping[str, tuple[int, Writer]] = {}
        self._extensions = extensions

    def __call__(self, number: int, value: Mapping[str, Any]) -> bytes:
        return delimited(number, b"".join(self._field(name, one) for name, one in value.items()))

    def _field(self, name: str, value: Any) -> bytes:
        if name.startswith("x-"):
            return _pair(_any)(self._extensions, (name, value))
        number, writer = self.fields[name]
        return writer(number, value)


def _message(extensions: int = 0, **fields: tuple[int, Writer]) -> _Message:
    made = _Message(extensions)
    made.fields = fields
    return made


def _number(number: int, value: int) -> bytes:
    return tag(number, VARINT) + varint(value)


def _double(number: int, value: float) -> bytes:
    return tag(number, I64) + struct.pack("<d", value)


_SCHEMA: Final = _Message(extensions=31)


def _additional(number: int, value: Any) -> bytes:
    return delimited(number, _flag(2, value) if isinstance(value, bool) else _SCHEMA(1, value))


_SCHEMA.fields = {
    "$ref": (1, string),
    "format": (2, string),
    "title": (3, string),
    "description": (4, string),
    "default": (5, _any),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _flag),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _flag),
    "maxLength": (11, _number),
    "minLength": (12, _number),
    "pattern": (13, string),
    "maxItems": (14, _number),
    "minItems": (15, _number),
    "uniqueItems": (16, _flag),
    "maxProperties": (17, _number),
    "minProperties": (18, _number),
    "required": (19, _each(string)),
    "enum": (20, _each(_any)),
    "additionalProperties": (21, _additional),
    "type": (22, _wrapped(string)),
    "items": (23, _wrapped(_SCHEMA)),
    "properties": (25, _map(_SCHEMA)),
}
_BODY: Final = _Message()
_BODY.fields = {"name": (2, string), "in": (3, string), "required": (4, _flag), "schema": (5, _SCHEMA)}
_QUERY: Final = _Message()
_QUERY.fields = {"in": (2, string), "description": (3, string), "name": (4, string), "type": (6, string)}
_PATH: Final = _Message()
_PATH.fields = {
    "required": (1, _flag),
    "in": (2, string),
    "description": (3, string),
    "name": (4, string),
    "type": (5, string),
}


def _parameter(number: int, value: Mapping[str, Any]) -> bytes:
    """Nested messages: ParametersItem, Parameter, then BodyParameter or NonBodyParameter with its location."""
    if value["in"] == "body":
        parameter = _BODY(1, value)
    else:
        parameter = delimited(2, _PATH(4, value) if value["in"] == "path" else _QUERY(3, value))
    return delimited(number, delimited(1, parameter))


_RESPONSE: Final = _message(description=(1, string), schema=(2, _wrapped(_SCHEMA)))
_OPERATION: Final = _message(
    extensions=13,
    tags=(1, _each(string)),
    description=(3, string),
    operationId=(5, string),
    produces=(6, _each(string)),
    consumes=(7, _each(string)),
    parameters=(8, _each(_parameter)),
    responses=(9, _map(_wrapped(_RESPONSE))),
    schemes=(10, _each(string)),
    deprecated=(11, _flag),
)
_PATH_ITEM: Final = _message(
    get=(2, _OPERATION),
    put=(3, _OPERATION),
    post=(4, _OPERATION),
    delete=(5, _OPERATION),
    patch=(8, _OPERATION),
    parameters=(9, _each(_parameter)),
)
_INFO: Final = _message(title=(1, string), version=(2, string))
_KEY: Final = _Message()
_KEY.fields = {"type": (1, string), "name": (2, string), "in": (3, string), "description": (4, string)}


def _strings(number: int, values: list[str]) -> bytes:
    return delimited(number, _each(string)(1, values))


def _api_key(number: int, value: Mapping[str, Any]) -> bytes:
    return delimited(number, _KEY(2, value))


_DOCUMENT: Final[Mapping[str, tuple[int, Writer]]] = {
    "swagger": (1, string),
    "info": (2, _INFO),
    "security": (12, _each(_map(_strings))),
    "securityDefinitions": (13, _map(_api_key)),
}
# Parents of most entries: the field number of the parent in the document, and of an entry in the parent.
_PARENTS: Final[Mapping[str, tuple[int, int, Writer]]] = {
    "paths": (8, 2, _pair(_PATH_ITEM)),
    "definitions": (9, 1, _pair(_SCHEMA)),
}


def protobuf_member(parent: str, name: str, value: Any) -> bytes:
    _, number, writer = _PARENTS[parent]
    return writer(number, (name, value))


def as_protobuf(entries: Iterable[Entry]) -> Iterator[bytes]:
    """A parent is written when it is complete, because its length comes before it."""
    parent, members = "", list[bytes]()
    for path, name, value in entries:
        if path != parent and members:
            yield delimited(_PARENTS[parent][0], b"".join(members))
            members.clear()
        parent = path
        if path:
            members.append(
                value.members if isinstance(value, Encoded) else protobuf_member(path, name, value)
            )
            yield b""  # lets the caller yield to other tasks
        else:
            number, writer = _DOCUMENT[name]
            yield writer(number, value)
