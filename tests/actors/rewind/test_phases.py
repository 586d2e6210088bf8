"""Phases of objects: what kubectl would show, and whether it is healthy."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.rewind.phases import phase_of


def condition(name: str, status: str = "True", reason: str = "") -> dict[str, Any]:
    return {
        "conditions": [
            {"type": "Other", "status": "False"},
            {"type": name, "status": status, "reason": reason},
        ]
    }


def container(**state: Any) -> dict[str, Any]:
    return {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}, {"state": state}]}


def replicated(wanted: int, **status: int) -> dict[str, Any]:
    return {"spec": {"replicas": wanted}, "metadata": {"generation": 2}, "status": status}


SERVING = {"replicas": 2, "availableReplicas": 2, "readyReplicas": 2, "updatedReplicas": 2}


@pytest.mark.parametrize(
    ("type_name", "content", "expected"),
    [
        ("pods", {}, "Pending working"),
        ("pods", {"status": {"phase": "Running", **condition("Ready")}}, "Running good"),
        ("pods", {"status": {"phase": "Running", **condition("Ready", "False")}}, "NotReady working"),
        ("pods", {"status": container(waiting={"reason": "CrashLoopBackOff"})}, "CrashLoopBackOff bad"),
        ("pods", {"status": container(waiting={"reason": "ContainerCreating"})}, "NotReady working"),
        ("pods", {"status": container(terminated={"exitCode": 1})}, "Error bad"),
        ("pods", {"status": {"phase": "Succeeded"}}, "Succeeded done"),
        ("pods", {"status": {"phase": "Failed", "reason": "Evicted"}}, "Evicted bad"),
        (
            "pods",
            {"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}},
            "Terminating working",
        ),
        ("jobs.batch", {"status": condition("Complete")}, "Complete done"),
        ("jobs.batch", {"status": condition("Failed")}, "Failed bad"),
        ("jobs.batch", {"spec": {"suspend": True}}, "Suspended unknown"),
        ("jobs.batch", {"status": {"active": 1}}, "Active working"),
        ("deployments.apps", replicated(2, **SERVING), "Available good"),
        ("deployments.apps", replicated(2, **SERVING, observedGeneration=1), "Progressing working"),
        ("deployments.apps", replicated(3, **SERVING), "Progressing working"),
        ("deployments.apps", replicated(2, **{**SERVING, "updatedReplicas": 1}), "Progressing working"),
        ("deployments.apps", replicated(0), "Scaled to 0 done"),
        (
            "deployments.apps",
            {"status": condition("Progressing", "False", "ProgressDeadlineExceeded")},
            "ProgressDeadlineExceeded bad",
        ),
        ("replicasets.apps", replicated(2, **SERVING), "Available good"),
        ("replicasets.apps", replicated(0), "Scaled to 0 done"),
        ("statefulsets.apps", replicated(2, replicas=2, readyReplicas=1), "Progressing working"),
        ("daemonsets.apps", {"status": {"desiredNumberScheduled": 3, "numberReady": 3}}, "Available good"),
        ("nodes", {"status": condition("Ready")}, "Ready good"),
        (
            "nodes",
            {"status": condition("Ready"), "spec": {"unschedulable": True}},
            "Ready,SchedulingDisabled working",
        ),
        ("nodes", {"status": condition("Ready", "Unknown")}, "Unknown bad"),
        ("nodes", {"status": condition("Ready", "False")}, "NotReady bad"),
        ("persistentvolumeclaims", {"status": {"phase": "Lost"}}, "Lost bad"),
        ("namespaces", {"status": {"phase": "Active"}}, "Active good"),
        (
            "customresourcedefinitions.apiextensions.k8s.io",
            {"status": condition("Established")},
            "Established good",
        ),
        (
            "apiservices.apiregistration.k8s.io",
            {"status": condition("Available", "False")},
            "Not available bad",
        ),
        ("widgets.example.com", {"status": condition("Ready", "False")}, "NotReady bad"),
        ("widgets.example.com", {"status": condition("Succeeded")}, "Succeeded done"),
        ("widgets.example.com", {"status": condition("Succeeded", "False")}, "Not succeeded working"),
        ("widgets.example.com", {"status": {"phase": "Provisioning"}}, "Provisioning working"),
        ("widgets.example.com", {"status": {"phase": "x" * 500}}, "x" * 39 + "… unknown"),
        ("configmaps", {"data": {"a": "b"}}, ""),
        # A custom object, or a journal, may contain anything.
        ("widgets.example.com", {"status": {"phase": {"a": 1}, "conditions": {"Ready": "True"}}}, ""),
        ("widgets.example.com", {"status": {"conditions": [7, {"type": ["Ready"], "status": {}}]}}, ""),
        (
            "pods",
            {"status": {"phase": ["Running"], "containerStatuses": [{"state": 5}, 3]}},
            "Pending working",
        ),
        (
            "deployments.apps",
            {"spec": {"replicas": "two"}, "status": {"replicas": []}},
            "Progressing working",
        ),
        ("pods", [1], ""),
    ],
)
def test_phases(type_name: str, content: Any, expected: str) -> None:
    found = phase_of(type_name, content)
    assert ("" if found is None else f"{found.words} {found.tone}") == expected
