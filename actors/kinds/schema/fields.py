"""The alphabet in which kinds are declared: scalars, lists, maps, structs, and the fields of a struct.

A group module writes a struct once, in the order in which clients see its fields; the decoder, the fast
decoder, defaulting, OpenAPI, protobuf and both merges read it. Nothing here decides anything about a value.

    PORT = Struct("core.v1.EndpointPort",
        Field("name", STRING, 1),
        Field("port", INT32, 2, required=True, always=True),
        Field("protocol", STRING, 3, default="TCP", enum=("SCTP", "TCP", "UDP")),
        Field("appProtocol", STRING, 4, pointer=True))

What a zero value becomes follows the wire format that clients know: plain fields drop it, `pointer` fields
tell zero from absent, `always` fields show it. Rejected: one Python class per type, because a custom
resource is made of the same parts at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A leaf: a name of ours and the name that decoding errors call it by."""

    name: str
    spoken: str


STRING: Final = Scalar("string", "string")
BOOL: Final = Scalar("bool", "bool")
INT32: Final = Scalar("int32", "int32")
INT64: Final = Scalar("int64", "int64")
BYTES: Final = Scalar("bytes", "[]uint8")
TIME: Final = Scalar("time", "v1.Time")
MICRO_TIME: Final = Scalar("microTime", "v1.MicroTime")
QUANTITY: Final = Scalar("quantity", "resource.Quantity")
INT_OR_STRING: Final = Scalar(
    "intOrString", "intstr.IntOrString"
)  # a number, or a name or share in its place
OWNED_FIELDS: Final = Scalar("ownedFields", "v1.FieldsV1")
FREE: Final = Scalar("free", "runtime.RawExtension")  # any JSON, kept as it was sent

INTEGER_RANGES: Final = {INT32: (-(2**31), 2**31 - 1), INT64: (-(2**63), 2**63 - 1)}


@dataclass(frozen=True, slots=True, eq=False)
class ListOf:
    item: Type
    boxed: bool = False  # protobuf: it stands in a message of its own

    @property
    def spoken(self) -> str:
        return f"[]{self.item.spoken}"


@dataclass(frozen=True, slots=True, eq=False)
class MapOf:
    value: Type

    @property
    def spoken(self) -> str:
        return f"map[string]{self.value.spoken}"


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field. `merge_key`, `list_type` and their like say how patches and apply treat it."""

    name: str
    type: Type
    number: int  # protobuf
    embedded: int = 0  # protobuf: the number of the nameless message that this field travels inside of
    pointer: bool = False  # present zero values are kept
    always: bool = False  # shown even when zero
    required: bool = False  # as API descriptions state it; rules do the refusing
    default: Any = None
    enum: tuple[str, ...] = ()
    patch: str = ""  # "merge", "replace", "retainKeys"
    merge_key: str = ""
    list_type: str = ""  # "atomic", "set", "map"
    list_keys: tuple[str, ...] = ()
    map_type: str = ""  # "atomic", "granular"
    null_is_usual: bool = False  # clients spell its absence as null

    @property
    def holds(self) -> bool:
        """The wire format has no way to leave this one out, so it is there even when nothing was said."""
        if self.pointer:
            return False
        return self.always or isinstance(self.type, Struct) or self.type in _NEVER_EMPTY


class Struct:
    """Named fields in the order clients see them. `of` names it among API types: group, version, name.

    An `atomic` struct is one value to those who apply: it has one owner and is replaced whole. Of a `union` at
    most one field is set, and the field of this name tells which.
    """

    __slots__ = ("atomic", "by_name", "fields", "name", "of", "union")

    def __init__(self, of: str, *fields: Field, atomic: bool = False, union: str = "") -> None:
        self.of = of
        self.atomic = atomic
        self.union = union
        self.name = of.rpartition(".")[2]
        self.fields = fields
        self.by_name: Mapping[str, Field] = {field.name: field for field in fields}

    def __repr__(self) -> str:
        return f"<Struct {self.of}>"

    @property
    def spoken(self) -> str:
        return f"v1.{self.name}"

    def arranged(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The same members in declared order, for rules that add some."""
        return {field.name: value[field.name] for field in self.fields if field.name in value}


Type = Scalar | ListOf | MapOf | Struct

_NEVER_EMPTY: Final = frozenset((TIME, MICRO_TIME, QUANTITY, INT_OR_STRING))
_SCALAR_ZEROS: Final = {
    STRING: "",
    BOOL: False,
    INT32: 0,
    INT64: 0,
    BYTES: "",
    QUANTITY: "0",
    INT_OR_STRING: 0,
}

STRINGS: Final = ListOf(STRING)
STRING_MAP: Final = MapOf(STRING)
BYTES_MAP: Final = MapOf(BYTES)
QUANTITIES: Final = MapOf(QUANTITY)

NOTHING: Final = object()  # what a field without a value is, where None would mean null


def zero(type_: Type, *, fill: bool) -> Any:
    """The value of a type of which nothing was said: None for times, lists and maps."""
    if isinstance(type_, Struct):
        return zero_struct(type_, fill=fill)
    return _SCALAR_ZEROS.get(type_) if isinstance(type_, Scalar) else None


def zero_struct(struct: Struct, *, fill: bool) -> dict[str, Any]:
    members = ((field.name, unsaid(field, fill=fill)) for field in struct.fields)
    return {name: value for name, value in members if value is not NOTHING}


def unsaid(field: Field, *, fill: bool) -> Any:
    """What an object holds for a field that its document leaves out; NOTHING when it holds nothing."""
    if fill and field.default is not None:
        return fresh(field.default)
    if field.holds:
        return zero(field.type, fill=fill)
    return None if field.always else NOTHING


def fresh(default: Any) -> Any:
    """A declared default, never shared: mutable ones are declared as functions that make them."""
    return default() if isinstance(default, Callable) else default  # type: ignore[arg-type]
