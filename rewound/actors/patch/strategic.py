"""Strategic merge patch: a merge patch that knows the lists of a kind.

Lists whose field has `patch="merge"` are merged: of objects by the merge key, of scalars as sets. Directives in the
patch:

    {"$patch": "delete", "name": "x"}            in a merged list: remove the entry with that key
    {"$patch": "replace"}                        in a merged list: the other entries of the patch are the whole list
    {"$patch": "replace", ...}, "delete"         in a map: the patch replaces the map, or removes all of it
    {"$retainKeys": ["type", "x"]}               in a map: drop members that are not named
    {"$deleteFromPrimitiveList/finalizers": []}  remove these values from a merged list of scalars
    {"$setElementOrder/containers": [{"name": "a"}]}   the order of entries; without it, that of the patch's own list

Directives apply to existing values: where the document has none, the patch value is copied without its nulls, and a
directive left in it is an unknown field. A value that replaces another keeps its nulls, and so does a new list entry.
Fields that the declaration does not know are merged as plain maps and replaced as plain lists.

In a merged list, entries that the patch names keep its order, the others stay around them:

    server a b c,  patch names c a     ->  b c a     the server had b before c
    server a b,    patch names x       ->  x a b     the server never had x, so nothing puts a before it
    server a b c,  patch names b x     ->  a b x c

Both orders are preserved; where they meet, an entry that only the server has goes first if the server had it before
the next one that the patch names. Entries are matched by hash, because lists may be as long as a body allows.
"""

from __future__ import annotations

import reprlib
from collections.abc import Hashable, Sequence
from typing import Any

from rewound.actors.golang.format import printed
from rewound.actors.golang.json import DEEPEST, unescaped
from rewound.actors.golang.quoting import LONGEST
from rewound.actors.kinds.schema.fields import Field, ListOf, MapOf, Struct, Type
from rewound.actors.patch.errors import MalformedPatch, PatchDoesNotFit
from rewound.actors.runtime.time_limit import check_time


def identity(entry: Any, merge_key: str) -> Hashable:
    """Return what identifies an entry: the value of its merge key, or the entry itself."""
    of = entry.get(merge_key) if merge_key and isinstance(entry, dict) else entry
    if isinstance(of, str) or of is None:
        return of
    return type(of), unescaped(of)


def in_order(merged: Sequence[Any], named: Sequence[Any], server: Sequence[Any], merge_key: str) -> list[Any]:
    """Return `merged` in the order of `named`, and otherwise in that of `server`."""
    wanted, before = _places(named, merge_key), _places(server, merge_key)
    placed = [(identity(entry, merge_key), entry) for entry in merged]
    theirs = sorted((one for one in placed if one[0] in wanted), key=lambda one: wanted[one[0]])
    ours = sorted((one for one in placed if one[0] not in wanted), key=lambda one: before.get(one[0], 0))
    arranged: list[Any] = []
    at = 0
    for who, entry in theirs:
        limit = before.get(who, -1)
        while at < len(ours) and before.get(ours[at][0], limit) < limit:
            arranged.append(ours[at][1])
            at += 1
        arranged.append(entry)
    return arranged + [entry for _, entry in ours[at:]]


def _places(entries: Sequence[Any], merge_key: str) -> dict[Hashable, int]:
    places: dict[Hashable, int] = {}
    for place, entry in enumerate(entries):
        places.setdefault(identity(entry, merge_key), place)
    return places


DIRECTIVE, RETAIN = "$patch", "$retainKeys"
DELETE_FROM, ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


def apply_strategic_patch(document: dict[str, Any], patch: Any, struct: Struct) -> dict[str, Any]:
    """Return the patched document; `document` may be changed, `patch` is not."""
    if not isinstance(patch, dict):
        raise MalformedPatch("a strategic merge patch is an object")
    return _merge_map(document, patch, struct, DEEPEST)


def _merge_map(
    target: dict[str, Any], patch: dict[str, Any], type_: Type | None, room: int
) -> dict[str, Any]:
    check_time()
    if not room:
        raise MalformedPatch("the patch nests too deep")
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    if DIRECTIVE in patch:
        _check_directive(directive)
    _retain(target, patch)
    ordered = {key.removeprefix(ORDER): order for key, order in patch.items() if key.startswith(ORDER)}
    before = {key: target.get(key) for key in ordered}
    for key, value in patch.items():
        if key.startswith(DELETE_FROM):
            _delete_values(target, key.removeprefix(DELETE_FROM), value)
        elif key not in (DIRECTIVE, RETAIN) and not key.startswith(ORDER):
            _merge_member(target, key, value, patch, type_, room)
    for key, order in ordered.items():
        _arrange(target, key, before[key], order, patch, type_)
    return target


def _check_directive(directive: Any) -> None:
    if directive not in ("delete", "replace"):
        raise MalformedPatch(f"unknown directive {DIRECTIVE}: {_brief(directive)}; use delete or replace")


def _retain(target: dict[str, Any], patch: dict[str, Any]) -> None:
    if RETAIN not in patch:
        return
    kept = patch[RETAIN]
    if not isinstance(kept, list) or not all(isinstance(key, str) for key in kept):
        raise MalformedPatch(f"{RETAIN} is a list of member names")
    named = set(kept)
    unnamed = [
        key for key, value in patch.items() if not (key.startswith("$") or value is None or key in named)
    ]
    if unnamed:
        raise MalformedPatch(f"{RETAIN} must name every member that the patch sets: {_brief(unnamed)}")
    for key in target.keys() - named:
        del target[key]


