"""Stages of any kind: built-in and custom ones, in namespaces and of the cluster, with every kind of step."""

from __future__ import annotations

from typing import Any

import pytest

from rewound import Rewound
from rewound.actors.messages import Object

STAGES = "/apis/kwok.x-k8s.io/v1alpha1/stages"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.io/v1/namespaces/default/widgets"
DEFAULT = "/api/v1/namespaces/default"
WIDGET = {
    "metadata": {"name": "widgets.example.io"},
    "spec": {
        "group": "example.io",
        "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


def stage(name: str, kind: str, **spec: Any) -> Object:
    group, _, kind = kind.rpartition(" ")
    content = {"resourceRef": {"apiGroup": group or "v1", "kind": kind}, "selector": {}, **spec}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": content,
    }


def cel(*texts: str) -> Object:
    return {"matchExpressions": [{"cel": {"expression": text}} for text in texts]}


def matching(rewound: Rewound, name: str) -> tuple[str, str, str]:
    conditions = rewound.request("GET", f"{STAGES}/{name}").get("status", {}).get("conditions", ())
    found = [
        (one["status"], one["reason"], one["message"]) for one in conditions if one["type"] == "Matching"
    ]
    return found[0] if found else ("", "", "")


@pytest.mark.rewound(nodes=0, mode="in-process")
def test_custom_kind_goes_through_its_stages(rewound: Rewound) -> None:
    """The Stages are there before the kind, and the first object before its Stages are read."""
    kind = "example.io/v1 Widget"
    starts = stage(
        "starts",
        kind,
        selector=cel("!has(self.status)"),
        delay={"durationFrom": {"jq": {"expression": ".spec.after"}}},
        steps=[
            {"finalizers": {"add": [{"value": "example.io/held"}]}},
            {"patch": {"root": "status", "subresource": "status", "template": "phase: Started"}},
            {"event": {"type": "Normal", "reason": "Starts", "message": "by a stage"}},
        ],
    )
    labels = stage(
        "labels",
        kind,
        selector=cel("self.status.phase == 'Started'", "!has(self.metadata.labels)"),
        steps=[
            {
                "patch": {
                    "type": "json",
                    "root": "metadata",
                    "template": "[{op: add, path: /labels, value: {by: {{ .metadata.name }}}}]",
                }
            }
        ],
    )
    ends = stage(
        "ends",
        kind,
        selector=cel("has(self.metadata.deletionTimestamp)"),
        next={"finalizers": {"remove": [{"value": "example.io/held"}]}},
    )
    for one in (starts, labels, ends):
        rewound.request("POST", STAGES, one)
    rewound.request("POST", DEFINITIONS, WIDGET)
    rewound.advance(1)
    widget = {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"}}
    rewound.request("POST", WIDGETS, {**widget, "spec": {"after": "10m"}})
    rewound.advance(300)
    assert "status" not in rewound.request("GET", f"{WIDGETS}/w")
    rewound.advance(301)
    found = rewound.request("GET", f"{WIDGETS}/w")
    assert (found["status"], found["metadata"]["labels"]) == ({"phase": "Started"}, {"by": "w"})
    assert found["metadata"]["finalizers"] == ["example.io/held"]
    events = rewound.request("GET", f"{DEFAULT}/events")["items"]
    assert [(one["reason"], one["involvedObject"]["kind"]) for one in events] == [("Starts", "Widget")]
    rewound.request("DELETE", f"{WIDGETS}/w")
    rewound.advance(1)
    assert rewound.request("GET", WIDGETS)["items"] == []


@pytest.mark.rewound(nodes=0, mode="in-process")
def test_stage_applies_other_objects_and_writes_as_other_users(rewound: Rewound) -> None:
    """A ConfigMap makes another one; users without rights write nothing, and an Event says so."""
    copied = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: copy}\ndata: {of: {{ .metadata.name }}}"
    changed = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: copy}\ndata: {more: again}"
    copies = stage(
        "copies",
        "ConfigMap",
        selector=cel("self.metadata.name == 'source'"),
        steps=[{"apply": {"template": copied}}, {"apply": {"type": "merge", "template": changed}}],
    )
    denied = stage(
        "denied",
        "ConfigMap",
        selector=cel("self.metadata.name == 'denied'"),
        steps=[{"patch": {"impersonation": {"username": "eve"}, "template": "data: {by: eve}"}}],
    )
    created = stage(
        "ghost",
        "ConfigMap",
        selector=cel("self.metadata.name == 'denied'"),
        steps=[{"apply": {"template": "apiVersion: v1\nkind: Ghost\nmetadata: {name: g}"}}],
        weight=0,
    )
    for one in (copies, denied):
        rewound.request("POST", STAGES, one)
    rewound.advance(1)
    for name in ("source", "denied"):
        rewound.request("POST", f"{DEFAULT}/configmaps", {"metadata": {"name": name}})
    rewound.advance(1)
    copy = rewound.request("GET", f"{DEFAULT}/configmaps/copy")
    assert copy["data"] == {"of": "source", "more": "again"}
    rewound.request("DELETE", f"{STAGES}/denied")
    rewound.request("POST", STAGES, created)
    rewound.advance(1)
    assert "data" not in rewound.request("GET", f"{DEFAULT}/configmaps/denied")
    said = " ".join(one["message"] for one in rewound.request("GET", f"{DEFAULT}/events")["items"])
    assert 'User "eve" cannot patch resource "configmaps"' in said
    assert "there is no kind Ghost in v1" in said


