"""The filter of a list: facts bytes in, yes or no out, hardly ever unpacking them.

Facts are laid out so that a label or a field is there exactly if its bytes are (see `actors/selectors/facts.py`), so
every requirement but `>` and `<` is one search for bytes, a quarter of a microsecond, wanted or unwanted.
Only numbers and long lists of values are unpacked to be compared, where the searches left the question open.
Rejected: an index database per label, which every write would pay for.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.selectors.facts import field_bytes, label_bytes, unpack_labels
from actors.selectors.fields import FieldRequirement, FieldSelector
from actors.selectors.labels import ABSENT, EXISTS, IN, NOT_IN, LabelRequirement, LabelSelector

Match = Callable[[bytes], bool]
Needles = list[bytes]

# About what unpacking the labels costs; a list of a thousand values must not mean a thousand searches a row.
MOST_SEARCHES = 16


def matcher(labels: LabelSelector | None, fields: FieldSelector | None) -> Match | None:
    """None where nothing is asked: the caller then takes every row without a call."""
    wanted: list[Needles] = []  # one of each must be there
    unwanted: Needles = []
    compared: list[LabelRequirement] = []
    for requirement in labels.requirements if labels is not None else ():
        _sort_label(requirement, wanted, unwanted, compared)
    for asked in fields.requirements if fields is not None else ():
        _sort_field(asked, wanted, unwanted)
    if not (wanted or unwanted or compared):
        return None
    if len(wanted) == 1 and len(wanted[0]) == 1 and not unwanted and not compared:
        return _contains(wanted[0][0])
    return _fulfils(wanted, unwanted, compared)


def _sort_label(
    requirement: LabelRequirement,
    wanted: list[Needles],
    unwanted: Needles,
    compared: list[LabelRequirement],
) -> None:
    key = requirement.key
    if len(requirement.values) > MOST_SEARCHES:
        wanted += [[label_bytes(key)]] if requirement.operator == IN else []
        compared.append(requirement)
        return
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


def _sort_field(requirement: FieldRequirement, wanted: list[Needles], unwanted: Needles) -> None:
    needle = field_bytes(requirement.field, requirement.value or None)
    # Empty fields are not stored: asking for the empty value is asking that no value be there.
    if (requirement.operator == "=") is bool(requirement.value):
        wanted.append([needle])
    else:
        unwanted.append(needle)


def _contains(needle: bytes) -> Match:
    # Not `needle in facts`: for bytes that first tries the needle as a number, at the price of an exception.
    def match(facts: bytes) -> bool:
        return facts.find(needle) >= 0

    return match


def _fulfils(wanted: list[Needles], unwanted: Needles, compared: list[LabelRequirement]) -> Match:
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
