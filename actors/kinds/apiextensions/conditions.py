"""The conditions of a CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from actors.messages import Object

NAMES_ACCEPTED: Final = "NamesAccepted"
ESTABLISHED: Final = "Established"
TERMINATING: Final = "Terminating"
NON_STRUCTURAL: Final = "NonStructuralSchema"


def find_condition(definition: Object, type_: str) -> Object | None:
    conditions = definition.get("status", {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == type_), None)


def is_true(definition: Object, type_: str) -> bool:
    found = find_condition(definition, type_)
    return found is not None and found["status"] == "True"


def with_condition(
    conditions: Sequence[Object] | None, type_: str, status: str, reason: str, message: str, now: str
) -> list[Object]:
    """A copy with a condition added or replaced; its transition time changes only with its status."""
    new = {
        "type": type_,
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    changed = []
    replaced = False
    for one in conditions or ():
        if one["type"] == type_:
            if one["status"] == status:
                new["lastTransitionTime"] = one.get("lastTransitionTime") or now
            one, replaced = new, True
        changed.append(one)
    return changed if replaced else [*changed, new]
