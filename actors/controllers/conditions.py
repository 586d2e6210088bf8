"""The five status conditions of a namespace that is being deleted, computed from its remaining content.

    remaining.count("configmaps", "", ["example.com/one"])
    with_conditions([], remaining, now)[3]["message"]
        -> "Some resources are remaining: configmaps. has 1 resource instances"

Each condition has one message for success and one for a problem; their order is fixed, and lastTransitionTime changes
only with the status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from actors.messages import Object

# type, reason and message while there is no problem
_WITHOUT_PROBLEMS = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
)


@dataclass(slots=True)
class Remaining:
    """What is left in a namespace after the controller has tried to delete its content."""

    resources: Counter[str] = field(default_factory=Counter)  # "configmaps.", "leases.coordination.…"
    finalizers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    undiscovered: dict[str, str] = field(default_factory=dict)  # group versions of other servers -> why

    def count(self, plural: str, group: str, finalizers: Iterable[str]) -> None:
        self.resources[f"{plural}.{group}"] += 1
        self.finalizers.update(finalizers)

    @property
    def empty(self) -> bool:
        return not self.resources and not self.failures and not self.undiscovered


def with_conditions(old: Sequence[Object], remaining: Remaining, now: str) -> list[Object]:
    """Merge the new conditions into the old; keeps foreign ones, and transition times where the status is equal."""
    conditions = [dict(condition) for condition in old]
    for new in _conditions(remaining, now):
        existing = next((each for each in conditions if each["type"] == new["type"]), None)
        if existing is None:
            conditions.append(new)
        else:
            if existing["status"] == new["status"]:
                new["lastTransitionTime"] = existing["lastTransitionTime"]
            existing.update(new)
    return conditions


def _conditions(remaining: Remaining, now: str) -> list[Object]:
    problems = _problems(remaining)
    conditions = []
    for type_, reason, message in _WITHOUT_PROBLEMS:
        status = "True" if type_ in problems else "False"
        reason, message = problems.get(type_, (reason, message))
        conditions.append(
            {
                "type": type_,
                "status": status,
                "lastTransitionTime": now,
                "reason": reason,
                "message": message,
            }
        )
    return conditions


def _problems(remaining: Remaining) -> dict[str, tuple[str, str]]:
    problems = {}
    if remaining.undiscovered:
        text = ", ".join(f"{name}: {why}" for name, why in sorted(remaining.undiscovered.items()))
        message = (
            f"Discovery failed for some groups, {len(remaining.undiscovered)} failing: "
            f"unable to retrieve the complete list of server APIs: {text}"
        )
        problems["NamespaceDeletionDiscoveryFailure"] = ("DiscoveryFailed", message)
    if remaining.failures:
        text = ", ".join(remaining.failures)
        message = f"Failed to delete all resource types, {len(remaining.failures)} remaining: {text}"
        problems["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", message)
    if remaining.resources:
        text = _counts_text(remaining.resources, "has {} resource instances")
        problems["NamespaceContentRemaining"] = (
            "SomeResourcesRemain",
            f"Some resources are remaining: {text}",
        )
    if remaining.finalizers:
        text = _counts_text(remaining.finalizers, "in {} resource instances")
        problems["NamespaceFinalizersRemaining"] = (
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {text}",
        )
    return problems


def _counts_text(counts: Counter[str], how: str) -> str:
    return ", ".join(sorted(f"{name} {how.format(number)}" for name, number in counts.items()))
