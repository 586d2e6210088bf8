"""The values of a stored object as an expression sees them: wrapped by the shape of their schema, without a copy.

The owner of a schema makes one shape for each of its nodes, once, when the definition is read. `wrap` then turns a
value of a stored object into a CEL value: it wraps lists and objects, and their parts only when an expression looks
at them.

Sets and keyed lists compare without order, but only as the left operand. Adding to a set leaves out what it already
has; the set remembers what was added, so that later comparisons and additions of the same value in the rules of one
node count it as present. Kubernetes v1.25 does so, and rules depend on it. Values in preserved unknown fields have
the type that Go has for them (`native`).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from rewound.actors.cel import times
from rewound.actors.cel.lexer import RESERVED
from rewound.actors.cel.operations import same
from rewound.actors.cel.values import (
    MAX_INT,
    MIN_INT,
    BadData,
    Duration,
    EvaluationError,
    EvaluationStopped,
    ListValue,
    MapLike,
    Timestamp,
    Uint,
    copied,
    is_list,
    list_items,
    list_size,
    no_such_overload,
    printed,
    walked,
)
from rewound.actors.runtime.budget import Budget

_NAMES: Final[dict[type, str]] = {
    str: "string",
    bool: "bool",
    float: "float64",
    int: "int64",
    dict: "map[string]interface {}",
    list: "[]interface {}",
    Uint: "uint64",
    bytes: "[]uint8",
    Duration: "time.Duration",
    Timestamp: "time.Time",
}
_NOT_KEYS: Final[tuple[type, ...]] = (dict, list, bytes)


class NullNative:
    """A null that an expression added to a list: not the null of JSON."""

    go_name: Final = "structpb.NullValue"


NULL: Final = NullNative()


class Foreign:
    """A list or map of the expression in a list of the object, which no schema can read."""

    __slots__ = ("go_name",)

    def __init__(self, go_name: str) -> None:
        self.go_name = go_name


def go_type(raw: Any) -> str:
    if raw.__class__ is int and not MIN_INT <= raw <= MAX_INT:
        return "float64"
    name = _NAMES.get(raw.__class__)
    return name if name is not None else str(getattr(raw, "go_name", raw.__class__.__name__))


def native(value: Any) -> Any:
    """Return what a CEL value becomes in a list of the object after it was added there."""
    if value is None:
        return NULL
    if value.__class__ is list:
        return Foreign("[]ref.Val")
    return value.native() if hasattr(value, "native") else value


def go_key(raw: Any) -> Any:
    """Return a key that equals another one exactly if Go says so: 1 and 1.0 differ, and so do a text and a time."""
    if isinstance(raw, _NOT_KEYS):
        raise EvaluationStopped(f"internal error: runtime error: hash of unhashable type {go_type(raw)}")
    return raw if raw.__class__ is str else (raw.__class__, raw)


_SPECIAL: Final = re.compile(r"__|[-./]")
_ESCAPED: Final = re.compile(r"__[^_]+__")
_VALID: Final = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*")
_WORDS: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_CHARACTERS: Final = {word: character for character, word in _WORDS.items()}


def escape(name: str) -> str | None:
    """Return the escaped identifier, or None for a name that no identifier can stand for."""
    if not _VALID.fullmatch(name):
        return None
    if name in RESERVED:
        return f"__{name}__"
    return _SPECIAL.sub(lambda found: _WORDS[found[0]], name)


def unescape(identifier: str) -> str | None:
    """Return the name, or None for an identifier with an invalid escape sequence."""
    parts: list[str] = []
    position = 0
    for found in _ESCAPED.finditer(identifier):
        word = found[0]
        plain = _CHARACTERS.get(word)
        if plain is None:
            if word[2:-2] not in RESERVED or len(word) != len(identifier):
                return None
            plain = word[2:-2]
        parts += identifier[position : found.start()], plain
        position = found.end()
    return "".join(parts) + identifier[position:] if parts else identifier


class Shape:
    """A node of a schema; `nullable` says whether null is an allowed value."""

    __slots__ = ("nullable",)
    direct: type | None = None  # `wrap` returns values of exactly this class unchanged

    def __init__(self, nullable: bool = False) -> None:
        self.nullable = nullable

    def wrap(self, raw: Any) -> Any:
        """Return the CEL value. Raises BadData for a value that the schema does not allow."""
        raise NotImplementedError

    def reject(self, raw: Any, expected: str) -> Any:
        """Return null if it is allowed. Otherwise raises BadData, which names the type of the value."""
        if raw is None:
            if self.nullable:
                return None
            raise BadData("invalid data, got null for schema with nullable=false")
        raise BadData(f"invalid data, expected {expected}, got {go_type(raw)}")


class Property(NamedTuple):
    """A property by the identifier that expressions use; values of the class `direct` are CEL values unchanged."""

    name: str  # its name in the object
    wrap: Callable[[Any], Any]
    direct: type | None


class Properties:
    __slots__ = ("any", "by_name", "fields")

    def __init__(self, properties: Mapping[str, Shape] | None) -> None:
        self.any = properties is not None
        self.by_name: dict[str, Shape] = dict(properties or {})
        self.fields: dict[str, Property] = {}
        for name, shape in self.by_name.items():
            identifier = escape(name)
            if identifier is not None:
                self.fields[identifier] = Property(name, shape.wrap, shape.direct)

    def lookup(self, key: str) -> Property | None:
        """Return the property for an identifier, also for a name that needs no escape and was not escaped."""
        found = self.fields.get(key)
        if found is not None or not self.any:
            return found
        name = unescape(key)
        shape = self.by_name.get(name) if name is not None else None
        return None if name is None or shape is None else Property(name, shape.wrap, shape.direct)


class Unknown:
    __slots__ = ("raw",)
    type_name: Final = "unknown"
    go_name: Final = "*cel.unknownPreserved"

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def equals(self, other: Any, budget: Budget) -> bool:
        return deep_equal(self.raw, native(other), budget)

    def native(self) -> Any:
        return self.raw


def deep_equal(left: Any, right: Any, budget: Budget) -> bool:
    """Whether values are equal as JSON: 1 and 1.0 differ; an empty list or object equals null."""
    if left.__class__ is not right.__class__:
        return not left and not right and _empty(left) and _empty(right)
    if isinstance(left, dict):
        budget.visit(len(left))
        return left.keys() == right.keys() and all(deep_equal(left[key], right[key], budget) for key in left)
    if isinstance(left, list):
        if len(left) != len(right):
            return False
        return all(
            deep_equal(item, other, budget) for item, other in zip(walked(left, budget), right, strict=True)
        )
    return bool(left == right)


def _empty(raw: Any) -> bool:
    return raw is None or isinstance(raw, dict | list)


class Raw(MapLike):
    __slots__ = ("raw",)
    go_name: Final = "*cel.unstructuredMap"
    raw: dict[str, Any]

    def size(self) -> int:
        return len(self.raw)

    def native(self) -> Any:
        return self.raw

    def shape_of(self, name: str) -> Shape | None:
        """Return the shape of the value with this name in the object, or None if the schema does not declare it."""
        raise NotImplementedError

    def equals(self, other: Any, budget: Budget) -> bool:
        """Compare declared values as CEL values and the rest as JSON. The keys are those of this side."""
        if not isinstance(other, MapLike):
            raise no_such_overload()
        if len(self.raw) != other.size():
            return False
        budget.visit(len(self.raw))
        for name, raw in self.raw.items():
            shape = self.shape_of(name)
            if shape is None:
                if not self._same_unknown(name, raw, other, budget):
                    return False
                continue
            try:
                found, value = other.find(name)
            except EvaluationError as error:
                found, value = True, error
            if not found or not same(shape.wrap(raw), value, budget):
                return False
        return True

    @staticmethod
    def _same_unknown(name: str, raw: Any, other: MapLike, budget: Budget) -> bool:
        if not isinstance(other, Raw):
            raise no_such_overload()
        return name not in other.raw or deep_equal(raw, other.raw[name], budget)


class DataObject(Raw):
    """An object with properties. A property that is null counts as absent."""

    __slots__ = ("properties",)

    def __init__(self, raw: dict[str, Any], properties: Properties) -> None:
        self.raw, self.properties = raw, properties

    def get(self, key: Any) -> Any:
        field = self.properties.fields.get(key) or self._lookup(key)
        if field is not None:
            raw = self.raw.get(field.name)
            if raw is not None:
                return field.wrap(raw)
        raise EvaluationError(f"no such key: {key}")

    def find(self, key: Any) -> tuple[bool, Any]:
        field = self._lookup(key)
        if field is not None:
            raw = self.raw.get(field.name)
            if raw is not None:
                return True, field.wrap(raw)
        return False, None

    def _lookup(self, key: Any) -> Property | None:
        if key.__class__ is not str:
            raise no_such_overload()
        return self.properties.lookup(key)

    def shape_of(self, name: str) -> Shape | None:
        return self.properties.by_name.get(name)

    def keys(self) -> Iterator[Any]:
        for name in self.raw:
            if name in self.properties.by_name:
                yield (escape(name) or name) if self.properties.any else name


class DataMap(Raw):
    """A map: all values have one shape, and null is a value."""

    __slots__ = ("values",)

    def __init__(self, raw: dict[str, Any], values: Shape) -> None:
        self.raw, self.values = raw, values

    def find(self, key: Any) -> tuple[bool, Any]:
        if key.__class__ is not str:
            raise no_such_overload()
        return (True, self.values.wrap(self.raw[key])) if key in self.raw else (False, None)

    def shape_of(self, name: str) -> Shape | None:
        return self.values

    def equals(self, other: Any, budget: Budget) -> bool:
        if other.__class__ is not DataMap:
            return super().equals(other, budget)
        mine, others = self.values.wrap, other.values.wrap
        if len(self.raw) != len(other.raw):
            return False
        budget.visit(len(self.raw))
        for name, raw in self.raw.items():
            if name not in other.raw:
                return False
            try:
                value = others(other.raw[name])
            except EvaluationError as error:
                value = error
            if not same(mine(raw), value, budget):
                return False
        return True

    def keys(self) -> Iterator[Any]:
        return iter(list(self.raw))


class DataList(ListValue):
    __slots__ = ("raw", "shape")
    go_name = "*cel.unstructuredList"

    def __init__(self, raw: list[Any], shape: Shape) -> None:
        self.raw, self.shape = raw, shape

    def size(self) -> int:
        return len(self.raw)

    def get(self, index: Any) -> Any:
        if index.__class__ is not int:
            raise EvaluationError(f"unsupported index: {printed(index)}")
        if not 0 <= index < len(self.raw):
            raise EvaluationError(f"index out of bounds: {index}")
        return self.shape.wrap(self.raw[index])

    def items(self) -> Iterator[Any]:
        return map(self._value_or_error, self.raw)

    def _value_or_error(self, raw: Any) -> Any:
        try:
            return self.shape.wrap(raw)
        except EvaluationError as error:
            return error.with_traceback(None)

    def holds(self, value: Any, budget: Budget) -> bool:
        failed = None
        wrap = self.shape.wrap
        for raw in walked(self.raw, budget):
            try:
                if same(wrap(raw), value, budget):
                    return True
            except EvaluationError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return False

    def equals(self, other: Any, budget: Budget) -> bool:
        if not self._same_size(other):
            return False
        wrap = self.shape.wrap
        for raw, item in zip(walked(self.raw, budget), list_items(other), strict=True):
            mine = wrap(raw)
            if isinstance(item, EvaluationError):
                raise item
            if not same(mine, item, budget):
                return False
        return True

    def _same_size(self, other: Any) -> bool:
        if not is_list(other):
            raise no_such_overload()
        return len(self.raw) == list_size(other)

    def add(self, other: Any, budget: Budget) -> Any:
        natives = self._natives(other, budget)
        return DataList(copied(self.raw, budget) + natives, self.shape)

    @staticmethod
    def _natives(other: Any, budget: Budget) -> list[Any]:
        if not is_list(other):
            raise no_such_overload()
        return list(map(native, copied(other, budget)))

    def native(self) -> Any:
        return self.raw


class SetList(DataList):
    __slots__ = ("_members",)
    go_name = "*cel.unstructuredSetList"

    def __init__(self, raw: list[Any], shape: Shape) -> None:
        super().__init__(raw, shape)
        self._members: set[Any] | None = None

    def members(self) -> set[Any]:
        if self._members is None:
            self._members = {go_key(raw) for raw in self.raw}
        return self._members

    def equals(self, other: Any, budget: Budget) -> bool:
        if not self._same_size(other):
            return False
        budget.visit(len(self.raw))
        members = self.members()
        return all(go_key(native(item)) in members for item in walked(other, budget))

    def add(self, other: Any, budget: Budget) -> Any:
        raw = copied(self.raw, budget)
        members = self.members()
        for added in self._natives(other, budget):
            key = go_key(added)
            if key not in members:
                members.add(key)
                raw.append(added)
        return SetList(raw, self.shape)


class KeyedList(DataList):
    __slots__ = ("_keys", "_positions")
    go_name = "*cel.unstructuredMapList"

    def __init__(self, raw: list[Any], shape: Shape, keys: tuple[str, ...]) -> None:
        super().__init__(raw, shape)
        self._keys = keys
        self._positions: dict[Any, int] | None = None

    def _key(self, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return object()  # an item without keys equals no other
        return tuple(go_key(raw.get(key)) for key in self._keys)

    def _by_key(self) -> dict[Any, int]:
        return {self._key(raw): index for index, raw in enumerate(self.raw)}

    def equals(self, other: Any, budget: Budget) -> bool:
        if not self._same_size(other):
            return False
        if self._positions is None:
            budget.visit(len(self.raw))
            self._positions = self._by_key()
        for item in walked(other, budget):
            index = self._positions.get(self._key(native(item)))
            if index is None or not same(self.shape.wrap(self.raw[index]), item, budget):
                return False
        return True

    def add(self, other: Any, budget: Budget) -> Any:
        raw, positions = copied(self.raw, budget), self._by_key()
        for added in self._natives(other, budget):
            index = positions.get(self._key(added))
            if index is None:
                raw.append(added)
            else:
                raw[index] = added
        return KeyedList(raw, self.shape, self._keys)


_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_AMOUNT: Final = re.compile(r"(?<![0-9])([0-9]++)\s*+([A-Za-zµ]++)")
_ALPHABET: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_DAY: Final = 24 * 3600 * times.SECOND
# The last name of a unit covers all that begin with it: sec, seconds.
_UNITS: Final = (
    (("ns", "nano"), 1),
    (("us", "µs", "micro"), 1000),
    (("ms", "milli"), 1_000_000),
    (("s", "sec"), times.SECOND),
    (("m", "min"), 60 * times.SECOND),
    (("h", "hr", "hour"), 3600 * times.SECOND),
    (("d", "day"), _DAY),
    (("w", "wk", "week"), 7 * _DAY),
)


def read_duration(text: str) -> Duration:
    """Parse a duration of Go, or amounts with longer names of units: 3 days."""
    parsed = times.parse_duration(text)
    if parsed is not None:
        return parsed
    found = [int(amount) * unit for amount, name in _AMOUNT.findall(text) for unit in _units(name.lower())]
    if not found:
        raise BadData(f"Invalid duration {text}: unable to parse {text} as duration")
    return Duration((sum(found) + 2**63) % 2**64 - 2**63)


def _units(name: str) -> list[int]:
    return [unit for names, unit in _UNITS if name in names or name.startswith(names[-1])]


def read_date(text: str) -> Timestamp:
    found = _DATE.fullmatch(text)
    if found is None or not times.valid_date(int(found[1]), int(found[2]), int(found[3])):
        raise BadData(
            f'Invalid date formatted string {text}: parsing time "{text}" as "2006-01-02": cannot parse'
        )
    return Timestamp(times.days_from_civil(int(found[1]), int(found[2]), int(found[3])) * 86400)


def read_date_time(text: str) -> Timestamp:
    """Parse RFC 3339; without a zone it is UTC, and an empty text is 1970."""
    if not text:
        return Timestamp(0)
    parsed = times.parse_timestamp(text) or times.parse_timestamp(text + "Z")
    if parsed is None:
        raise BadData(
            f'Invalid date-time formatted string {text}: parsing time "{text}" as "2006-01-02T15:04:05": cannot parse'
        )
    return parsed


def read_bytes(text: str) -> bytes:
    """Decode base64 with the URL alphabet; + and / are refused, as in Kubernetes."""
    stripped = text.replace("\r", "").replace("\n", "")
    try:
        if "+" in text or "/" in text:
            raise binascii.Error
        return base64.b64decode(stripped.encode("ascii"), b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError):
        position = _first_bad(text)
        raise BadData(
            f"Invalid byte formatted string {text}: illegal base64 data at input byte {position}"
        ) from None


def _first_bad(text: str) -> int:
    """Return the offset that Go reports: of the first byte outside the alphabet, or of a last group that is too
    short.
    """
    groups = 0
    for position, byte in enumerate(text.encode(errors="surrogatepass")):
        if byte in b"\r\n":
            continue
        if byte in _ALPHABET:
            groups += 1
        elif byte == ord("="):
            return position if groups % 4 < 2 else len(text)
        else:
            return position
    return len(text) - groups % 4


FORMATS: Final[dict[str, Callable[[str], Any]]] = {
    "duration": read_duration,
    "date": read_date,
    "date-time": read_date_time,
    "byte": read_bytes,
}


class StringShape(Shape):
    __slots__ = ("_read", "direct")

    def __init__(self, format: str = "", nullable: bool = False) -> None:
        super().__init__(nullable)
        self._read = FORMATS.get(format)
        self.direct = str if self._read is None else None

    def wrap(self, raw: Any) -> Any:
        if raw.__class__ is not str:
            return self.reject(raw, "string")
        return raw if self._read is None else self._read(raw)


class IntegerShape(Shape):
    __slots__ = ()

    def wrap(self, raw: Any) -> Any:
        if raw.__class__ is int and MIN_INT <= raw <= MAX_INT:
            return raw
        return self.reject(raw, "int")


class NumberShape(Shape):
    __slots__ = ()
    direct = float

    def wrap(self, raw: Any) -> Any:
        if raw.__class__ is float:
            return raw
        if raw.__class__ is int:
            return float(raw)
        return self.reject(raw, "float")


class BooleanShape(Shape):
    __slots__ = ()
    direct = bool

    def wrap(self, raw: Any) -> Any:
        return raw if raw is True or raw is False else self.reject(raw, "bool")


class IntOrStringShape(Shape):
    __slots__ = ()

    def wrap(self, raw: Any) -> Any:
        if raw.__class__ is str or (raw.__class__ is int and MIN_INT <= raw <= MAX_INT):
            return raw
        if raw is None:
            return self.reject(raw, "")
        raise BadData("invalid data, expected XIntOrString value to be either a string or integer")


class ObjectShape(Shape):
    """An object with properties; if they are None, one without any that preserves unknown fields."""

    __slots__ = ("properties",)

    def __init__(self, properties: Mapping[str, Shape] | None, nullable: bool = False) -> None:
        super().__init__(nullable)
        self.properties = Properties(properties)

    def wrap(self, raw: Any) -> Any:
        if isinstance(raw, dict):
            return DataObject(raw, self.properties)
        if raw is None:
            return self.reject(raw, "")
        raise BadData("invalid data, expected a map for the provided schema with type=object")


class MapShape(Shape):
    """An object whose values all have one shape."""

    __slots__ = ("values",)

    def __init__(self, values: Shape, nullable: bool = False) -> None:
        super().__init__(nullable)
        self.values = values

    def wrap(self, raw: Any) -> Any:
        if isinstance(raw, dict):
            return DataMap(raw, self.values)
        if raw is None:
            return self.reject(raw, "")
        raise BadData("invalid data, expected a map for the provided schema with type=object")


class ListShape(Shape):
    """`list_type` is atomic, set or map; `keys` are the properties that identify the items of a list-map."""

    __slots__ = ("items", "keys", "list_type")

    def __init__(
        self,
        items: Shape | None,
        list_type: str | None = None,
        keys: tuple[str, ...] = (),
        nullable: bool = False,
    ) -> None:
        super().__init__(nullable)
        self.items, self.list_type = items, list_type
        self.keys = tuple(escape(key) or key for key in keys)

    def wrap(self, raw: Any) -> Any:
        if not isinstance(raw, list):
            if raw is None:
                return self.reject(raw, "")
            raise BadData("invalid data, expected an array for the provided schema with type=array")
        if self.items is None:
            raise BadData("invalid array type, expected Items with a non-empty Schema")
        if self.list_type == "set":
            return SetList(raw, self.items)
        if self.list_type == "map":
            return KeyedList(raw, self.items, self.keys)
        return DataList(raw, self.items)


class UnknownShape(Shape):
    """A value without a type, unchanged: expressions can only compare what contains it."""

    __slots__ = ()

    def wrap(self, raw: Any) -> Any:
        return self.reject(raw, "") if raw is None else Unknown(raw)


class InvalidShape(Shape):
    """A node that CEL cannot read."""

    __slots__ = ("_message",)

    def __init__(self, message: str, nullable: bool = False) -> None:
        super().__init__(nullable)
        self._message = message

    def wrap(self, raw: Any) -> Any:
        if raw is None:
            return self.reject(raw, "")
        raise BadData(self._message)


class UntypedShape(InvalidShape):
    """A node without a type; `prefix` is that of the extensions which would make it valid without one."""

    __slots__ = ()

    def __init__(self, type_name: str, prefix: str, nullable: bool = False) -> None:
        super().__init__(
            "invalid type, expected object, array, number, integer, boolean or string, or no type with "
            f"{prefix}int-or-string or {prefix}preserve-unknown-fields is true, got {type_name}",
            nullable,
        )


class OpaqueObjectShape(InvalidShape):
    """An object whose schema declares neither properties nor the shape of its values."""

    __slots__ = ()

    def __init__(self, nullable: bool = False) -> None:
        super().__init__(
            "invalid object type, expected either Properties or AdditionalProperties with Allows=true and non-empty "
            "Schema",
            nullable,
        )

    def wrap(self, raw: Any) -> Any:
        if raw is not None and not isinstance(raw, dict):
            raise BadData("invalid data, expected a map for the provided schema with type=object")
        return super().wrap(raw)
