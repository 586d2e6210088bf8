"""The rules of a policy for pods and their containers."""

from __future__ import annotations

from collections.abc import Iterator

from actors.admission.plugins.pod_security_policy.defaults import CONTAINERS
from actors.admission.plugins.pod_security_policy.policy import MUST, NON_ROOT, SAFE_SYSCTLS, Ids, Policy
from actors.admission.plugins.pod_security_policy.volumes import check_volumes
from actors.kinds.validation.field_errors import FieldErrors, forbidden, invalid, required
from actors.kinds.values.go_format import Formatted
from actors.messages import Object
from actors.names import Names
from actors.quoting import quoted

CONTEXT = "spec.securityContext"


def containers(spec: Object) -> Iterator[tuple[str, Object]]:
    """Every container with its path."""
    for part in CONTAINERS:
        for index, container in enumerate(spec.get(part) or ()):
            yield f"spec.{part}[{index}]", container


def check_pod(errors: FieldErrors, names: Names, policy: Policy, pod: Object) -> None:
    spec, annotations = pod["spec"], pod["metadata"].get("annotations", {})
    context = spec.get("securityContext") or {}
    fs_group = context.get("fsGroup")
    _check_groups(errors, policy.fs_groups, [] if fs_group is None else [fs_group], f"{CONTEXT}.fsGroup")
    groups = context.get("supplementalGroups") or []
    _check_groups(errors, policy.supplemental_groups, groups, f"{CONTEXT}.supplementalGroups")
    policy.seccomp.check_pod(errors, annotations, context)
    _check_se_linux(errors, policy, context.get("seLinuxOptions"), f"{CONTEXT}.seLinuxOptions")
    for field, what in (("hostNetwork", "network"), ("hostPID", "PID"), ("hostIPC", "IPC")):
        if spec.get(field) and not policy.spec.get(field):
            errors.add(invalid(f"{CONTEXT}.{field}", True, f"Host {what} is not allowed to be used"))
    _check_sysctls(errors, policy, context)
    check_volumes(errors, names, policy, spec, list(containers(spec)))
    _check_runtime_class(errors, policy, spec.get("runtimeClassName"))
    for field, container in containers(spec):
        _check_container(errors, policy, context, container, field)
        policy.app_armor.check(errors, annotations, container.get("name", ""))
        policy.seccomp.check_container(errors, annotations, context, container)


def _check_groups(errors: FieldErrors, allowed: Ids, groups: list[int], field: str) -> None:
    shown = Formatted(f"[]int64{{{', '.join(map(str, groups))}}}" if groups else "[]int64(nil)")
    if allowed.rule == MUST and not groups:
        errors.add(invalid(field, shown, "unable to validate empty groups against required ranges"))
    if not allowed.ranges:
        return
    for group in groups:
        if not allowed.allows(group):
            errors.add(invalid(field, shown, f"group {group} must be in the ranges: {allowed}"))


def _check_se_linux(errors: FieldErrors, policy: Policy, options: Object | None, field: str) -> None:
    wanted = policy.se_linux
    if wanted is None:
        return
    if options is None:
        errors.add(required(field))
        return
    for part in ("level", "role", "type", "user"):
        expected, actual = wanted.get(part, ""), options.get(part, "")
        if actual != expected and not (part == "level" and _equal_levels(expected, actual)):
            errors.add(invalid(f"{field}.{part}", actual, f"must be {expected}"))


def _equal_levels(expected: str, actual: str) -> bool:
    """The order of categories does not matter."""
    one, two = expected.partition(":"), actual.partition(":")
    same = one[:2] == two[:2] and one[1] != ""
    return same and sorted(one[2].split(",")) == sorted(two[2].split(","))


def _check_sysctls(errors: FieldErrors, policy: Policy, context: Object) -> None:
    for index, one in enumerate(context.get("sysctls") or ()):
        name, field = one.get("name", ""), f"pod.{CONTEXT}.sysctls[{index}]"
        if _matches(name, policy.spec.get("forbiddenSysctls")):
            errors.add(forbidden(field, f"sysctl {quoted(name)} is not allowed"))
        elif name not in SAFE_SYSCTLS and not _matches(name, policy.spec.get("allowedUnsafeSysctls")):
            errors.add(forbidden(field, f"unsafe sysctl {quoted(name)} is not allowed"))


def _matches(name: str, patterns: list[str] | None) -> bool:
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in patterns or ())


