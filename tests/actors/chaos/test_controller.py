"""Chaos in a cluster: faults begin and end on time, are in the journal with their author, and go on after a restart."""

from __future__ import annotations

from typing import Any

import pytest

from rewound import Rewound, explore
from rewound.testing.fixture.failures import RequestFailed

CHAOS = "/apis/sim.rewound/v1alpha1/chaos"
AUTHOR = "system:serviceaccount:kube-system:chaos"


def begin(rewound: Rewound, *faults: dict[str, Any], seed: int = 7, name: str = "day") -> None:
    document = {
        "apiVersion": "sim.rewound/v1alpha1",
        "kind": "Chaos",
        "metadata": {"name": name},
        "spec": {"seed": seed, "faults": list(faults)},
    }
    rewound.request("POST", CHAOS, document)


def annotations(rewound: Rewound, key: str) -> dict[str, str]:
    nodes = rewound.request("GET", "/api/v1/nodes")["items"]
    found = {one["metadata"]["name"]: one["metadata"].get("annotations", {}).get(key) for one in nodes}
    return {name: value for name, value in found.items() if value is not None}


def ready(rewound: Rewound, node: str) -> str:
    conditions = rewound.request("GET", f"/api/v1/nodes/{node}")["status"]["conditions"]
    return next(str(one["status"]) for one in conditions if one["type"] == "Ready")


@pytest.mark.rewound(nodes=2, mode="in-process")
def test_faults_of_two_objects_do_not_undo_each_other(rewound: Rewound) -> None:
    rewound.advance(1)
    node = rewound.request("GET", "/api/v1/nodes/node-0")
    node["metadata"]["annotations"] |= {"sim/lag": "3", "sim/bad-images": "mine/*"}
    rewound.request("PUT", "/api/v1/nodes/node-0", node)
    images = {"failImages": {"images": ["one/*"]}}
    begin(
        rewound,
        {"for": "100s", "lagNodes": {"seconds": 10}},
        {"for": "300s", "stopNodes": {}},
        {"for": "100s", **images},
        name="first",
    )
    begin(
        rewound,
        {"after": "50s", "for": "200s", "lagNodes": {"seconds": 20}},
        {"after": "50s", "for": "200s", "stopNodes": {}},
        {"after": "50s", "for": "200s", "failImages": {"images": ["two/*"]}},
        name="second",
    )
    default = "*:non-existent,invalid.*/*,webserver:404"
    for seconds, lag, bad_images, stopped in (
        (10, ["10", "10"], ["mine/*,one/*", f"{default},one/*"], True),
        (60, ["20", "20"], ["mine/*,one/*,two/*", f"{default},one/*,two/*"], True),
        (50, ["20", "20"], ["mine/*,two/*", f"{default},two/*"], True),  # the first has ended
        (150, ["3"], ["mine/*"], True),  # the second as well
        (50, ["3"], ["mine/*"], False),
    ):
        rewound.advance(seconds)
        assert [*annotations(rewound, "sim/lag").values()] == lag
        assert [*annotations(rewound, "sim/bad-images").values()] == bad_images
        assert bool(annotations(rewound, "sim/stopped")) is stopped
    begin(rewound, {"lagNodes": {"seconds": 40}}, name="third")
    begin(rewound, {"lagNodes": {"seconds": 50}}, name="fourth")
    rewound.advance(5)
    rewound.request("DELETE", f"{CHAOS}/third")
    rewound.advance(5)
    assert annotations(rewound, "sim/lag") == {"node-0": "50", "node-1": "50"}
    rewound.request("DELETE", f"{CHAOS}/fourth")
    rewound.advance(5)
    assert annotations(rewound, "sim/lag") == {"node-0": "3"}


