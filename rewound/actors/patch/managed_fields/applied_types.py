"""Checks the types of an applied custom object: a value of another type than its schema declares cannot be merged.

v1.25 reads the configuration by the schema before it merges, so such an error comes before conflicts with other
managers, and also covers fields that the strategy drops afterwards, such as the status. Null has every type, and
validation decides whether a number is an integer. The decoder of built-in kinds has already checked theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rewound.actors.golang.quoting import cut
from rewound.actors.kinds.declaration.definition import CustomKind
from rewound.actors.messages import Object
from rewound.actors.patch.managed_fields.field_set import FIELD, INDEX, Path, path_text
from rewound.actors.runtime.time_limit import check_time

_LONGEST: Final = 64  # characters of the value in a message
_CLASSES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
}
_EXPECTED: Final = {"object": "map", "array": "list", "integer": "number"}
# Every object has these, whatever its schema says; they are already decoded.
_TYPE_META: Final = frozenset(("apiVersion", "kind", "metadata"))


def find_wrong_type(custom: CustomKind, config: Object) -> str:
    """Return an error such as `.spec.replicas: expected number, got x`, or "" if all types are right."""
    content = {name: value for name, value in config.items() if name not in _TYPE_META}
    found = _find(custom.openapi, content, (), f"{custom.extension_prefix}embedded-resource")
    if found is None:
        return ""
    path, expected, wrong = found
    return f"{path_text(path)}: expected {expected}, got {cut(str(wrong), _LONGEST)}"


def _find(schema: Mapping[str, Any], value: Any, path: Path, embedded: str) -> tuple[Path, str, Any] | None:
    if value is None:
        return None
    check_time()
    declared = schema.get("type") or ""
    classes = _CLASSES.get(declared)
    if classes is not None and (
        not isinstance(value, classes) or (isinstance(value, bool) and bool not in classes)
    ):
        return path, _EXPECTED.get(declared, declared), value
    for element, inner, member in _inside(schema, value, embedded):
        found = _find(inner, member, (*path, element), embedded)
        if found is not None:
            return found
    return None


def _inside(schema: Mapping[str, Any], value: Any, embedded: str) -> list[tuple[str, Mapping[str, Any], Any]]:
    """Yield the members or items that have a schema: path element, schema, value."""
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, Mapping):
            return []
        return [(f"{INDEX}{index}", items, item) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return []
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    decoded = _TYPE_META if schema.get(embedded) else frozenset[str]()
    return [
        (FIELD + name, inner, member)
        for name, member in value.items()
        if name not in decoded and isinstance(inner := properties.get(name, others), Mapping)
    ]
