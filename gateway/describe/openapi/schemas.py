"""From declared types to the schemas that describe them, in the words of either edition.

A document asks for a reference to a struct and gets one; `written` then gives the definitions of all that were
referred to, and of what those refer to in turn. So a document holds what it needs and nothing else. Definitions are
encoded once for all documents that share what is `known`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    BYTES,
    FIELDS_V1,
    INT32,
    INT64,
    INT_OR_STRING,
    MICRO_TIME,
    QUANTITY,
    STRING,
    TIME,
    Field,
    ListOf,
    MapOf,
    Scalar,
    Struct,
    Type,
    new_default,
)
from actors.names import Names
from gateway.describe.openapi.kinds import Kinds
from gateway.describe.openapi.texts import Texts
from gateway.describe.openapi.titles import SCALARS, Titles

T = TypeVar("T")
Document = dict[str, Any]
Defined = dict[str, Struct | Scalar]  # by title
Known = dict[Struct | Scalar, tuple[T, Defined]]  # an encoded definition, and what it refers to


@dataclass(frozen=True, slots=True)
class Edition:
    """Where the two ways of writing a schema differ."""

    references: str
    mixes: bool  # whether anything may stand beside a reference
    either: Mapping[Scalar, Document]  # leaves that more than one JSON type stands for


TWO: Final = Edition(
    "#/definitions/",
    True,
    {INT_OR_STRING: {"type": "string", "format": "int-or-string"}, QUANTITY: {"type": "string"}},
)
THREE: Final = Edition(
    "#/components/schemas/",
    False,
    {
        INT_OR_STRING: {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
        QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}]},
    },
)

_LEAVES: Final[Mapping[Scalar, Document]] = {
    STRING: {"type": "string"},
    BOOL: {"type": "boolean"},
    INT32: {"type": "integer", "format": "int32"},
    INT64: {"type": "integer", "format": "int64"},
    BYTES: {"type": "string", "format": "byte"},
}
_DEFINED: Final[Mapping[Scalar, Document]] = {
    TIME: {"type": "string", "format": "date-time"},
    MICRO_TIME: {"type": "string", "format": "date-time"},
    FIELDS_V1: {"type": "object"},
    ANY_JSON: {"type": "object"},
}
_SAID: Final[Mapping[Scalar, str]] = {
    TIME: "A moment to the second, as RFC 3339 writes it.",
    MICRO_TIME: "A moment to the microsecond, as RFC 3339 writes it.",
    FIELDS_V1: "A set of fields as a tree: keys are fields (f:), list items (k: and v:), or the value itself (.).",
    ANY_JSON: "Any JSON object; it is kept as it was sent.",
    QUANTITY: "An amount with an optional suffix: 100m, 1.5, 2Gi, 3e6.",
    INT_OR_STRING: "A number, or a name or percentage in its place.",
}


class Schemas(Generic[T]):
    """The definitions of one document. `encode` gets a title and its definition."""

    def __init__(
        self,
        names: Names,
        edition: Edition,
        kinds: Kinds,
        titles: Titles,
        texts: Texts,
        encode: Callable[[str, Document], T],
        known: Known[T],
    ) -> None:
        self._prefix = names.extension_prefix
        self._edition = edition
        self._kinds = kinds
        self._titles = titles
        self._texts = texts
        self._encode = encode
        self._known = known
        self._found: Defined = {}

    def refer(self, struct: Struct) -> Document:
        return self._refer(self._titles.struct(struct), self._kinds.struct(struct))

    def written(self) -> Iterator[tuple[str, T]]:
        """Every definition that is needed, by title; to be read once all references are made."""
        done: set[str] = set()
        while waiting := [title for title in self._found if title not in done]:
            for title in waiting:
                done.add(title)
                yield title, self._encoded(title, self._found[title])

    def _encoded(self, title: str, type_: Struct | Scalar) -> T:
        if type_ not in self._known:
            before, self._found = self._found, {}
            encoded = self._encode(title, self._defined(type_))
            self._known[type_] = encoded, self._found
            self._found = before
        encoded, references = self._known[type_]
        for referred, referred_type in references.items():
            self._found.setdefault(referred, referred_type)
        return encoded

    def _refer(self, title: str, type_: Struct | Scalar) -> Document:
        self._found.setdefault(title, type_)
        return {"$ref": self._edition.references + title}

    def _defined(self, type_: Struct | Scalar) -> Document:
        if isinstance(type_, Struct):
            return self._struct(type_)
        return {"description": _SAID[type_], **(self._edition.either.get(type_) or _DEFINED[type_])}

    def _struct(self, struct: Struct) -> Document:
        written: Document = {"type": "object"}
        text = self._texts.of_type(struct)
        if text:
            written["description"] = text
        fields = (*self._kinds.type_fields(struct), *struct.fields)
        if fields:
            written["properties"] = {field.name: self._field(struct, field) for field in fields}
        if needed := [field.name for field in fields if field.required]:
            written["required"] = needed
        if struct.atomic:
            written[self._prefix + "map-type"] = "atomic"
        if served := self._kinds.served_as(struct):
            written[self._prefix + "group-version-kind"] = served
        if struct.union:
            written[self._prefix + "unions"] = [_union(struct)]
        return written

    def _field(self, struct: Struct, field: Field) -> Document:
        schema = self._type(field.type)
        beside = {**self._words(struct, field), **self._markers(field)}
        if "$ref" in schema and beside and not self._edition.mixes:
            schema = {"allOf": [schema]}
        return {**beside, **schema}

    def _words(self, struct: Struct, field: Field) -> Document:
        said: Document = {}
        default = new_default(field.default)
        text = [self._texts.of_field(struct, field)]
        if field.enum:
            said["enum"] = list(field.enum)
            text.append(f"One of: {', '.join(field.enum)}.")
        if default is not None:
            said["default"] = default
            text.append(f"Defaults to {_spoken(default)}.")
        if described := " ".join(part for part in text if part):
            said["description"] = described
        return said

    def _markers(self, field: Field) -> Document:
        marks = {
            "list-type": field.list_type,
            "list-map-keys": list(field.list_keys),
            "map-type": field.map_type,
            "patch-strategy": field.patch,
            "patch-merge-key": field.merge_key,
        }
        return {self._prefix + name: value for name, value in marks.items() if value}

    def _type(self, type_: Type) -> Document:
        if isinstance(type_, Struct):
            return self.refer(type_)
        if isinstance(type_, ListOf):
            return {"type": "array", "items": self._type(type_.item)}
        if isinstance(type_, MapOf):
            return {"type": "object", "additionalProperties": self._type(type_.value)}
        if type_ in SCALARS:
            return self._refer(self._titles.scalar(type_), type_)
        return dict(_LEAVES[type_])


def _union(struct: Struct) -> Document:
    members = (field.name for field in struct.fields if field.name != struct.union)
    told = {name: name[:1].upper() + name[1:] for name in members}
    return {"discriminator": struct.union, "fields-to-discriminateBy": told}


def _spoken(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if default in ("", {}, []):
        return "empty"
    return ", ".join(default) if isinstance(default, list) else str(default)