@pytest.mark.rewound(nodes=0, mode="in-process")
def test_stage_says_in_its_status_whether_it_matches(rewound: Rewound) -> None:
    stages = (
        stage("unmatched", "Namespace", selector=cel("self.metadata.name == 'later'")),
        stage("unknown", "example.io/v1 Nothing"),
        stage("older", "autoscaling/v1 HorizontalPodAutoscaler"),
        stage("invalid", "Namespace", selector=cel("self.")),
        stage("matched", "Namespace", selector=cel("self.metadata.name == 'default'")),
    )
    for one in stages:
        rewound.request("POST", STAGES, one)
    rewound.advance(30)
    assert matching(rewound, "unmatched") == ("", "", "")
    assert matching(rewound, "invalid")[:2] == ("False", "InvalidStage")
    rewound.advance(31)
    assert matching(rewound, "unmatched")[1:] == (
        "NothingMatched",
        "no Namespace has matched for a minute",
    )
    assert matching(rewound, "unknown")[1:] == ("NoSuchKind", "there is no kind Nothing in example.io/v1")
    assert "is stored as autoscaling/v2" in matching(rewound, "older")[2]
    assert matching(rewound, "matched")[:2] == ("True", "Matched")
    rewound.request("POST", "/api/v1/namespaces", {"metadata": {"name": "later"}})
    rewound.advance(61)
    assert matching(rewound, "unmatched")[:2] == ("True", "Matched")


@pytest.mark.rewound(nodes=1, mode="in-process")
def test_stages_break_and_mend_nodes_that_the_server_made(rewound: Rewound) -> None:
    """As kwok's chaos of nodes does: it looks for the phase Running, which a kubelet does not report."""
    ready = '.status.conditions.[] | select( .type == "Ready" ) | .status'
    status = 'conditions:\n- {type: Ready, status: "%s", reason: %s}'
    breaks = stage(
        "breaks",
        "Node",
        selector={
            "matchLabels": {"breaks": "true"},
            "matchExpressions": [
                {"key": ".status.phase", "operator": "In", "values": ["Running"]},
                {"key": ready, "operator": "In", "values": ["True"]},
            ],
        },
        next={"statusTemplate": status % ("False", "Broken")},
        delay={"durationMilliseconds": 100_000},
    )
    mends = stage(
        "mends",
        "Node",
        selector={"matchExpressions": [{"key": ready, "operator": "NotIn", "values": ["True"]}]},
        next={"statusTemplate": status % ("True", "Mended")},
        delay={"durationMilliseconds": 100_000},
    )
    for one in (breaks, mends):
        rewound.request("POST", STAGES, one)
    rewound.advance(1)
    node = rewound.request("GET", "/api/v1/nodes/node-0")
    node["metadata"]["labels"]["breaks"] = "true"
    rewound.request("PUT", "/api/v1/nodes/node-0", node)
    seen = []
    rewound.advance(50)
    for _ in range(4):
        conditions = rewound.request("GET", "/api/v1/nodes/node-0")["status"]["conditions"]
        seen += [one["reason"] for one in conditions if one["type"] == "Ready"]
        rewound.advance(100)
    assert seen == ["KubeletReady", "Broken", "Mended", "Broken"]


@pytest.mark.rewound(nodes=0, mode="in-process")
def test_objects_of_kwok_that_have_no_effect_say_so(rewound: Rewound) -> None:
    kind = WIDGET["spec"] | {  # type: ignore[operator]
        "group": "kwok.x-k8s.io",
        "names": {"kind": "ClusterLogs", "listKind": "ClusterLogsList", "plural": "clusterlogs"},
        "scope": "Cluster",
    }
    rewound.request("POST", DEFINITIONS, {"metadata": {"name": "clusterlogs.kwok.x-k8s.io"}, "spec": kind})
    rewound.advance(1)
    logs = {"apiVersion": "kwok.x-k8s.io/v1", "kind": "ClusterLogs", "metadata": {"name": "all"}}
    rewound.request("POST", "/apis/kwok.x-k8s.io/v1/clusterlogs", logs)
    rewound.advance(1)
    events = rewound.request("GET", f"{DEFAULT}/events")["items"]
    said = [one["message"] for one in events if one["reason"] == "NotSimulated"]
    assert said == [
        "files of the server's machine are not served as logs; set the annotation sim/log of the pod"
    ]
