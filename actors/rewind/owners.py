"""The owners of the fields of an object: a tree beside the object, in which a number is the version that set everything
below it.

    1 create   {"data": {"a": "1", "b": "2"}}        owners 1
    5 update   {"data": {"a": "1", "b": "3"}}        owners {"data": {"a": 1, "b": 5}}

Equal parts keep their owners without a look inside. Items of lists are matched like those of a difference
(`difference`): by a merge key where they have one.
"""

from __future__ import annotations

from typing import Any

from actors.rewind.difference import merge_key

Owners = Any  # an offset, or a dict or list of Owners like the object


def unchanged(before: Any, after: Any) -> bool:
    return before is after or (before == after and type(before) is type(after))


def owners_after(before: Any, owners: Owners, after: Any, version: int) -> Owners:
    """The owners of a value that a version changed; `before` and `owners` are those of the version before."""
    if not after:
        return version
    if isinstance(after, dict) and isinstance(before, dict):
        result: dict[str, Owners] = {}
        whole = isinstance(owners, int)
        for key, value in after.items():
            if key not in before:
                result[key] = version
                continue
            old, owner = before[key], owners if whole else owners[key]
            result[key] = owner if unchanged(old, value) else owners_after(old, owner, value, version)
        return result
    if isinstance(after, list) and isinstance(before, list):
        return _owners_of_items(before, owners, after, version)
    return version


def _owners_of_items(before: list[Any], owners: Owners, after: list[Any], version: int) -> Owners:
    matched = _matched(before, after)
    result: list[Owners] = []
    for position, value in enumerate(after):
        place = matched.get(position)
        if place is None:
            result.append(version)
            continue
        old, owner = before[place], owners if isinstance(owners, int) else owners[place]
        result.append(owner if unchanged(old, value) else owners_after(old, owner, value, version))
    return result


def _matched(before: list[Any], after: list[Any]) -> dict[int, int]:
    """The position before of each item after that was there."""
    key = merge_key(before, after)
    if key:
        places = {item[key]: place for place, item in enumerate(before)}
        return {at: places[item[key]] for at, item in enumerate(after) if item[key] in places}
    if any(isinstance(item, (dict, list)) for item in (*before, *after)):
        return {at: at for at in range(min(len(before), len(after)))}
    values = {(type(item), item): place for place, item in enumerate(before)}
    return {at: values[type(item), item] for at, item in enumerate(after) if (type(item), item) in values}
