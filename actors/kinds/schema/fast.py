"""The fast decoder: pydantic-core straight from bytes, for documents that are already canonical.

It is compiled from the same declaration as the walk, but strict: anything the walk would drop, round,
reorder or complain about makes it fail, and then the walk decides. So it only ever answers "this is the
result, without problems" or None. Zero values that the wire format drops are kept out with length and range
limits.

pydantic-core keeps the last of two equal keys silently, and is told to pass over unknown ones, which is cheaper
than refusing them; so each result needs a proof that nothing was lost: written out again without whitespace a
document is as short as it can be, and a lost member would have made it longer by four bytes or more (`"":0`).
Documents that are longer for an innocent reason go to the walk. Defaults are put in after the proof.

pydantic-core is imported with the first schema: it takes longer to load than all declarations together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import orjson

from actors.kinds.schema.fields import (
    BOOL,
    BYTES,
    FREE,
    INT32,
    INT64,
    INT_OR_STRING,
    INTEGER_RANGES,
    MICRO_TIME,
    NOTHING,
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
    unsaid,
)
from actors.kinds.schema.filling import filling, needs_saying

CoreSchema = dict[str, Any]

_SHORTEST_MEMBER: Final = 4
_DAY: Final = (
    "(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_CLOCK: Final = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_PATTERNS: Final = {
    TIME: rf"^[1-9][0-9]{{3}}-{_DAY}T{_CLOCK}Z$",
    MICRO_TIME: rf"^[1-9][0-9]{{3}}-{_DAY}T{_CLOCK}\.[0-9]{{6}}Z$",
    BYTES: r"^(?:[A-Za-z0-9+/]{4})*"
    r"(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$",
    # Amounts of up to three digits are canonical whatever their suffix; most are.
    QUANTITY: r"^(?:0|[1-9][0-9]{0,2}(?:[numkMGTP]|[KMGTP]i)?)$",
}


class Fast:
    """What one kind's documents look like when nothing about them needs thought. Once made, for any thread."""

    def __init__(self, struct: Struct, api_version: str, kind: str) -> None:
        from pydantic_core import SchemaValidator, ValidationError

        self._failed = ValidationError
        self._fill = filling(struct)
        self._usual_nulls = [
            (field.name, inner.name)
            for field in struct.fields
            if isinstance(field.type, Struct)
            for inner in field.type.fields
            if inner.null_is_usual
        ]
        self._struct_of_all, self._type_meta = struct, {"apiVersion": api_version, "kind": kind}
        self._uses = _uses(struct)
        self._validate_json = SchemaValidator(self._schema("ignore")).validate_json

    @cached_property
    def _validate_object(self) -> Callable[[Any], dict[str, Any]]:
        """For trees, of which there is no text to prove anything by."""
        from pydantic_core import SchemaValidator

        return SchemaValidator(self._schema("forbid")).validate_python

    def _schema(self, unknown: str) -> CoreSchema:
        self._unknown = unknown
        self._shared: dict[str, CoreSchema] = {"owned": _OWNED_FIELDS}
        schema = self._members(self._struct_of_all)
        types = {name: _optional(_literal(value)) for name, value in self._type_meta.items()}
        schema["fields"] = {**types, **schema["fields"]}
        return {"type": "definitions", "schema": schema, "definitions": list(self._shared.values())}

    def from_json(self, raw: bytes) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._validate_json(raw)
            written = orjson.dumps(found)
        except (self._failed, TypeError):  # the latter from numbers that nothing could store
            return None
        if len(raw) - len(written) >= _SHORTEST_MEMBER and _bare(raw) - _bare(written) >= _SHORTEST_MEMBER:
            return None
        return self._untyped(found)

    def from_object(self, value: Any) -> dict[str, Any] | None:
        try:
            return self._untyped(self._validate_object(value))
        except self._failed:
            return None

    def _untyped(self, found: dict[str, Any]) -> dict[str, Any]:
        found.pop("apiVersion", None)
        found.pop("kind", None)
        self._fill(found)
        for outer, inner in self._usual_nulls:
            if found[outer].get(inner, NOTHING) is None:
                del found[outer][inner]
        return found

    def _struct(self, struct: Struct) -> CoreSchema:
        """Compiled once however often it is used: a pod has three kinds of containers in it."""
        if self._uses[struct] == 1:
            return self._members(struct)
        ref = f"{struct.of} {id(struct)}"  # metadata of objects and of templates have one name
        if ref not in self._shared:
            self._shared[ref] = {}
            self._shared[ref] = {**self._members(struct), "ref": ref}
        return {"type": "definition-ref", "schema_ref": ref}

    def _members(self, struct: Struct) -> CoreSchema:
        fields = {
            field.name: {
                "type": "typed-dict-field",
                "schema": self._field(field),
                "required": needs_saying(field),
            }
            for field in struct.fields
        }
        return {
            "type": "typed-dict",
            "fields": fields,
            "total": False,
            "extra_behavior": self._unknown,
            "config": {"strict": True},  # holds for the fields of this struct, not for structs inside
        }

    def _field(self, field: Field) -> CoreSchema:
        keeps_zero = field.pointer or (field.holds and field.default is None)
        schema = self._type(field.type, keeps_zero=keeps_zero)
        if field.null_is_usual or unsaid(field, fill=True) is None:
            return {"type": "nullable", "schema": schema}
        return schema

    def _type(self, type_: Type, *, keeps_zero: bool) -> CoreSchema:
        least = {} if keeps_zero else {"min_length": 1}
        if isinstance(type_, Struct):
            return self._struct(type_)
        if isinstance(type_, ListOf):
            # An empty list that the wire format shows at all is shown as null, which the walk sees to.
            items = self._type(type_.item, keeps_zero=True)
            return {"type": "list", "items_schema": items, "min_length": 1}
        if isinstance(type_, MapOf):
            values = self._type(type_.value, keeps_zero=True)
            members = {
                "type": "dict",
                "keys_schema": {"type": "str"},
                "values_schema": values,
                "min_length": 1,
            }
            return {"type": "function-after", "function": _SORT, "schema": members}
        return _scalar(type_, keeps_zero, least)


