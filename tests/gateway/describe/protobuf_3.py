"""Reads a protobuf document of OpenAPI 3.0 into what the JSON form has, by the messages of openapi.v3.Document.

A message lists its fields as `json key=number:type`; `[type]` is repeated, `{type}` is a list of names with values.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import orjson

from rewound.gateway.wire.protobuf.wire_format import read_fields

_OPERATIONS = " ".join(
    f"{method}={number}:Operation"
    for number, method in enumerate(("get", "put", "post", "delete", "options", "head", "patch"), 4)
)
_MESSAGES = {
    "Document": "openapi=1:text info=2:Info paths=4:{PathItem} components=5:Components security=6:[{Strings}]",
    "Info": "title=1:text version=6:text",
    "Components": "schemas=1:{AnySchema} securitySchemes=7:{AnyScheme}",
    "AnyScheme": "?=1:Scheme",
    "Scheme": "type=1:text description=2:text name=3:text in=4:text scheme=5:text",
    "Strings": "?=1:[text]",
    "PathItem": f"{_OPERATIONS} parameters=13:[AnyParameter]",
    "AnyParameter": "?=1:Parameter",
    "Parameter": "name=1:text in=2:text description=3:text required=4:flag schema=10:AnySchema",
    "Operation": "tags=1:[text] description=3:text operationId=5:text parameters=6:[AnyParameter] "
    "requestBody=7:AnyBody responses=8:Responses deprecated=10:flag +=13:any",
    "AnyBody": "?=1:Body",
    "Body": "content=2:{Media} required=3:flag",
    "Media": "schema=1:AnySchema",
    "Responses": "+=2:AnyResponse",
    "AnyResponse": "?=1:Response",
    "Response": "description=1:text content=3:{Media}",
    "AnySchema": "?=1:Schema ?=2:Reference",
    "Reference": "$ref=1:text",
    "Schema": "nullable=1:flag externalDocs=6:Docs example=7:any title=9:text multipleOf=10:double maximum=11:double "
    "exclusiveMaximum=12:flag minimum=13:double exclusiveMinimum=14:flag maxLength=15:integer minLength=16:integer "
    "pattern=17:text maxItems=18:integer minItems=19:integer uniqueItems=20:flag maxProperties=21:integer "
    "minProperties=22:integer required=23:[text] enum=24:[any] type=25:text allOf=26:[AnySchema] "
    "oneOf=27:[AnySchema] anyOf=28:[AnySchema] not=29:Schema items=30:Items properties=31:{AnySchema} "
    "additionalProperties=32:Additional default=33:Default description=34:text format=35:text +=36:any",
    "Docs": "description=1:text url=2:text",
    "Items": "?=1:AnySchema",
    "Additional": "?=1:AnySchema ?=2:flag",
    "Default": "?=1:double ?=2:flag ?=3:text",
}
_Fields = dict[int, tuple[str, str]]  # key and type by number
_FIELDS: dict[str, _Fields] = {}
for _name, _text in _MESSAGES.items():
    _parts = [part.partition("=") for part in _text.split()]
    _FIELDS[_name] = {int(n): (k, t) for k, (n, _, t) in ((k, rest.partition(":")) for k, _, rest in _parts)}


def read_document(raw: bytes) -> Any:
    return _message(raw, "Document")


def _message(raw: bytes, name: str) -> Any:
    """The value of `?` stands for the message itself; `+` are members with names of their own."""
    found: dict[str, Any] = {}
    for number, _, value in read_fields(raw):
        key, type_ = _FIELDS[name][number]
        if key == "+":
            found |= [_named(value, type_)]
        elif type_.startswith("["):
            found.setdefault(key, []).append(_value(value, type_[1:-1]))
        else:
            found[key] = _value(value, type_)
    return found.get("?", {}) if any(key == "?" for key, _ in _FIELDS[name].values()) else found


def _value(value: Any, type_: str) -> Any:
    if type_.startswith("{"):
        return dict(_named(one, type_[1:-1]) for _, _, one in read_fields(value))
    readers: Mapping[str, Any] = {
        "text": lambda: value.decode(),
        "flag": lambda: bool(value),
        "integer": lambda: value,
        "double": lambda: struct.unpack("<d", value)[0],
        "any": lambda: orjson.loads({number: one for number, _, one in read_fields(value)}[2]),
    }
    return readers[type_]() if type_ in readers else _message(value, type_)


def _named(raw: bytes, type_: str) -> tuple[str, Any]:
    pair = {number: value for number, _, value in read_fields(raw)}
    return pair[1].decode(), _value(pair[2], type_)
