"""The Pod Security Standards: which checks a level has in which version.

Every check holds from a version on, some in a later form from a later version on. Versions above the last one at which
something changed, and `latest`, are the same as that one. At the level restricted, a check may take the place of one of
baseline. The order of the checks is the order in the message: those of baseline, then those of restricted, by id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from actors.admission.plugins.pod_security import baseline, restricted
from actors.admission.plugins.pod_security.evaluated_pod import Check, EvaluatedPod, Violation
from actors.admission.plugins.pod_security.policy import (
    BASELINE,
    LATEST,
    PRIVILEGED,
    RESTRICTED,
    LevelVersion,
)
from actors.messages import Object
from actors.names import Names

NEWEST: Final = 25  # v1.25


class _Standard(NamedTuple):
    id: str
    level: str
    forms: tuple[tuple[int, Check], ...]  # from this minor version on
    replaces: str = ""  # the id of a check of baseline

    def form(self, minor: int) -> Check | None:
        return next((check for since, check in reversed(self.forms) if since <= minor), None)


def _standards(names: Names) -> list[_Standard]:
    unless_windows = restricted.unless_windows
    escalation, dropped = restricted.allow_privilege_escalation, restricted.capabilities
    seccomp = restricted.required_seccomp_profile
    listed = [
        _Standard("appArmorProfile", BASELINE, ((0, baseline.app_armor_profile(names)),)),
        _Standard("capabilities_baseline", BASELINE, ((0, baseline.capabilities),)),
        _Standard("hostNamespaces", BASELINE, ((0, baseline.host_namespaces),)),
        _Standard("hostPathVolumes", BASELINE, ((0, baseline.host_path_volumes),)),
        _Standard("hostPorts", BASELINE, ((0, baseline.host_ports),)),
        _Standard("privileged", BASELINE, ((0, baseline.privileged),)),
        _Standard("procMount", BASELINE, ((0, baseline.proc_mount),)),
        _Standard("seLinuxOptions", BASELINE, ((0, baseline.selinux_options),)),
        _Standard(
            "seccompProfile_baseline",
            BASELINE,
            ((0, baseline.seccomp_annotations(names)), (19, baseline.seccomp_profile)),
        ),
        _Standard("sysctls", BASELINE, ((0, baseline.sysctls),)),
        _Standard("windowsHostProcess", BASELINE, ((0, baseline.windows_host_process),)),
        _Standard(
            "allowPrivilegeEscalation", RESTRICTED, ((8, escalation), (25, unless_windows(escalation)))
        ),
        _Standard(
            "capabilities_restricted",
            RESTRICTED,
            ((22, dropped), (25, unless_windows(dropped))),
            replaces="capabilities_baseline",
        ),
        _Standard("restrictedVolumes", RESTRICTED, ((0, restricted.volumes),), replaces="hostPathVolumes"),
        _Standard("runAsNonRoot", RESTRICTED, ((0, restricted.run_as_non_root),)),
        _Standard("runAsUser", RESTRICTED, ((23, restricted.run_as_user),)),
        _Standard(
            "seccompProfile_restricted",
            RESTRICTED,
            ((19, seccomp), (25, unless_windows(seccomp))),
            replaces="seccompProfile_baseline",
        ),
    ]
    return sorted(listed, key=lambda one: (one.level, one.id))


class Standards:
    def __init__(self, names: Names) -> None:
        self._standards = _standards(names)
        # By level and minor version; a cluster uses few of them.
        self._checks: dict[tuple[str, int], tuple[Check, ...]] = {}

    def violations(self, level: LevelVersion, pod: EvaluatedPod) -> list[Violation]:
        if level.level == PRIVILEGED:
            return []
        key = level.level, _minor(level.version)
        checks = self._checks.get(key)
        if checks is None:
            checks = self._checks[key] = _checks_of(self._standards, *key)
        return [found for check in checks if (found := check(pod)) is not None]


def _checks_of(standards: Sequence[_Standard], level: str, minor: int) -> tuple[Check, ...]:
    held = {one: check for one in standards if (check := one.form(minor)) is not None}
    if level == BASELINE:
        return tuple(check for one, check in held.items() if one.level == BASELINE)
    replaced = {one.replaces for one in held}
    return tuple(check for one, check in held.items() if one.id not in replaced)


def _minor(version: str) -> int:
    return NEWEST if version == LATEST else min(int(version.removeprefix("v1.")), NEWEST)


def evaluated(pod: Object) -> EvaluatedPod:
    """A stored pod, or a pod template."""
    return EvaluatedPod(pod.get("metadata"), pod.get("spec") or {})


def describe(violations: Sequence[Violation]) -> str:
    return ", ".join(f"{one.reason} ({one.detail})" if one.detail else one.reason for one in violations)


def reasons(violations: Sequence[Violation]) -> str:
    return ", ".join(one.reason for one in violations)
