"""What another version makes of objects and requests, compared with the present one."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from rewound.actors.kinds.enablement import parse_enablement
from rewound.actors.names import NAMES
from rewound.actors.versions.features import choose_release
from rewound.recording.manifests import STORED, UPDATE
from rewound.recording.upgrade.rehearsal import (
    DEFAULTED,
    PRUNED,
    REFUSED,
    REMOVED,
    UNCHECKED,
    WARNED,
    Finding,
    Rehearsal,
)
from tests.cases import cases

Object = dict[str, Any]
FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"


@cache
def rehearsal(present: str = "1.25", target: str = "1.33") -> Rehearsal:
    return new_rehearsal(present, target)


def new_rehearsal(present: str, target: str, gates: str = "", enabled: str = "") -> Rehearsal:
    releases = choose_release(present), choose_release(target, gates)
    return Rehearsal(NAMES["kubernetes"], *releases, parse_enablement(enabled))


def found(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(one.severity, one.message) for one in findings]


def scaler(version: str) -> Object:
    target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": target},
    }


def pod(**spec: Any) -> Object:
    container = {"name": "c", "image": "i"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": {"containers": [container], **spec},
    }


HOST_SYSCTL = pod(
    hostIPC=True, securityContext={"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}]}
)
GONE = (
    "autoscaling/v2beta2 HorizontalPodAutoscaler is not served; 1.25 was the last version with it; "
    "use autoscaling/v2"
)
REFUSAL = (
    'spec.securityContext.sysctls[0].name: Invalid value: "kernel.shm_rmid_forced": '
    "may not be specified when 'hostIPC' is true"
)


def test_removed_version_names_the_one_to_use() -> None:
    [finding] = rehearsal().check(scaler("v2beta2"))
    assert (finding.severity, finding.message, finding.use) == (REMOVED, GONE, "autoscaling/v2")
    assert not finding.already
    assert rehearsal().check(scaler("v2")) == []


@cases(
    "api_version, kind, use",
    [
        ("batch/v1beta1", "CronJob", "batch/v1"),
        ("extensions/v1beta1", "Ingress", "networking.k8s.io/v1"),
        ("apps/v1beta1", "Deployment", "apps/v1"),
    ],
)
def test_version_that_no_supported_version_has(api_version: str, kind: str, use: str) -> None:
    [finding] = rehearsal().check({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}})
    assert (finding.severity, finding.use, finding.already) == (REMOVED, use, True)


def test_version_that_is_deprecated_and_then_removed() -> None:
    document = {
        "apiVersion": f"{FLOW_CONTROL}/v1beta3",
        "kind": "FlowSchema",
        "metadata": {"name": "a"},
        "spec": {"priorityLevelConfiguration": {"name": "exempt"}},
    }
    removed = [one for one in rehearsal("1.28", "1.33").check(document) if one.severity == REMOVED]
    assert [one.use for one in removed] == [f"{FLOW_CONTROL}/v1"]
    assert WARNED in {one.severity for one in new_rehearsal("1.28", "1.31").check(document)}


def test_stricter_validation_refuses() -> None:
    [finding] = rehearsal().check(HOST_SYSCTL)
    assert (finding.severity, finding.message, finding.already) == (REFUSED, REFUSAL, False)
    assert rehearsal("1.29", "1.33").check(HOST_SYSCTL)[0].already


def test_malformed_object_is_refused_in_both() -> None:
    [finding] = rehearsal().check(pod(hostNetwork="yes"))
    assert finding.severity == REFUSED and finding.already
    assert finding.message.startswith('Pod in version "v1" cannot be handled as a Pod: ')


def test_field_that_both_drop_is_no_change() -> None:
    [finding] = rehearsal().check(pod(wrong=1))
    assert (finding.severity, finding.field, finding.already) == (PRUNED, "spec.wrong", True)


def test_field_that_takes_effect_after_the_upgrade() -> None:
    sidecar = pod(initContainers=[{"name": "s", "image": "s", "restartPolicy": "Always"}])
    path = "spec.initContainers[name=s].restartPolicy"
    text = f'{path} takes effect ("Always"); 1.25 drops it'
    assert found(rehearsal().check(sidecar)) == [(DEFAULTED, text)]
    off = new_rehearsal("1.29", "1.32", "SidecarContainers=false")
    assert found(off.check(sidecar)) == [(PRUNED, f'{path} is dropped ("Always")')]


def test_defaults_that_differ() -> None:
    stateful = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "s", "namespace": "shop"},
        "spec": {
            "serviceName": "s",
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]},
            },
        },
    }
    policy = '{"whenDeleted":"Retain","whenScaled":"Retain"}'
    assert found(rehearsal().check(stateful)) == [
        (DEFAULTED, f"spec.persistentVolumeClaimRetentionPolicy is set to {policy}")
    ]
    stateful["spec"]["template"]["spec"]["hostNetwork"] = True  # type: ignore[index]
    path = "spec.template.spec.containers[name=c].ports[0].hostPort"
    assert (DEFAULTED, f"{path} is not set; 1.25 sets 80") in found(rehearsal().check(stateful))


def test_stored_object_is_checked_as_an_update_and_as_a_create() -> None:
    """A stored object that breaks a rule of creates, or of all writes."""
    [finding] = rehearsal().check(HOST_SYSCTL, STORED)
    assert (finding.severity, finding.already) == (REFUSED, False)
    assert finding.message == f"an update that changes nothing: {REFUSAL}"
    assert found(rehearsal().check(HOST_SYSCTL, UPDATE)) == [(REFUSED, REFUSAL)]


def test_stored_object_says_who_used_a_version() -> None:
    """By managed fields and by kubectl's annotation; the API server's own writes do not count."""
    stored = scaler("v2")
    stored["metadata"] |= {
        "managedFields": [
            {"manager": "helm", "apiVersion": "autoscaling/v2beta2"},
            {"manager": "argo", "apiVersion": "autoscaling/v2beta2"},
            {"manager": "kube-apiserver", "apiVersion": "autoscaling/v2beta2"},
        ],
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": '{"apiVersion":"autoscaling/v2beta2"}'
        },
    }
    [finding] = rehearsal().check(stored, STORED)
    assert finding.message == f"written by helm and argo and kubectl apply: {GONE}"
    assert finding.use == "autoscaling/v2"
    assert rehearsal("1.26", "1.33").check(stored, STORED) == []  # nobody can use it any more


def test_requests_for_what_is_gone() -> None:
    check = rehearsal().check_request
    assert found(check("autoscaling", "v2beta2", "horizontalpodautoscalers")) == [(REMOVED, GONE)]
    assert check("autoscaling", "v2", "horizontalpodautoscalers", "status") == []
    assert check("", "v1", "pods", "log") == []
    [finding] = check("example.com", "v1", "foos")
    assert finding.severity == UNCHECKED
    [finding] = rehearsal("1.25", "1.26").check_request(FLOW_CONTROL, "v1beta2", "flowschemas")
    assert (finding.severity, finding.already) == (WARNED, False)
    assert finding.message.startswith(f"{FLOW_CONTROL}/v1beta2 FlowSchema is deprecated in v1.26+")


CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "foos.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Foo", "plural": "foos"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
                    }
                },
            }
        ],
    },
}


def test_custom_kinds_by_their_definitions() -> None:
    custom = new_rehearsal("1.25", "1.33")
    foo = {
        "apiVersion": "example.com/v1",
        "kind": "Foo",
        "metadata": {"name": "f", "finalizers": ["plain"]},
        "spec": {"a": 1, "b": "dropped"},
    }
    assert [one.severity for one in custom.check(foo)] == [UNCHECKED]
    assert custom.is_definition(CRD) and not custom.is_definition(foo)
    custom.declare(CRD)
    assert custom.check(CRD) == []
    findings = custom.check(foo)
    assert [(one.severity, one.field, one.already) for one in findings] == [
        (REFUSED, "spec.a", True),
        (PRUNED, "spec.b", True),
    ]
    foo["spec"] = {"a": "x"}
    [finding] = custom.check(foo)
    assert finding.severity == WARNED
    assert "prefer a domain-qualified finalizer name" in finding.message


def test_malformed_definition_is_reported_and_its_objects_are_not_checked() -> None:
    custom = new_rehearsal("1.25", "1.33")
    wrong = {**CRD, "spec": {**CRD["spec"], "versions": []}}
    custom.declare(wrong)
    assert {one.severity for one in custom.check(wrong)} == {REFUSED}
    [finding] = custom.check({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f"}})
    assert finding.severity == UNCHECKED
    assert finding.message.startswith("its definition cannot be read")


def test_values_of_secrets_are_not_shown() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "wrong": "hunter2"}
    [finding] = rehearsal().check(secret)
    assert finding.message == "wrong is dropped (***)"


@pytest.mark.parametrize(
    "document", [{}, {"kind": "Pod"}, {"apiVersion": "v1", "kind": "Pod", "metadata": 3}]
)
def test_documents_that_are_no_objects(document: Object) -> None:
    assert rehearsal().check(document, STORED) or rehearsal().check(document)
