"""Simulated nodes that are short of memory or disk: they admit fewer pods, and evict some, as a kubelet does.

The annotation `sim/pressure` of a Node (`memory`, `disk`, or both) makes it so: the node reports the condition, and
every ten seconds evicts the pod that comes first, until the annotation is removed. A condition that a client writes
has an effect on new pods only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rewound.actors.kinds.core.pod import qos_class
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.nodes.admission import Rejection, is_critical
from rewound.actors.scheduler.pods import MEMORY, amount
from rewound.actors.selectors.nodes import NO_SCHEDULE, tolerates

PRESSURE: Final = "sim/pressure"  # an annotation of Node objects
EVICTION_SECONDS: Final = 10.0  # between two evictions of a node
# Conditions with their status, reason and message, by what is short.
UNDER_PRESSURE: Final = {
    "memory": (
        "MemoryPressure",
        "True",
        "KubeletHasInsufficientMemory",
        "kubelet has insufficient memory available",
    ),
    "disk": ("DiskPressure", "True", "KubeletHasDiskPressure", "kubelet has disk pressure"),
}
_RESOURCES: Final = {"memory": MEMORY, "disk": "ephemeral-storage"}
_CONDITIONS: Final = ("MemoryPressure", "DiskPressure", "PIDPressure")


def pressures_of(node: Object) -> tuple[str, ...]:
    """What a node is short of, by its annotation."""
    text = (node["metadata"].get("annotations") or {}).get(PRESSURE)
    return tuple(name for name in UNDER_PRESSURE if text and name in map(str.strip, text.split(",")))


def rejection_under_pressure(pod: Object, node: Object, names: Names) -> Rejection | None:
    """Why a node does not admit a pod: memory pressure rejects BestEffort pods, others all that are not critical."""
    found = (node.get("status") or {}).get("conditions") or ()
    pressures = [one["type"] for one in found if one["type"] in _CONDITIONS and one["status"] == "True"]
    if not pressures or is_critical(pod):
        return None
    if pressures == ["MemoryPressure"]:
        taint = {"key": names.key("memory-pressure", "node"), "effect": NO_SCHEDULE}
        tolerations = pod["spec"].get("tolerations") or ()
        if qos_class(pod["spec"]) != "BestEffort" or any(tolerates(one, taint) for one in tolerations):
            return None
    return Rejection("Evicted", f"The node had condition: [{' '.join(pressures)}]. ")


def next_eviction(pods: Iterable[Object], pressures: Sequence[str]) -> tuple[Object, Rejection] | None:
    """The pod that a node evicts next, and why; None if none can be."""
    resource = _RESOURCES[pressures[0]]
    candidates = [pod for pod in pods if not is_critical(pod)]
    if not candidates:
        return None
    chosen = min(candidates, key=lambda pod: _rank(pod, resource))
    return chosen, Rejection("Evicted", f"The node was low on resource: {resource}. ")


def _rank(pod: Object, resource: str) -> tuple[bool, int, int]:
    """Pods that use more than they request come first, then those of low priority, then those that use most."""
    requests = (one.get("resources", {}).get("requests", {}) for one in pod["spec"]["containers"])
    requested = sum(amount(resource, one.get(resource, "0")) for one in requests)
    excess = _usage(pod, resource) - requested
    return excess <= 0, pod["spec"].get("priority", 0), -excess


def _usage(pod: Object, resource: str) -> int:
    """What the annotations sim/memory and sim/memory.CONTAINER say."""
    annotations = pod["metadata"].get("annotations") or {}
    total = 0
    for key, text in annotations.items():
        if key == f"sim/{resource}" or key.startswith(f"sim/{resource}."):
            try:
                total += amount(resource, text)
            except ValueError:
                continue
    return total
