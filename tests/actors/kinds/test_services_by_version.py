"""Services, disruption budgets and bindings of later versions."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from rewound.actors.errors import Conflict
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.core.pod import assign_node, may_evict
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions, replace

NEWEST = "1.36"


@cache
def kinds(version: str) -> Definitions:
    return Definitions(built_in(KUBERNETES, choose_release(version)))


def service(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 1}], **spec}}


@pytest.mark.parametrize(
    ("version", "document", "refused"),
    [
        ("1.35", service("1a"), 1),
        (NEWEST, service("1a"), 0),
        ("1.33", service(trafficDistribution="PreferSameNode"), 1),
        (NEWEST, service(trafficDistribution="PreferSameNode"), 0),
        (NEWEST, service(trafficDistribution="x"), 1),
        ("1.30", service(trafficDistribution="x"), 0),
    ],
)
def test_rules_of_services(version: str, document: dict[str, Any], refused: int) -> None:
    assert len(kinds(version).create_causes("services", document)) == refused


def with_status(version: str, kind: str, ingress: Object) -> list[str]:
    definition = kinds(version)["services"]
    old = kinds(version).stored("services", service(type=kind))
    status = {"loadBalancer": {"ingress": [ingress]}}
    sent = {**old, "metadata": dict(old["metadata"]), "status": status}
    return [text for _, text in replace(definition, sent, old, "status")[1]]


def test_status_of_load_balancers() -> None:
    assert with_status("1.28", "ClusterIP", {"ip": "1.2.3.4"}) == []
    assert with_status("1.29", "ClusterIP", {"ip": "1.2.3.4"}) == [
        "Forbidden: may only be used when `spec.type` is 'LoadBalancer'"
    ]
    assert with_status(NEWEST, "LoadBalancer", {"ip": "1.2.3.4", "ipMode": "x"}) == [
        'Unsupported value: "x": supported values: "Proxy", "VIP"'
    ]
    document = {**service(type="LoadBalancer"), "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    decoded = kinds(NEWEST).decode("services", document)
    assert decoded["status"]["loadBalancer"]["ingress"] == [{"ip": "1.2.3.4", "ipMode": "VIP"}]


def test_budgets_may_let_all_unhealthy_pods_be_evicted() -> None:
    document = {"metadata": {"name": "a"}, "spec": {"unhealthyPodEvictionPolicy": "x"}}
    assert len(kinds(NEWEST).create_causes("poddisruptionbudgets", document)) == 1
    pod: Object = {"metadata": {"name": "p"}, "status": {"phase": "Running"}}
    budget = {"metadata": {}, "spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, "status": {}}
    assert may_evict(pod, [budget], 0).if_unchanged


def test_gated_pods_are_not_bound() -> None:
    pod: Object = {"metadata": {"name": "p"}, "spec": {"schedulingGates": [{"name": "g"}]}, "status": {}}
    sent: Object = {"metadata": {"labels": {"zone": "z"}}, "target": {"name": "n"}}
    features = choose_release(NEWEST).features
    with pytest.raises(Conflict, match="has non-empty"):
        assign_node(features, sent, pod, 0)
    ready = {**pod, "spec": {}, "status": {"nominatedNodeName": "m"}}
    bound = assign_node(features, sent, ready, 0)
    assert bound["metadata"]["labels"] == {"zone": "z"}
    assert "nominatedNodeName" not in bound["status"]
