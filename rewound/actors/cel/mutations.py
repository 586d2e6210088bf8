"""What expressions of mutating admission policies construct: apply configurations and operations of JSON patches.

    Object{spec: Object.spec{replicas: 3}}
    [JSONPatch{op: "add", path: "/metadata/labels/a", value: "b"}]

The types of objects are not declared: `Object.spec` is the type of any object in the field `spec`, and its fields are
dyn. Whether the names of types match the fields is known only when the value exists (`type_errors`). What has the wrong
type for the kind is found when the value is merged.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from rewound.actors.cel.data import go_type
from rewound.actors.cel.operations import as_json, to_string
from rewound.actors.cel.types import DYN, STRING, Type
from rewound.actors.cel.values import (
    ConcatList,
    Duration,
    EvaluationError,
    ListValue,
    MapLike,
    MapValue,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    go_type_name,
    is_list,
    list_size,
    printed,
    walked,
)
from rewound.actors.golang.format import GoValue
from rewound.actors.golang.quoting import quoted
from rewound.actors.runtime.budget import Budget

OBJECT: Final = "Object"
PATCH: Final = "JSONPatch"
NOT_DECLARED: Final = Type("")  # of any other field of an operation
_PATCH_FIELDS: Final = {"op": STRING, "path": STRING, "from": STRING, "value": DYN}


def is_type(name: str) -> bool:
    return name in (PATCH, OBJECT) or name.startswith(f"{OBJECT}.")


def field_type(name: str, field: str) -> Type:
    """Return the type of a field of one of these types."""
    return _PATCH_FIELDS.get(field, NOT_DECLARED) if name == PATCH else DYN


class Constructed:
    """A value with fields to select."""

    __slots__ = ()

    def get(self, name: Any) -> Any:
        raise NotImplementedError

    def contains(self, name: str) -> bool:
        raise NotImplementedError


class ObjectValue(Constructed):
    """An object, or a part of one; `type_name` has the path of fields to it."""

    __slots__ = ("fields", "type_name")
    go_name: Final = "*dynamic.ObjectVal"

    def __init__(self, type_name: str, fields: dict[str, Any]) -> None:
        self.type_name, self.fields = type_name, fields

    def get(self, name: Any) -> Any:
        return self.fields.get(name)

    def contains(self, name: str) -> bool:
        return name in self.fields

    def equals(self, other: Any, budget: Budget) -> bool:
        if other.__class__ is not ObjectValue or other.type_name != self.type_name:
            return False
        theirs = other.fields
        budget.visit(len(theirs))
        return self.fields.keys() == theirs.keys() and all(
            _deep_equal(value, theirs[name], budget) for name, value in self.fields.items()
        )


def _deep_equal(left: Any, right: Any, budget: Budget) -> bool:
    """Whether Go's reflection finds two values equal, which it never does for two lists."""
    if left is right:
        return True
    if left.__class__ is not right.__class__ or is_list(left):
        return False
    if left.__class__ is ObjectValue:
        return bool(left.equals(right, budget))
    if left.__class__ is MapValue:
        budget.visit(left.size())
        return left.entries.keys() == right.entries.keys() and all(
            _deep_equal(value, right.entries[key][1], budget) for key, (_, value) in left.entries.items()
        )
    return bool(left == right)


class PatchValue(Constructed):
    """An operation of a JSON patch."""

    __slots__ = ("fields",)
    type_name: Final = PATCH
    go_name: Final = "*mutation.JSONPatchVal"

    def __init__(self, fields: dict[str, Any]) -> None:
        for name, value in fields.items():
            if name != "value" and value.__class__ is not str:
                wrong = go_type(value) if value is not None else "structpb.NullValue"
                raise EvaluationError(f"unexpected type {wrong} for JSONPatchType '{name}' field")
        self.fields = fields

    def get(self, name: Any) -> Any:
        if name not in _PATCH_FIELDS:
            raise EvaluationError(f"unsupported indexer: {name}")
        return self.fields.get(name, None if name == "value" else "")

    def contains(self, name: str) -> bool:
        return name in self.fields if name == "value" else bool(self.fields.get(name))

    def equals(self, other: Any, budget: Budget) -> bool:
        if other.__class__ is not PatchValue or self.fields.keys() != other.fields.keys():
            return False
        return all(_same_items(value, other.fields[name], budget) for name, value in self.fields.items())


