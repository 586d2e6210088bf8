"""Which nodes a pod may run on: its nodeSelector, required node affinity, and tolerations of taints.

The DaemonSet controller and the scheduler share this. `NodeRequirement` is compiled once from a pod spec and applied
to many nodes. A term of node affinity that does not compile, or that is empty, matches no node; the other terms still
count, because terms are alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rewound.actors.errors import BadRequest
from rewound.actors.messages import Object
from rewound.actors.runtime.steps import Steps, parts_of
from rewound.actors.selectors.labels import (
    ABSENT,
    EXISTS,
    GREATER,
    IN,
    LESS,
    NOT_IN,
    LabelRequirement,
    LabelSelector,
)

NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "PreferNoSchedule", "NoExecute"
_OPERATORS: Final = {
    "In": IN,
    "NotIn": NOT_IN,
    "Exists": EXISTS,
    "DoesNotExist": ABSENT,
    "Gt": GREATER,
    "Lt": LESS,
}
_NAME: Final = "metadata.name"


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One term of a node selector: all of its requirements must hold."""

    labels: LabelSelector
    is_name: tuple[str, ...] = ()
    is_not_name: tuple[str, ...] = ()

    @classmethod
    def compile(cls, term: Object) -> NodeTerm | None:
        """Compile a term, or return None if it can match no node."""
        expressions, fields = term.get("matchExpressions", ()), term.get("matchFields", ())
        if not expressions and not fields:
            return None
        try:
            labels = LabelSelector(tuple(_requirement(expression) for expression in expressions))
        except (BadRequest, KeyError):
            return None
        if not all(_is_field(field) for field in fields):
            return None
        return cls(labels, tuple(_names(fields, "In")), tuple(_names(fields, "NotIn")))

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if any(name != wanted for wanted in self.is_name) or name in self.is_not_name:
            return False
        return self.labels.matches(labels)


def _requirement(expression: Object) -> LabelRequirement:
    values = tuple(sorted(set(expression.get("values", ()))))
    return LabelRequirement.checked(expression["key"], _OPERATORS[expression["operator"]], values)


def _is_field(field: Object) -> bool:
    # The name is the only field of a node that a term may compare.
    return field["key"] == _NAME and field["operator"] in ("In", "NotIn") and len(field["values"]) == 1


def _names(fields: Iterable[Object], operator: str) -> Iterable[str]:
    return (field["values"][0] for field in fields if field["operator"] == operator)


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Alternatives: one matching term is enough; without terms it matches nothing."""

    terms: tuple[NodeTerm, ...]

    @classmethod
    def compile(cls, selector: Object) -> NodeSelector:
        compiled = map(NodeTerm.compile, selector.get("nodeSelectorTerms", ()))
        return cls(tuple(term for term in compiled if term is not None))

    @classmethod
    def in_steps(cls, selector: Object) -> Steps[NodeSelector]:
        """The same for the many terms that a pod may have."""
        terms: list[NodeTerm] = []
        for part in parts_of(selector.get("nodeSelectorTerms", ())):
            terms += filter(None, map(NodeTerm.compile, part))
            yield
        return cls(tuple(terms))

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        return any(term.matches(name, labels) for term in self.terms)


@dataclass(frozen=True, slots=True)
class NodeRequirement:
    """The requirements of a pod spec's nodeSelector and required node affinity."""

    labels: Mapping[str, str]
    affinity: NodeSelector | None

    @classmethod
    def of_pod(cls, spec: Object) -> NodeRequirement:
        required = _required(spec)
        return cls(spec.get("nodeSelector", {}), required and NodeSelector.compile(required))

    @classmethod
    def in_steps(cls, spec: Object) -> Steps[NodeRequirement]:
        required = _required(spec)
        return cls(spec.get("nodeSelector", {}), required and (yield from NodeSelector.in_steps(required)))

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        for key, value in self.labels.items():
            if labels.get(key) != value:
                return False
        return self.affinity is None or self.affinity.matches(name, labels)


def _required(spec: Object) -> Any:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity", {})
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution")


_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")


def tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect", "") not in ("", taint["effect"]):
        return False
    if toleration.get("key", "") not in ("", taint["key"]):
        return False
    match toleration.get("operator", ""):
        case "" | "Equal":
            return bool(toleration.get("value", "") == taint.get("value", ""))
        case "Gt" | "Lt" as operator:
            return _compares(operator, toleration.get("value", ""), taint.get("value", ""))
        case operator:
            return bool(operator == "Exists")


def _compares(operator: str, tolerated: str, value: str) -> bool:
    """Whether the value of a taint is greater or less than what is tolerated; only integers of 64 bits are."""
    if not all(_INTEGER.fullmatch(one) and -(2**63) <= int(one) < 2**63 for one in (tolerated, value)):
        return False
    return int(value) > int(tolerated) if operator == "Gt" else int(value) < int(tolerated)


def untolerated(
    taints: Sequence[Object], tolerations: Sequence[Object], effects: tuple[str, ...]
) -> Object | None:
    """Return the first taint with one of these effects that no toleration tolerates."""
    for taint in taints:
        if taint["effect"] in effects and not any(tolerates(each, taint) for each in tolerations):
            return taint
    return None
