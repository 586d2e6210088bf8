"""The QoS class of a pod, computed from the requests and limits of its containers."""

from __future__ import annotations

from typing import Final

from actors.kinds.core.resources import nanos
from actors.messages import Object

QOS_RESOURCES: Final = ("cpu", "memory")
_EMPTY: Final[dict[str, str]] = {}


def qos_class(spec: Object) -> str:
    """Guaranteed if all containers have limits equal to requests, BestEffort if none has any, else Burstable."""
    has_resources = False
    guaranteed = True
    for container in (*(spec["containers"] or ()), *spec.get("initContainers", ())):
        resources = container["resources"]
        if not resources:
            guaranteed = False
            continue
        requests, limits = resources.get("requests", _EMPTY), resources.get("limits", _EMPTY)
        for name in QOS_RESOURCES:
            request, limit = requests.get(name, "0"), limits.get(name, "0")
            has_resources = has_resources or _is_positive(request) or _is_positive(limit)
            if (request != limit and nanos(request) != nanos(limit)) or not _is_positive(limit):
                guaranteed = False
        if has_resources and not guaranteed:
            return "Burstable"  # whatever the other containers have
    if not has_resources:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _is_positive(amount: str) -> bool:
    return amount != "0" and amount[0] != "-"
