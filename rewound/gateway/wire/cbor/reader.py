"""Decodes bodies in CBOR (RFC 8949) as strictly as Kubernetes does, with its texts.

`check_form` goes over the whole document first: heads, lengths, nesting, tags, the number of values. It takes time and
memory in proportion to the bytes that were sent, whatever lengths they declare. Then `read_object` walks through
document and declaration together, and `read_values` reads what has no declaration: custom objects and applied
configurations. Both return what a JSON body with the same content would be parsed to:

    a byte string          a text, because Kubernetes writes all texts and names as byte strings
    a tagged byte string   its base64 (tag 22), base64url (21) or hexadecimal (23) form
    tags 0 and 1           times as text; other tags are ignored

Duplicate names, text that is not UTF-8, NaN and infinity, bignums, undefined and other simple values are refused.
Unlike with JSON, a number with a fraction is no integer, however small the fraction, and unknown fields are not named.

Rejected: cbor2, which does not report duplicate names, and reads the length of nothing before it is asked for a value.
"""

from __future__ import annotations

import struct as binary
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import isfinite, isnan, modf
from typing import Any, Final, NamedTuple

from rewound.actors.golang.json import DEEPEST
from rewound.actors.golang.quoting import LONGEST, quoted_start
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
)
from rewound.actors.kinds.schema.json_tree import TOO_DEEP
from rewound.actors.kinds.schema.scalars import read_scalar
from rewound.actors.kinds.values.times import canonical_seconds
from rewound.actors.runtime.large_work import too_many_values
from rewound.actors.runtime.time_limit import check_time

_UINT, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _PRIMITIVE = range(8)
_TYPE_NAMES: Final = (
    *("positive integer", "negative integer", "byte string", "UTF-8 text string"),
    *("array", "map", "tag", "primitives"),
)
_BREAK, _FALSE, _TRUE, _NULL = 0xFF, 0xF4, 0xF5, 0xF6
_INDEFINITE: Final = 31
_DEEPEST: Final = 10_000
_LONGEST_ARRAY, _LONGEST_MAP = 2**31 - 1, 2**21
_FLOATS: Final = {25: ">e", 26: ">f", 27: ">d"}
_BASE64URL, _BASE64, _BASE16 = 21, 22, 23
_HEADS_AT_ONCE: Final = 10_000  # between two checks of the time
_END: Final = "unexpected EOF"


class NotCbor(ValueError):
    """The body is not acceptable CBOR. `is_recognizable`: kind and apiVersion can be read."""

    is_recognizable = True


class WrongCborType(NotCbor):
    def __init__(self, found: str, go_type: str, why: str = "") -> None:
        self._found, self._go_type, self._why = found, go_type, why
        self.field = ""  # of the outermost struct

    def __str__(self) -> str:
        target = f"Go struct field {self.field}" if self.field else "Go value"
        why = f" ({self._why})" if self._why else ""
        return f"cbor: cannot unmarshal {self._found} into {target} of type {self._go_type}{why}"


class Read(NamedTuple):
    value: Any
    problems: tuple[str, ...] = ()  # unknown fields: Kubernetes reports one of them, by its place in its map


class _Head(NamedTuple):
    type: int
    info: int  # the five lower bits of the first byte
    value: int
    after: int  # the offset of what follows


def check_form(raw: bytes, most_values: int) -> None:
    """Raise NotCbor if the bytes are not one well-formed item, and TooLarge if it has too many values."""
    try:
        _Form(raw, most_values).check()
    except NotCbor as error:
        error.is_recognizable = False
        raise


def read_object(struct: Struct, type_name: str, raw: bytes, most_values: int) -> Read:
    """Decode an object of a declared type; `type_name` is its name in Go, as errors have it."""
    check_form(raw, most_values)
    _check_type_meta(raw)
    reader = _Reader(raw)
    value = reader.root(_document(struct), type_name)
    index = reader.unknown
    return Read(value, () if index is None else (f"cbor: found unknown field at map element index {index}",))


