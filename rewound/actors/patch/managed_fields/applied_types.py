"""Checks the types of an applied custom object: a value of another type than its schema declares cannot be merged.

v1.25 reads the configuration by the schema before it merges, so such an error comes before conflicts with other
managers, and also covers fields that the strategy drops afterwards, such as the status. Null has every type, and
validation decides whether a number is an integer. The decoder of built-in kinds has already checked theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Final

from rewound.actors.golang.format import GoValue
from rewound.actors.golang.quoting import cut, quoted_start
from rewound.actors.kinds.declaration.definition import CustomKind
from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    FIELDS_V1,
    INT32,
    INT64,
    STRING,
    Field,
    JsonValue,
    ListOf,
    MapOf,
    Scalar,
    Struct,
    Type,
)
from rewound.actors.messages import Object
from rewound.actors.patch.managed_fields.field_set import FIELD, INDEX, Path, entry, path_text
from rewound.actors.patch.managed_fields.field_set import value as member_value
from rewound.actors.patch.managed_fields.topology import default_of_key, is_set_of_scalars, list_keys
from rewound.actors.runtime.time_limit import check_time
from rewound.actors.versions.features import PARTIAL_KEYS

_LONGEST: Final = 64  # characters of the value in a message
_NOT_DECLARED: Final = "field not declared in schema"
_LONGEST_IN_GO: Final = 1024  # characters of a value in a message of Kubernetes
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


def find_typing_error(
    struct: Struct, config: Any, features: Container[str], *, zero_keys: bool = False
) -> str:
    """Return the error of Kubernetes for a configuration that the schema of a built-in kind does not describe.

    Several errors are listed in the order of the document; "" if there are none. `zero_keys`: keys of entries that
    an object always has may be missing.
    """
    defaults = default_of_key if zero_keys else _declared_default
    return _listed(_TypingErrors(defaults, PARTIAL_KEYS in features).of(struct, None, config, ()))


def undeclared(paths: Iterable[str]) -> str:
    """Return the error of Kubernetes for fields of a custom object, such as `spec.color`, that its schema lacks."""
    return _listed([f".{path}: {_NOT_DECLARED}" for path in paths])


def _listed(errors: list[str]) -> str:
    if len(errors) == 1:
        return errors[0]
    return "\n".join(("errors:", *(f"  {one}" for one in errors))) if errors else ""


def _declared_default(key: Field) -> Any:
    return key.default


class _TypingErrors:
    def __init__(self, default: Callable[[Field], Any], partial_keys: bool) -> None:
        self._default, self._partial_keys = default, partial_keys

    def of(self, type_: Type, field: Field | None, value: Any, path: Path) -> list[str]:
        """`field` is the field that has the value; it says how a list identifies its entries."""
        check_time()
        if value is None or isinstance(type_, JsonValue) or type_ in (ANY_JSON, FIELDS_V1):
            return []
        if isinstance(type_, Struct | MapOf):
            if not isinstance(value, dict):
                return [_unexpected(path, "map", value)]
            return self._of_members(type_, value, path)
        if isinstance(type_, ListOf):
            if not isinstance(value, list):
                return [_unexpected(path, "list", value)]
            return self._of_items(type_, field, value, path)
        return _errors_of_scalar(type_, value, path)

    def _of_members(self, type_: Struct | MapOf, value: dict[str, Any], path: Path) -> list[str]:
        found: list[str] = []
        for name, member in value.items():
            inside = (*path, FIELD + name)
            if isinstance(type_, MapOf):
                found += self.of(type_.value, None, member, inside)
            elif name in type_.by_name:
                found += self.of(type_.by_name[name].type, type_.by_name[name], member, inside)
            elif path or name not in ("apiVersion", "kind"):
                found.append(f"{path_text(inside)}: {_NOT_DECLARED}")
                break
        return found

    def _of_items(self, type_: ListOf, field: Field | None, items: list[Any], path: Path) -> list[str]:
        keys, is_set = (list_keys(field), is_set_of_scalars(field)) if field is not None else ((), False)
        found: list[str] = []
        seen: set[str] = set()
        for index, item in enumerate(items):
            element = f"{INDEX}{index}"
            if keys or is_set:
                wrong = _unkeyed(item) if keys else _no_member(item)
                if not wrong and keys:
                    assert isinstance(type_.item, Struct)
                    element, wrong = self._entry(type_.item, keys, item)
                elif not wrong:
                    element = member_value(item)
                if wrong:
                    return [*found, f"{path_text(path)}: element {index}: {wrong}"]
                if element in seen:
                    found.append(f"{path_text(path)}: duplicate entries for key {path_text((element,))}")
                seen.add(element)
            found += self.of(type_.item, None, item, (*path, element))
        return found

    def _entry(self, struct: Struct, keys: Sequence[str], item: dict[str, Any]) -> tuple[str, str]:
        """Return the path element of an entry of a list with keys, and what is wrong with its keys."""
        known = {
            key: item[key] if key in item else self._default(struct.by_name[key]) for key in sorted(keys)
        }
        missing = [key for key in keys if known[key] is None and key not in item]
        known = {key: one for key, one in known.items() if one is not None}
        element = entry(tuple(known), known.values())
        if missing and not self._partial_keys:
            text = (
                f"associative list with keys has an element that omits key field {quoted_start(missing[0])}"
            )
            return element, f"{text} (and doesn't have default value)"
        if known:
            return element, ""
        named = " ".join(f'"{key}"' for key in keys)
        text = f"associative list with keys has an element that omits all key fields [{named}]"
        return element, f"{text} (and doesn't have default values for any key fields)"


def find_atomics(type_: Type, field: Field | None, value: Any, path: Path = ()) -> list[str]:
    """Return the paths of atomic lists, maps and structs in a configuration, as messages show them."""
    check_time()
    found: list[str] = []
    if isinstance(type_, Struct | MapOf) and isinstance(value, dict):
        if (field is not None and field.map_type == "atomic") or _is_atomic(type_, field):
            found.append(path_text(path))
        if isinstance(type_, Struct):
            for name, member in value.items():
                if name in type_.by_name:
                    inner = type_.by_name[name]
                    found += find_atomics(inner.type, inner, member, (*path, FIELD + name))
    elif isinstance(type_, ListOf) and isinstance(value, list):
        if field is None or not (list_keys(field) or is_set_of_scalars(field)):
            found.append(path_text(path))
        for index, item in enumerate(value):
            found += find_atomics(type_.item, None, item, (*path, f"{INDEX}{index}"))
    return found


def _is_atomic(type_: Type, field: Field | None) -> bool:
    return isinstance(type_, Struct) and type_.atomic and not (field is not None and field.map_type)


def _unkeyed(item: Any) -> str:
    if item is None:
        return "associative list with keys may not have a null element"
    return "" if isinstance(item, dict) else "associative list with keys may not have non-map elements"


def _no_member(item: Any) -> str:
    if isinstance(item, dict):
        return "associative list without keys has an element that's a map type"
    if isinstance(item, list):
        return "not supported: associative list with lists as elements"
    return "associative list without keys has an element that's an explicit null" if item is None else ""


def _errors_of_scalar(type_: Scalar, value: Any, path: Path) -> list[str]:
    if type_ in (STRING, BYTES, DURATION):
        if not isinstance(value, str):
            return [
                f"{path_text(path)}: expected string, got &value.valueUnstructured{{Value:{_in_go(value)}}}"
            ]
    elif type_ is BOOL:
        if not isinstance(value, bool):
            return [_unexpected(path, "boolean", value)]
    elif type_ in (INT32, INT64, DOUBLE):
        if isinstance(value, bool) or not isinstance(value, int | float):
            return [f"{path_text(path)}: expected numeric (int or float), got {_go_type(value)}"]
    elif isinstance(value, dict | list | GoValue):
        return [_unexpected(path, "any scalar", value)]
    return []


def _unexpected(path: Path, expected: str, value: Any) -> str:
    return f"{path_text(path)}: expected {expected}, got &{{{_printed(value)}}}"


def _go_type(value: Any) -> str:
    if isinstance(value, GoValue):
        return value.type
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, dict):
        return "map[string]interface {}"
    return "[]interface {}" if isinstance(value, list) else "string"


def _in_go(value: Any) -> str:
    """Return a value as Go writes it in source code."""
    if isinstance(value, GoValue):
        return value.source
    if isinstance(value, dict):
        members = ", ".join(f"{quoted_start(name)}:{_in_go(value[name])}" for name in sorted(value))
        return cut(f"map[string]interface {{}}{{{members}}}", _LONGEST_IN_GO)
    if isinstance(value, list):
        return cut(f"[]interface {{}}{{{', '.join(map(_in_go, value))}}}", _LONGEST_IN_GO)
    return (
        quoted_start(value)
        if isinstance(value, str)
        else "interface {}(nil)"
        if value is None
        else _plain(value)
    )


def _printed(value: Any) -> str:
    """Return a value as Go prints it."""
    if isinstance(value, GoValue):
        return value.printed
    if isinstance(value, dict):
        return cut(
            f"map[{' '.join(f'{name}:{_printed(value[name])}' for name in sorted(value))}]", _LONGEST_IN_GO
        )
    if isinstance(value, list):
        return cut(f"[{' '.join(map(_printed, value))}]", _LONGEST_IN_GO)
    return value if isinstance(value, str) else "<nil>" if value is None else _plain(value)


def _plain(value: float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