def _same_items(left: Any, right: Any, budget: Budget) -> bool:
    """Whether two values are the same one, equal scalars, or lists of such values."""
    if left is right or not isinstance(left, list) or not isinstance(right, list):
        return bool(left == right)
    return len(left) == len(right) and all(
        _same_items(item, other, budget) for item, other in zip(walked(left, budget), right, strict=True)
    )


def maker(name: str, fields: list[str]) -> Callable[[list[Any]], Any]:
    """Return the function that makes a value of one of these types from the values of its fields."""
    if name == PATCH:
        return lambda values: PatchValue(dict(zip(fields, values, strict=True)))
    return lambda values: ObjectValue(name, dict(zip(fields, values, strict=True)))


def type_errors(value: ObjectValue, budget: Budget) -> str:
    """Return an error for each part whose type is not named like the fields that lead to it, in lines of their own."""
    return "\n".join(_wrong_names(value, value.type_name, budget))


def _wrong_names(value: Any, path: str, budget: Budget) -> Iterator[str]:
    if value.__class__ is ObjectValue:
        if value.type_name != path:
            yield (
                f"unexpected type name {quoted(value.type_name)}, expected {quoted(path)}, "
                "which matches field name path from root Object type"
            )
        budget.visit(len(value.fields))
        for name, inner in value.fields.items():
            yield from _wrong_names(inner, f"{path}.{name}", budget)
    elif isinstance(value, list):
        for item in walked(value, budget):
            yield from _wrong_names(item, path, budget)
    elif isinstance(value, MapValue):
        budget.visit(value.size())
        for _, inner in value.entries.values():
            yield from _wrong_names(inner, path, budget)


class NotNative(Exception):
    """A value that no object can have: a map with keys that are not strings."""


_VALUE: Final = 100  # bytes of a value in a list or map, without its text


def to_object(value: ObjectValue, budget: Budget) -> dict[str, Any]:
    """Return an apply configuration as JSON; what has no JSON in it is a GoValue. Raises NotNative and OverBudget."""
    _count(len(value.fields), budget)
    return {name: _field(inner, budget) for name, inner in value.fields.items()}


def _count(values: int, budget: Budget) -> None:
    budget.visit(values)
    budget.take(_VALUE * values)


def _field(value: Any, budget: Budget) -> Any:
    """Only lists and maps that are fields themselves become JSON, not those inside other lists and maps."""
    while value.__class__ is Optional and value.has_value:
        value = value.value
    if is_list(value) and not hasattr(value, "raw"):
        return _native_items(value, budget)
    if value.__class__ is MapValue:
        _count(value.size(), budget)
        members: dict[str, Any] = {}
        for key, inner in value.entries.values():
            if key.__class__ is not str:
                raise NotNative(f"map key {printed(key)} is of type {go_type_name(key)}, not string")
            members[key] = _native(inner, budget)
        return members
    return _native(value, budget)


def _native_items(values: Any, budget: Budget) -> list[Any]:
    budget.take(_VALUE * list_size(values))
    return [_native(item, budget) for item in walked(values, budget)]


def _native(value: Any, budget: Budget) -> Any:
    kind = value.__class__
    if kind is str:
        budget.take(len(value))
        return value
    if kind in (bool, int, float):
        return value
    if kind is ObjectValue:
        return to_object(value, budget)
    if kind is Optional and value.has_value:
        return _native(value.value, budget)
    if kind is ConcatList:
        return _native_items(value, budget)
    if hasattr(value, "raw"):
        return value.raw
    made = _go_value(value, budget)
    budget.take(4 * (len(made.printed) + len(made.source)))
    return made


