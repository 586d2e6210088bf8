"""Security contexts of containers and of whole pods: users, capabilities, seccomp profiles, sysctls, and Windows
options.

Pods on Windows nodes have user names in their own form, and may not have the fields that Windows does not support.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rewound.actors.golang.format import Repeated
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT64,
    STRING,
    STRINGS,
    UNTYPED_BEFORE_1_30,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.schema.internal import shown
from rewound.actors.kinds.validation import (
    FieldErrors,
    between,
    descending,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    size,
    too_long,
)
from rewound.actors.messages import Object
from rewound.actors.versions.features import (
    SE_LINUX_MOUNT_ALL,
    STRICT_HOST_SYSCTLS,
    UNMASKED_NEEDS_NAMESPACE,
)

LONGEST_SPEC: Final = 64 * 1024
LONGEST_DOMAIN: Final = 256
LONGEST_USER: Final = 104
NOT_ON_WINDOWS: Final = "cannot be set for a windows pod"
NOT_ON_LINUX: Final = "windows options cannot be set for a linux pod"

WINDOWS_SECURITY_CONTEXT_OPTIONS = Struct(
    "core.v1.WindowsSecurityContextOptions",
    Field("gmsaCredentialSpecName", STRING, 1, pointer=True),
    Field("gmsaCredentialSpec", STRING, 2, pointer=True),
    Field("runAsUserName", STRING, 3, pointer=True),
    Field("hostProcess", BOOL, 4, pointer=True),
)

_DNS_LABEL: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DOMAIN: Final = rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*"
_NET_BIOS: Final = r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}'
_CONTROL: Final = frozenset(map(chr, (*range(32), 127)))
_RESERVED: Final = frozenset('"/\\:;|=,+*?<>@[]')

_FORBIDDEN_IN_PODS: Final = (
    *("appArmorProfile", "seLinuxOptions", "hostUsers", "hostPID", "hostIPC", "seccompProfile", "fsGroup"),
    *("fsGroupChangePolicy", "sysctls", "shareProcessNamespace", "runAsUser", "runAsGroup"),
    *("supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"),
)
_IN_SPEC: Final = frozenset(("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"))
_FORBIDDEN_IN_CONTAINERS: Final = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem"),
    *("privileged", "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)


def windows_option_rules(errors: FieldErrors, options: Object, field: str) -> None:
    name, spec, user = (
        options.get(part) for part in ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName")
    )
    if name is not None:
        errors.add_each(f"{field}.gmsaCredentialSpecName", name, dns_subdomain(name))
    if spec is not None and not spec:
        text = "gmsaCredentialSpec cannot be an empty string"
        errors.add(invalid(f"{field}.gmsaCredentialSpec", spec, text))
    elif spec is not None and size(spec) > LONGEST_SPEC:
        text = f"gmsaCredentialSpec size must be under {LONGEST_SPEC // 1024} KiB"
        errors.add(invalid(f"{field}.gmsaCredentialSpec", spec, text))
    if user is not None:
        for text in _user_name_errors(user):
            errors.add(invalid(f"{field}.runAsUserName", user, f"runAsUserName{text}"))


def _user_name_errors(name: str) -> list[str]:
    if not name:
        return [" cannot be an empty string"]
    if not _CONTROL.isdisjoint(name):
        return [" cannot contain control characters"]
    if name.count("\\") > 1:
        return [" cannot contain more than one backslash"]
    domain, backslash, user = name.rpartition("\\")
    wrong: list[str] = []
    if size(domain) >= LONGEST_DOMAIN:
        wrong.append(f"'s Domain length must be under {LONGEST_DOMAIN} characters")
    if backslash and not re.fullmatch(_NET_BIOS, domain) and not re.fullmatch(_DOMAIN, domain):
        wrong.append("'s Domain doesn't match the NetBios nor the DNS format")
    if not user:
        wrong.append("'s User cannot be empty")
    elif size(user) > LONGEST_USER:
        wrong.append(f"'s User length must not be longer than {LONGEST_USER} characters")
    if user and not user.strip(". "):
        wrong.append("'s User cannot contain only periods or spaces")
    if not _RESERVED.isdisjoint(user):
        wrong.append("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return wrong


def containers_of(spec: Object, field: str) -> Iterator[tuple[Object, str]]:
    """Yield every container of a pod with the path of its field."""
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            yield container, f"{field}.{part}[{index}]"


def linux_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    if "windowsOptions" in spec.get("securityContext", ()):
        errors.add(forbidden(f"{field}.securityContext.windowsOptions", NOT_ON_LINUX))
    for container, here in containers_of(spec, field):
        if "windowsOptions" in container.get("securityContext", ()):
            errors.add(forbidden(f"{here}.securityContext.windowsOptions", NOT_ON_LINUX))


def windows_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    context = spec.get("securityContext", {})
    for part in _FORBIDDEN_IN_PODS:
        if part in _IN_SPEC:
            if part in spec:
                errors.add(forbidden(f"{field}.{part}", NOT_ON_WINDOWS))
        elif part in context:
            errors.add(forbidden(f"{field}.securityContext.{part}", NOT_ON_WINDOWS))
    for container, here in containers_of(spec, field):
        context = container.get("securityContext", {})
        for part in _FORBIDDEN_IN_CONTAINERS:
            if part in context:
                errors.add(forbidden(f"{here}.securityContext.{part}", NOT_ON_WINDOWS))


def host_process_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    """Host process containers: all containers of a pod or none, and only with hostNetwork."""
    if not _has_windows_options(spec):
        return
    pod_value = _host_process(spec)
    containers = processes = 0
    for container, here in containers_of(spec, field):
        container_value = _host_process(container)
        if pod_value is not None and container_value is not None and container_value != pod_value:
            text = (
                "pod hostProcess value must be identical if both are specified, "
                f"was {'true' if pod_value else 'false'}"
            )
            errors.add(invalid(f"{here}.securityContext.windowsOptions.hostProcess", container_value, text))
        containers += 1
        processes += bool(pod_value if container_value is None else container_value)
    if processes and processes != containers:
        text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.add(invalid(field, "", text))
    if processes and not spec.get("hostNetwork"):
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.add(invalid(f"{field}.hostNetwork", False, text))


def _has_windows_options(spec: Object) -> bool:
    if "windowsOptions" in spec.get("securityContext", ()):
        return True
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(part) or ():
            if "securityContext" in container and "windowsOptions" in container["securityContext"]:
                return True
    return False


def _host_process(holder: Object) -> bool | None:
    host_process: bool | None = holder.get("securityContext", {}).get("windowsOptions", {}).get("hostProcess")
    return host_process


HIGHEST_ID: Final = 2**31 - 1
LONGEST_SYSCTL: Final = 253
SECCOMP_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
PROC_MOUNTS: Final = ("Default", "Unmasked")
SUPPLEMENTAL_POLICIES: Final = ("Merge", "Strict")
CHANGE_POLICIES: Final = ("MountOption", "Recursive")
LONGEST_PROFILE: Final = 4095
_IPC_SYSCTLS: Final = frozenset(
    f"kernel.{name}"
    for name in (
        *("sem", "shm", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "msg", "msgmax", "msgmnb", "msgmni"),
    )
)
GROUP_POLICIES: Final = ("Always", "OnRootMismatch")

SYSCTL_PART: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = rf"({SYSCTL_PART}[\./])*{SYSCTL_PART}"

CAPABILITIES = Struct(
    "core.v1.Capabilities",
    Field("add", STRINGS, 1, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("drop", STRINGS, 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
SE_LINUX_OPTIONS = Struct(
    "core.v1.SELinuxOptions",
    Field("user", STRING, 1),
    Field("role", STRING, 2),
    Field("type", STRING, 3),
    Field("level", STRING, 4),
)
SECCOMP_PROFILE = Struct(
    "core.v1.SeccompProfile",
    Field("type", STRING, 1, required=True, always=True, enum=("Localhost", "RuntimeDefault", "Unconfined")),
    Field("localhostProfile", STRING, 2, pointer=True),
    union="type",
)
APP_ARMOR_PROFILE = Struct(
    "core.v1.AppArmorProfile",
    Field("type", STRING, 1, required=True, always=True),
    Field("localhostProfile", STRING, 2, pointer=True),
    union="type",
)
SECURITY_CONTEXT = Struct(
    "core.v1.SecurityContext",
    Field("capabilities", CAPABILITIES, 1, pointer=True),
    Field("privileged", BOOL, 2, pointer=True),
    Field("seLinuxOptions", SE_LINUX_OPTIONS, 3, pointer=True),
    Field("windowsOptions", WINDOWS_SECURITY_CONTEXT_OPTIONS, 10, pointer=True),
    Field("runAsUser", INT64, 4, pointer=True),
    Field("runAsGroup", INT64, 8, pointer=True),
    Field("runAsNonRoot", BOOL, 5, pointer=True),
    Field("readOnlyRootFilesystem", BOOL, 6, pointer=True),
    Field("allowPrivilegeEscalation", BOOL, 7, pointer=True),
    Field("procMount", STRING, 9, pointer=True),
    Field("seccompProfile", SECCOMP_PROFILE, 11, pointer=True),
    Field("appArmorProfile", APP_ARMOR_PROFILE, 12, pointer=True, since="1.30", gate="AppArmorFields"),
)
SYSCTL = Struct(
    "core.v1.Sysctl",
    Field("name", STRING, 1, required=True, always=True),
    Field("value", STRING, 2, required=True, always=True),
)
POD_SECURITY_CONTEXT = Struct(
    "core.v1.PodSecurityContext",
    Field("seLinuxOptions", SE_LINUX_OPTIONS, 1, pointer=True),
    Field("windowsOptions", WINDOWS_SECURITY_CONTEXT_OPTIONS, 8, pointer=True),
    Field("runAsUser", INT64, 2, pointer=True),
    Field("runAsGroup", INT64, 6, pointer=True),
    Field("runAsNonRoot", BOOL, 3, pointer=True),
    Field(
        "supplementalGroups",
        ListOf(INT64),
        4,
        dropped_when_empty=True,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field(
        "supplementalGroupsPolicy", STRING, 12, pointer=True, since="1.31", gate="SupplementalGroupsPolicy"
    ),
    Field("fsGroup", INT64, 5, pointer=True),
    Field("sysctls", ListOf(SYSCTL), 7, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("fsGroupChangePolicy", STRING, 9, pointer=True),
    Field("seccompProfile", SECCOMP_PROFILE, 10, pointer=True),
    Field("appArmorProfile", APP_ARMOR_PROFILE, 11, pointer=True, since="1.30", gate="AppArmorFields"),
    Field("seLinuxChangePolicy", STRING, 13, pointer=True, since="1.32", gate="SELinuxChangePolicy"),
)


def context_rules(errors: FieldErrors, context: Object, field: str, *, users_of_host: bool = True) -> None:
    """Validate the security context of one container; its users are those of the host or of a user namespace."""
    _id_rules(errors, context, field, "runAsUser", "runAsGroup")
    mount = context.get("procMount")
    if mount is not None and mount not in PROC_MOUNTS:
        errors.add(not_supported(f"{field}.procMount", mount, PROC_MOUNTS))
    if mount == "Unmasked" and users_of_host and UNMASKED_NEEDS_NAMESPACE in errors.features:
        errors.add(invalid(f"{field}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    if "seccompProfile" in context:
        _seccomp_rules(errors, context["seccompProfile"], f"{field}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        _escalation_rules(errors, context, field)
    if "windowsOptions" in context:
        windows_option_rules(errors, context["windowsOptions"], f"{field}.windowsOptions")
    if "appArmorProfile" in context:
        apparmor_rules(errors, context["appArmorProfile"], f"{field}.appArmorProfile")


def _escalation_rules(errors: FieldErrors, context: Object, field: str) -> None:
    if context.get("privileged"):
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.add(invalid(field, shown(SECURITY_CONTEXT, context), text))
    whole = Repeated(lambda: shown(SECURITY_CONTEXT, context))
    for capability in context.get("capabilities", {}).get("add", ()):
        if capability == "CAP_SYS_ADMIN":
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.add(invalid(field, whole, text))


def pod_context_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    """Validate the pod's security context in this spec; `field` is the path of the context."""
    context = spec.get("securityContext")
    if not context and not spec.get("shareProcessNamespace"):
        return
    context = context or {}
    _id_rules(errors, context, field, "fsGroup", "runAsUser", "runAsGroup")
    for index, group in enumerate(context.get("supplementalGroups", ())):
        if not 0 <= group <= HIGHEST_ID:
            errors.add(invalid(f"{field}.supplementalGroups[{index}]", group, between(0, HIGHEST_ID)))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.add(invalid(f"{field}.shareProcessNamespace", True, text))
    _sysctl_rules(errors, context.get("sysctls", ()), spec, f"{field}.sysctls")
    policy = context.get("fsGroupChangePolicy")
    if policy is not None and policy not in GROUP_POLICIES:
        errors.add(not_supported(f"{field}.fsGroupChangePolicy", policy, GROUP_POLICIES))
    if "seccompProfile" in context:
        _seccomp_rules(errors, context["seccompProfile"], f"{field}.seccompProfile")
    if "windowsOptions" in context:
        windows_option_rules(errors, context["windowsOptions"], f"{field}.windowsOptions")
    if "appArmorProfile" in context:
        apparmor_rules(errors, context["appArmorProfile"], f"{field}.appArmorProfile")
    policy = context.get("supplementalGroupsPolicy")
    if policy is not None and policy not in SUPPLEMENTAL_POLICIES:
        errors.add(not_supported(f"{field}.supplementalGroupsPolicy", policy, SUPPLEMENTAL_POLICIES))
    policy = context.get("seLinuxChangePolicy")
    supported = CHANGE_POLICIES if SE_LINUX_MOUNT_ALL in errors.features else CHANGE_POLICIES[1:]
    if policy is not None and policy not in supported:
        errors.add(not_supported(f"{field}.seLinuxChangePolicy", policy, supported))


