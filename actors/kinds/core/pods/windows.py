"""Pods on Windows nodes: users of their containers, and fields that Windows does not support."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from actors.kinds.schema.fields import BOOL, STRING, Field, Struct
from actors.kinds.validation import FieldErrors, dns_subdomain, forbidden, invalid, size
from actors.messages import Object

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
    *("seLinuxOptions", "hostUsers", "hostPID", "hostIPC", "seccompProfile", "fsGroup"),
    *("fsGroupChangePolicy", "sysctls", "shareProcessNamespace", "runAsUser", "runAsGroup"),
    "supplementalGroups",
)
_IN_SPEC: Final = frozenset(("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"))
_FORBIDDEN_IN_CONTAINERS: Final = (
    *("seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged"),
    *("allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
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
    """Every container of a pod with the path of its field."""
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
