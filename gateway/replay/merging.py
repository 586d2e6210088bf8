"""A recorded change on an object that has changed since: what the recording changed, and nothing else.

    before   {replicas: 3, image: a}      as recorded
    after    {replicas: 5, image: a}      as recorded
    current  {replicas: 3, image: b}      in the copy, where somebody else wrote image
    merged   {replicas: 5, image: b}

Maps are merged field by field; a list that the recording changed is taken whole, but for entries of `managedFields`,
which belong to managers. What the server maintains of an object (uid, times, versions) stays as it is in the copy.
"""

from __future__ import annotations

from typing import Any

from actors.messages import Object

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "selfLink")
_ABSENT: Any = object()


def merged(before: Object, after: Object, current: Object) -> Object:
    """The current object with the changes from `before` to `after`; none of them is modified."""
    result: Object = dict(_merge(before, after, current))
    metadata = result["metadata"] = dict(result["metadata"])
    kept = current["metadata"]
    for name in _KEPT:
        if name in kept:
            metadata[name] = kept[name]
        else:
            metadata.pop(name, None)
    fields = [one["metadata"].get("managedFields") or [] for one in (before, after, current)]
    if managed := _managed_fields(*fields):
        metadata["managedFields"] = managed
    else:
        metadata.pop("managedFields", None)
    return result


def _merge(before: Any, after: Any, current: Any) -> Any:
    if after == before:
        return current
    if not (isinstance(after, dict) and isinstance(current, dict)):
        return after
    result = dict(current)
    old = before if isinstance(before, dict) else {}
    for name in {**old, **after}:
        was, becomes = old.get(name, _ABSENT), after.get(name, _ABSENT)
        if becomes is _ABSENT:
            result.pop(name, None)
        elif becomes != was:
            result[name] = _merge(was, becomes, current.get(name, _ABSENT))
    return result


def _managed_fields(before: list[Object], after: list[Object], current: list[Object]) -> list[Object]:
    """Each manager's entry: as the recording changed it, otherwise as it is."""
    old, new, here = ({_manager(one): one for one in entries} for entries in (before, after, current))
    result = dict(here)
    for manager in {**old, **new}:
        if new.get(manager) == old.get(manager):
            continue
        if manager in new:
            result[manager] = new[manager]
        else:
            result.pop(manager, None)
    return list(result.values())


def _manager(entry: Object) -> tuple[str, ...]:
    return tuple(str(entry.get(name, "")) for name in ("manager", "operation", "apiVersion", "subresource"))
