"""Simulated nodes have the rights of nodes in a cluster: Node authorization and NodeRestriction are on with --nodes."""

from __future__ import annotations

from typing import Any

import pytest

from rewound import RequestFailed, Rewound

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
NODE = {"user": "system:node:node-0", "groups": ["system:nodes"]}

pytestmark = pytest.mark.rewound(nodes=2, mode="in-process")


def pod(node: str, **metadata: Any) -> Any:
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": f"on-{node}", **metadata}, "spec": spec}


def test_node_may_write_its_own_objects_and_no_others(rewound: Rewound) -> None:
    rewound.advance(1)
    for node in ("node-0", "node-1"):
        rewound.request("POST", PODS, pod(node))
    rewound.advance(1)
    running = rewound.request("GET", f"{PODS}/on-node-0", **NODE)
    assert running["status"]["phase"] == "Running"
    rewound.request("PUT", f"{PODS}/on-node-0/status", running, **NODE)
    rewound.request("DELETE", f"{PODS}/on-node-0", **NODE)
    other = rewound.request("GET", f"{PODS}/on-node-1")
    for method, path, body in (
        ("PUT", f"{PODS}/on-node-1/status", other),
        ("DELETE", f"{PODS}/on-node-1", None),
        ("PUT", f"{NODES}/node-1", rewound.request("GET", f"{NODES}/node-1")),
        ("GET", "/api/v1/namespaces/default/secrets/any", None),
    ):
        with pytest.raises(RequestFailed, match="forbidden"):
            rewound.request(method, path, body, **NODE)


def test_simulated_nodes_live_under_these_rights(rewound: Rewound) -> None:
    rewound.request("POST", NODES, {"metadata": {"name": "more"}})  # adopted, because it has no kubelet
    rewound.request("POST", PODS, pod("more"))
    rewound.advance(60)
    assert rewound.request("GET", f"{PODS}/on-more")["status"]["phase"] == "Running"
    rewound.request("DELETE", f"{PODS}/on-more")
    rewound.advance(1)
    assert rewound.request("GET", PODS)["items"] == []
