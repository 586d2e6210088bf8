"""The types in which kinds are declared: scalars, lists, maps, structs, and the fields of a struct.

A group module writes a struct once, in the order in which clients see its fields; both decoders, defaulting,
OpenAPI, protobuf, patches and apply read it. Nothing here checks a value.

    PORT = Struct("core.v1.EndpointPort",
        Field("name", STRING, 1),
        Field("port", INT32, 2, required=True, always=True),
        Field("protocol", STRING, 3, default="TCP", enum=("SCTP", "TCP", "UDP")),
        Field("appProtocol", STRING, 4, pointer=True))

Zero values follow Go's JSON: plain fields omit them, `pointer` fields distinguish zero from absent, `always` fields
are written even when zero. Rejected: one Python class per type, because a custom
resource is made of the same parts at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec


class Scalar(msgspec.Struct, frozen=True, eq=False):
    """A leaf: its name here, and the Go type that decoding errors name."""

    name: str
    go_type: str


STRING: Final = Scalar("string", "string")
BOOL: Final = Scalar("bool", "bool")
INT32: Final = Scalar("int32", "int32")
INT64: Final = Scalar("int64", "int64")
BYTE: Final = Scalar("byte", "uint8")  # of bytes that are sent as a list
BYTES: Final = Scalar("bytes", "[]uint8")
TIME: Final = Scalar("time", "string")
MICRO_TIME: Final = Scalar("microTime", "string")
QUANTITY: Final = Scalar("quantity", "resource.Quantity")
DURATION: Final = Scalar("duration", "v1.Duration")  # in Go's syntax: 1m30s
INT_OR_STRING: Final = Scalar(
    "intOrString", "intstr.IntOrString"
)  # a number, or a string: a name or percentage
FIELDS_V1: Final = Scalar("ownedFields", "v1.FieldsV1")
ANY_JSON: Final = Scalar("free", "runtime.RawExtension")  # any JSON, stored as it was sent
DOUBLE: Final = Scalar("double", "float64")

INTEGER_RANGES: Final = {BYTE: (0, 255), INT32: (-(2**31), 2**31 - 1), INT64: (-(2**63), 2**63 - 1)}


class ListOf(msgspec.Struct, frozen=True, eq=False):
    item: Type
    boxed: bool = False  # protobuf: wrapped in a message of its own
    go_name: str = ""  # name of the Go type, if it has one

    @property
    def go_type(self) -> str:
        return self.go_name or f"[]{self.item.go_type}"


class MapOf(msgspec.Struct, frozen=True, eq=False):
    value: Type
    go_name: str = ""  # name of the Go type, if it has one

    @property
    def go_type(self) -> str:
        return self.go_name or f"map[string]{self.value.go_type}"


class Before:
    """How a field was declared in versions before `version`: the attributes that differ."""

    __slots__ = ("differs", "version")

    def __init__(self, version: str, **differs: Any) -> None:
        self.version, self.differs = version, differs


# Of the lists whose type was not declared before 1.30.
UNTYPED_BEFORE_1_30: Final = (Before("1.30", list_type="", list_keys=()),)
OPTIONAL_BEFORE_1_30: Final = (Before("1.30", required=False, always=False),)


class Field(msgspec.Struct, frozen=True, eq=False):
    """One field. `merge_key`, `list_type` and the like say how patches and apply treat it."""

    name: str
    type: Type
    number: int  # protobuf
    embedded: int = 0  # protobuf: the number of the embedded message that holds this field
    embedded_inside: int = 0  # protobuf: that of a message embedded in the embedded one
    pointer: bool = False  # present zero values are stored
    always: bool = False  # written even when zero
    required: bool = False  # in OpenAPI; validation enforces it
    default: Any = None
    enum: tuple[str, ...] = ()
    patch: str = ""  # "merge", "replace", "retainKeys"
    merge_key: str = ""
    list_type: str = ""  # "atomic", "set", "map"
    list_keys: tuple[str, ...] = ()
    map_type: str = ""  # "atomic", "granular"
    often_null: bool = False  # clients send null for absent
    bare: bool = False  # in OpenAPI v3, a reference without allOf: v1.25 has no separate description for it
    # Of a list: no object has it when it is empty, but admission learns that a client sent it.
    dropped_when_empty: bool = False
    # The versions of Kubernetes that have the field, the gate it belongs to, and how it was declared earlier.
    since: str = ""
    until: str = ""
    gate: str = ""
    before: tuple[Before, ...] = ()

    @property
    def may_be_absent(self) -> bool:
        return self.default is None and not self.always and not self.always_present

    @property
    def always_present(self) -> bool:
        """Go's JSON cannot omit this field, so objects have it even when the client did not send it."""
        if self.pointer:
            return False
        return self.always or isinstance(self.type, Struct) or self.type in _NEVER_EMPTY


