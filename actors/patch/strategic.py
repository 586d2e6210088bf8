"""Strategic merge patch: a merge patch that knows the lists of a kind.

Lists whose field says `patch="merge"` are merged: of objects by the merge key, of scalars as sets. Directives in
the patch:

    {"$patch": "delete", "name": "x"}            in a merged list: remove the entry with that key
    {"$patch": "replace"}                        in a map, or an entry of a list: the patch stands alone
    {"$retainKeys": ["type", "x"]}               in a map: drop members that are not named
    {"$deleteFromPrimitiveList/finalizers": []}  remove these values from a merged list of scalars
    {"$setElementOrder/containers": [{"name": "a"}]}   the order that entries of the patch have in the result

What the declaration does not know is merged like a plain map and replaced like a plain list.
"""

from __future__ import annotations

from typing import Any

from actors.kinds.fields import Field, ListOf, MapOf, Struct, Type
from actors.patch.errors import MalformedPatch, PatchDoesNotFit

DIRECTIVE, RETAIN = "$patch", "$retainKeys"
DELETE_FROM, ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"
# Far deeper than any kind nests, and far from the interpreter's own limit.
DEEPEST = 150


def apply_strategic_patch(document: dict[str, Any], patch: Any, struct: Struct) -> dict[str, Any]:
    """The patched document; `document` may be changed, `patch` is not."""
    if not isinstance(patch, dict):
        raise MalformedPatch("a strategic merge patch is an object")
    return _merge_map(document, patch, struct, DEEPEST)


def _merge_map(
    target: dict[str, Any], patch: dict[str, Any], type_: Type | None, room: int
) -> dict[str, Any]:
    if not room:
        raise MalformedPatch("the patch nests too deep")
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise MalformedPatch(f"unknown directive {DIRECTIVE}: {directive!r}; say delete, replace or merge")
    _retain(target, patch)
    for key, value in patch.items():
        if key.startswith(DELETE_FROM):
            _delete_values(target, key.removeprefix(DELETE_FROM), value)
        elif key not in (DIRECTIVE, RETAIN) and not key.startswith(ORDER):
            _merge_member(target, key, value, patch, type_, room)
    for key, order in patch.items():
        if key.startswith(ORDER):
            _arrange(target, key.removeprefix(ORDER), order, patch, type_)
    return target


def _retain(target: dict[str, Any], patch: dict[str, Any]) -> None:
    if RETAIN not in patch:
        return
    kept = patch[RETAIN]
    if not isinstance(kept, list) or not all(isinstance(key, str) for key in kept):
        raise MalformedPatch(f"{RETAIN} is a list of member names")
    members = [key for key in patch if not key.startswith("$")]
    if not set(members) <= set(kept):
        raise MalformedPatch(f"{RETAIN} must name every member that the patch sets: {', '.join(members)}")
    for key in [key for key in target if key not in kept]:
        del target[key]


def _merge_member(
    target: dict[str, Any], key: str, value: Any, patch: dict[str, Any], type_: Type | None, room: int
) -> None:
    field, member = _member(type_, key)
    if value is None:
        target.pop(key, None)
    elif isinstance(value, dict):
        current = target.get(key)
        merged = _merge_map(current if isinstance(current, dict) else {}, value, member, room - 1)
        if value.get(DIRECTIVE) == "delete":
            target.pop(key, None)
        else:
            target[key] = merged
    elif isinstance(value, list) and _is_merged(field):
        target[key] = _merge_list(target.get(key), value, field, member, room)
    else:
        target[key] = value


def _member(type_: Type | None, key: str) -> tuple[Field | None, Type | None]:
    if isinstance(type_, Struct):
        field = type_.by_name.get(key)
        return field, field.type if field else None
    return None, type_.value if isinstance(type_, MapOf) else None


def _is_merged(field: Field | None) -> bool:
    return field is not None and "merge" in field.patch.split(",")


def _merge_list(
    current: Any, patch: list[Any], field: Field | None, type_: Type | None, room: int
) -> list[Any]:
    assert field is not None
    target = list(current) if isinstance(current, list) else []
    item = type_.item if isinstance(type_, ListOf) else None
    if not field.merge_key:
        return target + [value for value in _unique(patch) if value not in target]
    if any(isinstance(entry, dict) and _replaces_list(entry, field.merge_key) for entry in patch):
        return [entry for entry in patch if not _replaces_list(entry, field.merge_key)]
    for entry in patch:
        _merge_entry(target, entry, field, item, room)
    return target


def _replaces_list(entry: Any, merge_key: str) -> bool:
    return isinstance(entry, dict) and entry.get(DIRECTIVE) == "replace" and merge_key not in entry


def _merge_entry(target: list[Any], entry: Any, field: Field, item: Type | None, room: int) -> None:
    if not isinstance(entry, dict):
        raise PatchDoesNotFit(f"an entry of {field.name} is not an object")
    if field.merge_key not in entry:
        raise PatchDoesNotFit(f"map: {entry} does not contain declared merge key: {field.merge_key}")
    wanted = entry[field.merge_key]
    found = [
        index
        for index, one in enumerate(target)
        if isinstance(one, dict) and one.get(field.merge_key) == wanted
    ]
    if entry.get(DIRECTIVE) == "delete":
        for index in reversed(found):
            del target[index]
    elif found:
        target[found[0]] = _merge_map(target[found[0]], entry, item, room - 1)
    else:
        target.append(_merge_map({}, entry, item, room - 1))


def _delete_values(target: dict[str, Any], key: str, values: Any) -> None:
    if not isinstance(values, list):
        raise MalformedPatch(f"{DELETE_FROM}{key} is a list of values")
    if isinstance(target.get(key), list):
        target[key] = [value for value in target[key] if value not in values]


def _arrange(target: dict[str, Any], key: str, order: Any, patch: dict[str, Any], type_: Type | None) -> None:
    """Entries named in the order stand so; those the server has besides keep their place relative to them."""
    field, _ = _member(type_, key)
    entries = target.get(key)
    if not isinstance(order, list):
        raise MalformedPatch(f"{ORDER}{key} is a list")
    if field is None or not isinstance(entries, list):
        return
    wanted = [_identity(one, field) for one in order]
    for entry in patch.get(key) or []:
        if not (isinstance(entry, dict) and entry.get(DIRECTIVE)) and _identity(entry, field) not in wanted:
            raise MalformedPatch(f"the order list of {key} must name every entry that the patch sets")
    target[key] = _in_order(entries, wanted, field)


def _in_order(entries: list[Any], wanted: list[Any], field: Field) -> list[Any]:
    named = [entry for entry in entries if _identity(entry, field) in wanted]
    named.sort(key=lambda entry: wanted.index(_identity(entry, field)))
    arranged: list[Any] = []
    original = [_identity(entry, field) for entry in entries]
    for entry in entries:
        identity = _identity(entry, field)
        if identity in wanted:
            continue
        position = original.index(identity)
        while named and original.index(_identity(named[0], field)) < position:
            arranged.append(named.pop(0))
        arranged.append(entry)
    return arranged + named


def _identity(entry: Any, field: Field) -> Any:
    return entry.get(field.merge_key) if field.merge_key and isinstance(entry, dict) else entry


def _unique(values: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for value in values:
        if value not in kept:
            kept.append(value)
    return kept