def _go_value(value: Any, budget: Budget) -> GoValue:
    if value is None:
        return GoValue("NULL_VALUE", "0", "structpb.NullValue")
    if value.__class__ is Uint:
        return GoValue(str(int(value)), hex(value), "uint64")
    if value.__class__ is bytes:
        source = ", ".join(hex(one) for one in value)
        return GoValue(f"[{' '.join(map(str, value))}]", f"[]uint8{{{source}}}", "[]uint8")
    if value.__class__ is Duration:
        return GoValue(to_string(value), str(value.nanoseconds), "time.Duration")
    if value.__class__ is Timestamp:
        return _go_time(value)
    if value.__class__ is list:
        items = [_printed(item, budget) for item in walked(value, budget)]
        sources = [_source(item, budget) for item in walked(value, budget)]
        return GoValue(f"[{' '.join(items)}]", f"[]ref.Val{{{', '.join(sources)}}}", "[]ref.Val")
    if value.__class__ is MapValue:
        budget.visit(2 * value.size())
        entries = value.entries.values()
        texts = sorted(f"{_printed(key, budget)}:{_printed(inner, budget)}" for key, inner in entries)
        sources = sorted(f"{_source(key, budget)}:{_source(inner, budget)}" for key, inner in entries)
        kind = "map[ref.Val]ref.Val"
        return GoValue(f"map[{' '.join(texts)}]", f"{kind}{{{', '.join(sources)}}}", kind)
    return GoValue("no such overload", "no such overload", go_type_name(value))


def _go_time(value: Timestamp) -> GoValue:
    at = datetime.fromtimestamp(value.seconds, UTC)
    clock = f"{at.hour}, {at.minute}, {at.second}, {value.nanoseconds}"
    source = f"time.Date({at.year}, time.{at:%B}, {at.day}, {clock}, time.UTC)"
    return GoValue(f"{at:%Y-%m-%d %H:%M:%S} +0000 UTC", source, "time.Time")


def _printed(value: Any, budget: Budget) -> str:
    native = _native(value, budget)
    return native.printed if native.__class__ is GoValue else printed(native)


def _source(value: Any, budget: Budget) -> str:
    if value.__class__ is str:
        return quoted(value)
    native = _native(value, budget)
    return native.source if native.__class__ is GoValue else printed(native)


def to_json(value: Any, budget: Budget) -> Any:
    """Return the value of an operation as JSON. Raises EvaluationError if it has none, and OverBudget."""
    if value.__class__ is Optional:
        return to_json(value.value, budget)
    if value.__class__ is ObjectValue:
        try:
            return _plain(to_object(value, budget), budget)
        except NotNative as error:
            raise EvaluationError(str(error)) from None
    if value.__class__ is PatchValue:
        raise EvaluationError("cannot convert to native type: *structpb.Value")
    if value.__class__ is TypeValue:
        raise EvaluationError("type conversion not supported for 'type'")
    return _plain(as_json(value, budget), budget)


def _plain(value: Any, budget: Budget) -> Any:
    """Numbers as protobuf's JSON has them: those without a fraction are written without a point."""
    if value.__class__ is dict:
        budget.visit(len(value))
        return {name: _plain(inner, budget) for name, inner in value.items()}
    if isinstance(value, MapLike):
        budget.visit(value.size())
        return {str(key): _plain(value.get(key), budget) for key in list(value.keys())}
    if isinstance(value, list | ListValue):
        return [_plain(inner, budget) for inner in walked(value, budget)]
    if value.__class__ is int:
        value = float(value)
    if value.__class__ is float and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if value.__class__ is GoValue:
        if value.type == "[]uint8":
            return base64.b64encode(bytes(map(int, value.printed[1:-1].split()))).decode()
        if value.type == "uint64":
            return int(value.printed)
        raise EvaluationError(f"proto: invalid type: {value.type}")
    return value
