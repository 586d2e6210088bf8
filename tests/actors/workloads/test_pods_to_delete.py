"""Which pods a ReplicaSet deletes first: the rules of v1.25, one after the other."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.workloads.replicasets import pods_to_delete
from tests.at_once import at_once

NOW = 1_700_000_000_000_000
COST = "controller.kubernetes.io/pod-deletion-cost"


def pod(
    name: str,
    *,
    node: str = "n1",
    phase: str = "Running",
    ready: float | None = 100,
    cost: str | None = None,
    restarts: int = 0,
    age: float = 1000,
    uid: str = "",
) -> Object:
    """`ready`: for how many seconds it has been ready, None if it is not."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": uid or name,
        "creationTimestamp": seconds_text(NOW - round(age * 1e6)),
    }
    if cost is not None:
        metadata["annotations"] = {COST: cost}
    conditions = []
    if ready is not None:
        since = seconds_text(NOW - round(ready * 1e6))
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": since})
    status = {"phase": phase, "conditions": conditions, "containerStatuses": [{"restartCount": restarts}]}
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status}


def order(*pods: Object, on_nodes: dict[str, int] | None = None) -> list[str]:
    """The names in the order of deletion."""
    found: list[str] = []
    left = list(pods)
    while left:
        (first,) = at_once(pods_to_delete(left, on_nodes or {}, 1, NOW, KUBERNETES))
        found.append(first["metadata"]["name"])
        left.remove(first)
    return found


def test_rules_in_their_order() -> None:
    kept = pod("kept", ready=5000, age=9000)
    assert order(
        kept,
        pod("young", ready=5000, age=6000, uid="0"),
        pod("restarted", ready=5000, restarts=3, age=9000),
        pod("just ready", ready=10),
        pod("crowded", node="n2", ready=5000),
        pod("cheap", cost="-5"),
        pod("dear", cost="100", ready=1),
        pod("not ready", ready=None),
        pod("unknown", phase="Unknown"),
        pod("pending", phase="Pending", ready=None),
        pod("without node", node="", phase="Pending", ready=None),
        on_nodes={"n1": 1, "n2": 2},
    ) == [
        *("without node", "pending", "unknown", "not ready", "cheap", "crowded", "just ready", "restarted"),
        *("young", "kept", "dear"),
    ]


def test_about_the_same_time_is_decided_by_the_uid() -> None:
    assert order(pod("a", ready=600, uid="2"), pod("b", ready=700, uid="1")) == ["b", "a"]
    assert order(pod("a", ready=600, uid="1"), pod("b", ready=700, uid="2")) == ["a", "b"]
    assert order(pod("a", ready=10, uid="2"), pod("b", ready=700, uid="1")) == ["a", "b"]


def test_restarts_count_more_than_a_second() -> None:
    assert order(pod("a", ready=600, uid="1"), pod("b", ready=601, restarts=1, uid="2")) == ["b", "a"]


def test_a_cost_that_is_no_number_counts_nothing() -> None:
    for cost in ("x", "1_0", " 1", "3000000000"):
        assert order(pod("a", cost=cost), pod("b", cost="-1")) == ["b", "a"]


def test_several_are_those_that_go_first() -> None:
    pods = [pod(f"p{number}", ready=None if number % 3 else 100) for number in range(9)]
    found = at_once(pods_to_delete(pods, {}, 7, NOW, KUBERNETES))
    names = {one["metadata"]["name"] for one in found}
    assert len(found) == 7 and {"p1", "p2", "p4", "p5", "p7", "p8"} < names
