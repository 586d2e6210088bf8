"""What differs between two documents, field by field. Pure: plain values in, changes out.

Shared by `show`, `history`, `diff` and the lines of `log`. Paths are written as people say them:

    data.color                                   a field
    metadata.labels["app.example/name"]          a key that is no plain word
    spec.containers[name=web].image              an item of a list whose items have names (or types, keys, ...)
    metadata.finalizers[]                        an item of a list of plain values, added or removed
    spec.rules[2].path                           anything else in a list, by position

Lists are compared by what their items are called, because an item put in front would otherwise change all
behind it. Walks with a stack of its own: documents may be nested deeper than Python may call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

# They change with every write, and whoever compares two versions knows that.
BOOKKEEPING: Final = frozenset({"metadata.resourceVersion"})
MANAGED_FIELDS: Final = "metadata.managedFields"

_CALLED_BY: Final = ("name", "uid", "key", "type", "ip", "port")
_plain_word = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*").fullmatch


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


@dataclass(frozen=True, slots=True)
class Change:
    path: str
    before: Any  # ABSENT: was not there
    after: Any  # ABSENT: is not there any more

    @property
    def sign(self) -> str:
        if self.before is ABSENT:
            return "+"
        return "-" if self.after is ABSENT else "~"

    def document(self) -> dict[str, Any]:
        told: dict[str, Any] = {"path": self.path}
        if self.before is not ABSENT:
            told["before"] = self.before
        if self.after is not ABSENT:
            told["after"] = self.after
        return told


_Pair = tuple[str, Any, Any]


def difference(before: Any, after: Any, ignored: Collection[str] = BOOKKEEPING) -> list[Change]:
    """All changes, in the order of the document. Fields whose path is in `ignored` are not looked at."""
    changes: list[Change] = []
    left: list[_Pair] = [("", before, after)]
    while left:
        path, one, other = left.pop()
        if path in ignored:
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            pairs: Iterable[_Pair] = _fields(path, one, other)
        elif isinstance(one, list) and isinstance(other, list):
            pairs = _items(path, one, other, changes)
        else:
            pairs = ()
            if type(one) is not type(other) or one != other:
                changes.append(Change(path, one, other))
        left.extend(reversed(list(pairs)))
    return changes


def _fields(path: str, one: dict[str, Any], other: dict[str, Any]) -> Iterator[_Pair]:
    for key in dict.fromkeys((*one, *other)):
        yield _below(path, key), one.get(key, ABSENT), other.get(key, ABSENT)


def _below(path: str, key: str) -> str:
    if _plain_word(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{orjson.dumps(key).decode()}]"


def _items(path: str, one: list[Any], other: list[Any], changes: list[Change]) -> Iterable[_Pair]:
    if _plain(one) and _plain(other):
        changes += _plain_items(path, one, other)
        return ()
    called = _called_by(one, other)
    if not called:
        return _by_position(path, one, other)
    first, second = ({item[called]: item for item in items} for items in (one, other))
    changes += _order(path, [key for key in first if key in second], [key for key in second if key in first])
    return (
        (f"{path}[{called}={key}]", first.get(key, ABSENT), second.get(key, ABSENT))
        for key in dict.fromkeys((*first, *second))
    )


def _plain(items: list[Any]) -> bool:
    """Plain values, each once."""
    if any(isinstance(item, (dict, list)) for item in items):
        return False
    return len(_told_apart(items)) == len(items)


def _told_apart(items: list[Any]) -> set[tuple[type, Any]]:
    """Python takes 1, 1.0 and true for the same."""
    return {(type(item), item) for item in items}


def _plain_items(path: str, one: list[Any], other: list[Any]) -> Iterator[Change]:
    first, second = _told_apart(one), _told_apart(other)
    both = first & second
    stayed, still = ([item for item in items if (type(item), item) in both] for items in (one, other))
    yield from (Change(f"{path}[]", item, ABSENT) for item in one if (type(item), item) not in second)
    yield from (Change(f"{path}[]", ABSENT, item) for item in other if (type(item), item) not in first)
    yield from _order(path, stayed, still)


def _order(path: str, one: list[Any], other: list[Any]) -> Iterator[Change]:
    if one != other:
        yield Change(f"{path}[order]", one, other)


def _called_by(one: list[Any], other: list[Any]) -> str:
    """The field that tells the items of both lists apart; empty without one."""
    return next(
        (field for field in _CALLED_BY if _tells_apart(field, one) and _tells_apart(field, other)), ""
    )


def _tells_apart(field: str, items: list[Any]) -> bool:
    if not all(isinstance(item, dict) and isinstance(item.get(field), (str, int)) for item in items):
        return False
    return len({item[field] for item in items}) == len(items)


def _by_position(path: str, one: list[Any], other: list[Any]) -> Iterator[_Pair]:
    for position in range(max(len(one), len(other))):
        yield (
            f"{path}[{position}]",
            one[position] if position < len(one) else ABSENT,
            other[position] if position < len(other) else ABSENT,
        )
