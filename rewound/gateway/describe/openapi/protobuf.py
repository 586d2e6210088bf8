"""Writes OpenAPI documents in protobuf, the only media type that Go clients ask for.

The messages are those of `openapi.v2.Document` and `openapi.v3.Document`: the tables below list JSON keys with their
field numbers. A map is a repeated message of key and value; values of any type are YAML text, and JSON is YAML. For
OpenAPI 2.0, `as_protobuf` writes the entries of a document. Only the keys that our documents use are here; any other
key raises KeyError. For OpenAPI 3.0, `document_3` encodes a whole JSON document, whether of our own kinds, of custom
kinds or of another server, so that both forms have one ETag. Keys that the messages do not have are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from rewound.actors.golang.json import unescaped
from rewound.gateway.describe.openapi.versions import Encoded, Entry
from rewound.gateway.wire.protobuf.wire_format import I64, VARINT, delimited, string, tag, varint

Writer = Callable[[int, Any], bytes]  # encodes a field from its number and value


def _flag(number: int, value: bool) -> bytes:
    return tag(number, VARINT) + varint(value)


def _any(number: int, value: Any) -> bytes:
    return delimited(number, string(2, unescaped(value).decode()))


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
    """`extensions` is the field number of the keys that start with x-."""

    def __init__(self, extensions: int = 0) -> None:
        self.fields: Mapping[str, tuple[int, Writer]] = {}
        self._extensions = extensions

    def __call__(self, number: int, value: Mapping[str, Any]) -> bytes:
        return delimited(number, self.content(value))

    def content(self, value: Mapping[str, Any]) -> bytes:
        return b"".join(self._field(name, one) for name, one in value.items())

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
_QUERY.fields = {
    "in": (2, string),
    "description": (3, string),
    "name": (4, string),
    "type": (6, string),
    "uniqueItems": (20, _flag),
}
_PATH: Final = _Message()
_PATH.fields = {
    "required": (1, _flag),
    "in": (2, string),
    "description": (3, string),
    "name": (4, string),
    "type": (5, string),
    "uniqueItems": (19, _flag),
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
)
_PATH_ITEM: Final = _message(
    get=(2, _OPERATION),
    put=(3, _OPERATION),
    post=(4, _OPERATION),
    delete=(5, _OPERATION),
    options=(6, _OPERATION),
    head=(7, _OPERATION),
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
    """Encode entries; a parent is written when it is complete, because its length comes before it."""
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


# OpenAPI 3.0.

_REFERENCE_3: Final = _Message()
_REFERENCE_3.fields = {"$ref": (1, string), "summary": (2, string), "description": (3, string)}


def _or_reference(writer: Writer) -> Writer:
    """Writes the first field of a message, or a reference in the second."""

    def write(number: int, value: Mapping[str, Any]) -> bytes:
        if "$ref" not in value:
            return delimited(number, writer(1, value))
        return delimited(
            number, _REFERENCE_3(2, {key: value[key] for key in _REFERENCE_3.fields if key in value})
        )

    return write


def _default(number: int, value: Any) -> bytes:
    """Writes a default; the message has no field for lists and objects."""
    if isinstance(value, bool):
        return delimited(number, _flag(2, value))
    if isinstance(value, (int, float)):
        return delimited(number, _double(1, value))
    return delimited(number, string(3, value) if isinstance(value, str) else b"")


class _Message3(_Message):
    """A message of OpenAPI 3.0; leaves out keys that it does not have, and null."""

    def _field(self, name: str, value: Any) -> bytes:
        known = name in self.fields or (self._extensions and name.startswith("x-"))
        return super()._field(name, value) if known and value is not None else b""


def _message_3(extensions: int = 0, **fields: tuple[int, Writer]) -> _Message3:
    made = _Message3(extensions)
    made.fields = fields
    return made


_SCHEMA_3: Final = _Message3(extensions=36)
_ANY_SCHEMA_3: Final = _or_reference(_SCHEMA_3)


def _additional_3(number: int, value: Any) -> bytes:
    return delimited(number, _flag(2, value) if isinstance(value, bool) else _ANY_SCHEMA_3(1, value))


_EXTERNAL_DOCS_3: Final = _message_3(3, description=(1, string), url=(2, string))
_SCHEMA_3.fields = {
    "nullable": (1, _flag),
    "discriminator": (2, _message_3(3, propertyName=(1, string), mapping=(2, _map(string)))),
    "readOnly": (3, _flag),
    "writeOnly": (4, _flag),
    "xml": (
        5,
        _message_3(
            6,
            name=(1, string),
            namespace=(2, string),
            prefix=(3, string),
            attribute=(4, _flag),
            wrapped=(5, _flag),
        ),
    ),
    "externalDocs": (6, _EXTERNAL_DOCS_3),
    "example": (7, _any),
    "deprecated": (8, _flag),
    "title": (9, string),
    "multipleOf": (10, _double),
    "maximum": (11, _double),
    "exclusiveMaximum": (12, _flag),
    "minimum": (13, _double),
    "exclusiveMinimum": (14, _flag),
    "maxLength": (15, _number),
    "minLength": (16, _number),
    "pattern": (17, string),
    "maxItems": (18, _number),
    "minItems": (19, _number),
    "uniqueItems": (20, _flag),
    "maxProperties": (21, _number),
    "minProperties": (22, _number),
    "required": (23, _each(string)),
    "enum": (24, _each(_any)),
    "type": (25, string),
    "allOf": (26, _each(_ANY_SCHEMA_3)),
    "oneOf": (27, _each(_ANY_SCHEMA_3)),
    "anyOf": (28, _each(_ANY_SCHEMA_3)),
    "not": (29, _SCHEMA_3),
    "items": (30, _wrapped(_ANY_SCHEMA_3)),
    "properties": (31, _map(_ANY_SCHEMA_3)),
    "additionalProperties": (32, _additional_3),
    "default": (33, _default),
    "description": (34, string),
    "format": (35, string),
}
_EXAMPLE_3: Final = _message_3(
    5, summary=(1, string), description=(2, string), value=(3, _any), externalValue=(4, string)
)
_EXAMPLES_3: Final = _map(_or_reference(_EXAMPLE_3))
_CONTENT_3: Final = _map(
    _message_3(5, schema=(1, _ANY_SCHEMA_3), example=(2, _any), examples=(3, _EXAMPLES_3))
)
_HEADER_3: Final = _message_3(
    12,
    description=(1, string),
    required=(2, _flag),
    deprecated=(3, _flag),
    allowEmptyValue=(4, _flag),
    style=(5, string),
    explode=(6, _flag),
    allowReserved=(7, _flag),
    schema=(8, _ANY_SCHEMA_3),
    example=(9, _any),
    examples=(10, _EXAMPLES_3),
    content=(11, _CONTENT_3),
)
_PARAMETER_3: Final = _Message3(extensions=14)
_PARAMETER_3.fields = {
    "name": (1, string),
    "in": (2, string),
    "description": (3, string),
    "required": (4, _flag),
    "deprecated": (5, _flag),
    "allowEmptyValue": (6, _flag),
    "style": (7, string),
    "explode": (8, _flag),
    "allowReserved": (9, _flag),
    "schema": (10, _ANY_SCHEMA_3),
    "example": (11, _any),
    "examples": (12, _EXAMPLES_3),
    "content": (13, _CONTENT_3),
}
_BODY_3: Final = _message_3(4, description=(1, string), content=(2, _CONTENT_3), required=(3, _flag))
_RESPONSE_3: Final = _or_reference(
    _message_3(
        5, description=(1, string), headers=(2, _map(_or_reference(_HEADER_3))), content=(3, _CONTENT_3)
    )
)


class _Responses(_Message3):
    """Responses by status, and `default`."""

    def _field(self, name: str, value: Any) -> bytes:
        if name.isdecimal() or name.upper().endswith("XX"):
            return _pair(_RESPONSE_3)(2, (name, value))
        return super()._field(name, value)


_RESPONSES_3: Final = _Responses(extensions=3)
_RESPONSES_3.fields = {"default": (1, _RESPONSE_3)}
_SERVERS_3: Final = _each(_message_3(4, url=(1, string), description=(2, string)))
_SECURITY_3: Final = _each(_map(_strings))
_OPERATION_3: Final = _message_3(
    13,
    tags=(1, _each(string)),
    summary=(2, string),
    description=(3, string),
    externalDocs=(4, _EXTERNAL_DOCS_3),
    operationId=(5, string),
    parameters=(6, _each(_or_reference(_PARAMETER_3))),
    requestBody=(7, _or_reference(_BODY_3)),
    responses=(8, _RESPONSES_3),
    deprecated=(10, _flag),
    security=(11, _SECURITY_3),
    servers=(12, _SERVERS_3),
)
_PATH_ITEM_3: Final = _message_3(
    14,
    **{"$ref": (1, string)},
    summary=(2, string),
    description=(3, string),
    get=(4, _OPERATION_3),
    put=(5, _OPERATION_3),
    post=(6, _OPERATION_3),
    delete=(7, _OPERATION_3),
    options=(8, _OPERATION_3),
    head=(9, _OPERATION_3),
    patch=(10, _OPERATION_3),
    trace=(11, _OPERATION_3),
    servers=(12, _SERVERS_3),
    parameters=(13, _each(_or_reference(_PARAMETER_3))),
)
_SECURITY_SCHEME_3: Final = _Message3(extensions=9)
_SECURITY_SCHEME_3.fields = {
    "type": (1, string),
    "description": (2, string),
    "name": (3, string),
    "in": (4, string),
    "scheme": (5, string),
    "bearerFormat": (6, string),
    "openIdConnectUrl": (8, string),
}
_DOCUMENT_3: Final = _message_3(
    9,
    openapi=(1, string),
    info=(
        2,
        _message_3(
            7,
            title=(1, string),
            description=(2, string),
            termsOfService=(3, string),
            contact=(4, _message_3(4, name=(1, string), url=(2, string), email=(3, string))),
            license=(5, _message_3(3, name=(1, string), url=(2, string))),
            version=(6, string),
        ),
    ),
    servers=(3, _SERVERS_3),
    paths=(4, _map(_PATH_ITEM_3)),
    components=(
        5,
        _message_3(
            10,
            schemas=(1, _map(_ANY_SCHEMA_3)),
            responses=(2, _map(_RESPONSE_3)),
            parameters=(3, _map(_or_reference(_PARAMETER_3))),
            examples=(4, _EXAMPLES_3),
            requestBodies=(5, _map(_or_reference(_BODY_3))),
            headers=(6, _map(_or_reference(_HEADER_3))),
            securitySchemes=(7, _map(_or_reference(_SECURITY_SCHEME_3))),
        ),
    ),
    security=(6, _SECURITY_3),
    tags=(
        7,
        _each(_message_3(4, name=(1, string), description=(2, string), externalDocs=(3, _EXTERNAL_DOCS_3))),
    ),
    externalDocs=(8, _EXTERNAL_DOCS_3),
)


def document_3(document: Mapping[str, Any]) -> bytes:
    """A whole OpenAPI 3.0 document."""
    return _DOCUMENT_3.content(document)
