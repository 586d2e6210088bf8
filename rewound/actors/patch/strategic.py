"""Strategic merge patch: a merge patch that knows the lists of a kind.

Lists whose field has `patch="merge"` are merged: of objects by the merge key, of scalars as sets. Directives in the
patch:

    {"$patch": "delete", "name": "x"}            in a merged list: remove the entry with that key
    {"$patch": "replace"}                        in a merged list: the other entries of the patch are the whole list
    {"$patch": "replace", ...}, "delete"         in a map: the patch replaces the map, or removes all of it
    {"$retainKeys": ["type", "x"]}               in a map: drop members that are not named
    {"$deleteFromPrimitiveList/finalizers": []}  remove these values from a merged list of scalars
    {"$setElementOrder/containers": [{"name": "a"}]}   the order of entries; without it, that of the patch's own list

Directives apply to existing values: where the document has none, the patch value is copied without its nulls. Until
v1.27 a directive left in it is an unknown field; later versions leave out every object that has one. A value that
replaces another keeps its nulls, and so does a new list entry. JSON without a declaration is merged as plain maps and
replaced as plain lists.

In a merged list, entries that the patch names keep its order, the others stay around them:

    server a b c,  patch names c a     ->  b c a     the server had b before c
    server a b,    patch names x       ->  x a b     the server never had x, so nothing puts a before it
    server a b c,  patch names b x     ->  a b x c

Both orders are preserved; where they meet, an entry that only the server has goes first if the server had it before
the next one that the patch names. Entries are matched by hash, because lists may be as long as a body allows.
"""

from __future__ import annotations

import reprlib
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

from rewound.actors.golang.format import printed
from rewound.actors.golang.json import DEEPEST, unescaped
from rewound.actors.golang.quoting import LONGEST, quoted_start
from rewound.actors.kinds.schema.fields import ANY_JSON, Field, JsonValue, ListOf, MapOf, Struct, Type
from rewound.actors.patch.errors import Answer, MalformedPatch, PatchDoesNotFit, PatchError
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
_DELETE_FROM, _ORDER = "$deleteFromPrimitiveList", "$setElementOrder"
_LEFT_OUT: Final = object()


def apply_strategic_patch(
    document: dict[str, Any], patch: Any, struct: Struct | None, *, directives_everywhere: bool = False
) -> dict[str, Any]:
    """Return the patched document; `document` may be changed, `patch` is not.

    Without a struct all maps are merged and all lists replaced.
    """
    return _Merge(directives_everywhere).maps(document, _own(patch), struct)


def left_of_patch(
    document: dict[str, Any], patch: Any, struct: Struct | None, *, directives_everywhere: bool = False
) -> dict[str, Any]:
    """Return what Kubernetes has left of a patch when it has applied it, which its messages show.

    `document` may be changed, `patch` is not.
    """
    left = _own(patch)
    _Merge(directives_everywhere).maps(document, left, struct)
    return left


def _own(patch: Any) -> dict[str, Any]:
    """Return a copy of a patch, which the merge takes apart."""
    if not isinstance(patch, dict):
        raise MalformedPatch("a strategic merge patch is an object")
    return {key: _copied(value, DEEPEST) for key, value in patch.items()}


def _copied(value: Any, room: int) -> Any:
    if not room:
        raise MalformedPatch("the patch nests too deep")
    if isinstance(value, dict):
        check_time()
        return {key: _copied(part, room - 1) for key, part in value.items()}
    return [_copied(part, room - 1) for part in value] if isinstance(value, list) else value


