"""What a container may do and as whom it runs: contexts of containers and of whole pods."""

from __future__ import annotations

import re
from typing import Final

from actors.kinds.core.pods.paths import descending
from actors.kinds.core.pods.windows import WINDOWS_SECURITY_CONTEXT_OPTIONS, windows_option_rules
from actors.kinds.schema.fields import BOOL, INT64, STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation.checks import (
    FieldError,
    between,
    duplicate,
    each,
    forbidden,
    invalid,
    not_supported,
    required,
    size,
)
from actors.messages import Object

HIGHEST_ID: Final = 2**31 - 1
LONGEST_SYSCTL: Final = 253
SECCOMP_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
PROC_MOUNTS: Final = ("Default", "Unmasked")
GROUP_POLICIES: Final = ("Always", "OnRootMismatch")

SYSCTL_PART: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = rf"({SYSCTL_PART}[\./])*{SYSCTL_PART}"

CAPABILITIES = Struct(
    "core.v1.Capabilities",
    Field("add", STRINGS, 1),
    Field("drop", STRINGS, 2),
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
    Field("supplementalGroups", ListOf(INT64), 4),
    Field("fsGroup", INT64, 5, pointer=True),
    Field("sysctls", ListOf(SYSCTL), 7),
    Field("fsGroupChangePolicy", STRING, 9, pointer=True),
    Field("seccompProfile", SECCOMP_PROFILE, 10, pointer=True),
)


def context_rules(context: Object, field: str) -> list[FieldError]:
    """Of one container."""
    errors = _id_rules(context, field, "runAsUser", "runAsGroup")
    mount = context.get("procMount")
    if mount is not None and mount not in PROC_MOUNTS:
        errors.append(not_supported(f"{field}.procMount", mount, PROC_MOUNTS))
    if "seccompProfile" in context:
        errors += _seccomp_rules(context["seccompProfile"], f"{field}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        errors += _escalation_rules(context, field)
    if "windowsOptions" in context:
        errors += windows_option_rules(context["windowsOptions"], f"{field}.windowsOptions")
    return errors


def _escalation_rules(context: Object, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if context.get("privileged"):
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(invalid(field, context, text))
    for capability in context.get("capabilities", {}).get("add", ()):
        if capability == "CAP_SYS_ADMIN":
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.append(invalid(field, context, text))
    return errors


def pod_context_rules(spec: Object, field: str) -> list[FieldError]:
    """Of the pod whose spec this is; `field` is that of its context."""
    context = spec.get("securityContext")
    if not context and not spec.get("shareProcessNamespace"):
        return []
    context = context or {}
    errors = _id_rules(context, field, "fsGroup", "runAsUser", "runAsGroup")
    for index, group in enumerate(context.get("supplementalGroups", ())):
        if not 0 <= group <= HIGHEST_ID:
            errors.append(invalid(f"{field}.supplementalGroups[{index}]", group, between(0, HIGHEST_ID)))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{field}.shareProcessNamespace", True, text))
    errors += _sysctl_rules(context.get("sysctls", ()), f"{field}.sysctls")
    policy = context.get("fsGroupChangePolicy")
    if policy is not None and policy not in GROUP_POLICIES:
        errors.append(not_supported(f"{field}.fsGroupChangePolicy", policy, GROUP_POLICIES))
    if "seccompProfile" in context:
        errors += _seccomp_rules(context["seccompProfile"], f"{field}.seccompProfile")
    if "windowsOptions" in context:
        errors += windows_option_rules(context["windowsOptions"], f"{field}.windowsOptions")
    return errors


def _id_rules(context: Object, field: str, *parts: str) -> list[FieldError]:
    return [
        invalid(f"{field}.{part}", context[part], between(0, HIGHEST_ID))
        for part in parts
        if part in context and not 0 <= context[part] <= HIGHEST_ID
    ]


def _seccomp_rules(profile: Object, field: str) -> list[FieldError]:
    kind, path = profile["type"], profile.get("localhostProfile")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required(f"{field}.type", "type is required when seccompProfile is set"))
    elif kind not in SECCOMP_TYPES:
        errors.append(not_supported(f"{field}.type", kind, SECCOMP_TYPES))
    here = f"{field}.localhostProfile"
    if kind != "Localhost":
        if path is not None:
            errors.append(invalid(here, profile, "can only be set when seccomp type is Localhost"))
    elif path is None:
        errors.append(required(here, "must be set when seccomp type is Localhost"))
    else:
        errors += each(here, path, descending(path))
    return errors


def _sysctl_rules(sysctls: list[Object], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name, here = sysctl["name"], f"{field}[{index}].name"
        if not name:
            errors.append(required(here))
        elif size(name) > LONGEST_SYSCTL or not re.fullmatch(_SYSCTL, name):
            text = f"must have at most {LONGEST_SYSCTL} characters and match regex ^{_SYSCTL}$"
            errors.append(invalid(here, name, text))
        elif name in taken:
            errors.append(duplicate(here, name))
        taken.add(name)
    return errors


UNCONFINED: Final = "unconfined"
RUNTIME_DEFAULT: Final = ("runtime/default", "docker/default")
LOCALHOST: Final = "localhost/"


def annotated_profile_rules(text: str, field: str) -> list[FieldError]:
    """Profiles were said in annotations once, and those are still read."""
    if text == UNCONFINED or text in RUNTIME_DEFAULT:
        return []
    if text.startswith(LOCALHOST):
        path = text.removeprefix(LOCALHOST)
        return each(field, path, descending(path))
    return [invalid(field, text, "must be a valid seccomp profile")]


def profile_of(text: str) -> Object | None:
    """What an annotation says, as a field would; None where it says nothing."""
    if text == UNCONFINED:
        return {"type": "Unconfined"}
    if text in RUNTIME_DEFAULT:
        return {"type": "RuntimeDefault"}
    path = text.removeprefix(LOCALHOST)
    return {"type": "Localhost", "localhostProfile": path} if path and path != text else None


def agreement_rules(text: str, profile: Object, field: str) -> list[FieldError]:
    """An annotation and a field that say different things."""
    kind = profile["type"]
    if kind == "Unconfined":
        agrees = text == UNCONFINED
    elif kind == "RuntimeDefault":
        agrees = text in RUNTIME_DEFAULT
    else:
        agrees = kind != "Localhost" or text.startswith(LOCALHOST)
    if not agrees:
        return [forbidden(f"{field}.type", "seccomp type in annotation and field must match")]
    if kind != "Localhost" or text.removeprefix(LOCALHOST) == profile.get("localhostProfile"):
        return []
    return [forbidden(f"{field}.localhostProfile", "seccomp profile in annotation and field must match")]
