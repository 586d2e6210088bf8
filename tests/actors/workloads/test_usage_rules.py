"""kwok's ResourceUsages say what simulated pods use."""

from __future__ import annotations

from typing import Any

import pytest

from rewound import Rewound
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.workloads.usage_rules import UsageError, UsageRule
from tests.cases import cases

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KWOK = "/apis/kwok.x-k8s.io/v1alpha1"
METRICS = "/apis/metrics.k8s.io/v1beta1"
PODS = "/api/v1/namespaces/default/pods"


def define(rewound: Rewound, kind: str, scope: str) -> None:
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    spec = {"group": "kwok.x-k8s.io", "names": names, "scope": scope, "versions": [version]}
    rewound.request("POST", DEFINITIONS, {"metadata": {"name": f"{plural}.kwok.x-k8s.io"}, "spec": spec})


def add(rewound: Rewound, kind: str, name: str, *usages: Object, **more: Any) -> None:
    path = "clusterresourceusages" if kind.startswith("Cluster") else "namespaces/default/resourceusages"
    content = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": kind, "metadata": {"name": name}}
    rewound.request("POST", f"{KWOK}/{path}", {**content, "spec": {"usages": list(usages), **more}})


@pytest.mark.rewound(nodes=1, mode="in-process")
def test_usage_of_pods_and_nodes_comes_from_objects_of_kwok(rewound: Rewound) -> None:
    def used() -> dict[str, list[tuple[str, str]]]:
        items = rewound.request("GET", f"{METRICS}/pods")["items"]
        found = {
            one["metadata"]["name"]: [
                (part["usage"]["cpu"], part["usage"]["memory"]) for part in one["containers"]
            ]
            for one in items
        }
        return dict(sorted(found.items()))

    define(rewound, "ClusterResourceUsage", "Cluster")
    define(rewound, "ResourceUsage", "Namespaced")
    rewound.advance(1)
    containers = [{"name": "web", "image": "i"}, {"name": "log", "image": "i"}]
    for name, given in (("own", {}), ("plain", {"of": "7m"}), ("said", {"sim/cpu.log": "9m"})):
        pod = {"metadata": {"name": name, "annotations": given}, "spec": {"containers": containers}}
        rewound.request("POST", PODS, pod)
    grows = {"expression": "pod.SinceSecond() > 50.0 ? Quantity('100m') : 9.0"}
    annotated = {
        "expression": "'of' in pod.metadata.annotations ? Quantity(pod.metadata.annotations['of']) : 0.0"
    }
    of_web = {"containers": ["web"], "usage": {"memory": {"value": "1Mi"}}}
    add(rewound, "ClusterResourceUsage", "b-all", {"usage": {"cpu": annotated}}, of_web)
    elsewhere = {"matchNamespaces": ["other"]}
    add(rewound, "ClusterResourceUsage", "a-other", {"usage": {"cpu": {"value": "5"}}}, selector=elsewhere)
    huge = {"expression": "pod.spec.containers.size() * 1 > 1 ? 1.0e30 : 0.0"}
    add(rewound, "ResourceUsage", "own", {"usage": {"cpu": grows, "memory": huge}})
    rewound.advance(100)
    assert used() == {
        "own": [("100m", "4Ei"), ("100m", "4Ei")],
        "plain": [("0", "1Mi"), ("7m", "0")],
        "said": [("0", "1Mi"), ("9m", "0")],
    }
    (node,) = rewound.request("GET", f"{METRICS}/nodes")["items"]
    assert node["usage"]["cpu"] == "216m"
    rewound.request("DELETE", f"{KWOK}/namespaces/default/resourceusages/own")
    assert used()["own"] == [("0", "1Mi"), ("0", "0")]
    add(rewound, "ResourceUsage", "wrong", {"usage": {"cpu": {"expression": "pod."}}})
    rewound.advance(1)
    events = rewound.request("GET", "/api/v1/namespaces/default/events")["items"]
    (said,) = [one["message"] for one in events if one["reason"] == "InvalidUsage"]
    assert said.startswith("spec.usages[0].usage.cpu.expression: 'pod.'")


@cases(
    "spec, message",
    [
        ([], "spec: is no object"),
        ({"usages": {}}, "spec.usages: must be a list of at most 100"),
        ({"usages": [{}] * 101}, "spec.usages: must be a list of at most 100"),
        ({"usages": [7]}, "spec.usages[0]: is no object"),
        ({"usages": [{"containers": [1]}]}, "spec.usages[0].containers: is no list of texts"),
        ({"usages": [{"usage": {"cpu": {}}}]}, "spec.usages[0].usage.cpu: needs a value or an expression"),
        (
            {"usages": [{"usage": {"cpu": {"expression": "1" * 2_000}}}] * 3},
            "spec.usages: the expressions have 6,000 characters in all; at most 4,096 are allowed",
        ),
        ({"usages": [], "selector": {"matchNames": "x"}}, "spec.selector.matchNames: is no list of texts"),
    ],
)
def test_invalid_usage_says_where(spec: Any, message: str) -> None:
    with pytest.raises(UsageError, match="^" + message.replace("[", r"\[").replace("]", r"\]")):
        UsageRule({"spec": spec}, KUBERNETES)