def apparmor_rules(errors: FieldErrors, profile: Object, field: str) -> None:
    kind, path, here = profile["type"], profile.get("localhostProfile"), f"{field}.localhostProfile"
    if not kind:
        errors.add(required(f"{field}.type", "type is required when appArmorProfile is set"))
    elif kind not in SECCOMP_TYPES:
        errors.add(not_supported(f"{field}.type", kind, SECCOMP_TYPES))
    elif kind != "Localhost":
        if path is not None:
            errors.add(invalid(here, path, "can only be set when AppArmor type is Localhost"))
    elif not path:
        errors.add(required(here, "must be set when AppArmor type is Localhost"))
    else:
        if path.strip() != path:
            errors.add(invalid(here, path, "must not be padded with whitespace"))
        if size(path) > LONGEST_PROFILE:
            errors.add(too_long(here, LONGEST_PROFILE))


def _id_rules(errors: FieldErrors, context: Object, field: str, *parts: str) -> None:
    for part in parts:
        if part in context and not 0 <= context[part] <= HIGHEST_ID:
            errors.add(invalid(f"{field}.{part}", context[part], between(0, HIGHEST_ID)))


def _seccomp_rules(errors: FieldErrors, profile: Object, field: str) -> None:
    kind, path = profile["type"], profile.get("localhostProfile")
    if not kind:
        errors.add(required(f"{field}.type", "type is required when seccompProfile is set"))
    elif kind not in SECCOMP_TYPES:
        errors.add(not_supported(f"{field}.type", kind, SECCOMP_TYPES))
    here = f"{field}.localhostProfile"
    if kind != "Localhost":
        if path is not None:
            errors.add(invalid(here, profile, "can only be set when seccomp type is Localhost"))
    elif path is None:
        errors.add(required(here, "must be set when seccomp type is Localhost"))
    else:
        errors.add_each(here, path, descending(path))


