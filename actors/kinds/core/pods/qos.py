"""The class of a pod: how sure it can be of what it asked for, told by what its containers ask for."""

from __future__ import annotations

from collections import Counter
from typing import Final

from actors.kinds.core.resources import nanos
from actors.messages import Object

COUNTED: Final = ("cpu", "memory")


def qos_class(spec: Object) -> str:
    requests: Counter[str] = Counter()
    limits: Counter[str] = Counter()
    limited = True
    for container in (*(spec["containers"] or ()), *spec.get("initContainers", ())):
        resources = container["resources"]
        if not resources:
            limited = False
            continue
        _add(requests, resources.get("requests", {}))
        limited &= _add(limits, resources.get("limits", {})) == len(COUNTED)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if limited and requests == limits else "Burstable"


def _add(total: Counter[str], amounts: dict[str, str]) -> int:
    """How many of the counted resources there is something of."""
    found = 0
    for name in COUNTED:
        amount = amounts.get(name, "0")
        if amount != "0" and not amount.startswith("-"):
            total[name] += nanos(amount)
            found += 1
    return found