def read_custom(raw: bytes, most_values: int) -> Any:
    """Decode a custom object. Kubernetes looks at its type only if something is wrong."""
    try:
        return read_values(raw, most_values)
    except NotCbor as error:
        if error.is_recognizable:
            _check_type_meta(raw)
        raise


def read_values(raw: bytes, most_values: int) -> Any:
    """Decode a map that no struct describes, or null."""
    check_form(raw, most_values)
    return _Reader(raw).read(_ANY_MAP)


def _check_type_meta(raw: bytes) -> None:
    try:
        _Reader(raw).check_type_meta()
    except NotCbor as error:
        error.is_recognizable = False
        raise


_ANY: Final = JsonValue("any", "interface {}", "")
_ANY_MAP, _ANY_LIST = MapOf(_ANY, "map[string]interface {}"), ListOf(_ANY)
_UINT8: Final = Scalar("uint8", "uint8")
_RANGES: Final = {**INTEGER_RANGES, _UINT8: (0, 255)}
_RAW_TYPES: Final = {ANY_JSON: "RawExtension", FIELDS_V1: "FieldsV1"}
_TYPE_META: Final = Struct("meta.v1.TypeMeta", Field("apiVersion", STRING, 0), Field("kind", STRING, 0))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=1024)
def _document(struct: Struct) -> Struct:
    """The struct with kind and apiVersion."""
    return Struct(struct.of, *_TYPE_META.fields, *struct.fields)


def _head(raw: bytes, at: int) -> _Head:
    """The head at this offset of a document that is well-formed so far. Raises NotCbor."""
    if at >= len(raw):
        raise NotCbor(_END)
    type_, info = raw[at] >> 5, raw[at] & 31
    at += 1
    if info < 24:
        return _Head(type_, info, info, at)
    if info < 28:
        size = 1 << info - 24
        if len(raw) - at < size:
            raise NotCbor(_END)
        return _Head(type_, info, int.from_bytes(raw[at : at + size], "big"), at + size)
    if info == _INDEFINITE and type_ == _PRIMITIVE:
        raise NotCbor('cbor: unexpected "break" code')
    if info < _INDEFINITE or type_ in (_UINT, _NEGATIVE, _TAG):
        raise NotCbor(f"cbor: invalid additional information {info} for type {_TYPE_NAMES[type_]}")
    return _Head(type_, info, 0, at)


