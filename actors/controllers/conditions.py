"""What a namespace says of its own deletion: five conditions, pure functions of what is left in it.

    remaining.count("configmaps", "", ["example.com/one"])
    with_conditions([], remaining, now)[3]["message"]
        -> "Some resources are remaining: configmaps. has 1 resource instances"

Each condition has one good form and one bad; they stand in a fixed order, and a transition time moves only
with the status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from actors.messages import Object

# type, reason and message while nothing is wrong
_GOOD = (
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
    """What a pass over a namespace could not remove."""

    resources: Counter[str] = field(default_factory=Counter)  # "configmaps.", "leases.coordination.…"
    finalizers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def count(self, plural: str, group: str, finalizers: Iterable[str]) -> None:
        self.resources[f"{plural}.{group}"] += 1
        self.finalizers.update(finalizers)

    @property
    def nothing(self) -> bool:
        return not self.resources and not self.failures


def with_conditions(old: Sequence[Object], remaining: Remaining, now: str) -> list[Object]:
    """The conditions as they are now, keeping foreign ones and the transition times of those that stay."""
    conditions = [dict(condition) for condition in old]
    for new in _conditions(remaining, now):
        known = next((each for each in conditions if each["type"] == new["type"]), None)
        if known is None:
            conditions.append(new)
        else:
            if known["status"] == new["status"]:
                new["lastTransitionTime"] = known["lastTransitionTime"]
            known.update(new)
    return conditions


def _conditions(remaining: Remaining, now: str) -> list[Object]:
    wrong = _wrong(remaining)
    conditions = []
    for type_, reason, message in _GOOD:
        status = "True" if type_ in wrong else "False"
        reason, message = wrong.get(type_, (reason, message))
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


def _wrong(remaining: Remaining) -> dict[str, tuple[str, str]]:
    wrong = {}
    if remaining.failures:
        told = ", ".join(remaining.failures)
        message = f"Failed to delete all resource types, {len(remaining.failures)} remaining: {told}"
        wrong["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", message)
    if remaining.resources:
        told = _told(remaining.resources, "has {} resource instances")
        wrong["NamespaceContentRemaining"] = (
            "SomeResourcesRemain",
            f"Some resources are remaining: {told}",
        )
    if remaining.finalizers:
        told = _told(remaining.finalizers, "in {} resource instances")
        wrong["NamespaceFinalizersRemaining"] = (
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {told}",
        )
    return wrong


def _told(counts: Counter[str], how: str) -> str:
    return ", ".join(sorted(f"{name} {how.format(number)}" for name, number in counts.items()))
