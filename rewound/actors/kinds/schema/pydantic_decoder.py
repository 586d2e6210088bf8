"""The fast path of decoding: pydantic-core straight from bytes, for documents that are already canonical.

It is compiled from the same declaration as the exact decoder, but strict: it fails on anything that the exact decoder
would drop, round, reorder or report, and then the exact decoder decodes the document. So it returns either the
result, which has no problems, or None. Length and range limits keep out zero values that Go's JSON omits.

pydantic-core silently keeps the last of two equal keys, and is configured to ignore unknown ones, which is cheaper
than refusing them; so each result needs a proof that nothing was lost: serialised without whitespace a document is as
short as it can be, and a lost member would have made it longer by four bytes or more (`"":0`). Documents that are
longer for a harmless reason go to the exact decoder.

Defaults are filled in after the proof. For each struct that has defaults, at any depth, there is one function over
two tables: the members to enter, and the fields from the first that has a default, with that default. Fields stay in
declared order: after one is filled in, the later ones are removed and inserted again. pydantic-core could fill in
defaults itself, but calls a function for each of them, and a pod has hundreds. Rejected: Python source generated for
each struct, which saves a few percent of the create of a pod (docs/decisions/0011-defaults.md).

pydantic-core is imported with the first schema: it takes longer to load than all declarations together. A server
postpones that until it is ready, and then imports it in a thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

import orjson

from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    BYTES,
    DOUBLE,
    FIELDS_V1,
    INT32,
    INT64,
    INT_OR_STRING,
    INTEGER_RANGES,
    MICRO_TIME,
    NOTHING,
    QUANTITY,
    STRING,
    TIME,
    Field,
    JsonValue,
    ListOf,
    MapOf,
    Scalar,
    Struct,
    Type,
    absent_value,
)

Fill = Callable[[dict[str, Any]], None]
Visit = Callable[[Any, Fill], None]  # calls a function with each dict inside a member
Row = tuple[str, Any, Callable[[], Any] | None]  # name, default, and a function if objects cannot share it

_SHARED: Final = (str, int, bool, type(None))  # values that all objects may share


def must_be_present(field: Field) -> bool:
    """Whether a document must have the field. Those that omit it are rare, mostly wrong, and left to the exact
    decoder.
    """
    return field.required and field.always and field.default is None


def fill_of(struct: Struct) -> Fill:
    """Return the function that fills in the defaults of a struct and of everything in it."""
    return _Fills().of(struct) or _fill_nothing


def _fill_nothing(_: dict[str, Any]) -> None:
    """Do nothing, for structs without defaults."""


class _Fills:
    def __init__(self) -> None:
        self._made: dict[Struct, Fill | None] = {}

    def of(self, struct: Struct) -> Fill | None:
        if struct not in self._made:
            # A recursive struct calls its own function, which is made below.
            self._made[struct] = lambda value: (self._made[struct] or _fill_nothing)(value)
            self._made[struct] = self._make(struct)
        return self._made[struct]

    def _make(self, struct: Struct) -> Fill | None:
        members: list[tuple[str, Visit, Fill]] = []
        for field in struct.fields:
            visit, type_ = _inside(field)
            inner = self.of(type_) if isinstance(type_, Struct) else None
            if inner is not None:
                members.append((field.name, visit, inner))
        rows = [_row(field) for field in struct.fields]
        while rows and rows[0][1] is NOTHING:
            del rows[0]
        return _fill(members, rows) if members or rows else None


def _fill(members: list[tuple[str, Visit, Fill]], rows: list[Row]) -> Fill:
    defaulted = [name for name, default, _ in rows if default is not NOTHING]

    def fill(value: dict[str, Any]) -> None:
        for name, visit, inner in members:
            if name in value:
                visit(value[name], inner)
        for name in defaulted:
            if name not in value:
                insert(value)
                return

    def insert(value: dict[str, Any]) -> None:
        moved = False
        for name, default, create in rows:
            if name in value:
                if moved:
                    value[name] = value.pop(name)
            elif default is not NOTHING:
                value[name] = default if create is None else create()
                moved = True

    return fill


def _row(field: Field) -> Row:
    default = NOTHING if must_be_present(field) else absent_value(field, defaults=True)
    if default is NOTHING or isinstance(default, _SHARED):
        return field.name, default, None
    return field.name, default, dict if default == {} else lambda: absent_value(field, defaults=True)


def _inside(field: Field) -> tuple[Visit, Any]:
    if isinstance(field.type, ListOf):
        return _each_item, field.type.item
    return (_each_value, field.type.value) if isinstance(field.type, MapOf) else (_struct, field.type)


def _struct(value: dict[str, Any] | None, fill: Fill) -> None:
    if value is not None:
        fill(value)


def _each_item(values: list[dict[str, Any]] | None, fill: Fill) -> None:
    for value in values or ():
        fill(value)


def _each_value(values: dict[str, dict[str, Any]] | None, fill: Fill) -> None:
    for value in (values or {}).values():
        fill(value)


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
    # Amounts of up to three digits are canonical whatever their suffix; most are this short.
    QUANTITY: r"^(?:0|[1-9][0-9]{0,2}(?:[numkMGTP]|[KMGTP]i)?)$",
}


@contextmanager
def postponed() -> Iterator[None]:
    """Decode without pydantic-core until `resume`, so that a start, which decodes little, does not wait for its
    import.
    """
    _Import.postponed = True
    try:
        yield
    finally:
        resume()


def resume() -> None:
    _Import.postponed = False


def is_postponed() -> bool:
    return _Import.postponed


class _Import:
    postponed = False


class NoDecoder:
    """Takes the place of a PydanticDecoder that cannot be compiled yet."""

    def from_json(self, raw: bytes) -> None:
        return None

    def from_object(self, value: Any) -> None:
        return None


NO_DECODER: Final = NoDecoder()


class PydanticDecoder:
    """Decodes canonical documents of one kind. Usable from any thread."""

    def __init__(self, struct: Struct, api_version: str, kind: str) -> None:
        from pydantic_core import SchemaValidator, ValidationError

        self._failed = ValidationError
        self._fill_defaults = fill_of(struct)
        self._often_null = [
            (field.name, inner.name)
            for field in struct.fields
            if isinstance(field.type, Struct)
            for inner in field.type.fields
            if inner.often_null
        ]
        self._root, self._type_meta = struct, {"apiVersion": api_version, "kind": kind}
        self._uses = _uses(struct)
        self._validate_json = SchemaValidator(self._schema("ignore")).validate_json

    @cached_property
    def _validate_object(self) -> Callable[[Any], dict[str, Any]]:
        """Validate a tree, which has no text to compare lengths with; unknown fields fail."""
        from pydantic_core import SchemaValidator

        return SchemaValidator(self._schema("forbid")).validate_python

    def _schema(self, unknown: str) -> CoreSchema:
        self._unknown = unknown
        self._shared: dict[str, CoreSchema] = {"fieldsV1": _FIELDS_V1_SCHEMA}
        schema = self._members(self._root)
        types = {name: _optional(_literal(value)) for name, value in self._type_meta.items()}
        schema["fields"] = {**types, **schema["fields"]}
        return {"type": "definitions", "schema": schema, "definitions": list(self._shared.values())}

    def from_json(self, raw: bytes) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._validate_json(raw)
            written = orjson.dumps(found)
        except (self._failed, TypeError):  # TypeError: from numbers that cannot be stored
            return None
        if (
            len(raw) - len(written) >= _SHORTEST_MEMBER
            and _length(raw) - len(written) + written.count(b" ") >= _SHORTEST_MEMBER
        ):
            return None
        return self._finish(found)

    def from_object(self, value: Any) -> dict[str, Any] | None:
        try:
            return self._finish(self._validate_object(value))
        except self._failed:
            return None

    def _finish(self, found: dict[str, Any]) -> dict[str, Any]:
        found.pop("apiVersion", None)
        found.pop("kind", None)
        self._fill_defaults(found)
        for outer, inner in self._often_null:
            if inner in found[outer] and found[outer][inner] is None:
                del found[outer][inner]
        return found

    def _struct(self, struct: Struct) -> CoreSchema:
        """Compile a struct once, however often it is used: a pod has three kinds of containers."""
        if self._uses[struct] == 1:
            return self._members(struct)
        ref = f"{struct.of} {id(struct)}"  # metadata of objects and of templates have the same name
        if ref not in self._shared:
            self._shared[ref] = {}
            self._shared[ref] = {**self._members(struct), "ref": ref}
        return {"type": "definition-ref", "schema_ref": ref}

    def _members(self, struct: Struct) -> CoreSchema:
        fields = {
            field.name: {
                "type": "typed-dict-field",
                "schema": self._field(field),
                "required": must_be_present(field),
            }
            for field in struct.fields
        }
        return {
            "type": "typed-dict",
            "fields": fields,
            "total": False,
            "extra_behavior": self._unknown,
            "config": {"strict": True},  # for the fields of this struct, not for nested structs
        }

    def _field(self, field: Field) -> CoreSchema:
        keeps_zero = field.pointer or (field.always_present and field.default is None)
        schema = self._type(field.type, keeps_zero=keeps_zero)
        if field.often_null or absent_value(field, defaults=True) is None:
            return {"type": "nullable", "schema": schema}
        return schema

    def _type(self, type_: Type, *, keeps_zero: bool) -> CoreSchema:
        least = {} if keeps_zero else {"min_length": 1}
        if isinstance(type_, Struct):
            return self._struct(type_)
        if isinstance(type_, ListOf):
            # Go writes an empty list without omitempty as null, which the exact decoder handles.
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
        # The literal alone would accept the 1 of a tree as True.
        return (
            {"type": "bool"} if keeps_zero else {"type": "chain", "steps": [{"type": "bool"}, _literal(True)]}
        )
    if type_ in (INT32, INT64):
        low, high = INTEGER_RANGES[type_]
        return {"type": "int", "ge": low if keeps_zero else 1, "le": high}
    if type_ is INT_OR_STRING:
        number = _scalar(INT32, keeps_zero, least)
        # The empty string goes to the exact decoder: too rare for this union.
        return {"type": "union", "choices": [number, {"type": "str", "min_length": 1}], "strict": True}
    if type_ in (ANY_JSON, DOUBLE) or isinstance(type_, JsonValue):
        return _literal(NOTHING)  # equal to no value: documents with such values go to the exact decoder
    assert type_ is FIELDS_V1
    return {"type": "definition-ref", "schema_ref": "fieldsV1"}


def _uses(struct: Struct) -> Counter[Struct]:
    """Return how many fields have each struct as their type, not counting fields of repeated structs."""
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


def _length(text: bytes) -> int:
    """Return the length without whitespace, also inside strings; orjson writes no whitespace but spaces."""
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

# Only objects in objects, as deep as pydantic-core goes.
_FIELDS_V1_SCHEMA: Final[CoreSchema] = {
    "type": "dict",
    "ref": "fieldsV1",
    "keys_schema": {"type": "str"},
    "values_schema": {"type": "definition-ref", "schema_ref": "fieldsV1"},
}