@pytest.mark.rewound(nodes=3, mode="in-process")
def test_nodes_flap_by_schedule_and_the_journal_says_who_did_it(rewound: Rewound) -> None:
    rewound.advance(1)
    other = rewound.request("GET", "/api/v1/nodes/node-2")
    other["metadata"]["annotations"]["sim/lag"] = "3"
    rewound.request("PUT", "/api/v1/nodes/node-2", other)
    begin(
        rewound,
        {
            "name": "flap",
            "after": "100s",
            "every": "1000s",
            "for": "300s",
            "times": 2,
            "stopNodes": {"choose": 1},
        },
        {"name": "slow", "lagNodes": {"names": ["node-2"], "seconds": 60}},
        {"name": "late", "skewClocks": {"names": ["node-2"], "seconds": -3600}},
    )
    rewound.advance(50)
    assert annotations(rewound, "sim/stopped") == {}
    assert annotations(rewound, "sim/lag") == {"node-2": "60"}
    lease = rewound.request("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-2")
    other = rewound.request("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1")
    assert lease["spec"]["renewTime"] < other["spec"]["renewTime"]
    rewound.advance(200)
    stopped = annotations(rewound, "sim/stopped")
    assert len(stopped) == 1
    node = next(iter(stopped))
    assert ready(rewound, node) == "Unknown"
    active = rewound.request("GET", f"{CHAOS}/day")["status"]["faults"][0]["active"]
    assert (active["nodes"], active["number"]) == ([node], 0)
    rewound.advance(300)
    assert annotations(rewound, "sim/stopped") == {} and ready(rewound, node) == "True"
    rewound.advance(700)
    assert len(annotations(rewound, "sim/stopped")) == 1
    rewound.request("DELETE", f"{CHAOS}/day")
    rewound.advance(1)
    assert (annotations(rewound, "sim/stopped"), annotations(rewound, "sim/lag")) == ({}, {"node-2": "3"})
    assert rewound.request("GET", CHAOS)["items"] == []
    events = rewound.request("GET", "/api/v1/events")["items"]
    said = [one["message"] for one in events if one["involvedObject"].get("name") == node]
    assert "stopNodes flap of chaos day began" in said
    history = rewound.request("GET", f"/apis/rewound.cluster.io/v1/nodes/{node}/history")
    assert AUTHOR in str(history)


@pytest.mark.rewound(nodes=1, mode="in-process")
def test_requests_fail_while_the_chaos_says_so(rewound: Rewound) -> None:
    rewound.advance(1)
    rule = {"name": "busy", "match": {"resources": ["configmaps"]}, "fault": {"error": {"code": 503}}}
    begin(rewound, {"name": "api", "for": "300s", "failRequests": {"rules": [rule]}})
    rewound.advance(10)
    with pytest.raises(RequestFailed, match="503"):
        rewound.request("GET", "/api/v1/configmaps")
    rewound.advance(300)
    rewound.request("GET", "/api/v1/configmaps")


@pytest.mark.rewound(nodes=1, mode="in-process")
def test_invalid_chaos_says_why(rewound: Rewound) -> None:
    rewound.advance(1)
    begin(rewound, {"stopNodes": {"choose": "most"}})
    rewound.advance(1)
    problem = rewound.request("GET", f"{CHAOS}/day")["status"]["problem"]
    assert problem.startswith("spec.faults[0].stopNodes.choose: 'most' is no number")
    rewound.request("DELETE", f"{CHAOS}/day")
    assert rewound.request("GET", CHAOS)["items"] == []


@pytest.mark.slow
def test_exploration_plays_the_same_faults() -> None:
    stopped: list[str] = []

    def watches(api: Any) -> None:
        known = api.informers("/api/v1/nodes")
        while True:
            known.update()
            for one in known["/api/v1/nodes"]:
                if "sim/stopped" in one["metadata"].get("annotations", {}):
                    stopped.append(one["metadata"]["name"])

    def begins(api: Any) -> None:
        api.settle()
        fault = {"after": "10s", "for": "120s", "stopNodes": {"choose": 1}}
        document = {
            "apiVersion": "sim.rewound/v1alpha1",
            "kind": "Chaos",
            "metadata": {"name": "day"},
            "spec": {"faults": [fault]},
        }
        api.post(CHAOS, json=document).raise_for_status()
        api.sleep(60)

    explore(watches, begins, runs=2, seed=1, flags=("--nodes=2",), same_end=False)
    assert len(set(stopped)) == 1
