"""Label selectors of objects, compiled once and matched often: equal ones compare equal. Values are sets, so that
many of them cost no more than a few.

A selector that is missing selects nothing, an empty one everything, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rewound.actors.messages import Object

Labels = Mapping[str, str]


class Requirement(NamedTuple):
    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
        return self.key not in labels


class Selector(NamedTuple):
    """Matches if all requirements hold."""

    labels: frozenset[tuple[str, str]]  # required
    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        if not self.labels <= labels.items():
            return False
        return all(one.matches(labels) for one in self.requirements) if self.requirements else True

    @property
    def is_empty(self) -> bool:
        return not self.labels and not self.requirements

    def merged_with(self, other: Selector) -> Selector:
        return Selector(self.labels | other.labels, (*self.requirements, *other.requirements))


EVERYTHING = Selector(frozenset())
NOTHING = Selector(frozenset(), (Requirement("", "In"),))


def selector_of(selector: Object | None) -> Selector:
    """The compiled form of a LabelSelector."""
    if selector is None:
        return NOTHING
    expressions = selector.get("matchExpressions", ())
    return Selector(
        frozenset(selector.get("matchLabels", {}).items()),
        tuple(
            Requirement(one["key"], one["operator"], frozenset(one.get("values", ()))) for one in expressions
        ),
    )


def equality_selector(labels: Labels) -> Selector:
    return Selector(frozenset(labels.items()))
