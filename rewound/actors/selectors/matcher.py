"""Compiles selectors to a function that decides from the packed facts of an object, mostly without unpacking them.

The facts contain the bytes of a label or field exactly if the object has it (see `actors/selectors/facts.py`), so
every requirement except `>` and `<` is one search for bytes, a quarter of a microsecond. Comparisons of numbers
unpack the labels, but only if the searches did not decide. Rejected: an index database per label, which would slow
every write. Only fields that became selectable after an object was written are read from its JSON.

A selector with many requirements or values is compiled to sets: the cost depends on the labels of the object, however
long the selector is. Compiling merges the requirements by key. An object must have every required key, so it can only
match if it has at least as many labels as there are required keys; unwanted values are looked up by the labels that
it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from rewound.actors.selectors.facts import (
    Completing,
    LateField,
    PackedValue,
    completed,
    field_bytes,
    label_bytes,
    packed_value,
    stored_text,
    unpack_labels,
    unpack_selectable,
)
from rewound.actors.selectors.fields import FieldRequirement, FieldSelector
from rewound.actors.selectors.labels import (
    ABSENT,
    EXISTS,
    GREATER,
    IN,
    NOT_IN,
    LabelRequirement,
    LabelSelector,
)
from rewound.journal.search import Search, Term

Match = Callable[[bytes, bytes], bool]  # of the facts and the JSON of an object
Values = dict[str, set[str] | None]  # by key; None: any value


class _Merged(msgspec.Struct):
    """Merged requirements of labels, or of fields."""

    wanted: Values = msgspec.field(default_factory=dict)
    unwanted: Values = msgspec.field(default_factory=dict)
    bounds: dict[tuple[str, str], int] = msgspec.field(default_factory=dict)  # by key and operator
    compared: list[LabelRequirement] = msgspec.field(default_factory=list)

    def want(self, key: str, values: set[str] | None) -> None:
        before = self.wanted.get(key)
        if values is None or before is None:
            self.wanted[key] = values if before is None else before
        else:
            before &= values

    def refuse(self, key: str, values: set[str] | None) -> None:
        before = self.unwanted.setdefault(key, set())
        if values is None or before is None:
            self.unwanted[key] = None
        else:
            before |= values

    def compare(self, key: str, operator: str, bound: int) -> None:
        before = self.bounds.get((key, operator), bound)
        self.bounds[key, operator] = max(before, bound) if operator == GREATER else min(before, bound)

    def complete(self) -> _Merged:
        self.compared = [
            LabelRequirement(key, operator, (str(bound),)) for (key, operator), bound in self.bounds.items()
        ]
        return self

    @property
    def impossible(self) -> bool:
        return any(self._excluded(key, values) for key, values in self.wanted.items())

    def _excluded(self, key: str, values: set[str] | None) -> bool:
        if values is not None and not values:
            return True
        if key not in self.unwanted:
            return False
        unwanted = self.unwanted[key]
        return unwanted is None or (values is not None and values <= unwanted)

    def meets(self, flat: list[Any]) -> bool:
        """Whether packed labels or fields meet the requirements."""
        wanted, unwanted = self.wanted, self.unwanted
        if len(wanted) > len(flat) // 3:
            return False
        has: dict[str, str] = dict(zip(flat[::3], flat[2::3], strict=True))
        for key, values in wanted.items():
            value = has.get(key)
            if value is None or (values is not None and value not in values):
                return False
        if unwanted:
            for key in unwanted.keys() & has.keys():
                refused = unwanted[key]
                if refused is None or has[key] in refused:
                    return False
        return not self.compared or all(requirement.matches(has) for requirement in self.compared)


def large_matcher(labels: Iterable[LabelRequirement], fields: Iterable[FieldRequirement]) -> Match:
    merged_labels, merged_fields = _Merged(), _Merged()
    for requirement in labels:
        _large_add_label(requirement, merged_labels)
    for field_requirement in fields:
        _large_add_field(field_requirement, merged_fields)
    if merged_labels.impossible or merged_fields.impossible:
        return _matches_nothing
    needle = _rarest(merged_labels.wanted, label_bytes) or _rarest(merged_fields.wanted, field_bytes)
    return _meets_both(needle, merged_labels.complete(), merged_fields)


def _large_add_label(requirement: LabelRequirement, merged: _Merged) -> None:
    key = requirement.key
    match requirement.operator:
        case "in":
            merged.want(key, set(requirement.values))
        case "notin":
            merged.refuse(key, set(requirement.values))
        case "!":
            merged.refuse(key, None)
        case "exists":
            merged.want(key, None)
        case operator:
            merged.want(key, None)
            merged.compare(key, operator, int(requirement.values[0]))


def _large_add_field(requirement: FieldRequirement, merged: _Merged) -> None:
    # Facts leave out empty fields: to require the empty value is to require that the field is absent.
    values = {stored_text(requirement.value)} if requirement.value else None
    if (requirement.operator == "=") is bool(requirement.value):
        merged.want(requirement.field, values)
    else:
        merged.refuse(requirement.field, values)


def _rarest(wanted: Values, packed: Callable[[str, str | None], bytes]) -> bytes:
    """Return bytes that the facts of every matching object contain, of a single value if possible."""
    for key, values in wanted.items():
        if values is not None and len(values) == 1:
            return packed(key, *values)
    return packed(next(iter(wanted)), None) if wanted else b""


def _matches_nothing(facts: bytes, body: bytes = b"") -> bool:
    return False


def _meets_both(needle: bytes, labels: _Merged, fields: _Merged) -> Match:
    def match(facts: bytes, _: bytes = b"") -> bool:
        if needle and facts.find(needle) < 0:
            return False
        flat_labels, flat_fields = unpack_selectable(facts)
        return labels.meets(flat_labels) and fields.meets(flat_fields)

    return match


Needles = list[bytes]

# This many searches cost about as much as unpacking the labels; a thousand values must not mean a thousand searches.
MAX_SEARCHES = 16


def matcher(labels: LabelSelector | None, fields: FieldSelector | None) -> Match | None:
    """Return the function that decides, or None if there are no requirements: the caller then takes every row."""
    of_labels = labels.requirements if labels is not None else ()
    of_fields = fields.requirements if fields is not None else ()
    if not (of_labels or of_fields):
        return None
    match = _matcher(of_labels, of_fields)
    return _completing(match, fields.late) if fields is not None and fields.late else match


def search(labels: LabelSelector | None, fields: FieldSelector | None) -> Search | None:
    """Return what a list looks for, so that it need not read every row; None if there are no requirements."""
    match = matcher(labels, fields)
    if match is None:
        return None
    of_fields = fields.requirements if fields is not None else ()
    terms = tuple(
        Term(PackedValue(field_bytes(one.field)), packed_value(one.value))
        for one in of_fields[:MAX_TERMS]
        if one.operator == "=" and one.value and one.field not in _NOT_INDEXED
    )
    late = fields.late if fields is not None else ()
    return Search(match, terms, Completing(late) if late else None)


# Terms of a selector that a list looks up.
MAX_TERMS = 8
# Lists are ordered by namespace and name, and lists of one object read it.
_NOT_INDEXED = ("metadata.name", "metadata.namespace")


def _completing(match: Match, late: Sequence[LateField]) -> Match:
    def complete(facts: bytes, body: bytes = b"") -> bool:
        return match(completed(facts, body, late), b"")

    return complete


def _matcher(of_labels: Sequence[LabelRequirement], of_fields: Sequence[FieldRequirement]) -> Match:
    if len(of_fields) + sum(len(one.values) or 1 for one in of_labels) > MAX_SEARCHES:
        return large_matcher(of_labels, of_fields)
    wanted: list[Needles] = []  # the facts must contain one needle of each list
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
    # Facts leave out empty fields: to require the empty value is to require that the field is absent.
    if (requirement.operator == "=") is bool(requirement.value):
        wanted.append([needle])
    else:
        unwanted.append(needle)


def _contains(needle: bytes) -> Match:
    # Not `needle in facts`: that first tries to convert the needle to an integer and raises an exception.
    def match(facts: bytes, _: bytes = b"") -> bool:
        return facts.find(needle) >= 0

    return match


def _meets_all(wanted: list[Needles], unwanted: Needles, compared: list[LabelRequirement]) -> Match:
    def match(facts: bytes, _: bytes = b"") -> bool:
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
