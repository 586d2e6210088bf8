"""The differences between two documents: field by field, as a JSON patch, and as lines of text for people.

The API and the commands that read the journal use it. Paths look like this:

    data.color                                   a field
    metadata.labels["app.example/name"]          a key that needs quotes
    spec.containers[name=web].image              an item of a list whose items have names (or types, keys, ...)
    metadata.finalizers[]                        an item of a list of plain values, added or removed
    spec.rules[2].path                           anything else in a list, by position

Items of lists are matched by a merge key, because otherwise an inserted item would change all later ones. Everything
here uses its own stack: documents may nest deeper than Python's recursion limit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import msgspec
import orjson

from rewound.actors.golang.json import unescaped

# It changes with every write.
RESOURCE_VERSION: Final = frozenset({"metadata.resourceVersion"})
MANAGED_FIELDS: Final = "metadata.managedFields"

COMPARED_DEPTH: Final = 16  # comparing whole objects at each level would be quadratic in their depth
_MERGE_KEYS: Final = ("name", "uid", "key", "type", "ip", "port")
_identifier = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*").fullmatch


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


class Change(msgspec.Struct, frozen=True):
    path: str
    before: Any  # ABSENT: did not exist
    after: Any  # ABSENT: exists no longer

    @property
    def sign(self) -> str:
        if self.before is ABSENT:
            return "+"
        return "-" if self.after is ABSENT else "~"

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"path": self.path}
        if self.before is not ABSENT:
            document["before"] = self.before
        if self.after is not ABSENT:
            document["after"] = self.after
        return document


_Step = str | int | tuple[str, Any]  # a key, a position, or a merge key with its value
_Pair = tuple[_Step, Any, Any]


class _Place:
    """A map or a list to compare. Its path is computed once, when something below it differs.

    Most fields of most objects are equal, and the parent of many fields may have a long path.
    """

    __slots__ = ("_path", "depth", "may_be_ignored", "parent", "step")

    def __init__(self, parent: _Place | None, step: _Step, *, may_be_ignored: bool) -> None:
        self.parent = parent
        self.step = step
        self.depth: int = 0 if parent is None else parent.depth + isinstance(step, str)
        self.may_be_ignored = may_be_ignored  # this or something below it
        self._path: str | None = "" if parent is None else None

    @property
    def path(self) -> str:
        unknown: list[_Place] = []
        place, path = self, self._path
        while path is None:
            unknown.append(place)
            assert place.parent is not None, "the root has a path"
            place = place.parent
            path = place._path
        for one in reversed(unknown):
            path = one._path = self.joined(path, one.step)
        return path

    def below(self, step: _Step) -> str:
        return self.joined(self.path, step)

    @staticmethod
    def joined(path: str, step: _Step) -> str:
        return _path_below(path, step)


def difference(
    before: Any,
    after: Any,
    ignored: Collection[str] = RESOURCE_VERSION,
    *,
    loosely: bool = False,
    most: int | None = None,
) -> list[Change]:
    """Return all changes, in the order of the document. Fields whose path is in `ignored` are not compared.

    `loosely`: treat 1, 1.0 and true as equal inside fields that are otherwise equal. That is several times as fast,
    and raises RecursionError for documents that nest deeper than Python can compare.

    `most`: stop after this many changes, because a large object may have hundreds of thousands. If the changes would
    take more than `MAX_SIZE`, return a single change of the whole document.
    """
    changes: list[Change] = []
    size = 0
    if "" in ignored:
        return changes
    root = _Place(None, "", may_be_ignored=bool(ignored))
    left: list[tuple[_Place | None, _Step, Any, Any]] = [(None, "", before, after)]
    while left and (most is None or len(changes) < most):
        parent, step, one, other = left.pop()
        watched = parent is None or parent.may_be_ignored
        if watched and parent is not None:
            path = parent.below(step)
            if path in ignored:
                continue
            watched = any(text.startswith(path) for text in ignored)
        maps = isinstance(one, dict) and isinstance(other, dict)
        if maps or (isinstance(one, list) and isinstance(other, list)):
            place = root if parent is None else _Place(parent, step, may_be_ignored=watched)
            if maps:
                compares = loosely and place.depth < COMPARED_DEPTH
                pairs: Iterable[_Pair] = (_unequal_fields if compares else _fields)(one, other)
            else:
                known = len(changes)
                pairs = _items(place, one, other, changes)
                if len(changes) > known:
                    size += len(changes[-1].path) + _SIZE_OF_CHANGE * (len(changes) - known)
            left.extend([(place, *pair) for pair in pairs][::-1])
        elif type(one) is not type(other) or one != other:
            changes.append(Change("" if parent is None else parent.below(step), one, other))
            size += len(changes[-1].path) + _SIZE_OF_CHANGE
        if size > MAX_SIZE:
            return [Change("", before, after)]
    return changes if most is None else changes[:most]


def _fields(one: dict[str, Any], other: dict[str, Any]) -> Iterator[_Pair]:
    for key in dict.fromkeys((*one, *other)):
        yield key, one.get(key, ABSENT), other.get(key, ABSENT)


def _unequal_fields(one: dict[str, Any], other: dict[str, Any]) -> Iterator[_Pair]:
    """Yield the fields whose values are not equal in Python."""
    for key, value in one.items():
        after = other.get(key, ABSENT)
        if after != value:
            yield key, value, after
    for key, value in other.items():
        if key not in one:
            yield key, ABSENT, value


# Bytes of the changes between two documents: more than 150,000 changed fields, fewer if their paths are long.
MAX_SIZE: Final = 16 << 20
_SIZE_OF_CHANGE: Final = 100  # without its path

# The keys of labels and annotations have at most 253 + 1 + 63 characters, names fewer. A field of a custom object may
# have any key, with thousands of fields below it: with whole keys, their paths could take a thousand times the
# object.
MAX_KEY: Final = 320
MAX_PATH: Final = 1000
_END_OF_PATH: Final = 400  # characters of a longer path that stay: the last fields are the most useful


def _path_below(path: str, step: _Step) -> str:
    if isinstance(step, str):
        return below(path, step)
    return item_path(path, *step) if isinstance(step, tuple) else position_path(path, step)


def below(path: str, key: str) -> str:
    """Return the path of a field. A very long key or path is cut and gets a hash, so that paths stay distinct."""
    key = _bounded_key(key)
    if _identifier(key):
        return _bounded(f"{path}.{key}" if path else key)
    return _bounded(f"{path}[{unescaped(key).decode()}]")


def item_path(path: str, key: str, value: Any) -> str:
    """Return the path of a list item by its merge key."""
    return _bounded(f"{path}[{key}={_bounded_key(str(value))}]")


def position_path(path: str, position: int) -> str:
    return _bounded(f"{path}[{position}]")


def _bounded_key(key: str) -> str:
    return key if len(key) <= MAX_KEY else f"{key[:MAX_KEY]}…{_hash(key)}"


def _bounded(path: str) -> str:
    if len(path) <= MAX_PATH:
        return path
    start = MAX_PATH - _END_OF_PATH - 2 - _HASH
    return f"{path[:start]}…{_hash(path)}…{path[-_END_OF_PATH:]}"


_HASH: Final = 8  # characters


def _hash(text: str) -> str:
    from hashlib import blake2b  # here, because it loads OpenSSL, for the few paths that are too long

    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH // 2).hexdigest()


def _items(place: _Place, one: list[Any], other: list[Any], changes: list[Change]) -> Iterable[_Pair]:
    if _scalars(one) and _scalars(other):
        changes += _scalar_items(place, one, other)
        return ()
    by = merge_key(one, other)
    if not by:
        return _by_position(one, other)
    first, second = ({item[by]: item for item in items} for items in (one, other))
    changes += _order(place, [key for key in first if key in second], [key for key in second if key in first])
    return (
        ((by, key), first.get(key, ABSENT), second.get(key, ABSENT))
        for key in dict.fromkeys((*first, *second))
    )


def _scalars(items: list[Any]) -> bool:
    """Whether all items are scalars without duplicates."""
    if any(isinstance(item, (dict, list)) for item in items):
        return False
    return len(_distinct(items)) == len(items)


def _distinct(items: list[Any]) -> set[tuple[type, Any]]:
    """Return the items with their types, because 1 == 1.0 == True in Python."""
    return {(type(item), item) for item in items}


def _scalar_items(place: _Place, one: list[Any], other: list[Any]) -> Iterator[Change]:
    first, second = _distinct(one), _distinct(other)
    both = first & second
    if len(both) < max(len(first), len(second)):
        path = f"{place.path}[]"  # one text for all
        yield from (Change(path, item, ABSENT) for item in one if (type(item), item) not in second)
        yield from (Change(path, ABSENT, item) for item in other if (type(item), item) not in first)
    stayed, still = ([item for item in items if (type(item), item) in both] for items in (one, other))
    yield from _order(place, stayed, still)


def _order(place: _Place, one: list[Any], other: list[Any]) -> Iterator[Change]:
    if one != other:
        yield Change(f"{place.path}[order]", one, other)


def merge_key(one: list[Any], other: list[Any]) -> str:
    """Return the field that identifies the items of both lists, or "" if there is none."""
    return next((field for field in _MERGE_KEYS if _identifies(field, one) and _identifies(field, other)), "")


def _identifies(field: str, items: list[Any]) -> bool:
    if not all(isinstance(item, dict) and isinstance(item.get(field), (str, int)) for item in items):
        return False
    return len({item[field] for item in items}) == len(items)


def _by_position(one: list[Any], other: list[Any]) -> Iterator[_Pair]:
    for position in range(max(len(one), len(other))):
        yield (
            position,
            one[position] if position < len(one) else ABSENT,
            other[position] if position < len(other) else ABSENT,
        )


Operation = dict[str, Any]
Operations = list[Operation]


def patch_between(before: Any, after: Any) -> Operations:
    """Return the JSON patch (RFC 6902) that turns one document into another, exactly.

        patch_between({"a": 1, "b": [1, 2]}, {"b": [1, 3, 4]})
            [{"op": "remove", "path": "/a"},
             {"op": "add", "path": "/b/2", "value": 4}, {"op": "replace", "path": "/b/1", "value": 3}]

    Lists are compared from both ends, so that an inserted or removed item is one operation. It uses its own stack:
    documents may nest deeper than Python's recursion limit. If the operations would take more than `MAX_SIZE`,
    because very many fields differ, or thousands below a very long key, it replaces the whole document.
    """
    patch = _Patch()
    left: list[_Members] = [(_Pointer(None, "", may_be_ignored=False), before, after)]
    try:
        while left:
            place, one, other = left.pop()
            if isinstance(one, dict) and isinstance(other, dict):
                left.extend(reversed(_members(place, one, other, patch)))
            elif isinstance(one, list) and isinstance(other, list):
                left.extend(reversed(_patched_items(place, one, other, patch)))
            elif not _same(one, other):
                patch.add("replace", place.path, other)
    except _TooLong:
        return [{"op": "replace", "path": "", "value": after}]
    return patch.operations


class _TooLong(Exception):
    """The operations of a patch exceed `MAX_SIZE`."""


class _Patch:
    def __init__(self) -> None:
        self.operations: Operations = []
        self._size = 0

    def add(self, op: str, path: str, value: Any = ABSENT) -> None:
        self._size += len(path) + _SIZE_OF_CHANGE
        if self._size > MAX_SIZE:
            raise _TooLong
        self.operations.append({"op": op, "path": path} | ({} if value is ABSENT else {"value": value}))


class _Pointer(_Place):
    """A place whose path is a JSON pointer, which contains every key unchanged."""

    __slots__ = ()

    @staticmethod
    def joined(path: str, step: _Step) -> str:
        return pointer(path, step) if isinstance(step, str) else f"{path}/{step}"

    def at(self, step: str | int) -> _Pointer:
        return _Pointer(self, step, may_be_ignored=False)


_Members = tuple[_Pointer, Any, Any]


def _members(place: _Pointer, one: dict[str, Any], other: dict[str, Any], patch: _Patch) -> list[_Members]:
    for key in one:
        if key not in other:
            patch.add("remove", place.below(key))
    both: list[_Members] = []
    for key, value in other.items():
        if key in one:
            # Comparing whole maps and lists at each level would be quadratic in their depth.
            if isinstance(value, (dict, list)) or not _same(one[key], value):
                both.append((place.at(key), one[key], value))
        else:
            patch.add("add", place.below(key), value)
    return both


def _patched_items(place: _Pointer, one: list[Any], other: list[Any], patch: _Patch) -> list[_Members]:
    """Pair the items at both ends of the lists; operations on the items between do not move them."""
    shorter = min(len(one), len(other))
    start = 0
    while start < shorter and _same(one[start], other[start]):
        start += 1
    end = 0
    while end < shorter - start and _same(one[-1 - end], other[-1 - end]):
        end += 1
    first, last = len(one) - end, len(other) - end
    pairs = min(first, last)
    for position in range(first - 1, pairs - 1, -1):
        patch.add("remove", place.below(position))
    for position in range(pairs, last):
        patch.add("add", place.below(position), other[position])
    return [(place.at(position), one[position], other[position]) for position in range(start, pairs)]


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1, 1.0 and true are equal in Python."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (dict, list)):
        return bool(one == other) and unescaped(one, option=_SORTED) == unescaped(other, option=_SORTED)
    return bool(one == other)


_SORTED = orjson.OPT_SORT_KEYS


def pointer(path: str, key: str) -> str:
    """Return the JSON pointer (RFC 6901) of a member."""
    if "~" in key or "/" in key:
        key = key.replace("~", "~0").replace("/", "~1")
    return f"{path}/{key}"


# Text for people cuts longer values. Documents for programs have whole values.
VALUE_WIDTH = 60
CONTEXT = 12  # characters shown before the first difference of two long values


def describe(change: Change, width: int | None = VALUE_WIDTH) -> str:
    """Describe a change: data.color: "blue" -> "red". Added and removed fields have only one value."""
    if change.before is ABSENT or change.after is ABSENT:
        value = change.after if change.before is ABSENT else change.before
        return f"{change.path}: {shortened(value, width)}"
    before, after = _json(change.before), _json(change.after)
    start = 0
    if width is not None and max(len(before), len(after)) > width:
        start = max(0, _common_prefix(before, after) - CONTEXT)
    return f"{change.path}: {_cut(before, start, width)} -> {_cut(after, start, width)}"


def shortened(value: Any, width: int | None = VALUE_WIDTH) -> str:
    """Return a value as JSON, cut to a width."""
    return _cut(_json(value), 0, width)


def _json(value: Any) -> str:
    return unescaped(value).decode()


def _common_prefix(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def _cut(text: str, start: int, width: int | None) -> str:
    if width is None:
        return text
    shown = text[start : start + width]
    return ("…" if start else "") + shown + ("…" if start + width < len(text) else "")


def escaped(text: str) -> str:
    """Escape control characters, which could move the cursor or change colours of a terminal."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "backslashreplace").decode()
        for letter in text
    )


# Characters of a column of blame: service account names have at most 341; longer ones shift their line.
COLUMN_WIDTH: Final = 400


def left_out_text(count: int) -> str:
    return (
        f"{count:,} more fields are left out: the paths of so many, or the names of their users, are too long"
    )
