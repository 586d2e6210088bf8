"""A PodSecurityPolicy in the form in which pods are compared with it.

The API accepts policies whose rules lack the ranges or options that they need. Such a policy cannot be used: it admits
no pod, and is left out like one that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actors.admission.plugins.pod_security_policy.profiles import AppArmor, Seccomp
from actors.messages import Object
from actors.names import Names

MUST, MAY, ANY, NON_ROOT = "MustRunAs", "MayRunAs", "RunAsAny", "MustRunAsNonRoot"
GROUP_RULES: Final = (MUST, MAY, ANY)
USER_RULES: Final = (MUST, NON_ROOT, ANY)
SE_LINUX_RULES: Final = (MUST, ANY)
SAFE_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    }
)


class Unusable(Exception):
    """A rule lacks the ranges or options that it needs."""


@dataclass(frozen=True, slots=True)
class Ids:
    """Which user or group ids a rule allows."""

    rule: str
    ranges: tuple[tuple[int, int], ...]

    @property
    def default(self) -> int | None:
        return self.ranges[0][0] if self.rule == MUST else None

    def allows(self, number: int) -> bool:
        return any(least <= number <= most for least, most in self.ranges)

    def __str__(self) -> str:
        return "[" + " ".join(f"{{{least} {most}}}" for least, most in self.ranges) + "]"


@dataclass(frozen=True, slots=True)
class Policy:
    spec: Object
    users: Ids
    groups: Ids
    fs_groups: Ids
    supplemental_groups: Ids
    se_linux: Object | None  # the options that pods must have; None: any
    seccomp: Seccomp
    app_armor: AppArmor


def parse_policy(names: Names, stored: Object) -> Policy:
    spec = stored["spec"]
    annotations = stored["metadata"].get("annotations", {})
    return Policy(
        spec,
        _ids(spec["runAsUser"], USER_RULES),
        _ids(spec.get("runAsGroup") or {"rule": ANY}, GROUP_RULES),
        _ids(spec["fsGroup"], GROUP_RULES),
        _ids(spec["supplementalGroups"], GROUP_RULES),
        _se_linux(spec["seLinux"]),
        Seccomp.of(names, annotations),
        AppArmor.of(names, annotations),
    )


def _ids(rule: Object, known: tuple[str, ...]) -> Ids:
    name = rule.get("rule", "")
    ranges = tuple((one["min"], one["max"]) for one in rule.get("ranges") or ())
    if name not in known or (name in (MUST, MAY) and not ranges):
        raise Unusable
    return Ids(name, ranges)


def _se_linux(rule: Object) -> Object | None:
    name, options = rule.get("rule", ""), rule.get("seLinuxOptions")
    if name not in SE_LINUX_RULES or (name == MUST and options is None):
        raise Unusable
    return options if name == MUST else None