def _sysctl_rules(errors: FieldErrors, sysctls: list[Object], spec: Object, field: str) -> None:
    taken: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name, here = sysctl["name"], f"{field}[{index}].name"
        if not name:
            errors.add(required(here))
        elif size(name) > LONGEST_SYSCTL or not re.fullmatch(_SYSCTL, name):
            text = f"must have at most {LONGEST_SYSCTL} characters and match regex ^{_SYSCTL}$"
            errors.add(invalid(here, name, text))
        elif name in taken:
            errors.add(duplicate(here, name))
        if STRICT_HOST_SYSCTLS in errors.features and (shared := shared_namespace(name, spec)):
            errors.add(invalid(here, name, f"may not be specified when '{shared}' is true"))
        taken.add(name)


def shared_namespace(sysctl: str, spec: Object) -> str:
    """Return the field by which a pod shares the namespace of a sysctl with its host; empty if it does not."""
    name = _with_dots(sysctl)
    if spec.get("hostNetwork") and name.startswith("net."):
        return "hostNetwork"
    if spec.get("hostIPC") and (name in _IPC_SYSCTLS or name.startswith("fs.mqueue.")):
        return "hostIPC"
    return ""


def _with_dots(sysctl: str) -> str:
    """Return a sysctl with dots between its parts; dots inside a part of the other form become slashes."""
    first = next((letter for letter in sysctl if letter in "./"), "")
    return sysctl.translate({ord("."): "/", ord("/"): "."}) if first == "/" else sysctl


