"""Fields of features that are not on: they are dropped from what comes in, unless the old object has them.

Names of features are the ones operators know from `--feature-gates`.
"""

from __future__ import annotations

from typing import Final

from actors.messages import Object

USER_NAMESPACES: Final = "UserNamespacesStatelessPodsSupport"
PROC_MOUNT: Final = "ProcMountType"
EXPANDED_DNS: Final = "ExpandedDNSConfig"
_SPREAD: Final = {
    "nodeTaintsPolicy": "NodeInclusionPolicyInPodTopologySpread",
    "nodeAffinityPolicy": "NodeInclusionPolicyInPodTopologySpread",
    "matchLabelKeys": "MatchLabelKeysInPodTopologySpread",
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
