"""Fields of features that are not on: they are dropped from what comes in, unless the old object has them."""

from __future__ import annotations

from typing import Final

from actors.kinds.features import (
    MIN_DOMAINS,
    PROC_MOUNT,
    SPREAD_INCLUSION,
    SPREAD_LABEL_KEYS,
    USER_NAMESPACES,
)
from actors.messages import Object

_SPREAD: Final = {
    "minDomains": MIN_DOMAINS,
    "nodeTaintsPolicy": SPREAD_INCLUSION,
    "nodeAffinityPolicy": SPREAD_INCLUSION,
    "matchLabelKeys": SPREAD_LABEL_KEYS,
}


def drop_gated(spec: Object, old: Object | None, features: frozenset[str]) -> None:
    before = old or {}
    if "hostUsers" in spec and USER_NAMESPACES not in features and "hostUsers" not in before:
        del spec["hostUsers"]
    constraints = spec.get("topologySpreadConstraints", ())
    for part, feature in _SPREAD.items():
        if feature in features or any(part in one for one in before.get("topologySpreadConstraints", ())):
            continue
        for constraint in constraints:
            constraint.pop(part, None)
    if PROC_MOUNT not in features and not _mounts_otherwise(before):
        _mount_as_usual(spec)


def _mounts_otherwise(spec: Object) -> bool:
    return any(context["procMount"] != "Default" for context in _mounting(spec))


def _mount_as_usual(spec: Object) -> None:
    for context in _mounting(spec):
        context["procMount"] = "Default"


def _mounting(spec: Object) -> list[Object]:
    """Contexts that say how to mount what the system tells about processes."""
    return [
        container["securityContext"]
        for part in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(part) or ()
        if "securityContext" in container and "procMount" in container["securityContext"]
    ]
