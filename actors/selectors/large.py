"""Matches selectors with many requirements: an object costs what its labels cost, however long the selector is.

The requirements are merged by key when the selector is compiled. An object has to have every wanted key, so it can only
match if it has as many labels as there are wanted keys; unwanted values are looked up by the labels that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from actors.selectors.facts import field_bytes, label_bytes, stored_text, unpack_selectable
from actors.selectors.fields import FieldRequirement
from actors.selectors.labels import GREATER, LabelRequirement

Match = Callable[[bytes], bool]
Values = dict[str, set[str] | None]  # by key; None: any value


@dataclass(slots=True)
class _Merged:
    """Requirements of labels, or of fields."""

    wanted: Values = field(default_factory=dict)
    unwanted: Values = field(default_factory=dict)
    bounds: dict[tuple[str, str], int] = field(default_factory=dict)  # by key and operator
    compared: list[LabelRequirement] = field(default_factory=list)

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
        """Decide for packed labels or fields."""
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
        _add_label(requirement, merged_labels)
    for field_requirement in fields:
        _add_field(field_requirement, merged_fields)
    if merged_labels.impossible or merged_fields.impossible:
        return _matches_nothing
    needle = _rarest(merged_labels.wanted, label_bytes) or _rarest(merged_fields.wanted, field_bytes)
    return _meets_both(needle, merged_labels.complete(), merged_fields)


def _add_label(requirement: LabelRequirement, merged: _Merged) -> None:
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


def _add_field(requirement: FieldRequirement, merged: _Merged) -> None:
    # Facts leave out empty fields: a requirement of the empty value is one that the field is absent.
    values = {stored_text(requirement.value)} if requirement.value else None
    if (requirement.operator == "=") is bool(requirement.value):
        merged.want(requirement.field, values)
    else:
        merged.refuse(requirement.field, values)


def _rarest(wanted: Values, packed: Callable[[str, str | None], bytes]) -> bytes:
    """Return bytes that the facts of every matching object contain: of one value if possible."""
    for key, values in wanted.items():
        if values is not None and len(values) == 1:
            return packed(key, *values)
    return packed(next(iter(wanted)), None) if wanted else b""


def _matches_nothing(_: bytes) -> bool:
    return False


def _meets_both(needle: bytes, labels: _Merged, fields: _Merged) -> Match:
    def match(facts: bytes) -> bool:
        if needle and facts.find(needle) < 0:
            return False
        flat_labels, flat_fields = unpack_selectable(facts)
        return labels.meets(flat_labels) and fields.meets(flat_fields)

    return match