def _merge_member(
    target: dict[str, Any], key: str, value: Any, patch: dict[str, Any], type_: Type | None, room: int
) -> None:
    field, member = _member(type_, key)
    current = target.get(key)
    if value is None:
        target.pop(key, None)
    elif isinstance(value, dict) and isinstance(current, dict):
        replaced = field is not None and field.patch == "replace"
        target[key] = _copied(value, room) if replaced else _merge_map(current, value, member, room - 1)
    elif isinstance(value, list) and isinstance(current, list) and field is not None and _is_merged(field):
        target[key] = _merge_list(current, value, patch.get(ORDER + key), field, member, room)
    else:
        target[key] = _copied(value, room, nulls=key in target)


def _copied(value: Any, room: int, *, nulls: bool = True) -> Any:
    """Return a copy of a value that is merged with nothing: as it is, or without null members."""
    if not room:
        raise MalformedPatch("the patch nests too deep")
    if isinstance(value, dict):
        return {
            key: _copied(part, room - 1, nulls=nulls)
            for key, part in value.items()
            if nulls or part is not None
        }
    return [_copied(part, room - 1, nulls=nulls) for part in value] if isinstance(value, list) else value


def _member(type_: Type | None, key: str) -> tuple[Field | None, Type | None]:
    if isinstance(type_, Struct):
        field = type_.by_name.get(key)
        return field, field.type if field else None
    return None, type_.value if isinstance(type_, MapOf) else None


def _is_merged(field: Field) -> bool:
    return "merge" in field.patch.split(",")


def _merge_list(
    before: list[Any], patch: list[Any], order: Any, field: Field, type_: Type | None, room: int
) -> list[Any]:
    """Merge the entries of both. Without an order directive, the order in the patch counts."""
    if not field.merge_key:
        merged = list({identity(value, ""): value for value in (*before, *patch)}.values())
        return merged if order is not None else in_order(merged, patch, before, "")
    special = [entry for entry in patch if _is_special(entry)]
    if special:
        patch = [entry for entry in patch if not _is_special(entry)]
    before = _without(before, special, field)
    if any(entry[DIRECTIVE] == "replace" for entry in special):
        return [_copied(entry, room) for entry in patch]
    item = type_.item if isinstance(type_, ListOf) else None
    merged = _merge_entries(before, patch, field, item, room)
    return merged if order is not None else in_order(merged, patch, before, field.merge_key)


def _is_special(entry: Any) -> bool:
    """Whether an entry is a directive about the list and not an item of it."""
    return isinstance(entry, dict) and DIRECTIVE in entry


def _without(before: list[Any], special: list[Any], field: Field) -> list[Any]:
    """Return the entries that no directive deletes; a directive deletes all entries with its key."""
    deleted = [entry for entry in special if entry[DIRECTIVE] == "delete"]
    for entry in special:
        _check_directive(entry[DIRECTIVE])
    for entry in deleted:
        _check_entry(entry, field)
    unwanted = {identity(entry, field.merge_key) for entry in deleted}
    return [entry for entry in before if identity(entry, field.merge_key) not in unwanted]


def _merge_entries(
    before: list[Any], patch: list[Any], field: Field, item: Type | None, room: int
) -> list[Any]:
    """Merge entries by key. Of entries that share a key, the first one is changed."""
    merged: list[Any] = list(before)
    found: dict[Any, int] = {}
    for index, entry in enumerate(before):
        found.setdefault(identity(entry, field.merge_key), index)
    for entry in patch:
        _check_entry(entry, field)
        who = identity(entry, field.merge_key)
        if who in found:
            merged[found[who]] = _merge_map(merged[found[who]], entry, item, room - 1)
        else:
            found[who] = len(merged)
            merged.append(_copied(entry, room))
    return merged


def _check_entry(entry: Any, field: Field) -> None:
    if not isinstance(entry, dict):
        raise PatchDoesNotFit(f"an entry of {field.name} is not an object")
    if field.merge_key not in entry:
        raise PatchDoesNotFit(
            f"map: {printed(entry, LONGEST)} does not contain declared merge key: {field.merge_key}"
        )


def _delete_values(target: dict[str, Any], key: str, values: Any) -> None:
    if not isinstance(values, list):
        raise MalformedPatch(f"{DELETE_FROM}{key} is a list of values")
    if isinstance(target.get(key), list):
        unwanted = {identity(value, "") for value in values}
        target[key] = [value for value in target[key] if identity(value, "") not in unwanted]


def _arrange(
    target: dict[str, Any], key: str, before: Any, order: Any, patch: dict[str, Any], type_: Type | None
) -> None:
    """Bring the entries that the order names into that order, whether or not the patch changes them."""
    field, _ = _member(type_, key)
    entries = target.get(key)
    if field is None:
        raise MalformedPatch(f"{ORDER}{key}: there is no list {_brief(key)}")
    if not isinstance(order, list) or not isinstance(entries, list | None):
        raise MalformedPatch(f"{ORDER}{key} is a list")
    if not entries:
        return
    if field.merge_key and not all(isinstance(one, dict) for one in order):
        raise MalformedPatch(f"{ORDER}{key} is a list of objects with the key {field.merge_key}")
    named = {identity(one, field.merge_key) for one in order}
    changes = patch.get(key)
    for entry in changes if isinstance(changes, list) else ():
        directed = isinstance(entry, dict) and entry.get(DIRECTIVE)
        if not directed and identity(entry, field.merge_key) not in named:
            raise MalformedPatch(f"the order list of {key} must name every entry that the patch sets")
    target[key] = in_order(entries, order, before if isinstance(before, list) else [], field.merge_key)


def _brief(value: Any) -> str:
    """Return a short form: a patch may be megabytes long."""
    return reprlib.repr(value)