UNCONFINED: Final = "unconfined"
RUNTIME_DEFAULT: Final = ("runtime/default", "docker/default")
LOCALHOST: Final = "localhost/"


def annotated_profile_rules(errors: FieldErrors, text: str, field: str) -> None:
    """Validate profiles in annotations, which preceded the field and are still read."""
    if text == UNCONFINED or text in RUNTIME_DEFAULT:
        return
    if text.startswith(LOCALHOST):
        path = text.removeprefix(LOCALHOST)
        errors.add_each(field, path, descending(path))
        return
    errors.add(invalid(field, text, "must be a valid seccomp profile"))


def profile_of(text: str) -> Object | None:
    """Return the value of an annotation in the form of the field, or None if it names no profile."""
    if text == UNCONFINED:
        return {"type": "Unconfined"}
    if text in RUNTIME_DEFAULT:
        return {"type": "RuntimeDefault"}
    path = text.removeprefix(LOCALHOST)
    return {"type": "Localhost", "localhostProfile": path} if path and path != text else None


def agreement_rules(errors: FieldErrors, text: str, profile: Object, field: str) -> None:
    """An annotation and a field must not contradict each other."""
    kind = profile["type"]
    if kind == "Unconfined":
        agrees = text == UNCONFINED
    elif kind == "RuntimeDefault":
        agrees = text in RUNTIME_DEFAULT
    else:
        agrees = kind != "Localhost" or text.startswith(LOCALHOST)
    if not agrees:
        errors.add(forbidden(f"{field}.type", "seccomp type in annotation and field must match"))
        return
    if kind == "Localhost" and text.removeprefix(LOCALHOST) != profile.get("localhostProfile"):
        errors.add(
            forbidden(f"{field}.localhostProfile", "seccomp profile in annotation and field must match")
        )
