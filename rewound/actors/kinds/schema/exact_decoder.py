"""The exact decoder: walks through a document and its declaration together, in document order.

It defines what decoding means: unknown and duplicate fields are reported with their paths and dropped, null counts as
absent, wrong types are refused with the field named, and the result is canonical: declared order, zero values as in
Go's JSON, defaults filled in on request. The pydantic decoder accepts only documents for which it is known to give
the same result; every other document comes here.

Unknown and duplicate fields are `Problems`, each once, in document order: field validation warns of them or refuses
the body. The first `MAX_PROBLEMS` are named and a last text counts the others: neither a header block nor a message
may grow with a hostile body, and Python's `http.client` reads at most 100 header lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    DURATION,
    INT_OR_STRING,
    MICRO_TIME,
    NOTHING,
    QUANTITY,
    TIME,
    Field,
    ListOf,
    MapOf,
    Struct,
    StructOr,
    Type,
    absent_value,
    zero,
)
from rewound.actors.kinds.schema.json_tree import Members
from rewound.actors.kinds.schema.scalars import WrongType, json_type_of, read_scalar
from rewound.actors.runtime.time_limit import check_time

MAX_PROBLEMS: Final = 50
# Characters of one text. Names of fields may be megabytes.
LONGEST_TEXT: Final = 1000

_MORE = re.compile(r"and ([0-9]+) more such problems")


class Problems:
    __slots__ = ("_left_out", "_texts")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: dict[str, None] = {}
        self._left_out = 0
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        if len(text) > LONGEST_TEXT:
            text = f"{text[:LONGEST_TEXT]}..."
        if len(self._texts) < MAX_PROBLEMS:
            self._texts[text] = None
        elif text not in self._texts:
            self._left_out += 1

    def leave_out(self, count: int) -> None:
        """Count problems that another decoder found and did not list."""
        self._left_out += count

    def texts(self) -> tuple[str, ...]:
        if not self._left_out:
            return tuple(self._texts)
        return (*self._texts, f"and {self._left_out} more such problems")


def problems_in(text: str) -> int:
    """Return how many problems a text stands for."""
    more = _MORE.fullmatch(text)
    return int(more[1]) if more else 1


# Every part of an object has a path, though few are reported: with names of megabytes, making them would take long.
LONGEST_PATH: Final = 4096
_EMPTY: Final[tuple[Any, ...]] = ("", 0, [], {})


# Types that read their values themselves in Go, which ends the decoding of a document when it fails.
_DECISIVE: Final = frozenset((QUANTITY, TIME, MICRO_TIME, DURATION, INT_OR_STRING))


def decisive_error(struct: Struct, document: Any, *, ignores_in_schemas: bool) -> ValueError | None:
    """Return the error about a document that is reported although another one comes before it in the document.

    Go goes on after a value of a wrong type, and reports the first at the end; but a quantity, time, duration or
    IntOrString that it cannot read ends the decoding.
    """
    try:
        decoder = ExactDecoder(defaults=False, skips_wrong_types=True, ignores_in_schemas=ignores_in_schemas)
        decoder.struct(struct, document)
    except ValueError as error:
        return error
    return None


class ExactDecoder:
    """Decodes one document. `problems` are its unknown and duplicate fields.

    `ignores_in_schemas`: read the schemas in a definition as their types read themselves in Go.
    """

    __slots__ = ("_defaults", "_ignores_in_schemas", "_problems", "_skips_wrong_types")

    def __init__(
        self, *, defaults: bool, skips_wrong_types: bool = False, ignores_in_schemas: bool = False
    ) -> None:
        self._defaults, self._skips_wrong_types = defaults, skips_wrong_types
        self._ignores_in_schemas = ignores_in_schemas
        self._problems = Problems()

    @property
    def problems(self) -> tuple[str, ...]:
        return self._problems.texts()

    def struct(self, struct: Struct, value: Any, path: str = "") -> dict[str, Any]:
        check_time()
        path = path[:LONGEST_PATH]
        sent: dict[str, Any] = {}
        read: dict[str, Any] = {}
        for name, member in self._members(value, struct):
            field = struct.by_name.get(name)
            here = f"{path}.{name}" if path else name
            if field is None:
                self._report("unknown", here)
                continue
            if name in sent:
                self._report("duplicate", here)
                self._field(struct, field, member, here)
                member = self._merged(field, sent[name], member)
                again = ExactDecoder(
                    defaults=self._defaults,
                    skips_wrong_types=self._skips_wrong_types,
                    ignores_in_schemas=self._ignores_in_schemas,
                )
                read[name] = again._field(struct, field, member, here)
            else:
                read[name] = self._field(struct, field, member, here)
            sent[name] = member
        return self._arranged(struct, read)

    def _field(self, struct: Struct, field: Field, value: Any, path: str) -> Any:
        if value is None:
            return None
        try:
            return self.value(field.type, value, path)
        except WrongType as error:
            error.inside(struct, field.name)
            raise

    def value(self, type_: Type, value: Any, path: str = "") -> Any:
        if isinstance(type_, Struct):
            return self.struct(type_, value, path)
        if isinstance(type_, ListOf):
            return self._list(type_, value, path)
        if isinstance(type_, MapOf):
            return self._map(type_, value, path)
        if isinstance(type_, StructOr):
            if self._ignores_in_schemas:
                return self._schema_as_in_go(type_, value)
            is_object = type(value) is Members or isinstance(value, dict)
            return self.value(type_.struct if is_object else type_.other, value, path)
        try:
            return read_scalar(type_, value)
        except ValueError:
            if self._skips_wrong_types and type_ not in _DECISIVE:
                return None
            raise

    def _members(self, value: Any, type_: Type) -> Iterable[tuple[str, Any]]:
        try:
            return _members(value, type_)
        except WrongType:
            if self._skips_wrong_types:
                return ()
            raise

    def _schema_as_in_go(self, type_: StructOr, value: Any) -> Any:
        """Read a value as its type does itself: without a report of unknown fields, and decisive if it fails."""
        inner = ExactDecoder(defaults=self._defaults, ignores_in_schemas=True)
        is_object = type(value) is Members or isinstance(value, dict)
        if not is_object and isinstance(type_.other, ListOf) and type(value) is not list:
            return None
        if not is_object and type_.other is BOOL and type(value) is not bool:
            raise ValueError("boolean or JSON schema expected")
        try:
            return inner.value(type_.struct if is_object else type_.other, value)
        except WrongType as error:
            error.leave_document()
            raise

    def _list(self, type_: ListOf, value: Any, path: str) -> list[Any]:
        if type(value) is not list:
            if self._skips_wrong_types:
                return []
            raise WrongType(json_type_of(value), type_)
        path = path[:LONGEST_PATH]
        return [self._item(type_.item, item, f"{path}[{index}]") for index, item in enumerate(value)]

    def _map(self, type_: MapOf, value: Any, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, member in self._members(value, type_):
            here = f"{path}.{name}"
            if name in found:
                self._report("duplicate", here)
            found[name] = self._item(type_.value, member, here)
        return dict(sorted(found.items()))

    def _item(self, type_: Type, value: Any, path: str) -> Any:
        return zero(type_, defaults=self._defaults) if value is None else self.value(type_, value, path)

    def _arranged(self, struct: Struct, read: dict[str, Any]) -> dict[str, Any]:
        arranged: dict[str, Any] = {}
        absent = struct.absent
        for name, field in struct.by_name.items():
            value = read.get(name)
            if value is None or (not _keeps_zero(field) and value in _EMPTY):
                if name in absent:
                    continue
                value = absent_value(field, defaults=self._defaults)
            if value is not NOTHING:
                arranged[name] = value
        return arranged

    def _merged(self, field: Field, before: Any, after: Any) -> Any:
        """Merge a field that was sent twice: objects are merged; otherwise the last one counts."""
        if after is None:
            return None if _null_clears(field) else before
        if isinstance(field.type, (Struct, MapOf)) and before is not None:
            return Members([*self._members(before, field.type), *self._members(after, field.type)])
        return after

    def _report(self, what: str, path: str) -> None:
        self._problems.add(f"{what} field {quoted(path[:LONGEST_TEXT])}")


def _keeps_zero(field: Field) -> bool:
    """An empty string in an IntOrString is a name, not a zero; any JSON was sent, even an empty object."""
    return field.pointer or field.type in (INT_OR_STRING, ANY_JSON)


def _members(value: Any, type_: Type) -> Iterable[tuple[str, Any]]:
    if type(value) is Members:
        return value
    if isinstance(value, dict):
        return value.items()
    raise WrongType(json_type_of(value), type_)


def _null_clears(field: Field) -> bool:
    return field.pointer or isinstance(field.type, (ListOf, MapOf)) or field.type in (TIME, MICRO_TIME)
