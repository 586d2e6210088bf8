"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.fields import BOOL, INT64, STRING, STRINGS, Field, ListOf, Struct

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
WINDOWS_SECURITY_CONTEXT_OPTIONS = Struct(
    "core.v1.WindowsSecurityContextOptions",
    Field("gmsaCredentialSpecName", STRING, 1, pointer=True),
    Field("gmsaCredentialSpec", STRING, 2, pointer=True),
    Field("runAsUserName", STRING, 3, pointer=True),
    Field("hostProcess", BOOL, 4, pointer=True),
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