class _Form:
    """Checks that a document is well-formed, without recursion."""

    def __init__(self, raw: bytes, most_values: int) -> None:
        self._raw, self._most_values = raw, most_values
        self._heads = 0

    def check(self) -> None:
        raw = self._raw
        if not raw:
            raise NotCbor("EOF")
        at = 0
        # For each open array or map: the number of items that are left, negative if a break ends it.
        left = [1]
        maps = [False]
        tags = 0  # around the items on the way to the current one
        tags_at: list[int] = []
        while left:
            if left[-1] == 0:
                left.pop()
                maps.pop()
                if tags_at:
                    tags = tags_at.pop()
                continue
            if left[-1] < 0 and at < len(raw) and raw[at] == _BREAK:
                if maps[-1] and left[-1] % 2 == 0:
                    raise NotCbor('cbor: unexpected "break" code')
                at += 1
                left[-1] = 0
                continue
            left[-1] -= 1
            head = self._head(at)
            outer = tags
            while head.type == _TAG:
                at = head.after
                if head.value in (2, 3):
                    raise _unacceptable("tag", "bignum")
                head = self._head(at)
                if head.type == _TAG:
                    tags += 1
                    self._check_depth(len(left) + tags - 1)
            at = head.after
            if head.type in (_ARRAY, _MAP):
                self._check_depth(len(left) + tags)
                tags_at.append(outer)
                maps.append(head.type == _MAP)
                left.append(self._items(head))
            else:
                tags = outer
                at = self._scalar(head)
        if at != len(raw):
            raise NotCbor(f"cbor: {len(raw) - at} bytes of extraneous data starting at index {at}")

    def _head(self, at: int) -> _Head:
        """The next head. Names, tags and parts of strings count too; the exact number of values is checked later."""
        self._heads += 1
        if self._heads % _HEADS_AT_ONCE == 0:
            check_time()
            if self._heads > 2 * self._most_values:
                raise too_many_values(f"more than {self._most_values}", self._most_values)
        return _head(self._raw, at)

    def _check_depth(self, depth: int) -> None:
        if depth > _DEEPEST:
            raise NotCbor(f"cbor: exceeded max nested level {_DEEPEST}")

    def _items(self, head: _Head) -> int:
        """How many items follow; -1 if a break ends them."""
        if head.info == _INDEFINITE:
            return -1
        kind = _TYPE_NAMES[head.type]
        if head.value >= 2**63:
            raise NotCbor(f"cbor: {kind} length {head.value} is too large, it would cause integer overflow")
        if head.type == _ARRAY and head.value > _LONGEST_ARRAY:
            raise NotCbor(f"cbor: exceeded max number of elements {_LONGEST_ARRAY} for CBOR array")
        if head.type == _MAP and head.value > _LONGEST_MAP:
            raise NotCbor(f"cbor: exceeded max number of key-value pairs {_LONGEST_MAP} for CBOR map")
        return head.value if head.type == _ARRAY else 2 * head.value

    def _scalar(self, head: _Head) -> int:
        """The offset after a string or a primitive."""
        if head.type in (_BYTES, _TEXT):
            return self._chunks(head) if head.info == _INDEFINITE else self._string(head)
        if head.type == _PRIMITIVE:
            if head.info == 24 and head.value < 32:
                raise NotCbor(f"cbor: invalid simple value {head.value} for type primitives")
            if head.info in _FLOATS and not isfinite(number := _float(self._raw, head)):
                raise _unacceptable("primitives", f"floating-point {'NaN' if isnan(number) else 'infinity'}")
        return head.after

    def _string(self, head: _Head) -> int:
        if head.value >= 2**63:
            kind = _TYPE_NAMES[head.type]
            raise NotCbor(f"cbor: {kind} length {head.value} is too large, causing integer overflow")
        if len(self._raw) - head.after < head.value:
            raise NotCbor(_END)
        return head.after + head.value

    def _chunks(self, head: _Head) -> int:
        at, kind = head.after, _TYPE_NAMES[head.type]
        while True:
            if at >= len(self._raw):
                raise NotCbor(_END)
            if self._raw[at] == _BREAK:
                return at + 1
            type_, info = self._raw[at] >> 5, self._raw[at] & 31
            if type_ != head.type:
                raise NotCbor(f"cbor: wrong element type {_TYPE_NAMES[type_]} for indefinite-length {kind}")
            if info == _INDEFINITE:
                raise NotCbor(f"cbor: indefinite-length {kind} chunk is not definite-length")
            at = self._string(self._head(at))


def _float(raw: bytes, head: _Head) -> float:
    form = _FLOATS[head.info]
    number: float = binary.unpack(form, raw[head.after - binary.calcsize(form) : head.after])[0]
    return number


