"""A busy cluster: simulated nodes, a rollout, two controllers that fight, a Job, a node that dies.

with living_cluster() as (server, token):
    ...                      # the page is at server.url + PAGE
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import rewound
from rewound import Rewound

PAGE = "/debug/journal/"
DEFAULT = "/namespaces/default"
WEB = f"/apis/apps/v1{DEFAULT}/deployments/web"
MERGE = "application/merge-patch+json"


@contextmanager
def living_cluster() -> Iterator[tuple[Rewound, str]]:
    """The server after all that has happened, and a token of a user who may do everything."""
    with rewound.start(nodes=3) as server:
        happen(server)
        yield server, admin_token(server)


def admin_token(server: Rewound) -> str:
    subject = {"kind": "ServiceAccount", "namespace": "default", "name": "default"}
    role = {"kind": "ClusterRole", "name": "cluster-admin"}
    bindings = server.request("GET", "/apis")["groups"]
    group = next(one["name"] for one in bindings if one["name"].startswith("rbac.authorization"))
    binding = {"metadata": {"name": "viewer"}, "subjects": [subject], "roleRef": role}
    server.request("POST", f"/apis/{group}/v1/clusterrolebindings", binding)
    made = server.request("POST", f"/api/v1{DEFAULT}/serviceaccounts/default/token", {"spec": {}})
    return str(made["status"]["token"])


def happen(server: Rewound) -> None:
    with ExitStack() as clients:
        names = ("alice", "autoscaler", "deployer")
        made = (server.client("httpx", user=name, groups=["system:masters"]) for name in names)
        _happen(server, *(clients.enter_context(client) for client in made))


def _happen(server: Rewound, alice: Any, autoscaler: Any, deployer: Any) -> None:
    server.advance(30)
    _send(alice, "POST", f"/apis/apps/v1{DEFAULT}/deployments", _deployment(), "kubectl")
    server.advance(60)
    for _ in range(4):
        for client, replicas, manager in ((autoscaler, 4, "autoscaler"), (deployer, 2, "deployer")):
            server.advance(45)
            _send(client, "PATCH", WEB, {"spec": {"replicas": replicas}}, manager)
    job = {"metadata": {"name": "migrate"}, "spec": {"template": _pod("Succeeded", {"run-for": "70"})}}
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    _send(alice, "POST", f"/apis/batch/v1{DEFAULT}/jobs", job, "kubectl")
    server.advance(60)
    payments = _pod("CrashLoop", {"start-after": "20"})
    payments["metadata"] |= {"name": "payments"}
    _send(alice, "POST", f"/api/v1{DEFAULT}/pods", payments, "kubectl")
    settings = {"metadata": {"name": "settings"}, "data": {"color": "blue"}}
    _send(alice, "POST", f"/api/v1{DEFAULT}/configmaps", settings, "kubectl")
    server.advance(50)
    _send(alice, "PATCH", f"/api/v1{DEFAULT}/configmaps/settings", {"data": {"color": "red"}}, "kubectl")
    template = {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}
    _send(alice, "PATCH", WEB, {"spec": {"template": template}}, "kubectl")
    server.advance(60)
    _send(alice, "DELETE", f"/api/v1{DEFAULT}/configmaps/settings", None, "kubectl")
    stopped = {"metadata": {"annotations": {"sim/stopped": "true"}}}
    _send(alice, "PATCH", "/api/v1/nodes/node-1", stopped, "kubectl")
    server.advance(100)


def _send(client: Any, method: str, path: str, body: Any, manager: str) -> None:
    headers = {"content-type": MERGE if method == "PATCH" else "application/json"}
    parameters = {} if method == "DELETE" else {"fieldManager": manager}
    response = client.request(method, path, json=body, headers=headers, params=parameters)
    assert response.is_success, response.text


def _pod(phase: str, simulated: dict[str, str]) -> dict[str, Any]:
    annotations = {"sim/phase": phase, **{f"sim/{name}": value for name, value in simulated.items()}}
    return {
        "metadata": {"annotations": annotations, "labels": {"app": "web"} if phase == "Running" else {}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    }


def _deployment() -> dict[str, Any]:
    template = _pod("Running", {"start-after": "8", "terminate-after": "10"})
    template["spec"]["containers"][0]["image"] = "web:1"
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"metadata": {"name": "web"}, "spec": spec}
