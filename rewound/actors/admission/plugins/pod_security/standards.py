"""The Pod Security Standards: the checks of the levels baseline and restricted, and which of them each version has.

Every check applies from some version, some in another form from a later version. Versions after the last change, and
`latest`, equal the version of that change. At the level restricted, a check may replace one of baseline. The order of
the checks is the order in the message: those of baseline, then those of restricted, by id.

A check takes a pod and returns its violations in the words of v1.25, which people and tools match on. Those of baseline
prevent known privilege escalations on a node; those of restricted say what a hardened pod must and must not set. Since
v1.25, some of restricted do not apply to pods with `os: windows`, which cannot set the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from rewound.actors.admission.plugins.pod_security.policy import (
    BASELINE,
    LATEST,
    PRIVILEGED,
    RESTRICTED,
    LevelVersion,
)
from rewound.actors.golang.quoting import quoted as go_quoted
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import (
    APP_ARMOR_FIELDS,
    IMAGES_ARE_HARMLESS,
    POD_SECURITY_VERSIONS,
    SE_LINUX_WORDS,
)

FIRST: Final = 25  # v1.25


class _Standard(NamedTuple):
    id: str
    level: str
    forms: tuple[tuple[int, Check], ...]  # from this minor version on
    replaces: str = ""  # the id of a check of baseline

    def form(self, minor: int) -> Check | None:
        return next((check for since, check in reversed(self.forms) if since <= minor), None)


def newest(features: frozenset[str]) -> int:
    """Return the minor version of the newest standards that a server with these features knows."""
    return max((number for number, name in POD_SECURITY_VERSIONS.items() if name in features), default=FIRST)


def _standards(names: Names, features: frozenset[str]) -> list[_Standard]:
    any_part = SE_LINUX_WORDS in features
    escalation, dropped = allow_privilege_escalation, restricted_capabilities
    seccomp = required_seccomp_profile
    listed = [
        _Standard("appArmorProfile", BASELINE, ((0, app_armor_profile(names, features)),)),
        _Standard("capabilities_baseline", BASELINE, ((0, capabilities),)),
        _Standard("hostNamespaces", BASELINE, ((0, host_namespaces),)),
        _Standard("hostPathVolumes", BASELINE, ((0, host_path_volumes),)),
        _Standard("hostPorts", BASELINE, ((0, host_ports),)),
        _Standard("privileged", BASELINE, ((0, privileged),)),
        _Standard("hostProbesAndHostLifecycle", BASELINE, ((34, hosts_of_probes),)),
        _Standard("procMount", BASELINE, ((0, proc_mount), (35, unless_user_namespace(proc_mount)))),
        _Standard(
            "seLinuxOptions",
            BASELINE,
            (
                (0, selinux_options(SELINUX_TYPES, any_part=any_part)),
                (31, selinux_options(SELINUX_TYPES | {"container_engine_t"}, any_part=any_part)),
            ),
        ),
        _Standard(
            "seccompProfile_baseline",
            BASELINE,
            ((0, seccomp_annotations(names)), (19, seccomp_profile)),
        ),
        _Standard(
            "sysctls", BASELINE, tuple((since, sysctls(allowed)) for since, allowed in SYSCTLS.items())
        ),
        _Standard("windowsHostProcess", BASELINE, ((0, windows_host_process),)),
        _Standard(
            "allowPrivilegeEscalation", RESTRICTED, ((8, escalation), (25, unless_windows(escalation)))
        ),
        _Standard(
            "capabilities_restricted",
            RESTRICTED,
            ((22, dropped), (25, unless_windows(dropped))),
            replaces="capabilities_baseline",
        ),
        _Standard("procMount_restricted", RESTRICTED, ((35, proc_mount),), replaces="procMount"),
        _Standard("restrictedVolumes", RESTRICTED, ((0, volumes(features)),), replaces="hostPathVolumes"),
        _Standard(
            "runAsNonRoot", RESTRICTED, ((0, run_as_non_root), (35, unless_user_namespace(run_as_non_root)))
        ),
        _Standard("runAsUser", RESTRICTED, ((23, run_as_user), (35, unless_user_namespace(run_as_user)))),
        _Standard(
            "seccompProfile_restricted",
            RESTRICTED,
            ((19, seccomp), (25, unless_windows(seccomp))),
            replaces="seccompProfile_baseline",
        ),
    ]
    return sorted(listed, key=lambda one: (one.level, one.id))


class Standards:
    def __init__(self, names: Names, features: frozenset[str] = frozenset()) -> None:
        self.newest = newest(features)
        self._standards = _standards(names, features)
        # By level and minor version; a cluster uses few of them.
        self._checks: dict[tuple[str, int], tuple[Check, ...]] = {}

    def violations(self, level: LevelVersion, pod: EvaluatedPod) -> list[Violation]:
        if level.level == PRIVILEGED:
            return []
        key = level.level, self._minor(level.version)
        checks = self._checks.get(key)
        if checks is None:
            checks = self._checks[key] = _checks_of(self._standards, *key)
        return [found for check in checks if (found := check(pod)) is not None]

    def _minor(self, version: str) -> int:
        return self.newest if version == LATEST else min(int(version.removeprefix("v1.")), self.newest)


def _checks_of(standards: Sequence[_Standard], level: str, minor: int) -> tuple[Check, ...]:
    held = {one: check for one in standards if (check := one.form(minor)) is not None}
    if level == BASELINE:
        return tuple(check for one, check in held.items() if one.level == BASELINE)
    replaced = {one.replaces for one in held}
    return tuple(check for one, check in held.items() if one.id not in replaced)


def evaluated(pod: Object) -> EvaluatedPod:
    """A stored pod, or a pod template."""
    return EvaluatedPod(pod.get("metadata"), pod.get("spec") or {})


def describe(violations: Sequence[Violation]) -> str:
    return ", ".join(f"{one.reason} ({one.detail})" if one.detail else one.reason for one in violations)


def reasons(violations: Sequence[Violation]) -> str:
    return ", ".join(one.reason for one in violations)


DEFAULT_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
SELINUX_TYPES: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
SECCOMP_TYPES: Final = frozenset({"RuntimeDefault", "Localhost"})
SAFE_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_syncookies",
    }
)
_HOST_NAMESPACES: Final = ("hostNetwork", "hostPID", "hostIPC")


SYSCTLS: Final = {
    0: SAFE_SYSCTLS,
    27: (_SINCE_27 := SAFE_SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}),
    29: (
        _SINCE_29 := _SINCE_27
        | {
            f"net.ipv4.tcp_{name}"
            for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")
        }
    ),
    32: _SINCE_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"},
}


def app_armor_profile(names: Names, features: frozenset[str]) -> Check:
    prefix = names.key("", "container.apparmor.security.beta")
    has_fields = APP_ARMOR_FIELDS in features

    def check(pod: EvaluatedPod) -> Violation | None:
        wrong = sorted(
            f"{key}={go_quoted(value)}"
            for key, value in pod.annotations.items()
            if key.startswith(prefix) and not _is_app_armor_profile(value)
        )
        if has_fields:
            return _app_armor_violation(pod, wrong)
        if not wrong:
            return None
        return Violation(plural("forbidden AppArmor profile", wrong), ", ".join(wrong))

    return check


def _app_armor_violation(pod: EvaluatedPod, annotations: list[str]) -> Violation | None:
    setters = contexts_with(pod, "appArmorProfile", _is_wrong_seccomp)
    contexts = (pod.context, *(one.context for one in pod.containers))
    types = {one["appArmorProfile"].get("type", "") for one in contexts if "appArmorProfile" in one}
    values = [*sorted(types - SECCOMP_TYPES), *annotations]
    if annotations:
        setters.append(plural("annotation", annotations))
    if not setters:
        return None
    detail = f"{' and '.join(setters)} must not set AppArmor profile type to {quoted(values)}"
    return Violation(plural("forbidden AppArmor profile", values), detail)


def _is_app_armor_profile(value: str) -> bool:
    return value in ("", "runtime/default") or value.startswith("localhost/")


def capabilities(pod: EvaluatedPod) -> Violation | None:
    named, added = [], set()
    for container in pod.containers:
        wrong = set(added_capabilities(container.context)) - DEFAULT_CAPABILITIES
        if wrong:
            named.append(container.name)
            added |= wrong
    if not named:
        return None
    return Violation("non-default capabilities", not_to_add(named, added))


def added_capabilities(context: Object) -> list[str]:
    return (context.get("capabilities") or {}).get("add") or []


def not_to_add(named: list[str], added: set[str]) -> str:
    listed = quoted(sorted(added))
    return f"{containers(named)} must not include {listed} in securityContext.capabilities.add"


def host_namespaces(pod: EvaluatedPod) -> Violation | None:
    used = [f"{field}=true" for field in _HOST_NAMESPACES if pod.spec.get(field)]
    return Violation("host namespaces", ", ".join(used)) if used else None


def host_path_volumes(pod: EvaluatedPod) -> Violation | None:
    named = [one.get("name", "") for one in pod.volumes if "hostPath" in one]
    return Violation("hostPath volumes", f"{plural('volume', named)} {quoted(named)}") if named else None


def hosts_of_probes(pod: EvaluatedPod) -> Violation | None:
    named, hosts = set(), set()
    for name, handlers in pod.handlers():
        found = {
            action["host"]
            for one in handlers
            for part in ("httpGet", "tcpSocket")
            if (action := one.get(part) or _EMPTY).get("host")
        }
        if found:
            named.add(name)
            hosts |= found
    if not named:
        return None
    verb, what = "uses" if len(named) == 1 else "use", plural("probe or lifecycle host", hosts)
    detail = f"{containers(sorted(named))} {verb} {what} {quoted(sorted(hosts))}"
    return Violation("probe or lifecycle host", detail)


def host_ports(pod: EvaluatedPod) -> Violation | None:
    named, ports = [], set()
    for container in pod.containers:
        used = {str(one["hostPort"]) for one in container.ports if one.get("hostPort")}
        if used:
            named.append(container.name)
            ports |= used
    if not named:
        return None
    verb = "uses" if len(named) == 1 else "use"
    listed = ", ".join(sorted(ports))  # sorted as text: 8080 before 90
    return Violation("hostPort", f"{containers(named)} {verb} {plural('hostPort', ports)} {listed}")


def privileged(pod: EvaluatedPod) -> Violation | None:
    named = [one.name for one in pod.containers if one.context.get("privileged")]
    if not named:
        return None
    return Violation("privileged", f"{containers(named)} must not set securityContext.privileged=true")


def proc_mount(pod: EvaluatedPod) -> Violation | None:
    wrong = [
        (one.name, one.context["procMount"])
        for one in pod.containers
        if one.context.get("procMount", "Default") != "Default"
    ]
    if not wrong:
        return None
    listed = quoted(sorted({value for _, value in wrong}))
    where = containers([name for name, _ in wrong])
    return Violation("procMount", f"{where} must not set securityContext.procMount to {listed}")


def selinux_options(allowed: frozenset[str], *, any_part: bool) -> Check:
    def is_wrong(options: Object) -> bool:
        return bool(options.get("type", "") not in allowed or options.get("user") or options.get("role"))

    def check(pod: EvaluatedPod) -> Violation | None:
        setters = contexts_with(pod, "seLinuxOptions", is_wrong)
        if not setters:
            return None
        contexts = (pod.context, *(one.context for one in pod.containers))
        where = " and ".join(setters)
        what = _selinux_words([one.get("seLinuxOptions") or {} for one in contexts], allowed, any_part)
        return Violation("seLinuxOptions", f"{where} set forbidden securityContext.seLinuxOptions: {what}")

    return check


def _selinux_words(options: list[Object], allowed: frozenset[str], any_part: bool) -> str:
    """Without `any_part`, names user and role only next to a wrong type, as v1.25 does."""
    types = sorted({one.get("type", "") for one in options} - allowed)
    if not types and not any_part:
        return ""
    words = [f"{plural('type', types)} {quoted(types)}"] if types else []
    words += [
        f"{field} may not be set" for field in ("user", "role") if any(one.get(field) for one in options)
    ]
    return "; ".join(words)


def seccomp_annotations(names: Names) -> Check:
    """Up to v1.18, annotations set the profile."""
    of_pod = names.key("pod", "seccomp.security.alpha")
    of_container = names.key("", "container.seccomp.security.alpha")

    def check(pod: EvaluatedPod) -> Violation | None:
        if not pod.annotations:
            return None
        keys = {of_pod, *(f"{of_container}{one.name}" for one in pod.containers)}
        wrong = sorted(
            f"{key}={go_quoted(value)}"
            for key, value in pod.annotations.items()
            if key in keys and not _is_seccomp_annotation(value)
        )
        if not wrong:
            return None
        return Violation("seccompProfile", f"forbidden {plural('annotation', wrong)} {', '.join(wrong)}")

    return check


def _is_seccomp_annotation(value: str) -> bool:
    return value in ("runtime/default", "docker/default") or value.startswith("localhost/")


def seccomp_profile(pod: EvaluatedPod) -> Violation | None:
    setters = contexts_with(pod, "seccompProfile", _is_wrong_seccomp)
    if not setters:
        return None
    contexts = (pod.context, *(one.context for one in pod.containers))
    profiles = [one["seccompProfile"] for one in contexts if "seccompProfile" in one]
    listed = quoted(sorted({one.get("type", "") for one in profiles} - SECCOMP_TYPES))
    where = " and ".join(setters)
    return Violation(
        "seccompProfile", f"{where} must not set securityContext.seccompProfile.type to {listed}"
    )


def _is_wrong_seccomp(profile: Object) -> bool:
    return profile.get("type", "") not in SECCOMP_TYPES


def sysctls(allowed: frozenset[str]) -> Check:
    def check(pod: EvaluatedPod) -> Violation | None:
        listed = [one.get("name", "") for one in pod.context.get("sysctls") or ()]
        wrong = [one for one in listed if one not in allowed]
        return Violation("forbidden sysctls", ", ".join(wrong)) if wrong else None

    return check


def windows_host_process(pod: EvaluatedPod) -> Violation | None:
    setters = contexts_with(pod, "windowsOptions", _is_host_process)
    if not setters:
        return None
    where = " and ".join(setters)
    return Violation("hostProcess", f"{where} must not set securityContext.windowsOptions.hostProcess=true")


def _is_host_process(options: Any) -> bool:
    return bool(options.get("hostProcess"))


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


def unless_user_namespace(check: Check) -> Check:
    """A pod whose users are not those of the host may be root in its own namespace."""

    def check_unless_user_namespace(pod: EvaluatedPod) -> Violation | None:
        return None if pod.spec.get("hostUsers") is False else check(pod)

    return check_unless_user_namespace


def allow_privilege_escalation(pod: EvaluatedPod) -> Violation | None:
    named = [one.name for one in pod.containers if one.context.get("allowPrivilegeEscalation", True)]
    if not named:
        return None
    detail = f"{containers(named)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def restricted_capabilities(pod: EvaluatedPod) -> Violation | None:
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


def volumes(features: frozenset[str]) -> Check:
    allowed = ALLOWED_VOLUMES | {"image"} if IMAGES_ARE_HARMLESS in features else ALLOWED_VOLUMES

    def check(pod: EvaluatedPod) -> Violation | None:
        return _volume_violation(pod, allowed)

    return check


def _volume_violation(pod: EvaluatedPod, allowed: frozenset[str]) -> Violation | None:
    named, types = [], set()
    for volume in pod.volumes:
        if allowed.isdisjoint(volume):
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


_EMPTY: Object = {}


class Violation(NamedTuple):
    """A check that a pod fails: its subject, and where in the pod."""

    reason: str
    detail: str


class Container(NamedTuple):
    name: str
    context: Object  # its securityContext
    ports: Sequence[Object]


class EvaluatedPod:
    """Created once for all checks of a pod."""

    __slots__ = ("annotations", "containers", "context", "is_windows", "spec", "volumes")

    def __init__(self, metadata: Object | None, spec: Object) -> None:
        self.annotations: dict[str, str] = (metadata or _EMPTY).get("annotations") or _EMPTY
        self.spec = spec
        self.context: Object = spec.get("securityContext") or _EMPTY
        self.volumes: Sequence[Object] = spec.get("volumes") or ()
        self.is_windows = (spec.get("os") or _EMPTY).get("name") == "windows"
        self.containers = [
            Container(one.get("name", ""), one.get("securityContext") or _EMPTY, one.get("ports") or ())
            for part in ("initContainers", "containers", "ephemeralContainers")
            for one in spec.get(part) or ()
        ]

    def handlers(self) -> Iterator[tuple[str, list[Object]]]:
        """Yield the name of each container with its probes and lifecycle hooks."""
        for part in ("initContainers", "containers", "ephemeralContainers"):
            for one in self.spec.get(part) or ():
                lifecycle = one.get("lifecycle") or _EMPTY
                found = [one.get(probe) for probe in ("livenessProbe", "readinessProbe", "startupProbe")]
                found += [lifecycle.get(hook) for hook in ("postStart", "preStop")]
                yield one.get("name", ""), [handler for handler in found if handler]


Check = Callable[[EvaluatedPod], Violation | None]


def contexts_with(pod: EvaluatedPod, member: str, is_wrong: Callable[[Any], bool]) -> list[str]:
    """The pod and the containers whose securityContext sets the member to a wrong value, in words."""
    setters = ["pod"] if member in pod.context and is_wrong(pod.context[member]) else []
    named = [one.name for one in pod.containers if member in one.context and is_wrong(one.context[member])]
    return [*setters, containers(named)] if named else setters


def containers(names: Sequence[str]) -> str:
    return f"{plural('container', names)} {quoted(names)}"


def quoted(texts: Iterable[str]) -> str:
    return ", ".join(f'"{one}"' for one in texts)


def plural(word: str, counted: Sequence[Any] | set[str]) -> str:
    return word if len(counted) == 1 else f"{word}s"
