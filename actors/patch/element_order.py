"""The order of a merged list: entries that the patch names keep its order, the others stand around them.

    server a b c,  patch names c a     ->  b c a     the server had b before c
    server a b,    patch names x       ->  x a b     the server never had x, so nothing says that a stands before it
    server a b c,  patch names b x     ->  a b x c

Both orders are kept as they are; where they meet, an entry that only the server has goes first when the server had it
before the next one that the patch names. Identities are found by hash: lists as long as a body may be are patched too.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import orjson


def identity(entry: Any, merge_key: str) -> Hashable:
    """What identifies an entry: the value of its merge key, or the entry itself."""
    of = entry.get(merge_key) if merge_key and isinstance(entry, dict) else entry
    if isinstance(of, str) or of is None:
        return of
    return type(of), orjson.dumps(of)


def in_order(merged: Sequence[Any], named: Sequence[Any], server: Sequence[Any], merge_key: str) -> list[Any]:
    """`merged` in the order of `named`, and otherwise in that of `server`."""
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
