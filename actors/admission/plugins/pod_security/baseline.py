"""The checks of the level baseline, which prevents known ways to get more rights on a node.

Each takes a pod and returns what is wrong with it, in the words of v1.25, which people and tools match on.
"""

from __future__ import annotations

from typing import Any, Final

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
from actors.names import Names
from actors.quoting import quoted as go_quoted

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


def app_armor_profile(names: Names) -> Check:
    prefix = names.key("", "container.apparmor.security.beta")

    def check(pod: EvaluatedPod) -> Violation | None:
        wrong = sorted(
            f"{key}={go_quoted(value)}"
            for key, value in pod.annotations.items()
            if key.startswith(prefix) and not _is_app_armor_profile(value)
        )
        if not wrong:
            return None
        return Violation(plural("forbidden AppArmor profile", wrong), ", ".join(wrong))

    return check


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
    listed = ", ".join(sorted(ports))  # as text: 8080 comes before 90
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


def selinux_options(pod: EvaluatedPod) -> Violation | None:
    setters = contexts_with(pod, "seLinuxOptions", _is_wrong_selinux)
    if not setters:
        return None
    contexts = (pod.context, *(one.context for one in pod.containers))
    where = " and ".join(setters)
    what = _selinux_words([one.get("seLinuxOptions") or {} for one in contexts])
    return Violation("seLinuxOptions", f"{where} set forbidden securityContext.seLinuxOptions: {what}")


def _is_wrong_selinux(options: Object) -> bool:
    return bool(options.get("type", "") not in SELINUX_TYPES or options.get("user") or options.get("role"))


def _selinux_words(options: list[Object]) -> str:
    """Names user and role only beside a wrong type, as v1.25 does."""
    types = sorted({one.get("type", "") for one in options} - SELINUX_TYPES)
    if not types:
        return ""
    words = [f"{plural('type', types)} {quoted(types)}"]
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


def sysctls(pod: EvaluatedPod) -> Violation | None:
    listed = [one.get("name", "") for one in pod.context.get("sysctls") or ()]
    wrong = [one for one in listed if one not in SAFE_SYSCTLS]
    return Violation("forbidden sysctls", ", ".join(wrong)) if wrong else None


def windows_host_process(pod: EvaluatedPod) -> Violation | None:
    setters = contexts_with(pod, "windowsOptions", _is_host_process)
    if not setters:
        return None
    where = " and ".join(setters)
    return Violation("hostProcess", f"{where} must not set securityContext.windowsOptions.hostProcess=true")


def _is_host_process(options: Any) -> bool:
    return bool(options.get("hostProcess"))
