"""The names that every expression may use besides its variables: types, and protobuf's well-known messages."""

from __future__ import annotations

from typing import Final

from actors.cel.types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    TypeParameter,
    list_of,
    map_of,
    type_of,
    wrapper_of,
)

_A: Final = TypeParameter("A")
_STRUCT: Final = map_of(STRING, DYN)

# What constructing a well-known message makes, by the name of the message.
WELL_KNOWN: Final[dict[str, Type]] = {
    "google.protobuf.Any": ANY,
    "google.protobuf.BoolValue": wrapper_of(BOOL),
    "google.protobuf.BytesValue": wrapper_of(BYTES),
    "google.protobuf.DoubleValue": wrapper_of(DOUBLE),
    "google.protobuf.Duration": DURATION,
    "google.protobuf.FloatValue": wrapper_of(DOUBLE),
    "google.protobuf.Int32Value": wrapper_of(INT),
    "google.protobuf.Int64Value": wrapper_of(INT),
    "google.protobuf.ListValue": list_of(DYN),
    "google.protobuf.StringValue": wrapper_of(STRING),
    "google.protobuf.Struct": _STRUCT,
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.UInt32Value": wrapper_of(UINT),
    "google.protobuf.UInt64Value": wrapper_of(UINT),
    "google.protobuf.Value": DYN,
}

# The fields of the messages that an expression can construct.
MESSAGE_FIELDS: Final[dict[str, dict[str, Type]]] = {
    "google.protobuf.Any": {"type_url": STRING, "value": BYTES},
    "google.protobuf.Duration": {"seconds": INT, "nanos": INT},
    "google.protobuf.Empty": {},
    "google.protobuf.ListValue": {"values": list_of(DYN)},
    "google.protobuf.Struct": {"fields": _STRUCT},
    "google.protobuf.Timestamp": {"seconds": INT, "nanos": INT},
    "google.protobuf.Value": {
        "null_value": INT,
        "number_value": DOUBLE,
        "string_value": STRING,
        "bool_value": BOOL,
        "struct_value": _STRUCT,
        "list_value": list_of(DYN),
    },
} | {
    name: {"value": wrapped.parameters[0]}
    for name, wrapped in WELL_KNOWN.items()
    if wrapped.name == "wrapper"
}

# `duration` and `timestamp` alone are no types, but v1.25 declares the names: they compile, and have no value.
IDENTIFIERS: Final[dict[str, Type]] = (
    {type_.name: type_of(type_) for type_ in (INT, UINT, BOOL, DOUBLE, BYTES, STRING)}
    | {
        "list": type_of(list_of(_A)),
        "map": type_of(map_of(_A, TypeParameter("B"))),
        "null_type": type_of(NULL),
        "type": type_of(Type("type")),
        "duration": DURATION,
        "timestamp": TIMESTAMP,
    }
    | {name: type_of(Type(name)) for name in MESSAGE_FIELDS}
)