class _Merge:
    """Merges patches into documents; takes directives, and what it merged by them, out of the patch."""

    def __init__(self, directives_everywhere: bool) -> None:
        self._directives_everywhere = directives_everywhere

    def maps(self, target: dict[str, Any], patch: dict[str, Any], type_: Type | None) -> dict[str, Any]:
        check_time()
        if DIRECTIVE in patch:
            return _directed(patch)
        _retain(target, patch)
        for directive in [key for key in patch if key.startswith(_ORDER)]:
            self._arrange(target, directive, patch, type_)
        for key, value in patch.items():
            if key.startswith(_DELETE_FROM):
                self._delete_values(target, _named(key, _DELETE_FROM), value, type_)
            else:
                self._merge_member(target, key, value, type_)
        return target

    def _merge_member(self, target: dict[str, Any], key: str, value: Any, type_: Type | None) -> None:
        current = target.get(key)
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(current, dict):
            field, member = _member(type_, key)
            replaced = field is not None and field.patch == "replace"
            target[key] = value if replaced else self.maps(current, value, member)
        elif isinstance(value, list) and isinstance(current, list):
            field, member = _list_member(type_, key)
            target[key] = self._merge_lists(current, value, field, member)
        else:
            self._put(target, key, value)

    def _put(self, target: dict[str, Any], key: str, value: Any) -> None:
        _drop_nulls(value)
        taken = _undirected(value) if self._directives_everywhere else value
        if taken is _LEFT_OUT:
            target.pop(key, None)
        else:
            target[key] = taken

    def _delete_values(self, target: dict[str, Any], key: str, values: Any, type_: Type | None) -> None:
        """Remove values from a list; where the document has none there is nothing to do."""
        current = target.get(key)
        if values is None:
            target.pop(key, None)
        elif isinstance(values, list) and isinstance(current, list):
            field, member = _list_member(type_, key)
            if _is_merged(field) or self._directives_everywhere:
                merge_key = field.merge_key if field else ""
                target[key] = self._merge_entries(current, values, merge_key, member, deletes=True)
            else:
                target[key] = values
        elif isinstance(values, dict) and isinstance(current, dict):
            _, member = _member(type_, key)
            target[key] = self.maps(current, values, member)
        elif type(values) is type(current):
            target[key] = values

    def _arrange(
        self,
        target: dict[str, Any],
        directive: str,
        patch: dict[str, Any],
        type_: Type | None,
    ) -> None:
        """Merge a list and bring the entries that its order names into that order."""
        order = patch.pop(directive)
        _check_is_list(order)
        key = _named(directive, _ORDER)
        for holder in (target, patch):
            if key in holder:
                _check_is_list(holder[key])
        field, member = _list_member(type_, key)
        before, changes = target.get(key), patch.get(key)
        merge_key = field.merge_key if field else ""
        _check_order(changes or [], order, merge_key)
        if before is None and changes is None:
            return
        if changes is None:
            merged = before or []
        elif before is None:
            merged = _undirected(changes) if self._directives_everywhere else changes
        else:
            merged = self._merge_lists(before, changes, field, member)
        if merge_key:
            _check_keys(merged, order, merge_key)
        if not before and not changes:
            text = "no elements in any of the given slices"
            raise PatchDoesNotFit(text, Answer(500, text))
        if _check_alike(before or [], changes or []):
            for entry in (*order, *(before or ())):
                _check_key(entry, merge_key)
        target[key] = in_order(merged, order, before or [], merge_key)
        patch.pop(key, None)

    def _merge_lists(
        self, before: list[Any], patch: list[Any], field: Field | None, item: Type | None
    ) -> list[Any]:
        if field is None or not _is_merged(field):
            return patch
        return self._merge_entries(before, patch, field.merge_key, item)

    def _merge_entries(
        self,
        before: list[Any],
        patch: list[Any],
        key: str,
        item: Type | None,
        *,
        deletes: bool = False,
    ) -> list[Any]:
        if not before and not patch:
            return before
        if not _check_alike(before, patch):
            if deletes:
                unwanted = {identity(value, "") for value in patch}
                return [value for value in before if identity(value, "") not in unwanted]
            merged = list({identity(value, ""): value for value in (*before, *patch)}.values())
            return in_order(merged, patch, before, "")
        if not key:
            text = f"cannot merge lists without merge key for {_go_kind(item)}"
            raise PatchDoesNotFit(text, Answer(500, text))
        special = [entry for entry in patch if DIRECTIVE in entry]
        named = [entry for entry in patch if DIRECTIVE not in entry] if special else patch
        before = _without(before, special, key)
        if any(entry[DIRECTIVE] == "replace" for entry in special):
            _check_keys(named, [], key)
            return named
        merged = self._merge_by_key(before, named, key, item)
        _check_keys(merged, named, key)
        return in_order(merged, named, before, key)

    def _merge_by_key(self, before: list[Any], patch: list[Any], key: str, item: Type | None) -> list[Any]:
        """Merge entries by key. Of entries that share a key, the first one is changed."""
        merged: list[Any] = list(before)
        found: dict[Any, int] = {}
        for index, entry in enumerate(before):
            if key in entry:
                found.setdefault(identity(entry, key), index)
        for entry in patch:
            _check_key(entry, key)
            who = identity(entry, key)
            if who in found:
                merged[found[who]] = self.maps(merged[found[who]], entry, item)
            else:
                found[who] = len(merged)
                merged.append(entry)
        return merged


