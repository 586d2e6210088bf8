"""Removes what an applier no longer sets, unless another manager owns it.

`last` is what the applier owned before, `own` what it owns now, `others` what all other managers own. A part is removed
when the applier owned it and nobody owns it now, or nobody owns an enclosing part that the applier owned:

    last data.a, data.b; now data.a                      ->  removes data.b
    last data.a; now nobody owns anything in data        ->  removes data, with the defaults in it
    last containers[c] and its image; now nobody         ->  removes the whole container

Fields of a struct count as owned when anything in them is; keys and entries only when they are members themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.patch.managed_fields.field_set import Fields, is_member
from actors.patch.managed_fields.topology import Dictionary, Divided, Leaf, Open, Record, Repeated
from actors.time_limit import check_time

_GONE = object()


def prune(shape: Record, value: Any, last: Fields, own: Fields, others: Sequence[Fields]) -> Any:
    """The value without what was given up; the same value when that is nothing."""
    return _Pruning(own, others, within=False, given_up=False).run(shape, value, last)


class _Pruning:
    """One step down the object: who owns what from here on, and what is known from above."""

    __slots__ = ("_given_up", "_others", "_own", "_within")

    def __init__(self, own: Fields | None, others: Sequence[Fields], *, within: bool, given_up: bool) -> None:
        self._own, self._others = own, others
        self._within = within  # the applier owned an enclosing part
        self._given_up = given_up  # that nobody owns now

    def run(self, shape: Divided, value: Any, last: Fields) -> Any:
        check_time()
        parts = shape.parts(value)
        changes: dict[str, Any] = {}
        own = self._own or {}
        for element, node in last.items():
            if own.get(element) == node and not self._given_up:
                continue
            part = parts.get(element)
            if part is not None:
                left = self._part(shape, element, part, node)
                if left is not part:
                    changes[element] = left
        return _rebuilt(shape, value, parts, changes) if changes else value

    def _part(self, shape: Divided, element: str, part: Any, last: Fields) -> Any:
        inner = shape.part(element)
        if type(inner) is Open:
            inner = inner.of(part)
        own = self._own.get(element) if self._own is not None else None
        others = [other[element] for other in self._others if element in other]
        now = others if own is None else [own, *others]
        whole = type(inner) is Leaf or (type(shape) is Record and shape.declares(element))
        was_owned = whole or is_member(last)
        is_owned = bool(now) if whole else any(map(is_member, now))
        within = self._within or was_owned
        given_up = self._given_up or (within and not is_owned)
        if given_up and was_owned:
            return _GONE
        if type(inner) is Leaf or not part or type(part) is Repeated:
            return part
        left = _Pruning(own, others, within=within, given_up=given_up).run(inner, part, last)
        return left or None


def _rebuilt(shape: Divided, value: Any, parts: dict[str, Any], changes: dict[str, Any]) -> Any:
    if isinstance(shape, Record | Dictionary):
        members = dict(value)
        for element, left in changes.items():
            if left is _GONE:
                del members[element[2:]]
            else:
                members[element[2:]] = left
        return members
    items: list[Any] = []
    for element, part in parts.items():
        left = changes.get(element, part)
        if left is not _GONE:
            items.extend(left if type(left) is Repeated else (left,))
    return items
