"""Decodes scalar values of a document into those of an object, or says why they are invalid."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from math import inf, isfinite
from pathlib import Path
from typing import Any, Final

from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    BYTE,
    BYTES,
    DOUBLE,
    DURATION,
    FIELDS_V1,
    INT32,
    INT64,
    INT_OR_STRING,
    INTEGER_RANGES,
    MICRO_TIME,
    QUANTITY,
    STRING,
    TIME,
    JsonValue,
    ListOf,
    MapOf,
    Scalar,
    Struct,
    Type,
)
from rewound.actors.kinds.schema.json_tree import Number, as_go_reads, plain
from rewound.actors.kinds.schema.projection import struct_inside
from rewound.actors.kinds.values.times import canonical_micros, canonical_seconds, duration_error
from rewound.actors.quantity import NOT_IN_FORMAT, NotAQuantity, canonical_quantity
from rewound.actors.versions.features import EMBEDDED_NAMES

_LONGEST_NUMBER: Final = 40
LONGEST_DOUBLE: Final = 1000  # characters
MAX_WHOLE: Final = 10**21  # larger numbers are written with an exponent
_GO_KINDS: Final = {"string": "string", "bool": "bool", "array": "slice", "object": "map"}
_NOT_BASE64: Final = re.compile(r"[^A-Za-z0-9+/\r\n]")
_NOT_BREAK: Final = re.compile(r"[^\r\n]")


class WrongType(ValueError):
    """A value of the wrong type. The path grows from the inside out as the decoder unwinds."""

    def __init__(self, found: str, type_: Type) -> None:
        self._found, self._type = found, type_
        self._struct: Struct | None = None
        self._where: list[tuple[str, str]] = []  # the name of each struct, and the field
        self._inner = 0  # how many fields at its end are in a value that was decoded as a document of its own

    def inside(self, struct: Struct, field: str) -> None:
        self._struct = self._struct or struct
        self._where.insert(0, (struct.name, field))

    def leave_document(self) -> None:
        """The fields until here are in a value that its type decoded as a document of its own."""
        self._inner = len(self._where)

    def __str__(self) -> str:
        return self.text("v1", frozenset())

    def text(self, api_version: str, features: frozenset[str]) -> str:
        """Return the message of a server with these features about an object of this apiVersion."""
        target = "Go value"
        if self._struct is not None:
            embeds = _embedding if EMBEDDED_NAMES in features else lambda struct, field: ()
            where = (
                self._where if EMBEDDED_NAMES in features else self._where[: len(self._where) - self._inner]
            )
            steps = [name for struct, field in where for name in (*embeds(struct, field), field)]
            target = f"Go struct field {self._struct.name}.{'.'.join(steps)}"
        return f"json: cannot unmarshal {self._found} into {target} of type {self._go_type(api_version)}"

    def _go_type(self, api_version: str) -> str:
        """Return the type of the value that was expected, in the package of its version; fields may name theirs."""
        struct = self._struct
        named = "" if struct is None else _named_types().get(f"{struct.of}.{self._where[-1][1]}", "")
        inner = named.rpartition("]")[2]
        if named and isinstance(self._type, (ListOf, MapOf)):
            found = inner if isinstance(self._type, ListOf) and named.startswith("map") else named
        else:
            found = inner if named and self._type is STRING and inner != _EXTRA else self._type.go_type
        group, _, version = api_version.rpartition("/")
        owner = struct_inside(self._type) or struct
        is_own = owner is not None and owner.of.partition(".")[0] == group.partition(".")[0]
        return found if not is_own or inner in _ALIASES else found.replace("v1.", f"{version}.")

    def restoring(self) -> str:
        """Return the message of Kubernetes for a strategic merge patch, whose result it does not encode as JSON
        again.
        """
        type_, (word, _, text) = self._type, self._found.partition(" ")
        kind = ("float64" if text else "int64") if word == "number" else _GO_KINDS[word]
        if isinstance(type_, Struct):
            return f"cannot restore struct from: {kind}"
        if isinstance(type_, MapOf):
            return f"cannot restore map from {kind}"
        if isinstance(type_, ListOf) or type_ is BYTES:
            return f"cannot restore slice from {kind}"
        if type_ not in (STRING, BOOL, INT32, INT64, DOUBLE):
            return str(self)
        is_convertible = kind == "int64" if type_ is STRING else kind == "float64" and type_ is not BOOL
        return (
            f"cannot convert {kind} to {type_.go_type}"
            if is_convertible
            else f"unrecognized type: {type_.go_type}"
        )


_EXTRA: Final = "v1.ExtraValue"  # a list of strings
_ALIASES: Final = ("v1.OperationType", "v1.ScopeType", _EXTRA)  # of all versions of their groups
# Structs that have the fields of another one embedded, by name, and their own fields.
_EMBEDDING: Final = {
    "ConfigMapEnvSource": ("LocalObjectReference", "optional"),
    "ConfigMapKeySelector": ("LocalObjectReference", "key optional"),
    "ConfigMapProjection": ("LocalObjectReference", "items optional"),
    "ConfigMapVolumeSource": ("LocalObjectReference", "items defaultMode optional"),
    "DeviceAllocationConfiguration": ("DeviceConfiguration", "source requests"),
    "DeviceClaimConfiguration": ("DeviceConfiguration", "requests"),
    "DeviceClassConfiguration": ("DeviceConfiguration", ""),
    "EphemeralContainer": ("EphemeralContainerCommon", "targetContainerName"),
    "IngressRule": ("IngressRuleValue", "host"),
    "NamedRuleWithOperations": ("RuleWithOperations", "resourceNames"),
    "PersistentVolumeSpec": (
        "PersistentVolumeSource",
        "accessModes capacity claimRef mountOptions nodeAffinity persistentVolumeReclaimPolicy storageClassName "
        "volumeAttributesClassName volumeMode",
    ),
    "Probe": (
        "ProbeHandler",
        "failureThreshold initialDelaySeconds periodSeconds successThreshold terminationGracePeriodSeconds "
        "timeoutSeconds",
    ),
    "RuleWithOperations": ("Rule", "operations"),
    "SecretEnvSource": ("LocalObjectReference", "optional"),
    "SecretKeySelector": ("LocalObjectReference", "key optional"),
    "SecretProjection": ("LocalObjectReference", "items optional"),
    "Volume": ("VolumeSource", "name"),
}


def _embedding(struct: str, field: str) -> Iterator[str]:
    """Yield the names of the structs, from the outside in, that a field of a struct is embedded with."""
    while struct in _EMBEDDING:
        struct, own = _EMBEDDING[struct]
        if field in own.split():
            return
        yield struct


@cache
def _named_types() -> dict[str, str]:
    """Return the types of fields that have a name in Go, by struct and field; read for the first error."""
    lines = Path(__file__).with_name("named_types.txt").read_text().splitlines()
    return {field: name for name, *fields in map(str.split, lines[1:]) for field in fields}


def read_scalar(type_: Scalar, value: Any) -> Any:
    """Return the canonical value, or None for the zero time. Raises ValueError if it is invalid."""
    if isinstance(type_, JsonValue):
        return as_go_reads(plain(value))
    return _READERS[type_](type_, value)


def json_type_of(value: Any) -> str:
    """Return the JSON type of a value, as errors name it."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (Number, int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if type(value) is list else "object"


