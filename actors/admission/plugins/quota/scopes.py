"""The scopes of quotas: which pods a quota counts. Objects of other kinds are counted by quotas without scopes only."""

from __future__ import annotations

from dataclasses import dataclass

from actors.kinds.core.pods.qos import qos_class
from actors.messages import Object


@dataclass(frozen=True, slots=True)
class PodTraits:
    """What scopes ask of a pod."""

    terminating: bool  # it has an activeDeadlineSeconds
    best_effort: bool
    priority_class: str
    crosses_namespaces: bool  # by a term of its affinity or anti-affinity


@dataclass(frozen=True, slots=True)
class Requirement:
    scope: str
    operator: str
    values: tuple[str, ...] = ()

    def selects(self, pod: PodTraits) -> bool:
        match self.scope:
            case "Terminating":
                return pod.terminating
            case "NotTerminating":
                return not pod.terminating
            case "BestEffort":
                return pod.best_effort
            case "NotBestEffort":
                return not pod.best_effort
            case "CrossNamespacePodAffinity":
                return pod.crosses_namespaces
            case "PriorityClass":
                return self._selects_class(pod.priority_class)
        return False

    def _selects_class(self, name: str) -> bool:
        match self.operator:
            case "In":
                return name in self.values
            case "NotIn":
                return name not in self.values
            case "Exists":
                return bool(name)
        return not name


def parse_scopes(spec: Object) -> tuple[Requirement, ...]:
    selector = spec.get("scopeSelector") or {}
    return (
        *(Requirement(scope, "Exists") for scope in spec.get("scopes", ())),
        *(
            Requirement(one["scopeName"], one["operator"], tuple(one.get("values", ())))
            for one in selector.get("matchExpressions", ())
        ),
    )


def traits_of(pod: Object) -> PodTraits:
    spec = pod["spec"]
    deadline = spec.get("activeDeadlineSeconds")
    return PodTraits(
        deadline is not None and deadline >= 0,
        qos_class(spec) == "BestEffort",
        spec.get("priorityClassName", ""),
        _crosses_namespaces(spec.get("affinity") or {}),
    )


def _crosses_namespaces(affinity: Object) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        required = terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        preferred = terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        for term in (*required, *(one["podAffinityTerm"] for one in preferred)):
            if term.get("namespaces") or term.get("namespaceSelector") is not None:
                return True
    return False