def _scalar(type_: Scalar, keeps_zero: bool, least: CoreSchema) -> CoreSchema:
    if type_ in _PATTERNS:
        return {"type": "str", "pattern": _PATTERNS[type_], **least}
    if type_ is STRING:
        return {"type": "str", **least}
    if type_ is BOOL:
        # Alone, the literal would take the 1 of a tree for True.
        return (
            {"type": "bool"} if keeps_zero else {"type": "chain", "steps": [{"type": "bool"}, _literal(True)]}
        )
    if type_ in (INT32, INT64):
        low, high = INTEGER_RANGES[type_]
        return {"type": "int", "ge": low if keeps_zero else 1, "le": high}
    if type_ is INT_OR_STRING:
        number = _scalar(INT32, keeps_zero, least)
        # The empty text takes the walk: too rare for this union.
        return {"type": "union", "choices": [number, {"type": "str", "min_length": 1}], "strict": True}
    if type_ is FREE:
        return _literal(NOTHING)  # equal to no value: documents with something free in them go to the walk
    assert type_ is OWNED_FIELDS
    return {"type": "definition-ref", "schema_ref": "owned"}


def _uses(struct: Struct) -> Counter[Struct]:
    """How many places of a document each struct can stand in, not counting places of the same struct."""
    uses = Counter({struct: 1})
    unread = [struct]
    while unread:
        for field in unread.pop().fields:
            inner = _innermost(field.type)
            if isinstance(inner, Struct):
                if inner not in uses:
                    unread.append(inner)
                uses[inner] += 1
    return uses


def _innermost(type_: Type) -> Scalar | Struct:
    while isinstance(type_, (ListOf, MapOf)):
        type_ = type_.item if isinstance(type_, ListOf) else type_.value
    return type_


def _bare(text: bytes) -> int:
    """Its length without whitespace, inside strings as well as between them."""
    return len(text.translate(None, b" \t\r\n"))


def _optional(schema: CoreSchema) -> CoreSchema:
    return {"type": "typed-dict-field", "schema": schema, "required": False}


def _literal(value: Any) -> CoreSchema:
    return {"type": "literal", "expected": [value]}


def _sorted(members: dict[str, Any]) -> dict[str, Any]:
    last = ""
    for name in members:
        if name < last:
            return dict(sorted(members.items()))
        last = name
    return members


_SORT: Final = {"type": "no-info", "function": _sorted}

# Objects in objects and nothing else, as deep as pydantic-core goes.
_OWNED_FIELDS: Final[CoreSchema] = {
    "type": "dict",
    "ref": "owned",
    "keys_schema": {"type": "str"},
    "values_schema": {"type": "definition-ref", "schema_ref": "owned"},
}
