"""Turns declared types into JSON schemas, for OpenAPI 2.0 or 3.0.

The writer of a document calls `refer` for each struct that it uses; `definitions` then returns the definitions of
these structs and of all types that they refer to, so that a document has only the definitions that it needs.
Documents that share a `cache` encode each definition once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from rewound.actors.kinds.declaration.meta import METADATA
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
    CustomStruct,
    Field,
    JsonValue,
    ListOf,
    MapOf,
    Scalar,
    Struct,
    Type,
    new_default,
)
from rewound.actors.kinds.structural.openapi import published
from rewound.actors.names import Names
from rewound.gateway.describe.openapi.kinds import Kinds
from rewound.gateway.describe.openapi.naming import SCALARS, Naming
from rewound.gateway.describe.openapi.texts import Texts

T = TypeVar("T")
Document = dict[str, Any]
References = dict[str, Struct | Scalar]  # by definition name
DefinitionCache = dict[Struct | Scalar, tuple[T, References]]  # an encoded definition, and what it refers to


@dataclass(frozen=True, slots=True)
class OpenApiVersion:
    """How schemas differ between OpenAPI 2.0 and 3.0."""

    reference_prefix: str
    allows_siblings: bool  # whether a $ref may have sibling keys
    has_defaults: bool
    multi_type_scalars: Mapping[Scalar, Document]  # scalars with more than one JSON type


VERSION_2: Final = OpenApiVersion(
    "#/definitions/",
    True,
    False,
    {INT_OR_STRING: {"type": "string", "format": "int-or-string"}, QUANTITY: {"type": "string"}},
)
VERSION_3: Final = OpenApiVersion(
    "#/components/schemas/",
    False,
    True,
    {
        INT_OR_STRING: {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
        QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}]},
    },
)

_INLINE_SCALARS: Final[Mapping[Scalar, Document]] = {
    STRING: {"type": "string"},
    BOOL: {"type": "boolean"},
    INT32: {"type": "integer", "format": "int32"},
    INT64: {"type": "integer", "format": "int64"},
    BYTES: {"type": "string", "format": "byte"},
    DOUBLE: {"type": "number", "format": "double"},
}
_SCALAR_ZEROS: Final[Mapping[Type, Any]] = {STRING: "", BOOL: False, INT32: 0, INT64: 0, DOUBLE: 0}
# Defaults that do not follow from the declarations: three that are named in Kubernetes' types, and those of fields
# that are structs in Go but absent if not set.
_DECLARED_DEFAULTS: Final[Mapping[tuple[str, str], Any]] = {
    ("apps.v1.ControllerRevision", "data"): {},
    ("core.v1.ContainerPort", "protocol"): "TCP",
    ("core.v1.GRPCAction", "service"): "",
    ("core.v1.ServicePort", "protocol"): "TCP",
    ("meta.v1.ObjectMeta", "creationTimestamp"): {},
}
_DEFINED_SCALARS: Final[Mapping[Scalar, Document]] = {
    TIME: {"type": "string", "format": "date-time"},
    MICRO_TIME: {"type": "string", "format": "date-time"},
    DURATION: {"type": "string"},
    FIELDS_V1: {"type": "object"},
    ANY_JSON: {"type": "object"},
}
_DESCRIPTIONS: Final[Mapping[Scalar, str]] = {
    TIME: "A time in RFC 3339 format, to the second.",
    MICRO_TIME: "A time in RFC 3339 format, to the microsecond.",
    DURATION: "A time span as Go writes it: 300ms, 15s, 1h30m.",
    FIELDS_V1: "A set of fields as a tree: keys are fields (f:), list items (k: and v:), or the value itself (.).",
    ANY_JSON: "Any JSON object; it is stored as it was sent.",
    QUANTITY: "An amount with an optional suffix: 100m, 1.5, 2Gi, 3e6.",
    INT_OR_STRING: "A number, or a string such as a name or a percentage.",
}


class Schemas(Generic[T]):
    """The definitions of one document. `encode` encodes a definition, given its name."""

    def __init__(
        self,
        names: Names,
        version: OpenApiVersion,
        kinds: Kinds,
        naming: Naming,
        texts: Texts,
        encode: Callable[[str, Document], T],
        cache: DefinitionCache[T],
    ) -> None:
        self._prefix = names.extension_prefix
        self._version = version
        self._kinds = kinds
        self._naming = naming
        self._texts = texts
        self._encode = encode
        self._cache = cache
        self._found: References = {}
        self._named: dict[Struct, tuple[str, Struct]] = {}

    def refer(self, struct: Struct) -> Document:
        known = self._named.get(struct)
        if known is None:
            known = self._named[struct] = self._naming.struct(struct), self._kinds.struct(struct)
        return self._refer(*known)

    def definitions(self) -> Iterator[tuple[str, T]]:
        """Every definition that the document needs, by name. Call it after all `refer` calls."""
        done: set[str] = set()
        while pending := [name for name in self._found if name not in done]:
            for name in pending:
                done.add(name)
                encoded, references = self.encoded(name, self._found[name])
                yield name, encoded
                for referred, type_ in references.items():
                    self._found.setdefault(referred, type_)

    def encoded(self, name: str, type_: Struct | Scalar) -> tuple[T, References]:
        """The definition of a type, and what it refers to."""
        if type_ not in self._cache:
            before, self._found = self._found, {}
            encoded = self._encode(name, self._defined(type_))
            self._cache[type_] = encoded, self._found
            self._found = before
        return self._cache[type_]

    @property
    def referred(self) -> References:
        """The types that `refer` was called for."""
        return self._found

    def _refer(self, name: str, type_: Struct | Scalar) -> Document:
        self._found.setdefault(name, type_)
        return {"$ref": self._version.reference_prefix + name}

    def _defined(self, type_: Struct | Scalar) -> Document:
        if isinstance(type_, Struct):
            return self._struct(type_)
        if isinstance(type_, JsonValue):
            text = self._texts.of_type(type_)
            return {"description": text} if text else {}
        return {
            "description": _DESCRIPTIONS[type_],
            **(self._version.multi_type_scalars.get(type_) or _DEFINED_SCALARS[type_]),
        }

    def _struct(self, struct: Struct) -> Document:
        if isinstance(struct, CustomStruct) and struct.make_schema is not None:
            return self._custom(struct, struct.make_schema())
        written: Document = {} if isinstance(struct, CustomStruct) else {"type": "object"}
        text = self._texts.of_type(struct)
        if text:
            written["description"] = text
        fields = (*self._kinds.type_fields(struct), *struct.fields)
        if fields:
            written["properties"] = {field.name: self._field(struct, field) for field in fields}
        if required := [field.name for field in fields if field.required]:
            written["required"] = required
        if struct.atomic:
            written[self._prefix + "map-type"] = "atomic"
        if served := self._kinds.served_as(struct):
            written[self._prefix + "group-version-kind"] = served
        if struct.union:
            written[self._prefix + "unions"] = [_union(struct)]
        return written

    def _custom(self, struct: CustomStruct, schema: Mapping[str, Any]) -> Document:
        """The schema of a custom kind, with the fields that every object has."""
        version_2 = self._version is VERSION_2
        written = published(schema, self.meta(struct), self._prefix, version_2=version_2)
        written[self._prefix + "group-version-kind"] = self._kinds.served_as(struct)
        return written

    def meta(self, struct: CustomStruct) -> Document:
        """The fields that every object of a custom kind has."""
        fields = (*self._kinds.type_fields(struct), METADATA)
        return {field.name: self._field(struct, field) for field in fields}

    def _field(self, struct: Struct, field: Field) -> Document:
        defaults = self._version.has_defaults and not isinstance(struct, CustomStruct)
        if field.bare and not self._version.allows_siblings:
            return self._type(field.type, defaults)
        siblings = {**self._description(struct, field), **self._extensions(field)}
        if defaults:
            siblings |= _default(struct, field)
        return self._with(siblings, self._type(field.type, defaults))

    def _with(self, siblings: Document, schema: Document) -> Document:
        if "$ref" in schema and siblings and not self._version.allows_siblings:
            schema = {"allOf": [schema]}
        return {**siblings, **schema}

    def _description(self, struct: Struct, field: Field) -> Document:
        described: Document = {}
        text = [self._texts.of_field(struct, field)]
        if field.enum:
            described["enum"] = list(field.enum)
            text.append(f"One of: {', '.join(field.enum)}.")
        if (default := new_default(field.default)) is not None:
            text.append(f"Defaults to {_default_text(default)}.")
        if description := " ".join(part for part in text if part):
            described["description"] = description
        return described

    def _extensions(self, field: Field) -> Document:
        extensions = {
            "list-type": field.list_type,
            "list-map-keys": list(field.list_keys),
            "map-type": field.map_type,
            "patch-strategy": field.patch,
            "patch-merge-key": field.merge_key,
        }
        return {self._prefix + name: value for name, value in extensions.items() if value}

    def _element(self, type_: Type, defaults: bool) -> Document:
        """The schema of an element of a list or map, which always has a value."""
        return self._with(_zero(type_) if defaults else {}, self._type(type_, defaults))

    def _type(self, type_: Type, defaults: bool) -> Document:
        if isinstance(type_, Struct):
            return self.refer(type_)
        if isinstance(type_, ListOf):
            return {"type": "array", "items": self._element(type_.item, defaults)}
        if isinstance(type_, MapOf):
            return {"type": "object", "additionalProperties": self._element(type_.value, defaults)}
        if type_ in SCALARS or isinstance(type_, JsonValue):
            return self._refer(self._naming.scalar(type_), type_)
        return dict(_INLINE_SCALARS[type_])


def _default(struct: Struct, field: Field) -> Document:
    """The default as in Kubernetes: what a decoded object has without the field, before the server sets defaults."""
    if (declared := _DECLARED_DEFAULTS.get((struct.of, field.name))) is not None:
        return {"default": declared}
    return _zero(field.type) if field.always_present else {}


def _zero(type_: Type) -> Document:
    """The default of a field that is always there: Go's zero value, and {} for everything that is a struct in Go."""
    if isinstance(type_, (ListOf, MapOf)) or type_ == BYTES:
        return {}
    return {"default": _SCALAR_ZEROS.get(type_, {})}


def _union(struct: Struct) -> Document:
    members = (field.name for field in struct.fields if field.name != struct.union)
    discriminators = {name: name[:1].upper() + name[1:] for name in members}
    return {"discriminator": struct.union, "fields-to-discriminateBy": discriminators}


def _default_text(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if default in ("", {}, []):
        return "empty"
    return ", ".join(default) if isinstance(default, list) else str(default)
