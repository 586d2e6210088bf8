"""Generates documents that grow at chosen fields: any list or map that a kind declares can be made long.

`paths_of` finds every list and map of a kind. `Growing` generates a document in which the lists and maps at some of
those paths have as many elements as a test wants, and all others one; nested lists are long in the first element of the
list around them only, so that the document grows with the number of elements. The styles differ in the elements: empty,
all alike, all different, all different with the values that enums allow. None is valid as a whole; as long as there are
fewer errors than validation stops at, every rule runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    BYTES,
    DOUBLE,
    FIELDS_V1,
    INT32,
    INT64,
    INT_OR_STRING,
    MICRO_TIME,
    QUANTITY,
    TIME,
    Field,
    JsonValue,
    ListOf,
    MapOf,
    Scalar,
    Struct,
    Type,
)

Path = tuple[str, ...]

STYLES: Final = ("empty", "alike", "different", "enumerated")
DEEPEST: Final = 9  # levels of structs

_SCALARS: Final[dict[Scalar, Any]] = {
    BOOL: True,
    BYTES: "YQ==",
    TIME: "2020-01-02T03:04:05Z",
    MICRO_TIME: "2020-01-02T03:04:05.000006Z",
    QUANTITY: "1",
    ANY_JSON: {"a": 1},
    FIELDS_V1: {"f:a": {}},
    DOUBLE: 1.5,
}
# Fields whose rules continue only if the value has the right format, by a part of their names.
_FORMATS: Final = (
    ("cidr", "10.{high}.{low}.0/24"),
    ("ranges", "10.{high}.{low}.0/24"),
    ("ip", "10.0.{high}.{low}"),
    ("path", "/a/{index}"),
    ("url", "/a/{index}"),
)
_WORDS: Final = {"operator": "In", "protocol": "TCP", "ipFamilies": "IPv4"}
_SERVER_SET: Final = frozenset(("resourceVersion", "deletionTimestamp", "uid", "generateName", "namespace"))


def paths_of(struct: Struct, around: Path = (), structs: tuple[Struct, ...] = ()) -> Iterator[Path]:
    """The path of every list and map, except below structs that contain themselves."""
    if struct in structs or len(structs) > DEEPEST:
        return
    for field in struct.fields:
        path, type_ = (*around, field.name), field.type
        if isinstance(type_, (ListOf, MapOf)):
            yield path
        inner = _innermost(type_)
        if isinstance(inner, Struct):
            yield from paths_of(inner, path, (*structs, struct))


def _innermost(type_: Type) -> Scalar | Struct:
    while isinstance(type_, (ListOf, MapOf)):
        type_ = type_.item if isinstance(type_, ListOf) else type_.value
    return type_


class Growing:
    """Generates documents with `count` elements at each of `paths`."""

    def __init__(self, style: str, paths: tuple[Path, ...], count: int) -> None:
        self._style, self._paths, self._count = style, frozenset(paths), count
        self._wanted = {path[:length] for path in paths for length in range(1, len(path) + 1)}

    def document(self, struct: Struct) -> dict[str, Any]:
        document = self._struct(struct, (), 0, full=True)
        document["metadata"] = {**document.get("metadata", {}), "name": "a"}
        return document

    def _struct(self, struct: Struct, around: Path, index: int, *, full: bool) -> dict[str, Any]:
        """All fields of the style; those on the way to the paths are always there."""
        found: dict[str, Any] = {}
        for field in struct.fields:
            path = (*around, field.name)
            on_the_way = full and path in self._wanted
            if field.name in _SERVER_SET or not (on_the_way or self._has(struct, field, len(path))):
                continue
            found[field.name] = self._value(field.type, field, path, index, full=full)
        return found

    def _has(self, struct: Struct, field: Field, depth: int) -> bool:
        if self._style == "empty" or depth > DEEPEST:
            return False
        if self._style == "enumerated" and struct.name in (
            "Volume",
            "VolumeProjection",
            "PersistentVolumeSpec",
        ):
            return field.name in ("name", "emptyDir", "capacity", "accessModes", "persistentVolumeClaim")
        return depth <= 4 or not isinstance(_innermost(field.type), Struct)

    def _value(self, type_: Type, field: Field, path: Path, index: int, *, full: bool) -> Any:
        if isinstance(type_, Struct):
            return self._struct(type_, path, index, full=full)
        count = self._count if full and path in self._paths else 1
        if isinstance(type_, ListOf):
            return [
                self._value(type_.item, field, path, index + at, full=full and not at) for at in range(count)
            ]
        if isinstance(type_, MapOf):
            return {
                f"example.com/k{index + at}": self._value(
                    type_.value, field, path, index + at, full=full and not at
                )
                for at in range(count)
            }
        return self._scalar(type_, field, 0 if self._style == "alike" else index)

    def _scalar(self, type_: Scalar, field: Field, index: int) -> Any:
        if isinstance(type_, JsonValue):
            return {}
        if type_ in _SCALARS:
            return _SCALARS[type_]
        if self._style == "empty":
            return 0 if type_ in (INT32, INT64, INT_OR_STRING) else ""
        if type_ in (INT32, INT64, INT_OR_STRING):
            return index % 5 + 1  # larger ones would have more errors than those before them
        if self._style == "enumerated" and (field.enum or field.name in _WORDS):
            return field.enum[0] if field.enum else _WORDS[field.name]
        for part, form in _FORMATS:
            if part in field.name.lower():
                return form.format(high=index // 250, low=index % 250 + 1, index=index)
        return f"a{index}"