def _directed(patch: dict[str, Any]) -> dict[str, Any]:
    """Return what replaces a map by a directive in its patch."""
    directive = patch[DIRECTIVE]
    if directive == "replace":
        del patch[DIRECTIVE]
        return patch
    if directive == "delete":
        return {}
    raise _unknown_directive(patch)


def _unknown_directive(patch: dict[str, Any]) -> PatchError:
    directive = patch[DIRECTIVE]
    return MalformedPatch(
        f"unknown directive {DIRECTIVE}: {_brief(directive)}; use delete or replace",
        Answer(500, f"unknown patch type: {_as_text(directive)} in map: {printed(patch, LONGEST)}"),
    )


def _named(key: str, prefix: str) -> str:
    """Return the name of the list that a directive is for."""
    first, slash, name = key.partition("/")
    if slash and first == prefix:
        return name
    lists = "primitive list" if prefix == _DELETE_FROM else "setElementOrder list"
    raise MalformedPatch(
        f"{_brief(key)} names no list; write {prefix}/LIST", Answer(400, f"invalid patch format of {lists}")
    )


def _retain(target: dict[str, Any], patch: dict[str, Any]) -> None:
    if RETAIN not in patch:
        return
    kept = patch.pop(RETAIN)
    answer = Answer(400, "invalid patch format of retainKeys")
    if not isinstance(kept, list):
        raise MalformedPatch(f"{RETAIN} is a list of member names", answer)
    named = {key for key in kept if isinstance(key, str)}
    directives = (_DELETE_FROM, _ORDER)
    unnamed = [
        key
        for key, value in patch.items()
        if not (value is None or key in named or key.startswith(directives))
    ]
    if unnamed:
        raise MalformedPatch(
            f"{RETAIN} must name every member that the patch sets: {_brief(unnamed)}", answer
        )
    for key in target.keys() - named:
        del target[key]


def _drop_nulls(value: Any) -> None:
    if isinstance(value, dict):
        for key in [key for key, part in value.items() if part is None]:
            del value[key]
        for part in value.values():
            _drop_nulls(part)
    elif isinstance(value, list):
        for part in value:
            _drop_nulls(part)


