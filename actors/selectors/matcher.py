"""Compiles selectors to a function that decides from the packed facts of an object, mostly without unpacking them.

The facts contain the bytes of a label or field exactly if the object has it (see `actors/selectors/facts.py`), so every
requirement except `>` and `<` is one search for bytes, a quarter of a microsecond. Comparisons of numbers unpack the
labels, only if the searches did not decide; a selector with many requirements or values is compiled to sets
(`actors/selectors/large.py`). Rejected: an index database per label, which would slow every write.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.selectors.facts import field_bytes, label_bytes, unpack_labels
from actors.selectors.fields import FieldRequirement, FieldSelector
from actors.selectors.labels import ABSENT, EXISTS, IN, NOT_IN, LabelRequirement, LabelSelector
from actors.selectors.large import large_matcher

Match = Callable[[bytes], bool]
Needles = list[bytes]

# So many searches cost about as much as unpacking the labels; a thousand values must not mean a thousand searches.
MAX_SEARCHES = 16


def matcher(labels: LabelSelector | None, fields: FieldSelector | None) -> Match | None:
    """None if there are no requirements: the caller then takes every row without a call."""
    of_labels = labels.requirements if labels is not None else ()
    of_fields = fields.requirements if fields is not None else ()
    if not (of_labels or of_fields):
        return None
    if len(of_fields) + sum(len(one.values) or 1 for one in of_labels) > MAX_SEARCHES:
        return large_matcher(of_labels, of_fields)
    wanted: list[Needles] = []  # the facts must contain one of each list
    unwanted: Needles = []
    compared: list[LabelRequirement] = []
    for requirement in of_labels:
        _add_label(requirement, wanted, unwanted, compared)
    for field_requirement in of_fields:
        _add_field(field_requirement, wanted, unwanted)
    if len(wanted) == 1 and len(wanted[0]) == 1 and not unwanted and not compared:
        return _contains(wanted[0][0])
    return _meets_all(wanted, unwanted, compared)


def _add_label(
    requirement: LabelRequirement,
    wanted: list[Needles],
    unwanted: Needles,
    compared: list[LabelRequirement],
) -> None:
    key = requirement.key
    values = [label_bytes(key, value) for value in requirement.values]
    if requirement.operator == IN:
        wanted.append(values)
    elif requirement.operator == NOT_IN:
        unwanted += values
    elif requirement.operator == ABSENT:
        unwanted.append(label_bytes(key))
    else:
        wanted.append([label_bytes(key)])
        if requirement.operator != EXISTS:
            compared.append(requirement)


def _add_field(requirement: FieldRequirement, wanted: list[Needles], unwanted: Needles) -> None:
    needle = field_bytes(requirement.field, requirement.value or None)
    # Facts leave out empty fields: a requirement of the empty value is one that the field is absent.
    if (requirement.operator == "=") is bool(requirement.value):
        wanted.append([needle])
    else:
        unwanted.append(needle)


def _contains(needle: bytes) -> Match:
    # Not `needle in facts`: that first tries to convert the needle to an integer, which costs an exception.
    def match(facts: bytes) -> bool:
        return facts.find(needle) >= 0

    return match


def _meets_all(wanted: list[Needles], unwanted: Needles, compared: list[LabelRequirement]) -> Match:
    def match(facts: bytes) -> bool:
        for needles in wanted:
            for needle in needles:
                if facts.find(needle) >= 0:
                    break
            else:
                return False
        for needle in unwanted:
            if facts.find(needle) >= 0:
                return False
        return not compared or _compare(compared, facts)

    return match


def _compare(requirements: list[LabelRequirement], facts: bytes) -> bool:
    labels = unpack_labels(facts)
    return all(requirement.matches(labels) for requirement in requirements)
