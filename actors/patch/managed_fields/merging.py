"""Merges an applied configuration into the live object: applied values win, nothing is removed.

A null or empty map in a configuration owns the field without changing it, so a live map stays as it is; null removes a
single value. The order of keyed lists is the applier's; entries that only the live
list has stay behind the shared entry they stood behind:

    live a b c x, applied c a b    ->  c x a b
    live a b,     applied c b      ->  a c b

The live object does not change; the result shares its unchanged parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actors.patch.managed_fields.topology import (
    Dictionary,
    Divided,
    Items,
    Leaf,
    Open,
    Record,
    Repeated,
    Shape,
)

MISSING = object()


def merge(shape: Divided, live: Any, config: Any) -> Any:
    if type(shape) is Record or type(shape) is Dictionary:
        return _merge_members(shape, live, config)
    return _merge_items(shape, live, config)


def _merge_members(
    shape: Record | Dictionary, live: dict[str, Any], config: dict[str, Any]
) -> dict[str, Any]:
    merged = live
    for name, wanted in config.items():
        was = live.get(name, MISSING)
        if was == wanted:
            continue
        element = shape.element(name)
        if element is None:
            continue
        part = _merge_part(shape.part(element), was, wanted)
        if part is not was:
            if merged is live:
                merged = dict(live)
            merged[name] = part
    return merged


def _merge_part(shape: Shape, was: Any, wanted: Any) -> Any:
    """Of a part whose wanted value is not the one that it was."""
    if type(shape) is Open:
        shape = shape.of(wanted)
        was = was if type(shape) is Leaf or isinstance(was, dict) else MISSING
    if type(shape) is Leaf:
        return wanted
    if not wanted:
        return was if was is not MISSING and was else wanted
    if was is MISSING or was is None or type(was) is Repeated:
        was = {} if isinstance(shape, Record | Dictionary) else []
    return merge(shape, was, wanted)


def _merge_items(shape: Items, live: list[Any], config: list[Any]) -> list[Any]:
    old, wanted = shape.parts(live), shape.parts(config)
    inner = shape.part("")
    merged: list[Any] = []
    for element in old if list(old) == list(wanted) else _interleaved(old, wanted):
        was, now = old.get(element, MISSING), wanted.get(element, MISSING)
        if now is not MISSING:
            merged.append(was if was == now else _merge_part(inner, was, now))
        elif type(was) is Repeated:
            merged.extend(was)
        else:
            merged.append(was)
    return merged


def _interleaved(live: dict[str, Any], applied: dict[str, Any]) -> Iterator[str]:
    """Elements of both in their common order."""
    own, at = list(live), 0
    shared = (element for element in applied if element in live)
    awaited = next(shared, None)
    for element in applied:
        while at < len(own) and own[at] != awaited:
            if own[at] not in applied:
                yield own[at]
            at += 1
        yield element
        if element == awaited:
            at += 1
            awaited = next(shared, None)
    yield from (element for element in own[at:] if element not in applied)
