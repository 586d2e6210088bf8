"""The features that nodes declare in `status.declaredFeatures`, and which of them pods need.

A kubelet declares what it can do (`declared_by_kubelet`); the scheduler places a pod only on a node that declares what
its spec needs (`needed_to_start`), and admission refuses a change of a running pod that its node cannot make
(`needed_to_change`). Only with the gate NodeDeclaredFeatures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rewound.actors.kinds.core.resources import is_sidecar
from rewound.actors.messages import Object
from rewound.actors.quantity import nanos_of
from rewound.actors.versions.features import (
    DECLARED_CPU_RESIZE,
    DECLARED_FEATURES,
    DECLARED_LATER,
    RESIZE_INIT,
    RESIZE_POD_LEVEL,
    RESTART_ALL,
    USER_NAMESPACES_HOST_NETWORK,
)

_CPU_RESIZE: Final = "GuaranteedQoSPodCPUResize"
_WEB_SOCKETS: Final = "ExtendWebSocketsToKubelet"
_BY_GATE: Final = (RESTART_ALL, RESIZE_POD_LEVEL, RESIZE_INIT)


def declared_by_kubelet(features: frozenset[str]) -> list[str]:
    """Return what a kubelet of this version declares, sorted; its container runtime can do everything."""
    if DECLARED_FEATURES not in features:
        return []
    found = {gate for gate in _BY_GATE if gate in features}
    if DECLARED_CPU_RESIZE in features:
        found.add(_CPU_RESIZE)
    if DECLARED_LATER in features:
        found.add(_WEB_SOCKETS)
        found |= {USER_NAMESPACES_HOST_NETWORK} & features
    return sorted(found)


def needed_to_start(spec: Object, features: frozenset[str]) -> list[str]:
    """Return what a node must declare for a pod with this spec."""
    if DECLARED_FEATURES not in features:
        return []
    found = []
    if any(
        rule.get("action") == "RestartAllContainers"
        for part in ("containers", "initContainers")
        for container in spec.get(part) or ()
        for rule in container.get("restartPolicyRules") or ()
    ):
        found.append(RESTART_ALL)
    in_own_users = spec.get("hostUsers") is False
    if DECLARED_LATER in features and in_own_users and spec.get("hostNetwork"):
        found.append(USER_NAMESPACES_HOST_NETWORK)
    return found


def needed_to_change(old: Object, new: Object, features: frozenset[str]) -> list[str]:
    """Return what the node of a pod must declare for a change of its spec, in the order of Kubernetes' messages."""
    return list(_changes(old, new, features)) if DECLARED_FEATURES in features else []


def _changes(old: Object, new: Object, features: frozenset[str]) -> Iterator[str]:
    before, after = old["spec"], new["spec"]
    if DECLARED_CPU_RESIZE in features and old["status"].get("qosClass") == "Guaranteed":
        pairs = zip(before["containers"], after["containers"], strict=False)
        if any(_cpu(one) != _cpu(other) for one, other in pairs):
            yield _CPU_RESIZE
    if _amounts(before.get("resources")) != _amounts(after.get("resources")):
        yield RESIZE_POD_LEVEL
    if DECLARED_LATER in features:
        initial = zip(before.get("initContainers") or (), after.get("initContainers") or (), strict=False)
        if any(
            not is_sidecar(one) and one.get("resources") != other.get("resources") for one, other in initial
        ):
            yield RESIZE_INIT


def _cpu(container: Object) -> int:
    return nanos_of(container.get("resources", {}).get("requests", {}).get("cpu", "0"))


def _amounts(resources: Object | None) -> dict[tuple[str, str], int]:
    return {
        (part, name): nanos_of(amount)
        for part in ("requests", "limits")
        for name, amount in ((resources or {}).get(part) or {}).items()
    }
