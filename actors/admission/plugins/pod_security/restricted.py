"""The checks that the level restricted has beyond baseline: what a hardened pod must and must not set.

From v1.25 on, some do not apply to pods with `os: windows`, which cannot set the fields.
"""

from __future__ import annotations

from typing import Any, Final

from actors.admission.plugins.pod_security.baseline import (
    added_capabilities,
    not_to_add,
    seccomp_profile,
)
from actors.admission.plugins.pod_security.evaluated_pod import (
    Check,
    EvaluatedPod,
    Violation,
    containers,
    contexts_with,
    plural,
    quoted,
)
from actors.messages import Object

ALLOWED_VOLUMES: Final = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
RESTRICTED_VOLUMES: Final = frozenset(
    {
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "glusterfs",
        "hostPath",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    }
)


def unless_windows(check: Check) -> Check:
    def check_unless_windows(pod: EvaluatedPod) -> Violation | None:
        return None if pod.is_windows else check(pod)

    return check_unless_windows


def allow_privilege_escalation(pod: EvaluatedPod) -> Violation | None:
    named = [one.name for one in pod.containers if one.context.get("allowPrivilegeEscalation", True)]
    if not named:
        return None
    detail = f"{containers(named)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def capabilities(pod: EvaluatedPod) -> Violation | None:
    keeping, adding, added = [], [], set()
    for container in pod.containers:
        if "ALL" not in _dropped_capabilities(container.context):
            keeping.append(container.name)
        wrong = set(added_capabilities(container.context)) - {"NET_BIND_SERVICE"}
        if wrong:
            adding.append(container.name)
            added |= wrong
    details = []
    if keeping:
        details.append(f'{containers(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        details.append(not_to_add(adding, added))
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _dropped_capabilities(context: Object) -> list[str]:
    return (context.get("capabilities") or {}).get("drop") or []


def volumes(pod: EvaluatedPod) -> Violation | None:
    named, types = [], set()
    for volume in pod.volumes:
        if ALLOWED_VOLUMES.isdisjoint(volume):
            named.append(volume.get("name", ""))
            types.add(next((key for key in volume if key in RESTRICTED_VOLUMES), "unknown"))
    if not named:
        return None
    verb = "uses" if len(named) == 1 else "use"
    what = f"{plural('restricted volume type', types)} {quoted(sorted(types))}"
    return Violation("restricted volume types", f"{plural('volume', named)} {quoted(named)} {verb} {what}")


def run_as_non_root(pod: EvaluatedPod) -> Violation | None:
    reason = "runAsNonRoot != true"
    if setters := contexts_with(pod, "runAsNonRoot", _is_false):
        detail = f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false"
        return Violation(reason, detail)
    if pod.context.get("runAsNonRoot"):
        return None
    named = [one.name for one in pod.containers if "runAsNonRoot" not in one.context]
    if not named:
        return None
    return Violation(reason, f"pod or {containers(named)} must set securityContext.runAsNonRoot=true")


def _is_false(value: Any) -> bool:
    return not value


def run_as_user(pod: EvaluatedPod) -> Violation | None:
    setters = contexts_with(pod, "runAsUser", _is_zero)
    return Violation("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0") if setters else None


def _is_zero(value: Any) -> bool:
    return bool(value == 0)


def required_seccomp_profile(pod: EvaluatedPod) -> Violation | None:
    if wrong := seccomp_profile(pod):
        return wrong
    if "seccompProfile" in pod.context:
        return None
    named = [one.name for one in pod.containers if "seccompProfile" not in one.context]
    if not named:
        return None
    allowed = '"RuntimeDefault" or "Localhost"'
    detail = f"pod or {containers(named)} must set securityContext.seccompProfile.type to {allowed}"
    return Violation("seccompProfile", detail)
