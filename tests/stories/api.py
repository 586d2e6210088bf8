"""Requests of a story to the server: Rewound in this process and in virtual time, or another one in real time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import httpx
import orjson

from rewound import start

Object = dict[str, Any]

# The kinds of which a recorded state consists, then those that a step may name.
WORLD = {
    "Pod": "api/v1/pods",
    "ReplicationController": "api/v1/replicationcontrollers",
    "Service": "api/v1/services",
    "Endpoints": "api/v1/endpoints",
    "PersistentVolumeClaim": "api/v1/persistentvolumeclaims",
    "ResourceQuota": "api/v1/resourcequotas",
    "Deployment": "apis/apps/v1/deployments",
    "ReplicaSet": "apis/apps/v1/replicasets",
    "StatefulSet": "apis/apps/v1/statefulsets",
    "DaemonSet": "apis/apps/v1/daemonsets",
    "ControllerRevision": "apis/apps/v1/controllerrevisions",
    "Job": "apis/batch/v1/jobs",
    "CronJob": "apis/batch/v1/cronjobs",
    "EndpointSlice": "apis/discovery.k8s.io/v1/endpointslices",
    "PodDisruptionBudget": "apis/policy/v1/poddisruptionbudgets",
    "HorizontalPodAutoscaler": "apis/autoscaling/v2/horizontalpodautoscalers",
    "ResourceClaim": "apis/resource.k8s.io/v1/resourceclaims",
}
_OTHERS = {
    "Event": "api/v1/events",
    "ServiceAccount": "api/v1/serviceaccounts",
    "ConfigMap": "api/v1/configmaps",
    "Secret": "api/v1/secrets",
    "LimitRange": "api/v1/limitranges",
    "Lease": "apis/coordination.k8s.io/v1/leases",
    "ResourceClaimTemplate": "apis/resource.k8s.io/v1/resourceclaimtemplates",
    "PodMetrics": "apis/metrics.k8s.io/v1beta1/pods",
}
_CLUSTER_SCOPED = {
    "Namespace": "api/v1/namespaces",
    "Node": "api/v1/nodes",
    "PersistentVolume": "api/v1/persistentvolumes",
    "StorageClass": "apis/storage.k8s.io/v1/storageclasses",
    "DeviceClass": "apis/resource.k8s.io/v1/deviceclasses",
    "ResourceSlice": "apis/resource.k8s.io/v1/resourceslices",
    "PriorityClass": "apis/scheduling.k8s.io/v1/priorityclasses",
    "CustomResourceDefinition": "apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}
_PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
# The settings of the recorded clusters that shorten waiting.
_FLAGS = (
    "--controllers=*",
    "--node-monitor-period=2s",
    "--node-monitor-grace-period=20s",
    "--node-startup-grace-period=30s",
    "--pvclaimbinder-sync-period=3s",
)


def is_namespaced(kind: str) -> bool:
    return kind not in _CLUSTER_SCOPED


class Clock(Protocol):
    """How time passes for a server."""

    @property
    def advanced(self) -> float:
        """Seconds that its clock is ahead of this machine's."""

    def advance(self, seconds: float) -> Any: ...


class RealTime:
    """The clock of a server that knows no other; controllers get a moment for what is due now."""

    advanced = 0.0

    def advance(self, seconds: float) -> None:
        time.sleep(max(seconds, 0.03))


class Api:
    """One server. `advance` lets time pass for it and for the nodes that a story plays.

    A story looks at all lists again and again. A server with `one_version` for all kinds, as Rewound is, gets such a
    request again only if something was written since.
    """

    def __init__(
        self, clock: Clock, client: httpx.Client, *, step: float = 0.5, one_version: bool = False
    ) -> None:
        self._clock = clock
        self._client = client
        self._started = self.now
        self.step = step  # seconds that pass between two looks
        self._one_version = one_version
        self._version = ""  # of the server when it gave the lists
        self._is_current = False  # nothing has happened since
        self._lists: dict[str, bytes] = {}  # by path

    @property
    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._clock.advanced)

    @property
    def now_text(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return (self.now - self._started).total_seconds()

    def advance(self, seconds: float) -> None:
        self._is_current = False
        self._clock.advance(seconds)

    def path(self, kind: str, namespace: str, name: str = "", subresource: str = "") -> str:
        group, _, plural = {**WORLD, **_OTHERS, **_CLUSTER_SCOPED}[kind].rpartition("/")
        within = f"/namespaces/{namespace}" if namespace and is_namespaced(kind) else ""
        return f"/{group}{within}/{'/'.join(part for part in (plural, name, subresource) if part)}"

    def list(self, kind: str, namespace: str = "") -> list[Object]:
        path = self.path(kind, namespace)
        self._forget_changed()
        if path not in self._lists:
            response = self._client.get(path)
            if response.status_code == 404:  # this version does not serve it
                self._lists[path] = b'{"apiVersion": "", "items": []}'
            else:
                response.raise_for_status()
                self._lists[path] = response.content
        body = orjson.loads(self._lists[path])
        return [{"apiVersion": body["apiVersion"], "kind": kind, **item} for item in body["items"] or ()]

    def _forget_changed(self) -> None:
        """Forget the lists if the server has written since."""
        if self._is_current:
            return
        if self._one_version:
            listed = self._client.get("/api/v1/namespaces?limit=1").raise_for_status()
            version = orjson.loads(listed.content)["metadata"]["resourceVersion"]
            self._is_current = True
            if version == self._version:
                return
            self._version = version
        self._lists.clear()

    def find(self, kind: str, namespace: str, name: str) -> Object | None:
        response = self._client.get(self.path(kind, namespace, name))
        if response.status_code == 404:
            return None
        response.raise_for_status()
        found: Object = orjson.loads(response.content)
        return found

    def send(self, method: str, path: str, body: Object | None = None, type_: str = "") -> tuple[int, Object]:
        """The status code and the document of the response; `type_` is that of a patch."""
        self._is_current = False
        headers = {"content-type": _PATCHES[type_]} if type_ else {}
        response = self._client.request(method, path, json=body, headers=headers)
        document: Object = orjson.loads(response.content) if response.content else {}
        return response.status_code, document

    def create(self, given: Object, namespace: str = "") -> tuple[int, Object]:
        return self.send("POST", self.path(given["kind"], namespace), given)

    def patch(self, path: str, patch: Any, type_: str = "merge") -> tuple[int, Object]:
        return self.send("PATCH", path, patch, type_)

    def delete(self, path: str, **options: Any) -> tuple[int, Object]:
        return self.send("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", **options})


@contextmanager
def served(version: str, *, own_nodes: bool, scheduler: Path | None = None) -> Iterator[Api]:
    """A server with all controllers. With `own_nodes` it simulates every Node object; otherwise somebody plays them.

    `scheduler` is the configuration of its scheduler.
    """
    flags = _FLAGS + (("--nodes=0",) if own_nodes else ())
    flags += () if scheduler is None else (f"--scheduler-config={scheduler}",)
    with (
        start(mode="in-process", kubernetes=version, flags=flags) as server,
        server.client("in-process") as client,
    ):
        yield Api(server, client, one_version=True)


@contextmanager
def connected(url: str, token: str) -> Iterator[Api]:
    """Another server, with its own controllers, in real time. Its certificate is not checked."""
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=headers, verify=False, timeout=60) as client:
        yield Api(RealTime(), client, step=0.1)