def _utf8(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise NotCbor("cbor: invalid UTF-8 string") from None


def _unacceptable(type_: str, what: str) -> NotCbor:
    return NotCbor(f"cbor: data item of cbor type {type_} is not accepted by protocol: {what}")


def _duplicate(key: str | int, index: int) -> NotCbor:
    shown = quoted_start(key) if isinstance(key, str) else str(key)
    return NotCbor(f"cbor: found duplicate map key {shown} at map element index {index}")


class _Reader:
    """Reads a well-formed document from its beginning. `unknown` is the place of an unknown field in its map."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0
        self._encoding = 0  # the tag that says how byte strings are to be written as text
        self._depth = 0  # open arrays and maps that are read, not those that are skipped
        self.unknown: int | None = None

    def check_type_meta(self) -> None:
        """Check the members of the outermost map, of which kind and apiVersion must be texts."""
        head = self._untagged()
        if head.type != _MAP:
            if self._raw[self._at] == _NULL:
                return
            why = "cannot decode CBOR array to struct without toarray option" if head.type == _ARRAY else ""
            raise WrongCborType(_TYPE_NAMES[head.type], "v1.TypeMeta", why)
        self._struct_members(_TYPE_META, "v1.TypeMeta")

    def root(self, struct: Struct, type_name: str) -> Any:
        head = self._untagged()
        return {} if head.type != _MAP else self._struct_members(struct, type_name)

    def read(self, type_: Type) -> Any:
        """Read the next item as a value of this type; None for null."""
        if type_ in _RAW_TYPES:
            return self._raw_extension(_RAW_TYPES[type_])
        encoding = self._encoding
        head = self._tagged(type_)
        try:
            return self._read(type_, head)
        finally:
            self._encoding = encoding

    def _untagged(self) -> _Head:
        while (head := _head(self._raw, self._at)).type == _TAG:
            self._at = head.after
        return head

    def _tagged(self, type_: Type) -> _Head:
        """The head of the next item after its tags, whose effect on byte strings is noted."""
        while (head := _head(self._raw, self._at)).type == _TAG:
            self._at = head.after
            inside = _head(self._raw, self._at)
            if head.value == 0 and inside.type != _TEXT:
                got = _TYPE_NAMES[inside.type]
                raise NotCbor(f"cbor: tag number 0 must be followed by text string, got {got}")
            is_number = inside.type in (_UINT, _NEGATIVE) or (
                inside.type == _PRIMITIVE and inside.info in _FLOATS
            )
            if head.value == 1 and not is_number:
                expected, got = "integer or floating-point number", _TYPE_NAMES[inside.type]
                raise NotCbor(f"cbor: tag number 1 must be followed by {expected}, got {got}")
            if head.value in (_BASE64URL, _BASE64, _BASE16):
                self._encoding = head.value
            elif head.value in (0, 1) and type_ not in _READ and isinstance(type_, Scalar):
                return head
        return head

    def _read(self, type_: Type, head: _Head) -> Any:
        if head.type == _TAG:
            return self._time(head.value)
        if isinstance(type_, Struct):
            return self._struct(type_, head)
        if isinstance(type_, ListOf):
            return self._list(type_, head)
        if isinstance(type_, MapOf):
            return self._map(type_, head)
        return _READ.get(type_, _Reader._free)(self, type_, head)

    def _struct(self, struct: Struct, head: _Head) -> Any:
        if head.type == _MAP:
            return self._struct_members(struct, ".".join(struct.of.split(".")[-2:]))
        why = "cannot decode CBOR array to struct without toarray option" if head.type == _ARRAY else ""
        return self._null_or_wrong(head, struct.go_type, why)

    def _struct_members(self, struct: Struct, type_name: str) -> dict[str | int, Any]:
        check_time()
        found: dict[str | int, Any] = {}
        others: set[str | int] = set()
        before, self.unknown = self.unknown, None
        unknown: int | None = None
        for index in self._entries():
            name = self._field_name()
            field = struct.by_name.get(name) if isinstance(name, str) else None
            if name in found or name in others:
                raise _duplicate(name, index)
            if field is None:
                others.add(name)
                unknown = index if unknown is None else unknown
                self._skip()
                continue
            try:
                found[name] = self.read(field.type)
            except WrongCborType as error:
                error.field = f"{type_name}.{name}"
                raise
        if unknown is not None:
            self.unknown = unknown
        if before is not None:
            self.unknown = before
        return found

    def _field_name(self) -> str | int:
        head = _head(self._raw, self._at)
        if head.type == _BYTES:
            return self._string(head).decode("utf-8", "replace")
        if head.type == _TEXT:
            return _utf8(self._string(head))
        if head.type in (_UINT, _NEGATIVE):
            self._at = head.after
            return head.value if head.type == _UINT else -1 - head.value
        kind = _TYPE_NAMES[head.type]
        why = f"map key is of type {kind} and cannot be used to match struct field name"
        raise WrongCborType(kind, "string", why)

    def _list(self, type_: ListOf, head: _Head) -> Any:
        if head.type != _ARRAY:
            return self._null_or_wrong(head, type_.go_type)
        return [self.read(type_.item) for _ in self._entries()]

    def _map(self, type_: MapOf, head: _Head) -> Any:
        if head.type != _MAP:
            return self._null_or_wrong(head, type_.go_type)
        found: dict[str, Any] = {}
        for index in self._entries():
            key = self.read(STRING) or ""
            value = self.read(type_.value)
            if key in found:
                raise _duplicate(key, index)
            found[key] = value
        return found

    def _entries(self) -> Iterator[int]:
        """The indexes of the items of an array or map, whose head is next; each is to be read before the next one."""
        head = self._untagged()
        self._at = head.after
        self._depth += 1
        if self._depth > DEEPEST:
            raise NotCbor(TOO_DEEP)
        if head.info != _INDEFINITE:
            yield from range(head.value)
        else:
            index = 0
            while self._raw[self._at] != _BREAK:
                yield index
                index += 1
            self._at += 1
        self._depth -= 1

    def _free(self, type_: Type, head: _Head) -> Any:
        """A value of any type."""
        if head.type == _MAP:
            return self._map(_ANY_MAP, head)
        if head.type == _ARRAY:
            return self._list(_ANY_LIST, head)
        if head.type in (_BYTES, _TEXT):
            return self._text(STRING, head)
        self._at = head.after
        if head.type in (_UINT, _NEGATIVE):
            number = head.value if head.type == _UINT else -1 - head.value
            if not -(2**63) <= number < 2**63:
                raise WrongCborType(_TYPE_NAMES[head.type], "int64", f"{number} overflows Go's int64")
            return number
        return self._primitive(head)

    def _primitive(self, head: _Head) -> Any:
        if head.info in _FLOATS:
            return _float(self._raw, head)
        if head.value in (20, 21, 22):
            return {20: False, 21: True, 22: None}[head.value]
        raise _unacceptable("primitives", f"simple value {head.value} is not recognized")

    def _raw_extension(self, name: str) -> Any:
        try:
            return self.read(_ANY)
        except NotCbor as error:
            raise NotCbor(
                f"failed to transcode {name} to JSON: failed to parse {name} bytes as CBOR: {error}"
            ) from None

    def _text(self, type_: Type, head: _Head) -> Any:
        if head.type == _TEXT:
            return _utf8(self._string(head))
        if head.type != _BYTES:
            return self._null_or_wrong(head, "string")
        content, encoding = self._string(head), self._encoding
        if encoding == _BASE64:
            content = b64encode(content)
        elif encoding == _BASE64URL:
            content = urlsafe_b64encode(content).rstrip(b"=")
        elif encoding == _BASE16:
            content = content.hex().encode()
        return content.decode("utf-8", "replace")

    def _boolean(self, type_: Type, head: _Head) -> Any:
        if self._raw[self._at] in (_FALSE, _TRUE):
            self._at += 1
            return self._raw[self._at - 1] == _TRUE
        return self._null_or_wrong(head, "bool")

    def _integer(self, type_: Type, head: _Head) -> Any:
        if head.type not in (_UINT, _NEGATIVE):
            return self._null_or_wrong(head, type_.go_type)
        self._at = head.after
        number = head.value if head.type == _UINT else -1 - head.value
        least, most = _RANGES[type_]  # type: ignore[index]
        if not least <= number <= most:
            whose = "Go's int64" if number < -(2**63) else type_.go_type
            raise WrongCborType(_TYPE_NAMES[head.type], type_.go_type, f"{number} overflows {whose}")
        return number

    def _double(self, type_: Type, head: _Head) -> Any:
        if head.type in (_UINT, _NEGATIVE):
            self._at = head.after
            return float(head.value if head.type == _UINT else -1 - head.value)
        if head.type == _PRIMITIVE and head.info in _FLOATS:
            self._at = head.after
            return _float(self._raw, head)
        return self._null_or_wrong(head, type_.go_type)

    def _int_or_string(self, type_: Type, head: _Head) -> Any:
        if head.type in (_BYTES, _TEXT):
            return self._text(STRING, head)
        return self._integer(INT32, head)

    def _byte_slice(self, type_: Type, head: _Head) -> Any:
        """Bytes, as base64. A byte string without a tag has them as base64 already, like a JSON text."""
        if head.type == _ARRAY:
            return b64encode(bytes(self.read(_UINT8) or 0 for _ in self._entries())).decode()
        if head.type != _BYTES:
            return self._null_or_wrong(head, type_.go_type)
        content = self._string(head)
        if self._encoding:
            return b64encode(content).decode()
        try:
            return read_scalar(BYTES, content.decode("latin-1"))
        except ValueError as error:
            raise NotCbor(f"cbor: failed to decode base64 from byte string: {error}") from None

    def _null_or_wrong(self, head: _Head, go_type: str, why: str = "") -> None:
        """None for null; other items have the wrong type."""
        if head.type == _PRIMITIVE and head.info not in _FLOATS and self._primitive(head) is None:
            self._at = head.after
            return
        raise WrongCborType(_TYPE_NAMES[head.type], go_type, why)

    def _string(self, head: _Head) -> bytes:
        raw, at = self._raw, head.after
        if head.info != _INDEFINITE:
            self._at = at + head.value
            return raw[at : self._at]
        chunks = []
        while raw[at] != _BREAK:
            chunk = _head(raw, at)
            at = chunk.after + chunk.value
            if head.type == _TEXT:
                _utf8(raw[chunk.after : at])
            chunks.append(raw[chunk.after : at])
        self._at = at + 1
        return b"".join(chunks)

    def _time(self, tag: int) -> str:
        """A time after its tag, as text: RFC 3339 (tag 0) or seconds since 1970 (tag 1)."""
        head = _head(self._raw, self._at)
        if tag == 0:
            text = _utf8(self._string(head))
            try:
                canonical_seconds(text)
            except ValueError as error:
                raise NotCbor(f"cbor: cannot set {text[:LONGEST]} for time.Time: {error}") from None
            return text
        seconds: float = self._double(DOUBLE, head)
        fraction, whole = modf(seconds)
        try:
            at = _EPOCH + timedelta(seconds=whole, microseconds=round(fraction * 1e6))
        except OverflowError:
            outside = "year outside of range [0,9999]"
            raise NotCbor(
                "cbor: decoded time cannot be represented in RFC3339 format with sub-second precision: "
                f"Time.MarshalText: {outside}"
            ) from None
        return at.isoformat().replace("+00:00", "Z")

    def _skip(self) -> None:
        """Pass over one item, without recursion."""
        left = [1]
        while left:
            if left[-1] == 0:
                left.pop()
                continue
            if left[-1] < 0 and self._raw[self._at] == _BREAK:
                self._at += 1
                left.pop()
                continue
            left[-1] -= 1
            head = self._untagged()
            if head.type in (_BYTES, _TEXT):
                self._pass_string(head)
                continue
            self._at = head.after
            if head.type in (_ARRAY, _MAP):
                left.append(-1 if head.info == _INDEFINITE else head.value * (1 + (head.type == _MAP)))

    def _pass_string(self, head: _Head) -> None:
        self._at = head.after + head.value
        if head.info == _INDEFINITE:
            while self._raw[self._at] != _BREAK:
                chunk = _head(self._raw, self._at)
                self._at = chunk.after + chunk.value
            self._at += 1


_READ: Final[dict[Type, Callable[[_Reader, Type, _Head], Any]]] = {
    STRING: _Reader._text,
    TIME: _Reader._text,
    MICRO_TIME: _Reader._text,
    QUANTITY: _Reader._text,
    BOOL: _Reader._boolean,
    INT32: _Reader._integer,
    INT64: _Reader._integer,
    _UINT8: _Reader._integer,
    DOUBLE: _Reader._double,
    INT_OR_STRING: _Reader._int_or_string,
    BYTES: _Reader._byte_slice,
}