class JsonValue(Scalar, frozen=True, eq=False):
    """A type of the API whose values may be any JSON, stored as it was sent. `of` is its API type."""

    of: str


class Struct:
    """Named fields in the order in which clients see them. `of` is its API type: group, version, name.

    Apply treats an `atomic` struct as one value: it has one owner and is replaced as a whole. At most one field of a
    `union` is set, and the field of this name says which; None: it is no union, empty: no field says which.
    """

    __slots__ = ("absent", "atomic", "atomic_since", "by_name", "fields", "name", "of", "union")

    def __init__(
        self,
        of: str,
        *fields: Field,
        atomic: bool = False,
        atomic_since: str = "",
        union: str | None = None,
    ) -> None:
        self.of = of
        self.atomic = atomic
        self.atomic_since = atomic_since  # the first version of Kubernetes in which it is atomic; empty: all
        self.union = union
        self.name = of.rpartition(".")[2]
        self.set_fields(fields)

    @classmethod
    def recursive(cls, of: str, make_fields: Callable[[Struct], tuple[Field, ...]]) -> Struct:
        """Return a struct with fields that contain structs of the same type."""
        made = cls(of)
        made.set_fields(make_fields(made))
        return made

    def set_fields(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        self.by_name: Mapping[str, Field] = {field.name: field for field in fields}
        # Fields that an object lacks if its document omits them: `absent_value` is NOTHING.
        self.absent = frozenset(field.name for field in fields if field.may_be_absent)

    def __repr__(self) -> str:
        return f"<Struct {self.of}>"

    @property
    def go_type(self) -> str:
        return f"v1.{self.name}"

    def arranged(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return the same members in declared order, for code that adds some."""
        return {name: value[name] for name in self.by_name if name in value}


class CustomStruct(Struct):
    """The top-level members of a custom kind, or of its lists; its JSON schema describes the rest."""

    __slots__ = ("group", "kind", "list_kind", "make_schema", "version")

    def __init__(
        self,
        group: str,
        version: str,
        kind: str,
        *fields: Field,
        list_kind: str = "",
        make_schema: Callable[[], Mapping[str, Any]] | None = None,  # None: a list kind
    ) -> None:
        super().__init__(f"custom.{group}/{version}.{kind}", *fields)
        self.group, self.version, self.kind, self.list_kind = group, version, kind, list_kind
        self.make_schema = make_schema


class StructOr(JsonValue, frozen=True, eq=False):
    """A struct, or a value of another type in its place; the JSON type of the value decides which.

    Patches and apply treat it as one value.
    """

    struct: Struct
    other: Type
    numbers: tuple[
        int, int
    ]  # protobuf: the numbers of the struct and of the other value, in a message of their own


Type = Scalar | ListOf | MapOf | Struct

_NEVER_EMPTY: Final = frozenset((TIME, MICRO_TIME, QUANTITY, DURATION, INT_OR_STRING))
_SCALAR_ZEROS: Final = {
    STRING: "",
    BOOL: False,
    INT32: 0,
    INT64: 0,
    BYTES: "",
    QUANTITY: "0",
    DURATION: "0s",
    INT_OR_STRING: 0,
}

STRINGS: Final = ListOf(STRING)
STRING_MAP: Final = MapOf(STRING)
BYTES_MAP: Final = MapOf(BYTES)
QUANTITIES: Final = MapOf(QUANTITY, go_name="v1.ResourceList")

NOTHING: Final = object()  # no value, where None would mean null


def zero(type_: Type, *, defaults: bool) -> Any:
    """Return the zero value of a type: None for times, lists and maps."""
    if isinstance(type_, Struct):
        return zero_struct(type_, defaults=defaults)
    return _SCALAR_ZEROS.get(type_) if isinstance(type_, Scalar) else None


def zero_struct(struct: Struct, *, defaults: bool) -> dict[str, Any]:
    members = ((field.name, absent_value(field, defaults=defaults)) for field in struct.fields)
    return {name: value for name, value in members if value is not NOTHING}


def absent_value(field: Field, *, defaults: bool) -> Any:
    """Return the value that an object has for a field that its document omits; NOTHING if it has none."""
    if defaults and field.default is not None:
        return new_default(field.default)
    if field.always_present:
        return zero(field.type, defaults=defaults)
    return None if field.always else NOTHING


def new_default(default: Any) -> Any:
    """Return a declared default, never shared: mutable ones are declared as functions that create them."""
    return default() if isinstance(default, Callable) else default  # type: ignore[arg-type]