def _check_runtime_class(errors: FieldErrors, policy: Policy, name: str | None) -> None:
    rule = policy.spec.get("runtimeClass")
    if rule is None or name is None:
        return
    allowed = rule.get("allowedRuntimeClassNames") or ()
    if "*" not in allowed and name not in allowed:
        errors.add(invalid("spec.runtimeClassName", name, ""))


def _check_container(
    errors: FieldErrors, policy: Policy, of_pod: Object, container: Object, field: str
) -> None:
    spec, own = policy.spec, container.get("securityContext") or {}
    where = f"{field}.securityContext"
    _check_user(errors, policy.users, {**of_pod, **own}, where)
    group = own.get("runAsGroup", of_pod.get("runAsGroup"))
    _check_groups(errors, policy.groups, [] if group is None else [group], where)
    options = own.get("seLinuxOptions", of_pod.get("seLinuxOptions"))
    _check_se_linux(errors, policy, options, f"{where}.seLinuxOptions")
    if own.get("privileged") and not spec.get("privileged"):
        errors.add(invalid(f"{where}.privileged", True, "Privileged containers are not allowed"))
    mount = own.get("procMount") or "Default"
    if mount not in (spec.get("allowedProcMountTypes") or ("Default",)):
        errors.add(invalid(f"{where}.procMount", mount, "ProcMountType is not allowed"))
    _check_capabilities(errors, spec, own.get("capabilities"), f"{where}.capabilities")
    _check_ports(errors, spec.get("hostPorts") or [], container, f"{field}.hostPort")
    _check_switches(errors, spec, own, where)


def _check_user(errors: FieldErrors, allowed: Ids, context: Object, where: str) -> None:
    user, non_root = context.get("runAsUser"), context.get("runAsNonRoot")
    if allowed.rule == MUST:
        if user is None:
            errors.add(required(f"{where}.runAsUser"))
        elif not allowed.allows(user):
            errors.add(invalid(f"{where}.runAsUser", user, f"must be in the ranges: {allowed}"))
    elif allowed.rule == NON_ROOT:
        if non_root is None and user is None:
            errors.add(required(f"{where}.runAsNonRoot", "must be true"))
        elif non_root is False:
            errors.add(invalid(f"{where}.runAsNonRoot", False, "must be true"))
        elif user == 0:
            errors.add(invalid(f"{where}.runAsUser", 0, "running with the root UID is forbidden"))


def _check_capabilities(errors: FieldErrors, spec: Object, capabilities: Object | None, field: str) -> None:
    default, dropped = spec.get("defaultAddCapabilities") or (), spec.get("requiredDropCapabilities") or ()
    if capabilities is None:
        if default or dropped:
            errors.add(invalid(field, None, "required capabilities are not set on the securityContext"))
        return
    allowed = spec.get("allowedCapabilities") or ()
    if "*" in allowed:
        return
    for one in capabilities.get("add") or ():
        if one not in default and one not in allowed:
            errors.add(invalid(f"{field}.add", one, "capability may not be added"))
    drops = capabilities.get("drop") or ()
    listed = ", ".join(map(quoted, drops))
    shown = Formatted(f"[]core.Capability{{{listed}}}" if drops else "[]core.Capability(nil)")
    for one in dropped:
        if one not in drops:
            text = f"{one} is required to be dropped but was not found"
            errors.add(invalid(f"{field}.drop", shown, text))


def _check_ports(errors: FieldErrors, ranges: list[Object], container: Object, field: str) -> None:
    for one in container.get("ports") or ():
        port = one.get("hostPort", 0)
        if port > 0 and not any(allowed["min"] <= port <= allowed["max"] for allowed in ranges):
            text = f"Host port {port} is not allowed to be used. Allowed ports: [{_ports(ranges)}]"
            errors.add(invalid(field, port, text))


def _ports(ranges: list[Object]) -> str:
    return ",".join(
        str(one["min"]) if one["min"] == one["max"] else f"{one['min']}-{one['max']}" for one in ranges
    )


def _check_switches(errors: FieldErrors, spec: Object, own: Object, where: str) -> None:
    read_only = own.get("readOnlyRootFilesystem")
    if spec.get("readOnlyRootFilesystem") and not read_only:
        nil = "may not be nil and must" if read_only is None else "must"
        text = f"ReadOnlyRootFilesystem {nil} be set to true"
        errors.add(invalid(f"{where}.readOnlyRootFilesystem", read_only, text))
    escalation = own.get("allowPrivilegeEscalation")
    if escalation is not False and not spec.get("allowPrivilegeEscalation", True):
        text = "Allowing privilege escalation for containers is not allowed"
        errors.add(invalid(f"{where}.allowPrivilegeEscalation", escalation, text))