def _undirected(value: Any) -> Any:
    """Return a value without the objects in it that have a directive; `_LEFT_OUT` if it has one itself."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return _LEFT_OUT
        kept = ((key, _undirected(part)) for key, part in value.items())
        return {key: part for key, part in kept if part is not _LEFT_OUT}
    if isinstance(value, list):
        return [part for part in map(_undirected, value) if part is not _LEFT_OUT]
    return value


def _member(type_: Type | None, key: str) -> tuple[Field | None, Type | None]:
    """Return the field and the type of a member that is an object in the document and in the patch."""
    if isinstance(type_, Struct):
        field = _field(type_, key)
        return field, field.type
    return None, type_.value if isinstance(type_, MapOf) else None


def _list_member(type_: Type | None, key: str) -> tuple[Field | None, Type | None]:
    """Return the field and the type of the items of a member that is a list in the document and in the patch."""
    if type_ is None or isinstance(type_, JsonValue) or type_ is ANY_JSON:
        return None, None
    if not isinstance(type_, Struct):
        kind = _go_kind(type_)
        raise MalformedPatch(
            f"there is no list {_brief(key)}",
            Answer(500, f"merging an object in json but data type is not struct, instead is: {kind}"),
        )
    field = _field(type_, key)
    if not isinstance(field.type, ListOf):
        raise MalformedPatch(
            f"{_brief(key)} is not a list", Answer(500, "expected slice or array type, but got: struct")
        )
    return field, field.type.item


def _field(struct: Struct, key: str) -> Field:
    field = struct.by_name.get(key)
    if field is None:
        named = struct.name.rpartition(".")[2]
        raise MalformedPatch(
            f"there is no field {_brief(key)}",
            Answer(500, f"unable to find api field in struct {named} for the json field {quoted_start(key)}"),
        )
    return field


def _is_merged(field: Field | None) -> bool:
    return field is not None and "merge" in field.patch.split(",")


def _without(before: list[Any], special: list[Any], key: str) -> list[Any]:
    """Return the entries that no directive deletes; a directive deletes all entries with its key."""
    unwanted = set()
    for entry in special:
        directive = entry[DIRECTIVE]
        if directive == "delete":
            _check_key(entry, key)
            unwanted.add(identity(entry, key))
        elif directive == "merge":
            text = "merging lists cannot yet be specified in the patch"
            raise MalformedPatch(
                f"unknown directive {DIRECTIVE}: 'merge'; use delete or replace", Answer(500, text)
            )
        elif directive != "replace":
            raise _unknown_directive(entry)
    if not unwanted:
        return before
    return [entry for entry in before if key not in entry or identity(entry, key) not in unwanted]


def _check_is_list(value: Any) -> None:
    if not isinstance(value, list):
        raise _wrong_type("[]interface {}", value)


def _wrong_type(wanted: str, value: Any) -> PatchError:
    text = f"expected a {wanted}, but received a {_type_text(value)}"
    return MalformedPatch(
        f"expected {'a list' if wanted[0] == '[' else 'an object'}: {_brief(value)}", Answer(500, text)
    )


def _check_is_map(entry: Any) -> None:
    if not isinstance(entry, dict):
        raise _wrong_type("map[string]interface {}", entry)


def _check_key(entry: Any, key: str) -> None:
    _check_is_map(entry)
    if key not in entry:
        text = f"map: {printed(entry, LONGEST)} does not contain declared merge key: {key}"
        raise PatchDoesNotFit(text, Answer(500, text))


def _check_keys(merged: Iterable[Any], named: Sequence[Any], key: str) -> None:
    """Check that the entries of a list have the key that identifies them."""
    odd = next((place for place, entry in enumerate(named) if not isinstance(entry, dict)), -1)
    known = {identity(entry, key) for entry in named[: odd if odd >= 0 else None] if key in entry}
    for entry in merged:
        _check_key(entry, key)
        if odd >= 0 and identity(entry, key) not in known:
            text = f"value for key {odd} is not a map"
            raise MalformedPatch(
                f"entry {odd} of an order is not an object with the key {key}", Answer(500, text)
            )


def _check_alike(before: list[Any], patch: list[Any]) -> bool:
    """Check that all entries of two lists have one type, and return whether they are objects."""
    first = before[0] if before else patch[0]
    if isinstance(first, list):
        raise PatchDoesNotFit("lists of lists are not supported")
    for entries in (before, patch):
        for entry in entries:
            if type(entry) is not type(first):
                text = f"list element types are not identical: {printed([before, patch], LONGEST)}"
                raise PatchDoesNotFit(text, Answer(500, text))
    return isinstance(first, dict)


def _is_directive(entry: Any) -> bool:
    return isinstance(entry, dict) and DIRECTIVE in entry


def _check_order(changes: list[Any], order: list[Any], key: str) -> None:
    """Check that the order names all entries that the patch sets, in the order that they have in the patch."""
    if not (changes and order):
        return
    if key:
        for entry in changes:
            _check_is_map(entry)
    wanted = [entry for entry in changes if not (key and entry.get(DIRECTIVE) == "delete")]
    at = placed = 0
    while at < len(wanted) and placed < len(order):
        if _is_directive(wanted[at]):
            at += 1
            continue
        if key:
            _check_is_map(order[placed])
            _check_key(wanted[at], key)
            _check_key(order[placed], key)
        at += identity(wanted[at], key) == identity(order[placed], key)
        placed += 1
    if at < len(wanted):
        both = printed(changes, LONGEST), printed(order, LONGEST)
        text = f"The order in patch list:\n{both[0]}\n doesn't match {_ORDER} list:\n{both[1]}\n"
        raise MalformedPatch(
            f"the order of a list must name every entry that the patch sets, in the order of the patch: "
            f"{_brief(order)}",
            Answer(500, text),
        )


def _go_kind(type_: Type | None) -> str:
    if isinstance(type_, Struct):
        return "struct"
    if isinstance(type_, MapOf):
        return "map"
    return "slice" if isinstance(type_, ListOf) else "string"


_GO_TYPES: Final = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}


def _type_text(value: Any) -> str:
    """Return the type of a value as Go's %s prints it."""
    return "%!s(<nil>)" if value is None else _GO_TYPES[type(value)]


def _as_text(value: Any) -> str:
    """Return a value as Go's %s prints it, which prints text and says what is none."""
    if isinstance(value, str):
        return value[:LONGEST]
    if value is None:
        return "%!s(<nil>)"
    if isinstance(value, dict | list):
        return printed(value, LONGEST)
    return f"%!s({_type_text(value)}={printed(value, LONGEST)})"


def _brief(value: Any) -> str:
    """Return a short form: a patch may be megabytes long."""
    return reprlib.repr(value)
