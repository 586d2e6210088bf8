"""The filter of a list: facts bytes in, yes or no out, with as little unpacking as can be.

A msgpack map writes a key and its value side by side, so the label app=web is in an object's facts only if
the bytes of "app" followed by those of "web" are. That one search, some 40 ns, settles most objects: a
requirement that asks for something is refused where its bytes are missing, one that rules something out is
fulfilled there. Bytes that are found prove nothing (a field may look like a label), so what remains is
unpacked and evaluated exactly. Rejected: an index database per label, which every write would pay for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgpack

from actors.selectors.fields import FieldRequirement, FieldSelector
from actors.selectors.labels import ABSENT, IN, NOT_IN, LabelRequirement, LabelSelector

Match = Callable[[bytes], bool]
# Some of these bytes must be there for the requirement to hold.
Needles = tuple[bytes, ...]


def matcher(labels: LabelSelector | None, fields: FieldSelector | None) -> Match | None:
    """None where nothing is asked: the caller then takes every row without a call."""
    of_labels = labels.requirements if labels is not None else ()
    of_fields = fields.requirements if fields is not None else ()
    if not of_labels and not of_fields:
        return None
    required: list[Needles] = []
    suspect: list[bytes] = []
    undecided = False
    for positive, needles in (*map(_of_label, of_labels), *map(_of_field, of_fields)):
        if not needles:
            undecided = True
        elif positive:
            required.append(needles)
        else:
            suspect.extend(needles)
    exact = _exact(of_labels, of_fields)
    if not required:
        return exact if undecided else _unless_found(suspect, exact)
    if all(len(needles) == 1 for needles in required):
        return _where_all_found([needles[0] for needles in required], exact)
    return _where_some_of_each_found(required, exact)


def _of_label(requirement: LabelRequirement) -> tuple[bool, Needles]:
    key = _packed(requirement.key)
    if requirement.operator in (IN, NOT_IN):
        return requirement.operator == IN, tuple(key + _packed(value) for value in requirement.values)
    return requirement.operator != ABSENT, (key,)


def _of_field(requirement: FieldRequirement) -> tuple[bool, Needles]:
    # An empty value is also that of a field which is not there, so its bytes decide nothing.
    if not requirement.value:
        return False, ()
    return requirement.operator == "=", (_packed(requirement.field) + _packed(requirement.value),)


def _packed(text: str) -> bytes:
    packed: bytes = msgpack.packb(text, unicode_errors="replace")
    return packed


def _exact(labels: Iterable[LabelRequirement], fields: Iterable[FieldRequirement]) -> Match:
    of_labels = [requirement.matches for requirement in labels]
    of_fields = [requirement.matches for requirement in fields]
    unpack = msgpack.unpackb

    def match(facts: bytes) -> bool:
        unpacked = unpack(facts)
        found = unpacked[0]
        for holds in of_labels:
            if not holds(found):
                return False
        found = unpacked[1]
        return all(holds(found) for holds in of_fields)

    return match


def _where_all_found(needles: list[bytes], exact: Match) -> Match:
    first, *others = needles

    def match(facts: bytes) -> bool:
        if first not in facts:
            return False
        for needle in others:
            if needle not in facts:
                return False
        return exact(facts)

    return match


def _where_some_of_each_found(required: list[Needles], exact: Match) -> Match:
    def match(facts: bytes) -> bool:
        for needles in required:
            for needle in needles:
                if needle in facts:
                    break
            else:
                return False
        return exact(facts)

    return match


def _unless_found(suspect: list[bytes], exact: Match) -> Match:
    def match(facts: bytes) -> bool:
        for needle in suspect:
            if needle in facts:
                return exact(facts)
        return True

    return match
