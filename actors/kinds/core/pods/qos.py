"""The QoS class of a pod, computed from the requests and limits of its containers."""

from __future__ import annotations

from typing import Final

from actors.kinds.core.resources import nanos
from actors.messages import Object

COUNTED: Final = ("cpu", "memory")
_NONE: Final[dict[str, str]] = {}


def qos_class(spec: Object) -> str:
    """Nobody asks for more than it may use, so all get what they ask for when each one does."""
    asks = False
    guaranteed = True
    for container in (*(spec["containers"] or ()), *spec.get("initContainers", ())):
        resources = container["resources"]
        if not resources:
            guaranteed = False
            continue
        requests, limits = resources.get("requests", _NONE), resources.get("limits", _NONE)
        for name in COUNTED:
            request, limit = requests.get(name, "0"), limits.get(name, "0")
            asks = asks or _is_some(request) or _is_some(limit)
            if (request != limit and nanos(request) != nanos(limit)) or not _is_some(limit):
                guaranteed = False
        if asks and not guaranteed:
            return "Burstable"  # whatever the others ask for
    if not asks:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _is_some(amount: str) -> bool:
    return amount != "0" and amount[0] != "-"
