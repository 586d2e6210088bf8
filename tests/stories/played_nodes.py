"""Nodes that a story plays: they renew their leases, and bound pods do what their annotations say.

Simulated nodes of the server understand the same annotations (docs/nodes.md). A story that is played with them compares
less of a pod's status: this kubelet is simpler than they are.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.stories.api import Api, Object

_LEASES = "kube-node-lease"
_RENEWED_EVERY = 4.0  # seconds
_CONDITIONS = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}
_PHASES = {"Succeeded": "Succeeded", "Failed": "Failed", "ImagePull": "Pending"}


class PlayedNodes:
    """With `own_nodes`, the server simulates the nodes: only their objects are created and removed here."""

    def __init__(self, api: Api, *, own_nodes: bool) -> None:
        self._api = api
        self._own_nodes = own_nodes
        self._alive: dict[str, str] = {}  # the addresses of nodes that respond
        self._pods = 0
        self._renewed = 0.0

    def add(self, wanted: Object) -> None:
        name = wanted["name"]
        address = f"192.168.0.{sum(map(ord, name)) % 200 + 10}"
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        capacity = {
            "cpu": wanted.get("cpu", "16"),
            "memory": wanted.get("memory", "32Gi"),
            "pods": wanted.get("pods", "110"),
            "ephemeral-storage": "100Gi",
        }
        capacity |= wanted.get("extended", {})
        addresses = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]
        status: Object = {"capacity": capacity, "allocatable": capacity, "addresses": addresses}
        if not self._own_nodes:
            status["conditions"] = self._conditions(wanted.get("conditions", {}))
        spec = {"taints": wanted.get("taints", []), "unschedulable": wanted.get("unschedulable", False)}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels | wanted.get("labels", {})},
            "spec": spec,
            "status": status,
        }
        code, created = self._api.create(node)
        assert code == 201, created
        if not self._own_nodes:
            self._alive[name] = address
            self._api.patch(self._api.path("Node", "", name, "status"), {"status": status})
            self._renew(name)

    def _conditions(self, wanted: dict[str, str]) -> list[Object]:
        now = self._api.now_text
        return [
            {"type": type_, "status": wanted.get(type_, status), "reason": reason, "message": message}
            | {"lastHeartbeatTime": now, "lastTransitionTime": now}
            for type_, (status, reason, message) in _CONDITIONS.items()
        ]

    def stop(self, name: str) -> None:
        if self._own_nodes:
            self._annotate(name, "true")
        self._alive.pop(name, None)

    def start(self, name: str) -> None:
        node = self._api.find("Node", "", name)
        if node is None:
            return
        if self._own_nodes:
            self._annotate(name, None)
            return
        self._alive[name] = node["status"]["addresses"][0]["address"]
        self._renew(name)
        conditions = {"status": {"conditions": self._conditions({})}}
        self._api.patch(self._api.path("Node", "", name, "status"), conditions, "strategic")

    def _annotate(self, name: str, value: str | None) -> None:
        stopped = {"metadata": {"annotations": {"sim/stopped": value}}}
        self._api.patch(self._api.path("Node", "", name), stopped)

    def remove(self, name: str) -> None:
        self._alive.pop(name, None)
        self._api.delete(self._api.path("Node", "", name))
        self._api.delete(self._api.path("Lease", _LEASES, name))

    def move(self) -> bool:
        """Do what is due; returns whether there was something to do for a pod."""
        if self._own_nodes:
            return False
        if self._api.elapsed >= self._renewed + _RENEWED_EVERY:
            self._renewed = self._api.elapsed
            for name in self._alive:
                self._renew(name)
        moved = False
        for pod in self._api.list("Pod"):
            if pod["spec"].get("nodeName") in self._alive:
                moved |= self._move(pod)
        return moved

    def _renew(self, name: str) -> None:
        path = self._api.path("Lease", _LEASES, name)
        renewed = self._api.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if self._api.patch(path, {"spec": {"renewTime": renewed}})[0] == 404:
            spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
            self._api.create({**lease, "spec": spec}, _LEASES)

    def _move(self, pod: Object) -> bool:
        metadata, status = pod["metadata"], pod.get("status") or {}
        path = self._api.path("Pod", metadata["namespace"], metadata["name"])
        annotations = metadata.get("annotations") or {}
        if metadata.get("deletionTimestamp"):
            if annotations.get("sim/hold-termination") == "true":
                return False
            # A finalizer keeps the pod: then the delete changes nothing.
            before = metadata["resourceVersion"]
            _, left = self._api.delete(path, gracePeriodSeconds=0, preconditions={"uid": metadata["uid"]})
            after = left.get("metadata", {}).get("resourceVersion")
            return after != before
        if status.get("phase") in ("Succeeded", "Failed"):
            return False
        wanted = self._wanted(pod, annotations, status.get("startTime"))
        if wanted == "Hold":
            return False
        reported = self._status(pod, wanted, annotations)
        if _telling(reported) == _telling(status):
            return False
        before = {one["type"]: one for one in status.get("conditions") or ()}
        for condition in reported["conditions"]:
            old = before.get(condition["type"], {})
            same = old.get("status") == condition["status"]
            condition["lastProbeTime"] = None
            condition["lastTransitionTime"] = old["lastTransitionTime"] if same else self._api.now_text
            condition |= {key: None for key in ("reason", "message") if key in old and key not in condition}
        patch = {"metadata": {"uid": metadata["uid"]}, "status": reported}
        code, answer = self._api.patch(f"{path}/status", patch, "strategic")
        assert code in (200, 404, 409), answer
        return True

    def _wanted(self, pod: Object, annotations: dict[str, str], started: str | None) -> str:
        """What the annotations say that the pod does now."""
        wanted = annotations.get("sim/phase", "Running")
        index = annotations.get("batch.kubernetes.io/job-completion-index")
        if index is None and "statefulset.kubernetes.io/pod-name" in (pod["metadata"].get("labels") or {}):
            index = pod["metadata"]["name"].rpartition("-")[2]
        if index is not None:
            wanted = annotations.get(f"sim/phase.{index}", wanted)
        age = -1.0 if started is None else self._api.now.timestamp() - _seconds(started)
        if wanted in ("Succeeded", "Failed") and age < float(annotations.get("sim/run-for", -1)):
            wanted = "Running"
        if wanted == "Running" and age < float(annotations.get("sim/ready-after", -1)):
            wanted = "NeverReady"
        return wanted

    def _status(self, pod: Object, wanted: str, annotations: dict[str, str]) -> Object:
        spec, status = pod["spec"], pod.get("status") or {}
        started = status.get("startTime") or self._api.now_text
        address = status.get("podIP")
        if not address and wanted != "ImagePull":
            address = self._alive[spec["nodeName"]] if spec.get("hostNetwork") else self._new_address()
        reported: Object = {
            "phase": _PHASES.get(wanted, "Running"),
            "conditions": _pod_conditions(wanted, [one["name"] for one in spec["containers"]]),
            "containerStatuses": [
                self._container(one, pod, wanted, annotations, started) for one in spec["containers"]
            ],
            "hostIP": self._alive[spec["nodeName"]],
            "startTime": started,
        }
        if address:
            reported |= {"podIP": address, "podIPs": [{"ip": address}]}
        if wanted == "Failed" and "sim/reason" in annotations:
            reported["reason"] = annotations["sim/reason"]
        return reported

    def _new_address(self) -> str:
        self._pods += 1
        return f"10.244.{self._pods // 250 % 250}.{self._pods % 250 + 1}"

    def _container(
        self, container: Object, pod: Object, wanted: str, annotations: dict[str, str], started: str
    ) -> Object:
        now = self._api.now_text
        result: Object = {
            "name": container["name"],
            "image": container["image"],
            "imageID": f"sim://{container['image']}",
            "containerID": f"sim://{pod['metadata']['uid']}/{container['name']}",
            "ready": wanted == "Running",
            "restartCount": 0,
            "started": wanted == "Running",
            "lastState": {},
        }
        code = int(annotations.get("sim/exit-code", 1))
        if wanted in ("Running", "NeverReady"):
            state = {"running": {"startedAt": now}}
            result |= {"started": True, "restartCount": int(annotations.get("sim/restarts", 0))}
        elif wanted == "CrashLoop":
            state = _waiting("CrashLoopBackOff", "back-off restarting failed container")
            ended = {"exitCode": code, "reason": "Error", "startedAt": now, "finishedAt": now}
            result |= {
                "restartCount": int(annotations.get("sim/restarts", 3)),
                "lastState": {"terminated": ended},
            }
        elif wanted == "ImagePull":
            state = _waiting("ImagePullBackOff", f'Back-off pulling image "{container["image"]}"')
            del result["containerID"]
            result["imageID"] = ""
        else:
            code = code if wanted == "Failed" else 0
            ended = {"exitCode": code, "reason": "Error" if code else "Completed"}
            state = {"terminated": {**ended, "startedAt": started, "finishedAt": now}}
        return {**result, "state": state}


def _waiting(reason: str, message: str) -> Object:
    return {"waiting": {"reason": reason, "message": message}}


def _pod_conditions(wanted: str, containers: list[str]) -> list[Object]:
    why: dict[str, Any] = {}
    if wanted == "Succeeded":
        why = {"reason": "PodCompleted"}
    elif wanted == "Failed":
        why = {"reason": "PodFailed"}
    elif wanted != "Running":
        message = f"containers with unready status: [{' '.join(containers)}]"
        why = {"reason": "ContainersNotReady", "message": message}
    ready = {"status": "True" if wanted == "Running" else "False", **why}
    initialized = {"reason": "PodCompleted"} if wanted == "Succeeded" else {}
    return [
        {"type": "Initialized", "status": "True", **initialized},
        {"type": "Ready", **ready},
        {"type": "ContainersReady", **ready},
        {"type": "PodScheduled", "status": "True"},
    ]


def _telling(status: Object) -> Any:
    """What has to differ for a new report."""
    conditions = {
        (one["type"], one["status"], one.get("reason"))
        for one in status.get("conditions") or ()
        if one["type"] in ("Ready", "ContainersReady", "Initialized")
    }
    containers = [
        (one["ready"], one["restartCount"], *one["state"]) for one in status.get("containerStatuses") or ()
    ]
    return status.get("phase"), status.get("reason"), conditions, containers


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