def _string(type_: Scalar, value: Any) -> str:
    if type(value) is not str:
        raise WrongType(json_type_of(value), type_)
    return value


def _bool(type_: Scalar, value: Any) -> bool:
    if type(value) is not bool:
        raise WrongType(json_type_of(value), type_)
    return value


def _integer(type_: Scalar, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (Number, int, float)):
        raise WrongType(json_type_of(value), type_)
    whole = _whole(value)
    low, high = INTEGER_RANGES[type_]
    if whole is None or not low <= whole <= high:
        raise WrongType(f"number {value!s:.{_LONGEST_NUMBER}}", type_)
    return whole


def _whole(value: Number | int | float) -> int | None:
    if isinstance(value, Number):
        return value.whole()
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value


def _double(type_: Scalar, value: Any) -> int | float:
    """Decode a float; one without a fraction becomes an integer, as Go writes it."""
    if isinstance(value, bool) or not isinstance(value, (Number, int, float)):
        raise WrongType(json_type_of(value), type_)
    number = float(value) if len(str(value)) < LONGEST_DOUBLE else inf
    if not isfinite(number):
        raise WrongType(f"number {value!s:.{_LONGEST_NUMBER}}", type_)
    return int(number) if number.is_integer() and abs(number) < MAX_WHOLE else number


def _bytes(type_: Scalar, value: Any) -> str:
    """Decode base64 into canonical base64; line breaks are ignored. A list has the numbers of the bytes."""
    if type(value) is list:
        return base64.b64encode(bytes(_integer(BYTE, one or 0) for one in value)).decode()
    sent = _string(type_, value)
    text = sent.replace("\r", "").replace("\n", "")
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode()
    except (binascii.Error, ValueError):
        raise ValueError(f"illegal base64 data at input byte {_first_illegal(sent)}") from None


def _first_illegal(text: str) -> int:
    """Return the offset that Go's decoder reports: it reads groups of four characters, and counts an incomplete one
    from its start.
    """
    found = _NOT_BASE64.search(text)
    if found is None:
        return len(text) - _letters_in(text) % 4
    at = found.start()
    letters = _letters_in(text[:at]) % 4
    if text[at] != "=" or letters < 2:
        return at
    return _after_padding(text, at + 1, wants_another=letters == 2)


def _letters_in(text: str) -> int:
    return len(text) - text.count("\r") - text.count("\n")


def _after_padding(text: str, start: int, *, wants_another: bool) -> int:
    rest = [found.start() for found in islice(_NOT_BREAK.finditer(text, start), 2)]
    if wants_another and rest and text[rest[0]] != "=":
        return rest[0] - 1
    rest = rest[1:] if wants_another else rest
    return rest[0] if rest else len(text)


def _time(type_: Scalar, value: Any) -> str | None:
    return canonical_seconds(_string(type_, value))


def _micro_time(type_: Scalar, value: Any) -> str | None:
    return canonical_micros(_string(type_, value))


def _quantity(_: Scalar, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise NotAQuantity(NOT_IN_FORMAT)
    return canonical_quantity(str(value))


def _duration(type_: Scalar, value: Any) -> str:
    text = _string(STRING, value)
    if wrong := duration_error(text):
        raise ValueError(wrong)
    return text


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
    DOUBLE: _double,
    TIME: _time,
    MICRO_TIME: _micro_time,
    QUANTITY: _quantity,
    DURATION: _duration,
    INT_OR_STRING: _int_or_string,
    FIELDS_V1: _as_sent,
    ANY_JSON: _as_sent,
}
