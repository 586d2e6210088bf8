"""The Pod Security Standards: which pod violates which level, in which versions, and with which message.

Every row has a pod that breaks one rule, as a change of a pod that breaks none.
"""

from __future__ import annotations

import copy
from typing import Any

from rewound.actors.admission.plugins.pod_security.policy import BASELINE, LATEST, RESTRICTED, LevelVersion
from rewound.actors.admission.plugins.pod_security.standards import Standards, describe, evaluated
from rewound.actors.names import CLUSTER, KUBERNETES, NAMES, Names
from rewound.actors.versions.features import choose_release
from tests.cases import cases

STANDARDS = {names.dialect: Standards(names) for names in NAMES.values()}
NEVER = (26, 25)  # an empty range of minor versions
ALWAYS = (0, 25)


def hardened(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": "i",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def pod(change: dict[str, Any]) -> dict[str, Any]:
    """A pod without violations, changed: paths with dots to new values; None removes a field."""
    made: dict[str, Any] = {
        "metadata": {"annotations": {}},
        "spec": {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "initContainers": [hardened("init")],
            "containers": [hardened("main")],
            "ephemeralContainers": [hardened("debug")],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
    }
    for path, value in change.items():
        *parents, last = path.split("/")
        found: Any = made
        for step in parents:
            found = found[int(step)] if isinstance(found, list) else found.setdefault(step, {})
        if value is None:
            del found[last]
        else:
            found[last] = copy.deepcopy(value)
    return made


def report(level: str, version: str, change: dict[str, Any], names: Names = CLUSTER) -> str:
    found = STANDARDS[names.dialect].violations(LevelVersion(level, version), evaluated(pod(change)))
    return describe(found)


POD = "spec/securityContext"
INIT = "spec/initContainers/0/securityContext"
MAIN = "spec/containers/0/securityContext"
DEBUG = "spec/ephemeralContainers/0/securityContext"
APP_ARMOR = "container.apparmor.security.beta.cluster.io"
SECCOMP = "container.seccomp.security.alpha.cluster.io"
ROW = tuple[dict[str, Any], str, tuple[int, int], tuple[int, int]]

# The change, the report, and the minor versions in which baseline and restricted report it.
ROWS: list[ROW] = [
    ({}, "", NEVER, NEVER),
    (
        {
            "metadata/annotations": {
                f"{APP_ARMOR}/b": "unconfined",
                f"{APP_ARMOR}/a": "x\n",
                f"{APP_ARMOR}/c": "",
            }
        },
        f'forbidden AppArmor profiles ({APP_ARMOR}/a="x\\n", {APP_ARMOR}/b="unconfined")',
        ALWAYS,
        ALWAYS,
    ),
    (
        {"metadata/annotations": {f"{APP_ARMOR}/a": "localhost/x", f"{APP_ARMOR}/b": "runtime/default"}},
        "",
        NEVER,
        NEVER,
    ),
    (
        {f"{MAIN}/capabilities/add": ["CHOWN", "SYS_ADMIN", "BPF"], f"{DEBUG}/capabilities/add": ["bpf"]},
        'non-default capabilities (containers "main", "debug" must not include "BPF", "SYS_ADMIN", "bpf" '
        "in securityContext.capabilities.add)",
        ALWAYS,
        (0, 21),
    ),
    (
        {f"{MAIN}/capabilities/add": ["CHOWN", "NET_BIND_SERVICE"], f"{INIT}/capabilities": None},
        'unrestricted capabilities (container "init" must set securityContext.capabilities.drop=["ALL"]; container '
        '"main" must not include "CHOWN" in securityContext.capabilities.add)',
        NEVER,
        (22, 25),
    ),
    (
        {"spec/hostIPC": True, "spec/hostNetwork": True, "spec/hostPID": False},
        "host namespaces (hostNetwork=true, hostIPC=true)",
        ALWAYS,
        ALWAYS,
    ),
    (
        {
            "spec/volumes": [
                {"name": "a", "hostPath": {"path": "/"}},
                {"name": "b", "hostPath": {"path": "/"}},
            ]
        },
        'hostPath volumes (volumes "a", "b")',
        ALWAYS,
        NEVER,
    ),
    (
        {
            "spec/volumes": [
                {"name": "a", "hostPath": {"path": "/"}},
                {"name": "b", "nfs": {}},
                {"name": "c", "csi": {}},
                {"name": "d", "local": {}},
            ]
        },
        'restricted volume types (volumes "a", "b", "d" use restricted volume types "hostPath", "nfs", "unknown")',
        NEVER,
        ALWAYS,
    ),
    (
        {"spec/initContainers/0/ports": [{"hostPort": 90}, {"hostPort": 8080}, {"containerPort": 1}]},
        'hostPort (container "init" uses hostPorts 8080, 90)',
        ALWAYS,
        ALWAYS,
    ),
    (
        {f"{MAIN}/privileged": True, f"{DEBUG}/privileged": False},
        'privileged (container "main" must not set securityContext.privileged=true)',
        ALWAYS,
        ALWAYS,
    ),
    (
        {f"{INIT}/procMount": "Default", f"{MAIN}/procMount": "Unmasked"},
        'procMount (container "main" must not set securityContext.procMount to "Unmasked")',
        ALWAYS,
        ALWAYS,
    ),
    (
        {f"{POD}/seLinuxOptions": {"type": "x", "user": "u"}, f"{MAIN}/seLinuxOptions": {"role": "r"}},
        'seLinuxOptions (pod and container "main" set forbidden securityContext.seLinuxOptions: type "x"; user may '
        "not be set; role may not be set)",
        ALWAYS,
        ALWAYS,
    ),
    (
        {f"{MAIN}/seLinuxOptions": {"user": "u"}},
        'seLinuxOptions (container "main" set forbidden securityContext.seLinuxOptions: )',
        ALWAYS,
        ALWAYS,
    ),
    ({f"{POD}/seLinuxOptions": {"type": "container_kvm_t", "level": "s0"}}, "", NEVER, NEVER),
    (
        {
            "metadata/annotations": {
                f"{SECCOMP}/main": "x",
                f"{SECCOMP}/other": "x",
                f"{SECCOMP}/init": "localhost/x",
            }
        },
        f'seccompProfile (forbidden annotation {SECCOMP}/main="x")',
        (0, 18),
        (0, 18),
    ),
    (
        {f"{POD}/seccompProfile": {"type": "Unconfined"}, f"{MAIN}/seccompProfile": {"type": "Other"}},
        'seccompProfile (pod and container "main" must not set securityContext.seccompProfile.type to "Other", '
        '"Unconfined")',
        (19, 25),
        (19, 25),
    ),
    (
        {f"{POD}/seccompProfile": None, f"{INIT}/seccompProfile": {"type": "Localhost"}},
        'seccompProfile (pod or containers "main", "debug" must set securityContext.seccompProfile.type to '
        '"RuntimeDefault" or "Localhost")',
        NEVER,
        (19, 25),
    ),
    (
        {f"{POD}/sysctls": [{"name": "b"}, {"name": "net.ipv4.tcp_syncookies"}, {"name": "a"}]},
        "forbidden sysctls (b, a)",
        ALWAYS,
        ALWAYS,
    ),
    (
        {f"{POD}/windowsOptions": {"hostProcess": True}, f"{MAIN}/windowsOptions": {"hostProcess": False}},
        "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ALWAYS,
        ALWAYS,
    ),
    (
        {f"{MAIN}/allowPrivilegeEscalation": True, f"{DEBUG}/allowPrivilegeEscalation": None},
        'allowPrivilegeEscalation != false (containers "main", "debug" must set '
        "securityContext.allowPrivilegeEscalation=false)",
        NEVER,
        (8, 25),
    ),
    (
        {f"{POD}/runAsNonRoot": False, f"{MAIN}/runAsNonRoot": False},
        'runAsNonRoot != true (pod and container "main" must not set securityContext.runAsNonRoot=false)',
        NEVER,
        ALWAYS,
    ),
    (
        {f"{POD}/runAsNonRoot": None, f"{MAIN}/runAsNonRoot": True},
        'runAsNonRoot != true (pod or containers "init", "debug" must set securityContext.runAsNonRoot=true)',
        NEVER,
        ALWAYS,
    ),
    (
        {f"{POD}/runAsUser": 0, f"{INIT}/runAsUser": 0, f"{MAIN}/runAsUser": 1},
        'runAsUser=0 (pod and container "init" must not set runAsUser=0)',
        NEVER,
        (23, 25),
    ),
    # Windows has none of these, and v1.25 requires none of them.
    (
        {"spec/os": {"name": "windows"}, f"{MAIN}/allowPrivilegeEscalation": None},
        'allowPrivilegeEscalation != false (container "main" must set securityContext.allowPrivilegeEscalation=false)',
        NEVER,
        (8, 24),
    ),
    (
        {"spec/os": {"name": "windows"}, f"{MAIN}/capabilities": None},
        'unrestricted capabilities (container "main" must set securityContext.capabilities.drop=["ALL"])',
        NEVER,
        (22, 24),
    ),
    (
        {
            "spec/os": {"name": "windows"},
            f"{POD}/seccompProfile": None,
            f"{MAIN}/seccompProfile": {"type": "Localhost"},
        },
        'seccompProfile (pod or containers "init", "debug" must set securityContext.seccompProfile.type to '
        '"RuntimeDefault" or "Localhost")',
        NEVER,
        (19, 24),
    ),
]


@cases("row", ROWS, ids=[text.partition(" (")[0] or "allowed" for _, text, *_ in ROWS])
def test_a_violation_is_reported_in_the_versions_that_have_the_check(row: ROW) -> None:
    change, text, *ranges = row
    for level, (first, last) in zip((BASELINE, RESTRICTED), ranges, strict=True):
        for minor in range(26):
            found = report(level, f"v1.{minor}", change)
            # Another version of the same check may use another message.
            assert (text != "" and found == text) == (first <= minor <= last), (level, minor, found)
            assert text or not found


def test_every_violation_is_in_one_message_baseline_first_and_then_by_id() -> None:
    change = {
        "spec/hostPID": True,
        f"{MAIN}": {"privileged": True},
        f"{POD}": {},
        "metadata/annotations": {f"{APP_ARMOR}/main": "x"},
    }
    reasons = [
        "forbidden AppArmor profile",
        "host namespaces",
        "privileged",
        "allowPrivilegeEscalation != false",
        "unrestricted capabilities",
        "runAsNonRoot != true",
        "seccompProfile",
    ]
    found = STANDARDS["cluster"].violations(LevelVersion(RESTRICTED, LATEST), evaluated(pod(change)))
    assert [one.reason for one in found] == reasons


def test_latest_and_later_versions_are_the_same_as_v1_25() -> None:
    for change, *_ in ROWS:
        for version in (LATEST, "v1.26", "v1.1000000"):
            assert report(RESTRICTED, version, change) == report(RESTRICTED, "v1.25", change)


def test_annotations_have_the_domain_of_the_dialect() -> None:
    key = "container.apparmor.security.beta.kubernetes.io/main"
    change = {"metadata/annotations": {key: "unconfined"}}
    assert report(BASELINE, LATEST, change) == ""
    assert report(BASELINE, LATEST, change, KUBERNETES) == f'forbidden AppArmor profile ({key}="unconfined")'
    pod_key = "seccomp.security.alpha.kubernetes.io/pod"
    text = f'seccompProfile (forbidden annotation {pod_key}="unconfined")'
    assert report(BASELINE, "v1.18", {"metadata/annotations": {pod_key: "unconfined"}}, KUBERNETES) == text


def test_privileged_has_no_checks() -> None:
    assert report("privileged", "v1.0", {"spec/hostPID": True}) == ""


def standards_of(version: str) -> Standards:
    return Standards(KUBERNETES, choose_release(version).features)


def found(version: str, level: LevelVersion, **spec: Any) -> str:
    made = pod({})
    made["spec"] |= spec
    return describe(standards_of(version).violations(level, evaluated(made)))


@cases(
    ("version", "level", "spec", "expected"),
    [
        (
            "1.28",
            LevelVersion(BASELINE),
            {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}},
            "forbidden sysctls (net.ipv4.tcp_rmem)",
        ),
        (
            "1.32",
            LevelVersion(BASELINE),
            {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}},
            "",
        ),
        (
            "1.36",
            LevelVersion(BASELINE, "v1.31"),
            {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}},
            "forbidden sysctls (net.ipv4.tcp_rmem)",
        ),
        (
            "1.36",
            LevelVersion(BASELINE),
            {"containers": [{**hardened("main"), "livenessProbe": {"httpGet": {"host": "h", "port": 1}}}]},
            'probe or lifecycle host (container "main" uses probe or lifecycle host "h")',
        ),
        (
            "1.33",
            LevelVersion(BASELINE),
            {"containers": [{**hardened("main"), "livenessProbe": {"httpGet": {"host": "h", "port": 1}}}]},
            "",
        ),
        (
            "1.36",
            LevelVersion(BASELINE),
            {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
            'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")',
        ),
        (
            "1.36",
            LevelVersion(BASELINE),
            {"securityContext": {"seLinuxOptions": {"type": "container_engine_t"}}},
            "",
        ),
        (
            "1.36",
            LevelVersion(BASELINE),
            {"securityContext": {"seLinuxOptions": {"user": "u"}}},
            "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: user may not be set)",
        ),
        (
            "1.36",
            LevelVersion(RESTRICTED),
            {"hostUsers": False, "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}},
            "",
        ),
        ("1.36", LevelVersion(RESTRICTED), {"volumes": [{"name": "v", "image": {"reference": "r"}}]}, ""),
        (
            "1.32",
            LevelVersion(RESTRICTED),
            {"volumes": [{"name": "v", "image": {"reference": "r"}}]},
            'restricted volume types (volume "v" uses restricted volume type "unknown")',
        ),
    ],
)
def test_standards_of_later_versions(
    version: str, level: LevelVersion, spec: dict[str, Any], expected: str
) -> None:
    assert found(version, level, **spec) == expected
