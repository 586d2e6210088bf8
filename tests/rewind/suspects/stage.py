"""A cluster on which incidents are staged: our own server with simulated nodes, in virtual time.

An incident is a function that gets a `Stage`, makes something break, and returns what is asked about and which change
was the cause. `noise` makes changes that have nothing to do with it, as every cluster has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx

from rewound import Rewound, start

Object = dict[str, Any]

NAMESPACE = "shop"
_PATHS = {
    "Pod": "api/v1/pods",
    "Service": "api/v1/services",
    "ConfigMap": "api/v1/configmaps",
    "Secret": "api/v1/secrets",
    "ServiceAccount": "api/v1/serviceaccounts",
    "LimitRange": "api/v1/limitranges",
    "ResourceQuota": "api/v1/resourcequotas",
    "PersistentVolumeClaim": "api/v1/persistentvolumeclaims",
    "Event": "api/v1/events",
    "Deployment": "apis/apps/v1/deployments",
    "ReplicaSet": "apis/apps/v1/replicasets",
    "StatefulSet": "apis/apps/v1/statefulsets",
    "DaemonSet": "apis/apps/v1/daemonsets",
    "Job": "apis/batch/v1/jobs",
    "CronJob": "apis/batch/v1/cronjobs",
    "NetworkPolicy": "apis/networking.k8s.io/v1/networkpolicies",
    "Ingress": "apis/networking.k8s.io/v1/ingresses",
    "PodDisruptionBudget": "apis/policy/v1/poddisruptionbudgets",
    "HorizontalPodAutoscaler": "apis/autoscaling/v2/horizontalpodautoscalers",
    "Role": "apis/rbac.authorization.k8s.io/v1/roles",
    "RoleBinding": "apis/rbac.authorization.k8s.io/v1/rolebindings",
    "Widget": "apis/example.com/v1/widgets",
    "Lease": "apis/coordination.k8s.io/v1/leases",
}
_CLUSTER_SCOPED = {
    "Namespace": "api/v1/namespaces",
    "Node": "api/v1/nodes",
    "PersistentVolume": "api/v1/persistentvolumes",
    "StorageClass": "apis/storage.k8s.io/v1/storageclasses",
    "PriorityClass": "apis/scheduling.k8s.io/v1/priorityclasses",
    "RuntimeClass": "apis/node.k8s.io/v1/runtimeclasses",
    "ClusterRole": "apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ValidatingWebhookConfiguration": "apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "MutatingWebhookConfiguration": "apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingAdmissionPolicy": "apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "CustomResourceDefinition": "apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}


class Cause(NamedTuple):
    """The change that was the cause: its object, and a part of the field or the action."""

    kind: str
    name: str
    namespace: str = NAMESPACE


class Incident(NamedTuple):
    """What is asked about, and the true cause."""

    kind: str
    name: str
    cause: Cause
    namespace: str = NAMESPACE


Story = Callable[["Stage"], Incident]


@dataclass(slots=True)
class Stage:
    server: Rewound
    client: httpx.Client

    def path(self, kind: str, name: str = "", below: str = "", namespace: str = NAMESPACE) -> str:
        group, _, plural = {**_PATHS, **_CLUSTER_SCOPED}[kind].rpartition("/")
        within = "" if kind in _CLUSTER_SCOPED else f"/namespaces/{namespace}"
        return f"/{group}{within}/{'/'.join(part for part in (plural, name, below) if part)}"

    def send(self, method: str, path: str, body: Object | None = None, **headers: str) -> httpx.Response:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return self.client.request(method, path, json=body, headers={"user-agent": "kubectl/v1.30", **named})

    def create(self, kind: str, name: str, *, namespace: str = NAMESPACE, **content: Any) -> Object:
        group, _, _ = {**_PATHS, **_CLUSTER_SCOPED}[kind].rpartition("/")
        version = group.partition("/")[2]
        metadata = {"name": name, **content.pop("metadata", {})}
        document = {"apiVersion": version, "kind": kind, "metadata": metadata, **content}
        response = self.send("POST", self.path(kind, namespace=namespace), document)
        assert response.status_code == 201, response.text
        found: Object = response.json()
        return found

    def patch(
        self,
        kind: str,
        name: str,
        patch: Object,
        *,
        below: str = "",
        namespace: str = NAMESPACE,
        **headers: str,
    ) -> httpx.Response:
        strategic = kind not in ("Widget", "CustomResourceDefinition")
        headers["content_type"] = f"application/{'strategic-merge' if strategic else 'merge'}-patch+json"
        return self.send("PATCH", self.path(kind, name, below, namespace), patch, **headers)

    def change(
        self, kind: str, name: str, patch: Object, *, namespace: str = NAMESPACE, **headers: str
    ) -> None:
        response = self.patch(kind, name, patch, namespace=namespace, **headers)
        assert response.status_code == 200, response.text

    def delete(self, kind: str, name: str, *, namespace: str = NAMESPACE, **options: Any) -> None:
        response = self.send("DELETE", self.path(kind, name, namespace=namespace), options or None)
        assert response.status_code in (200, 202), response.text

    def until_refused(self, kind: str, spec: Object) -> None:
        """Wait until a policy has taken effect: servers compile them in the background."""
        body = {"metadata": {"name": "tried"}, "spec": spec}
        for _ in range(60):
            if self.send("POST", self.path(kind) + "?dryRun=All", body).status_code == 422:
                return
            self.advance(1)
        raise AssertionError(f"{kind} is not refused")

    def get(self, kind: str, name: str, namespace: str = NAMESPACE) -> Object:
        response = self.send("GET", self.path(kind, name, namespace=namespace))
        assert response.status_code == 200, response.text
        found: Object = response.json()
        return found

    def all(self, kind: str, namespace: str = NAMESPACE) -> list[Object]:
        found: list[Object] = self.send("GET", self.path(kind, namespace=namespace)).json()["items"]
        return found

    def advance(self, seconds: float) -> None:
        self.server.advance(seconds)

    # What clusters have.

    def deployment(self, name: str, *, replicas: int = 2, namespace: str = NAMESPACE, **pod: Any) -> None:
        self.create(
            "Deployment",
            name,
            namespace=namespace,
            spec={
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": template(name, **pod),
            },
        )

    def template(self, name: str, patch: Object, kind: str = "Deployment") -> None:
        """Change the template of a workload."""
        self.change(kind, name, {"spec": {"template": patch}})

    def pods(self, app: str, namespace: str = NAMESPACE) -> list[Object]:
        """The pods of an application, the newest last."""
        found = [one for one in self.all("Pod", namespace) if one["metadata"]["labels"].get("app") == app]
        return sorted(found, key=lambda one: int(one["metadata"]["resourceVersion"]))

    def misbehave(self, app: str, annotations: dict[str, str], count: int = 10) -> None:
        """Have programs of an application do something: what a process does is in no journal."""
        for pod in self.pods(app)[:count]:
            patch = {"metadata": {"annotations": annotations}}
            node = f"system:node:{pod['spec']['nodeName']}"
            response = self.patch(
                "Pod",
                pod["metadata"]["name"],
                patch,
                below="status",
                impersonate_user=node,
                impersonate_group="system:nodes",
            )
            assert response.status_code == 200, response.text

    def noise(self, rounds: int = 3) -> None:
        """Changes of others, near and far."""
        for number in range(rounds):
            self.advance(45)
            self.change("ConfigMap", "flags", {"data": {"beta": str(number)}})
            self.change("Deployment", "other", {"spec": {"replicas": 1 + number % 2}})
            self.change("Deployment", "other", {"metadata": {"labels": {"round": str(number)}}})
            self.change("Node", "node-2", {"metadata": {"annotations": {"seen": str(number)}}})
            self.change("Secret", "unrelated", {"stringData": {"key": str(number)}})
        self.advance(20)


def template(app: str, image: str = "registry.example/app:1", **pod: Any) -> Object:
    container = {"name": "main", "image": image, **pod.pop("container", {})}
    metadata = {"labels": {"app": app, **pod.pop("labels", {})}, "annotations": pod.pop("annotations", {})}
    return {"metadata": metadata, "spec": {"containers": [container], **pod}}


@contextmanager
def staged() -> Iterator[Stage]:
    flags = ("--enable-admission-plugins=NodeRestriction",)
    with (
        start(mode="in-process", kubernetes="1.30", nodes=3, flags=flags) as server,
        server.client("in-process") as client,
    ):
        stage = Stage(server, client)
        stage.create("Namespace", NAMESPACE)
        stage.create("ConfigMap", "flags", data={"beta": "x"})
        stage.create("Secret", "unrelated", stringData={"key": "x"})
        stage.deployment("other", replicas=1)
        stage.advance(600)
        yield stage


def asked(stage: Stage, incident: Incident, at: str = "") -> Object:
    """The suspects, as the page asks for them; `at` a version."""
    query = {"type": type_of(incident.kind), "name": incident.name}
    query |= {"at": at} if at else {}
    if incident.kind not in _CLUSTER_SCOPED:
        query["namespace"] = incident.namespace
    response = stage.client.get("/apis/rewound.cluster.io/v1/timeline/suspects", params=query)
    assert response.status_code == 200, response.text
    found: Object = response.json()
    return found


def type_of(kind: str) -> str:
    group, _, plural = {**_PATHS, **_CLUSTER_SCOPED}[kind].rpartition("/")
    first = group.split("/")[1] if group.startswith("apis/") else ""
    return f"{plural}.{first}" if first else plural


def rank_of(found: Object, cause: Cause) -> int:
    """The rank of the true cause, from 1; 0 if it is not among the suspects."""
    namespace = "" if cause.kind in _CLUSTER_SCOPED else cause.namespace
    wanted = type_of(cause.kind), namespace, cause.name
    for rank, one in enumerate(found["items"], 1):
        if (one["type"], one["namespace"], one["name"]) == wanted:
            return rank
    return 0
