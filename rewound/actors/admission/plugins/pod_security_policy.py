"""PodSecurityPolicy of v1.24: a pod must satisfy a policy that its creator or its service account may `use`.

Two plugins with one name, because a plugin that waits for an authorizer has one step. When a pod is created, the first
one fills in what a policy requires. It chooses, by name, the first policy that the pod satisfies unchanged, otherwise
the first one that it satisfies with these values. The second one rejects pods that satisfy no policy, also when they
are updated, and starts with the policy that the annotation `psp` names.

The API accepts policies whose rules lack the ranges or options that they need. Such a policy cannot be used: it admits
no pod, and is ignored as if it did not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import trio

from rewound.actors.access.authorize import Attributes, Authorizer, Decision
from rewound.actors.admission.caches import CachedObjects
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, Plugin, forbidden, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource
from rewound.actors.golang.format import Formatted
from rewound.actors.golang.quoting import quoted
from rewound.actors.identity import User
from rewound.actors.kinds.core.containers import CONTAINER, EPHEMERAL_CONTAINER
from rewound.actors.kinds.core.pod_spec import POD_SPEC
from rewound.actors.kinds.core.security_context import POD_SECURITY_CONTEXT, SECURITY_CONTEXT
from rewound.actors.kinds.validation import FieldError, FieldErrors, collect, invalid, required
from rewound.actors.kinds.validation import forbidden as forbidden_field
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal

PODS: Final = Resource("", "pods")
POLICIES: Final = Resource("policy", "podsecuritypolicies")
GROUPS: Final = ("policy", "extensions")  # permissions may name the former group of policies
NAME: Final = "PodSecurityPolicy"
# An update that changes only these is made by the garbage collector.
COLLECTED: Final = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


def pod_security_policy(
    names: Names, journal: Journal, feed: Feed, authorizer: Authorizer
) -> tuple[Plugin, Plugin]:
    policies = _Policies(names, journal, feed, authorizer)
    return PodSecurityPolicyDefaults(names, policies), PodSecurityPolicyCheck(names, policies)


class PodSecurityPolicyDefaults(AsyncPlugin):
    name = NAME
    mutates = (rule(CREATE, of=(PODS,)),)

    def __init__(self, names: Names, policies: _Policies) -> None:
        self._policies = policies
        self._annotation = names.key("psp")
        self._audit_key = f"{names.group('podsecuritypolicy.policy')}/admit-policy"

    async def admit(self, request: AdmissionRequest) -> Admitted:
        name, pod = await self._chosen(request)
        request.annotate(self._audit_key, name)
        return Admitted(self._annotated(pod, name))

    async def _chosen(self, request: AdmissionRequest) -> tuple[str, Object]:
        """The policy, and the pod with the values that it fills in."""
        pod = request.object
        assert pod is not None
        changing: tuple[str, Object] | None = None
        errors: dict[str, list[FieldError]] = {}
        for name, policy in self._policies.ordered(request):
            changed, found = await self._policies.evaluate(policy, request)
            if found:
                errors[name] = found
            elif (changing is None or changed == pod) and await self._policies.may_use(name, request):
                if changed == pod:
                    return name, pod
                changing = name, changed
        if changing is None:
            raise await self._policies.refusal(request, "unable to admit pod", errors)
        return changing

    def _annotated(self, pod: Object, policy: str) -> Object:
        metadata = pod["metadata"]
        annotations = dict(sorted({**metadata.get("annotations", {}), self._annotation: policy}.items()))
        return {**pod, "metadata": {**metadata, "annotations": annotations}}


class PodSecurityPolicyCheck(AsyncPlugin):
    name = NAME
    validates = (rule(CREATE, UPDATE, of=(PODS,)),)

    def __init__(self, names: Names, policies: _Policies) -> None:
        self._policies = policies
        self._annotation = names.key("psp")
        self._audit_key = f"{names.group('podsecuritypolicy.policy')}/validate-policy"

    def concerns(self, request: AdmissionRequest) -> bool:
        return request.old is None or _compared(request.object) != _compared(request.old)

    async def admit(self, request: AdmissionRequest) -> Admitted:
        pod = request.object
        assert pod is not None
        first = pod["metadata"].get("annotations", {}).get(self._annotation, "")
        errors: dict[str, list[FieldError]] = {}
        for name, policy in self._policies.ordered(request, first):
            changed, found = await self._policies.evaluate(policy, request)
            if found:
                errors[name] = found
            elif changed == pod and await self._policies.may_use(name, request):
                request.annotate(self._audit_key, name)
                return Admitted()
        raise await self._policies.refusal(request, "unable to validate pod", errors)


class _Policies:
    """The policies of the cluster, and who may use them."""

    def __init__(self, names: Names, journal: Journal, feed: Feed, authorizer: Authorizer) -> None:
        self._names = names
        self._authorizer = authorizer
        self._policies = CachedObjects(POLICIES, journal, feed, self._usable)

    def ordered(self, request: AdmissionRequest, first: str = "") -> list[tuple[str, Policy]]:
        """The policies by name, after `first`. Raises Forbidden if there is none."""
        policies = sorted(self._policies.all().items(), key=lambda one: (one[0] != first, one[0]))
        if not policies:
            raise forbidden(request, f"{NAME}: no providers available to validate pod request")
        return policies

    async def evaluate(self, policy: Policy, request: AdmissionRequest) -> tuple[Object, list[FieldError]]:
        """The pod with the values that the policy fills in, and its remaining violations."""
        pod = request.object
        assert pod is not None
        if request.in_thread:  # a large pod
            return await run_in_thread(self._evaluate, policy, pod)
        await trio.lowlevel.checkpoint()  # there may be many policies
        return self._evaluate(policy, pod)

    def _evaluate(self, policy: Policy, pod: Object) -> tuple[Object, list[FieldError]]:
        changed = filled(policy, pod)
        return changed, collect(check_pod, self._names, policy, changed)

    async def refusal(
        self, request: AdmissionRequest, why: str, errors: dict[str, list[FieldError]]
    ) -> Forbidden:
        """The error, with the violations of the policies that may be used, and nothing of the others."""
        shown = [
            str(error.cause())
            for name, found in sorted(errors.items())
            if await self.may_use(name, request)
            for error in found
        ]
        return forbidden(request, f"{NAME}: {why}: [{' '.join(shown)}]")

    async def may_use(self, policy: str, request: AdmissionRequest) -> bool:
        for user in self._users(request):
            for group in GROUPS:
                namespace = request.namespace
                wanted = Attributes(user, "use", group, "*", POLICIES.plural, "", namespace, policy)
                decision = self._authorizer.authorize(wanted)
                if not isinstance(decision, Decision):
                    decision = await decision
                if decision.allowed:
                    return True
        return request.context is None or request.context.caller is None  # the server itself

    def _users(self, request: AdmissionRequest) -> Iterable[User]:
        assert request.object is not None
        account = request.object["spec"].get("serviceAccountName")
        if account:
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{request.namespace}")
            yield User(f"system:serviceaccount:{request.namespace}:{account}", groups=groups)
        if request.context is not None and request.context.caller is not None:
            yield request.context.caller

    def _usable(self, stored: Object) -> Policy | None:
        try:
            return parse_policy(self._names, stored)
        except Unusable:
            return None


def _compared(pod: Object | None) -> Object:
    assert pod is not None
    metadata = {key: value for key, value in pod["metadata"].items() if key not in COLLECTED}
    return {**pod, "metadata": metadata}


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


RUNTIME_DEFAULT: Final = frozenset({"runtime/default", "docker/default"})


@dataclass(frozen=True, slots=True)
class Seccomp:
    pod_key: str
    container_prefix: str
    default: str
    allowed: frozenset[str]
    any: bool
    shown: str

    @classmethod
    def of(cls, names: Names, annotations: Mapping[str, str]) -> Seccomp:
        prefix = "seccomp.security.alpha"
        text = annotations.get(names.key("allowedProfileNames", prefix))
        profiles = frozenset() if text is None else frozenset(text.split(","))
        if profiles & RUNTIME_DEFAULT:
            profiles |= RUNTIME_DEFAULT
        return cls(
            names.key("pod", prefix),
            names.key("", f"container.{prefix}"),
            annotations.get(names.key("defaultProfileName", prefix), ""),
            profiles - {"*"},
            "*" in profiles,
            text or "",
        )

    def fill(self, annotations: dict[str, str], context: Object) -> None:
        profile = annotations.get(self.pod_key) or _of_field(context) or self.default
        if profile:
            annotations[self.pod_key] = profile

    def check_pod(self, errors: FieldErrors, annotations: Mapping[str, str], context: Object) -> None:
        profile = annotations.get(self.pod_key) or _of_field(context)
        self._check(errors, profile, f"pod.metadata.annotations[{self.pod_key}]")

    def check_container(
        self, errors: FieldErrors, annotations: Mapping[str, str], context: Object, container: Object
    ) -> None:
        key = self.container_prefix + container.get("name", "")
        own = container.get("securityContext") or {}
        if own.get("seccompProfile") is not None:
            profile = _of_field(own)
        elif key in annotations:
            profile = annotations[key]
        elif context.get("seccompProfile") is not None:
            profile = _of_field(context)
        else:
            profile = annotations.get(self.pod_key, "")
        self._check(errors, profile, f"pod.metadata.annotations[{key}]")

    def _check(self, errors: FieldErrors, profile: str, field: str) -> None:
        if self.any or profile in self.allowed or (not profile and not self.allowed):
            return
        if not self.allowed:
            errors.add(forbidden_field(field, "seccomp may not be set"))
            return
        text = f"{profile} is not an allowed seccomp profile. Valid values are {self.shown}"
        errors.add(forbidden_field(field, text))


def _of_field(context: Object) -> str:
    """The profile of a security context in the form of annotations."""
    profile = context.get("seccompProfile") or {}
    match profile.get("type"):
        case "Unconfined":
            return "unconfined"
        case "RuntimeDefault":
            return "runtime/default"
        case "Localhost" if "localhostProfile" in profile:
            return f"localhost/{profile['localhostProfile']}"
    return ""


@dataclass(frozen=True, slots=True)
class AppArmor:
    container_prefix: str
    default: str
    allowed: frozenset[str] | None  # None: all
    shown: str

    @classmethod
    def of(cls, names: Names, annotations: Mapping[str, str]) -> AppArmor:
        prefix = "apparmor.security.beta"
        text = annotations.get(names.key("allowedProfileNames", prefix))
        return cls(
            names.key("", f"container.{prefix}"),
            annotations.get(names.key("defaultProfileName", prefix), ""),
            None if text is None else frozenset(text.split(",")),
            text or "",
        )

    def fill(self, annotations: dict[str, str], container: str) -> None:
        key = self.container_prefix + container
        if self.default and not annotations.get(key):
            annotations[key] = self.default

    def check(self, errors: FieldErrors, annotations: Mapping[str, str], container: str) -> None:
        if self.allowed is None:
            return
        key = self.container_prefix + container
        profile, field = annotations.get(key, ""), f"pod.metadata.annotations[{key}]"
        if not profile:
            errors.add(forbidden_field(field, "AppArmor profile must be set"))
        elif profile not in self.allowed:
            text = f"{profile} is not an allowed profile. Allowed values: {quoted(self.shown)}"
            errors.add(forbidden_field(field, text))


CONTAINERS: Final = {
    "initContainers": CONTAINER,
    "containers": CONTAINER,
    "ephemeralContainers": EPHEMERAL_CONTAINER,
}


def filled(policy: Policy, pod: Object) -> Object:
    """A copy that shares its unchanged parts with the pod, and is equal to it if nothing is missing."""
    spec, metadata = dict(pod["spec"]), dict(pod["metadata"])
    annotations = dict(metadata.get("annotations", {}))
    context = spec["securityContext"] = _pod_context(policy, spec.get("securityContext") or {})
    policy.seccomp.fill(annotations, context)
    runtime_class = (policy.spec.get("runtimeClass") or {}).get("defaultRuntimeClassName")
    if runtime_class is not None:
        spec.setdefault("runtimeClassName", runtime_class)
    for part, struct in CONTAINERS.items():
        if spec.get(part):
            filled_in = [_container(policy, context, one) for one in spec[part]]
            spec[part] = [struct.arranged(one) for one in filled_in]
            for one in spec[part]:
                policy.app_armor.fill(annotations, one.get("name", ""))
    if annotations:
        metadata["annotations"] = dict(sorted(annotations.items()))
    return {**pod, "metadata": metadata, "spec": POD_SPEC.arranged(spec)}


def _pod_context(policy: Policy, own: Object) -> Object:
    context = dict(own)
    group = policy.supplemental_groups.default
    if context.get("supplementalGroups") is None and group is not None:
        context["supplementalGroups"] = [group]
    if context.get("fsGroup") is None and policy.fs_groups.default is not None:
        context["fsGroup"] = policy.fs_groups.default
    if context.get("seLinuxOptions") is None and policy.se_linux is not None:
        context["seLinuxOptions"] = policy.se_linux
    return POD_SECURITY_CONTEXT.arranged(context)


def _container(policy: Policy, of_pod: Object, container: Object) -> Object:
    own = container.get("securityContext")
    context = dict(own or {})

    def missing(field: str) -> bool:
        return context.get(field) is None and of_pod.get(field) is None

    if missing("runAsUser") and policy.users.default is not None:
        context["runAsUser"] = policy.users.default
    if missing("runAsGroup") and policy.groups.default is not None:
        context["runAsGroup"] = policy.groups.default
    if policy.users.rule == NON_ROOT and missing("runAsNonRoot") and missing("runAsUser"):
        context["runAsNonRoot"] = True
    _fill_capabilities(policy, context)
    _fill_switches(policy, context)
    if context == (own or {}):
        return container
    return {**container, "securityContext": SECURITY_CONTEXT.arranged(context)}


def _fill_capabilities(policy: Policy, context: Object) -> None:
    own = context.get("capabilities") or {}
    own_add, own_drop = set(own.get("add") or ()), set(own.get("drop") or ())
    add = own_add | (set(policy.spec.get("defaultAddCapabilities") or ()) - own_drop)
    drop = own_drop | set(policy.spec.get("requiredDropCapabilities") or ())
    if add == own_add and drop == own_drop:
        return
    capabilities = {"add": sorted(add), "drop": sorted(drop)}
    context["capabilities"] = {name: value for name, value in capabilities.items() if value}


def _fill_switches(policy: Policy, context: Object) -> None:
    spec = policy.spec
    if spec.get("readOnlyRootFilesystem") and context.get("readOnlyRootFilesystem") is None:
        context["readOnlyRootFilesystem"] = True
    if context.get("allowPrivilegeEscalation") is None:
        default = spec.get("defaultAllowPrivilegeEscalation")
        if default is None and not spec.get("allowPrivilegeEscalation", True):
            default = False
        if default is not None:
            context["allowPrivilegeEscalation"] = default


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
            errors.add(forbidden_field(field, f"sysctl {quoted(name)} is not allowed"))
        elif name not in SAFE_SYSCTLS and not _matches(name, policy.spec.get("allowedUnsafeSysctls")):
            errors.add(forbidden_field(field, f"unsafe sysctl {quoted(name)} is not allowed"))


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


Containers = Sequence[tuple[str, Object]]
# A policy lists the drivers; how messages name the driver of a volume.
DRIVERS: Final = {
    "flexVolume": ("allowedFlexVolumes", "driver", "driver", "Flexvolume driver is not allowed to be used"),
    "csi": ("allowedCSIDrivers", "name", "csi.driver", "Inline CSI driver is not allowed to be used"),
}


def check_volumes(
    errors: FieldErrors, names: Names, policy: Policy, spec: Object, containers: Containers
) -> None:
    allowed = policy.spec.get("volumes") or ()
    for index, volume in enumerate(spec.get("volumes") or ()):
        field = f"spec.volumes[{index}]"
        source = next((one for one in volume if one != "name"), "")
        if "*" not in allowed and source not in allowed and not _is_token(names, allowed, volume):
            errors.add(invalid(field, source, f"{source} volumes are not allowed to be used"))
        elif source == "hostPath":
            _check_host_path(errors, policy, volume, field, containers)
        elif source in DRIVERS:
            _check_driver(errors, policy, source, volume, field)


def _is_token(names: Names, allowed: Sequence[str], volume: Object) -> bool:
    """Whether it is the volume with the service account token, which counts as the secret that it replaced."""
    projected = volume.get("projected")
    if "secret" not in allowed or projected is None:
        return False
    return all(_is_token_source(names, one) for one in projected.get("sources") or ())


def _is_token_source(names: Names, source: Object) -> bool:
    token, config_map, downward = (
        source.get(one) for one in ("serviceAccountToken", "configMap", "downwardAPI")
    )
    if token is None and config_map is None and downward is None:
        return False
    if token is not None and (token.get("path") != "token" or token.get("audience")):
        return False
    if config_map is not None and config_map.get("name") != names.root_certificate:
        return False
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    items = (downward or {}).get("items") or ()
    return all(one.get("path") == "namespace" and one.get("fieldRef") == namespace for one in items)


def _check_host_path(
    errors: FieldErrors, policy: Policy, volume: Object, field: str, containers: Containers
) -> None:
    allowed, path = policy.spec.get("allowedHostPaths") or (), volume["hostPath"].get("path", "")
    matching = [one for one in allowed if _has_prefix(path, one.get("pathPrefix", ""))]
    if allowed and not matching:
        errors.add(invalid(f"{field}.hostPath.pathPrefix", path, "is not allowed to be used"))
    elif matching and all(one.get("readOnly") for one in matching):
        for where, container in containers:
            for index, mount in enumerate(container.get("volumeMounts") or ()):
                if mount.get("name") == volume["name"] and not mount.get("readOnly"):
                    errors.add(invalid(f"{where}.volumeMounts[{index}].readOnly", False, "must be read-only"))


def _has_prefix(path: str, prefix: str) -> bool:
    """/foo is a prefix of /foo, /foo/ and /foo/bar, but not of /food."""
    path, prefix = path.removesuffix("/"), prefix.removesuffix("/")
    return path == prefix or path.startswith(f"{prefix}/")


def _check_driver(errors: FieldErrors, policy: Policy, source: str, volume: Object, field: str) -> None:
    listed, name, shown, text = DRIVERS[source]
    allowed, driver = policy.spec.get(listed) or (), volume[source].get("driver", "")
    if allowed and driver not in [one.get(name) for one in allowed]:
        errors.add(invalid(f"{field}.{shown}", driver, text))
