"""What a PodSecurityPolicy fills in and refuses, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.admission.plugins.pod_security_policy import (
    Policy,
    Unusable,
    check_pod,
    filled,
    parse_policy,
)
from rewound.actors.kinds.validation import collect
from rewound.actors.names import CLUSTER
from tests.cases import cases

ANY = {"rule": "RunAsAny"}
OPEN = {"runAsUser": ANY, "fsGroup": ANY, "supplementalGroups": ANY, "seLinux": ANY, "volumes": ["*"]}
RANGES = [{"min": 5, "max": 9}, {"min": 20, "max": 20}]
MUST, MAY = {"rule": "MustRunAs", "ranges": RANGES}, {"rule": "MayRunAs", "ranges": RANGES}
SHOWN = "[{5 9} {20 20}]"


def policy(annotations: dict[str, str] | None = None, **spec: Any) -> Policy:
    stored = {"metadata": {"annotations": annotations or {}}, "spec": {**OPEN, **spec}}
    return parse_policy(CLUSTER, stored)


def pod(context: Any = None, of_container: Any = None, **spec: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", **(of_container or {})}
    return {
        "metadata": {"name": "a"},
        "spec": {"containers": [container], "securityContext": context or {}, **spec},
    }


def own(**context: Any) -> dict[str, Any]:
    return {"securityContext": context}


def errors(rules: Policy, new: dict[str, Any]) -> list[str]:
    return [str(one.cause()) for one in collect(check_pod, CLUSTER, rules, new)]


def contexts(rules: Policy, new: dict[str, Any]) -> tuple[Any, Any]:
    """The filled security contexts of the pod and of its container; the result must satisfy the policy."""
    made = filled(rules, new)
    assert errors(rules, made) == []
    return made["spec"]["securityContext"], made["spec"]["containers"][0].get("securityContext")


@cases(
    "spec",
    [
        {"runAsUser": {"rule": "MustRunAs"}},
        {"runAsGroup": {"rule": "MayRunAs"}},
        {"fsGroup": {"rule": "MustRunAs", "ranges": []}},
        {"supplementalGroups": {"rule": "MayRunAs"}},
        {"seLinux": {"rule": "MustRunAs"}},
        {"runAsUser": {"rule": "MayRunAs", "ranges": RANGES}},
    ],
)
def test_policy_without_what_its_rule_needs_cannot_be_used(spec: dict[str, Any]) -> None:
    with pytest.raises(Unusable):
        policy(**spec)


def test_open_policy_changes_and_refuses_nothing() -> None:
    new = pod({"fsGroup": 1}, own(runAsUser=0), volumes=[{"name": "v", "hostPath": {"path": "/"}}])
    assert filled(policy(), new) == new
    assert errors(policy(), new) == []


def test_ids_are_filled_from_the_first_range() -> None:
    rules = policy(runAsUser=MUST, runAsGroup=MUST, fsGroup=MUST, supplementalGroups=MUST)
    of_pod = {"fsGroup": 5, "supplementalGroups": [5]}
    assert contexts(rules, pod()) == (of_pod, {"runAsUser": 5, "runAsGroup": 5})
    given = {"runAsUser": 20, "runAsGroup": 9}
    assert contexts(rules, pod(given)) == ({**given, **of_pod}, None)
    assert contexts(policy(runAsGroup=MAY, fsGroup=MAY, supplementalGroups=MAY), pod()) == ({}, None)


@cases(
    ("spec", "new", "text"),
    [
        (
            {"runAsUser": MUST},
            pod(None, own(runAsUser=4)),
            f"spec.containers[0].securityContext.runAsUser: Invalid value: 4: must be in the ranges: {SHOWN}",
        ),
        ({"runAsUser": MUST}, pod(), "spec.containers[0].securityContext.runAsUser: Required value"),
        (
            {"runAsGroup": MAY},
            pod({"runAsGroup": 10}),
            "spec.containers[0].securityContext: Invalid value: []int64{10}: "
            f"group 10 must be in the ranges: {SHOWN}",
        ),
        (
            {"fsGroup": MUST},
            pod({"fsGroup": 1}),
            f"spec.securityContext.fsGroup: Invalid value: []int64{{1}}: group 1 must be in the ranges: {SHOWN}",
        ),
        (
            {"supplementalGroups": MUST},
            pod(),
            "spec.securityContext.supplementalGroups: Invalid value: []int64(nil): "
            "unable to validate empty groups against required ranges",
        ),
        (
            {"runAsUser": {"rule": "MustRunAsNonRoot"}},
            pod({"runAsNonRoot": False}),
            "spec.containers[0].securityContext.runAsNonRoot: Invalid value: false: must be true",
        ),
        (
            {"runAsUser": {"rule": "MustRunAsNonRoot"}},
            pod(None, own(runAsUser=0)),
            "spec.containers[0].securityContext.runAsUser: Invalid value: 0: "
            "running with the root UID is forbidden",
        ),
        (
            {"readOnlyRootFilesystem": True},
            pod(None, own(readOnlyRootFilesystem=False)),
            "spec.containers[0].securityContext.readOnlyRootFilesystem: Invalid value: false: "
            "ReadOnlyRootFilesystem must be set to true",
        ),
        (
            {},
            pod(None, own(privileged=True)),
            "spec.containers[0].securityContext.privileged: Invalid value: true: "
            "Privileged containers are not allowed",
        ),
        (
            {},
            pod(hostNetwork=True),
            "spec.securityContext.hostNetwork: Invalid value: true: Host network is not allowed to be used",
        ),
        (
            {},
            pod(hostPID=True),
            "spec.securityContext.hostPID: Invalid value: true: Host PID is not allowed to be used",
        ),
        (
            {},
            pod(hostIPC=True),
            "spec.securityContext.hostIPC: Invalid value: true: Host IPC is not allowed to be used",
        ),
        (
            {"allowPrivilegeEscalation": False},
            pod(None, own(allowPrivilegeEscalation=True)),
            "spec.containers[0].securityContext.allowPrivilegeEscalation: Invalid value: true: "
            "Allowing privilege escalation for containers is not allowed",
        ),
        (
            {},
            pod(None, own(procMount="Unmasked")),
            'spec.containers[0].securityContext.procMount: Invalid value: "Unmasked": '
            "ProcMountType is not allowed",
        ),
        (
            {"defaultAddCapabilities": ["A"]},
            pod(None, own(capabilities={"add": ["A", "B"]})),
            'spec.containers[0].securityContext.capabilities.add: Invalid value: "B": '
            "capability may not be added",
        ),
        (
            {"requiredDropCapabilities": ["KILL"]},
            pod(None, own(capabilities={"drop": ["A"]})),
            'spec.containers[0].securityContext.capabilities.drop: Invalid value: []core.Capability{"A"}: '
            "KILL is required to be dropped but was not found",
        ),
        (
            {"hostPorts": [{"min": 80, "max": 80}, {"min": 90, "max": 99}]},
            pod(None, {"ports": [{"hostPort": 80}, {"hostPort": 81}]}),
            "spec.containers[0].hostPort: Invalid value: 81: "
            "Host port 81 is not allowed to be used. Allowed ports: [80,90-99]",
        ),
        (
            {"runtimeClass": {"allowedRuntimeClassNames": []}},
            pod(runtimeClassName="x"),
            'spec.runtimeClassName: Invalid value: "x"',
        ),
        (
            {},
            pod({"sysctls": [{"name": "net.ipv4.tcp_syncookies"}, {"name": "kernel.msgmax"}]}),
            'pod.spec.securityContext.sysctls[1]: Forbidden: unsafe sysctl "kernel.msgmax" is not allowed',
        ),
        (
            {"allowedUnsafeSysctls": ["*"], "forbiddenSysctls": ["kernel.*"]},
            pod({"sysctls": [{"name": "net.core.somaxconn"}, {"name": "kernel.msgmax"}]}),
            'pod.spec.securityContext.sysctls[1]: Forbidden: sysctl "kernel.msgmax" is not allowed',
        ),
        (
            {},
            pod({"seccompProfile": {"type": "RuntimeDefault"}}),
            "pod.metadata.annotations[seccomp.security.alpha.cluster.io/pod]: Forbidden: seccomp may not be set",
        ),
    ],
)
def test_pod_that_violates_a_rule_is_refused(spec: dict[str, Any], new: dict[str, Any], text: str) -> None:
    assert text in errors(policy(**spec), new)


@cases(
    ("spec", "new", "filled_in"),
    [
        ({"readOnlyRootFilesystem": True}, pod(), {"readOnlyRootFilesystem": True}),
        ({"allowPrivilegeEscalation": False}, pod(), {"allowPrivilegeEscalation": False}),
        ({"defaultAllowPrivilegeEscalation": False}, pod(), {"allowPrivilegeEscalation": False}),
        ({"runAsUser": {"rule": "MustRunAsNonRoot"}}, pod(), {"runAsNonRoot": True}),
        (
            {"defaultAddCapabilities": ["B", "A"], "requiredDropCapabilities": ["KILL"]},
            pod(None, own(capabilities={"drop": ["B"]})),
            {"capabilities": {"add": ["A"], "drop": ["B", "KILL"]}},
        ),
    ],
)
def test_containers_are_filled(spec: dict[str, Any], new: dict[str, Any], filled_in: Any) -> None:
    assert contexts(policy(**spec), new)[1] == filled_in


def test_se_linux_options_are_filled_or_compared() -> None:
    options = {"level": "s0:c1,c2", "user": "u"}
    rules = policy(seLinux={"rule": "MustRunAs", "seLinuxOptions": options})
    assert contexts(rules, pod())[0] == {"seLinuxOptions": options}
    assert errors(rules, pod({"seLinuxOptions": {"level": "s0:c2,c1", "user": "u"}})) == []
    wrong = pod({"seLinuxOptions": options}, own(seLinuxOptions={"level": "s1:c1,c2", "user": "v"}))
    where = "spec.containers[0].securityContext.seLinuxOptions"
    assert errors(rules, wrong) == [
        f'{where}.level: Invalid value: "s1:c1,c2": must be s0:c1,c2',
        f'{where}.user: Invalid value: "v": must be u',
    ]


def test_runtime_class_is_filled_and_allowed_by_name() -> None:
    rules = policy(runtimeClass={"allowedRuntimeClassNames": ["x", "y"], "defaultRuntimeClassName": "x"})
    assert filled(rules, pod())["spec"]["runtimeClassName"] == "x"
    assert errors(rules, pod(runtimeClassName="y")) == []
    assert errors(policy(runtimeClass={"allowedRuntimeClassNames": ["*"]}), pod(runtimeClassName="z")) == []


@cases(
    ("path", "allowed"),
    [("/foo", True), ("/foo/", True), ("/foo/bar", True), ("/food", False), ("/", False), ("/ro/x", True)],
)
def test_paths_of_the_host(path: str, allowed: bool) -> None:
    rules = policy(allowedHostPaths=[{"pathPrefix": "/foo/"}, {"pathPrefix": "/ro", "readOnly": True}])
    volumes = [{"name": "v", "hostPath": {"path": path}}]
    mounts = {"volumeMounts": [{"name": "v", "readOnly": True}]}
    refused = [f'spec.volumes[0].hostPath.pathPrefix: Invalid value: "{path}": is not allowed to be used']
    assert errors(rules, pod(None, mounts, volumes=volumes)) == ([] if allowed else refused)


def test_read_only_path_needs_read_only_mounts() -> None:
    rules = policy(allowedHostPaths=[{"pathPrefix": "/ro", "readOnly": True}])
    volumes = [{"name": "v", "hostPath": {"path": "/ro"}}]
    mounts = {"volumeMounts": [{"name": "w"}, {"name": "v"}]}
    assert errors(rules, pod(None, mounts, volumes=volumes)) == [
        "spec.containers[0].volumeMounts[1].readOnly: Invalid value: false: must be read-only"
    ]


TOKEN = {
    "sources": [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "cluster-root-ca.crt"}},
    ]
}


@cases(
    ("allowed", "volume", "text"),
    [
        ([], {"emptyDir": {}}, ': Invalid value: "emptyDir": emptyDir volumes are not allowed to be used'),
        (["emptyDir"], {"emptyDir": {}}, ""),
        (["secret"], {"projected": TOKEN}, ""),
        (
            ["secret"],
            {"projected": {"sources": [{"secret": {"name": "s"}}]}},
            ': Invalid value: "projected": projected volumes are not allowed to be used',
        ),
        (
            ["csi"],
            {"csi": {"driver": "other"}},
            '.csi.driver: Invalid value: "other": Inline CSI driver is not allowed to be used',
        ),
        (["csi"], {"csi": {"driver": "known"}}, ""),
        (
            ["flexVolume"],
            {"flexVolume": {"driver": "other"}},
            '.driver: Invalid value: "other": Flexvolume driver is not allowed to be used',
        ),
    ],
)
def test_only_allowed_volume_types_are_accepted(
    allowed: list[str], volume: dict[str, Any], text: str
) -> None:
    rules = policy(
        volumes=allowed, allowedCSIDrivers=[{"name": "known"}], allowedFlexVolumes=[{"driver": "known"}]
    )
    found = errors(rules, pod(volumes=[{"name": "v", **volume}]))
    assert found == ([f"spec.volumes[0]{text}"] if text else [])


def test_profiles_of_annotations() -> None:
    rules = policy(
        {
            "seccomp.security.alpha.cluster.io/allowedProfileNames": "docker/default,localhost/x",
            "seccomp.security.alpha.cluster.io/defaultProfileName": "runtime/default",
            "apparmor.security.beta.cluster.io/allowedProfileNames": "runtime/default",
            "apparmor.security.beta.cluster.io/defaultProfileName": "runtime/default",
        }
    )
    made = filled(rules, pod())
    assert made["metadata"]["annotations"] == {
        "container.apparmor.security.beta.cluster.io/c": "runtime/default",
        "seccomp.security.alpha.cluster.io/pod": "runtime/default",
    }
    assert errors(rules, made) == []
    wrong = pod({"seccompProfile": {"type": "Unconfined"}})
    wrong["metadata"]["annotations"] = {"container.apparmor.security.beta.cluster.io/c": "unconfined"}
    key = "pod.metadata.annotations[seccomp.security.alpha.cluster.io/pod]"
    listed = "Valid values are docker/default,localhost/x"
    found = errors(rules, wrong)
    assert found[0] == f"{key}: Forbidden: unconfined is not an allowed seccomp profile. {listed}"
    assert any('is not an allowed profile. Allowed values: "runtime/default"' in one for one in found)
