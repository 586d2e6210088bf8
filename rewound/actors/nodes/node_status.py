"""The status that a simulated node reports, and the annotations that change what the node does."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from rewound.actors.kinds.core.declared_features import declared_by_kubelet
from rewound.actors.kinds.core.simulated_node import SIMULATED
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.nodes.images import IMAGE_BYTES, full_name
from rewound.actors.nodes.pressure import UNDER_PRESSURE, pressures_of

RUNTIME_HANDLERS: Final = "sim/runtime-handlers"  # of the RuntimeClasses that it can run; without it, all
STOPPED: Final = "sim/stopped"  # "true" while the node does nothing, as if its machine were down
LAG: Final = "sim/lag"  # seconds after which the node notices changes of its pods
CLOCK_SKEW: Final = "sim/clock-skew"  # seconds by which the clock of the node is fast, or slow if negative
CAPACITY: Final = {"cpu": "16", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
LEASE_SECONDS: Final = 40
_LONGEST: Final = 10 * 365 * 86400.0  # seconds

# Type, status, reason and message, as a kubelet reports them.
HEALTHY: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
# The order in which the API shows the first fields of a status.
_ORDER: Final = (
    *("capacity", "allocatable", "phase", "conditions", "addresses", "daemonEndpoints", "nodeInfo", "images"),
    *("volumesInUse", "volumesAttached", "declaredFeatures"),
)
_MOST_IMAGES: Final = 50  # that a kubelet reports


def is_stopped(node: Object) -> bool:
    return (node["metadata"].get("annotations") or {}).get(STOPPED) == "true"


def seconds_of(node: Object, annotation: str) -> float:
    """The number of an annotation; 0 if it is missing or invalid."""
    try:
        seconds = float((node["metadata"].get("annotations") or {}).get(annotation, 0))
    except ValueError:
        return 0.0
    return seconds if abs(seconds) <= _LONGEST else 0.0


def is_ready(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def runtime_handlers_of(node: Object) -> frozenset[str] | None:
    """The handlers that a node has; None: all."""
    text = (node["metadata"].get("annotations") or {}).get(RUNTIME_HANDLERS)
    return None if text is None else frozenset(part.strip() for part in text.split(","))


def has_agent(node: Object) -> bool:
    """Whether another program reports the conditions of a Node: then it is not simulated."""
    return bool((node.get("status") or {}).get("conditions"))


def new_node(
    name: str, address: str, names: Names, version: str, now: int, features: frozenset[str] = frozenset()
) -> Object:
    labels = {names.key("hostname"): name}
    for part, value in (("arch", "amd64"), ("os", "linux")):
        labels[names.key(part)] = labels[names.key(part, "beta")] = value
    node: Object = {
        "metadata": {"name": name, "labels": labels, "annotations": {SIMULATED: "true"}},
        "spec": {},
        "status": {},
    }
    node["status"] = reported_status(node, address, version, now, features=features)
    return node


def reported_status(
    node: Object,
    address: str,
    version: str,
    now: int,
    before: Object | None = None,
    images: Collection[str] = (),
    features: frozenset[str] = frozenset(),
    volumes: Collection[str] = (),
) -> Object:
    """The status of a healthy node: existing values of the object stay, missing ones are filled in.

    `version` is that of its kubelet, `before` the capacity when it last reported, `images` what it has pulled,
    `features` those of the server, which decide what the kubelet declares unless the object says it.
    `volumes` are the attachable volumes of its pods.
    """
    status: Object = node.get("status") or {}
    name = node["metadata"]["name"]
    capacity = status.get("capacity") or CAPACITY
    reported = {
        **status,
        "capacity": capacity,
        "allocatable": _allocatable(capacity, status.get("allocatable"), before or {}),
        "conditions": _conditions(status.get("conditions") or (), pressures_of(node), now),
        "addresses": status.get("addresses")
        or [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "nodeInfo": _with_defaults(status.get("nodeInfo"), _node_info(name, version)),
    }
    if declared := status.get("declaredFeatures") or declared_by_kubelet(features):
        reported["declaredFeatures"] = declared
    if found := _images(status.get("images") or (), images):
        reported["images"] = found
    reported.pop("volumesInUse", None)
    if volumes:
        reported["volumesInUse"] = sorted(volumes)
    ordered = [part for part in _ORDER if part in reported]
    return {part: reported[part] for part in (*ordered, *(reported.keys() - _ORDER))}


def _images(given: Sequence[Object], pulled: Collection[str]) -> list[Object]:
    """The images that the object names, and others that the node has pulled."""
    known = {name for one in given for name in one.get("names") or ()}
    names = sorted({name for image in pulled if (name := full_name(image))} - known)
    new = [{"names": [name], "sizeBytes": IMAGE_BYTES} for name in names]
    return [*given, *new[: max(_MOST_IMAGES - len(given), 0)]]


def _allocatable(capacity: Object, given: Object | None, before: Object) -> Object:
    """What the object says, and all capacity that has been added since the last report.

    A resource that was allocatable as a whole stays so when its capacity changes.
    """
    if not given:
        return capacity
    kept = {name: amount for name, amount in given.items() if name in capacity or name not in before}
    whole = {
        name: amount
        for name, amount in capacity.items()
        if name not in given or given[name] == before.get(name)
    }
    return {**kept, **whole}


def address_of(node: Object) -> str:
    """The address of pods on the host network; "" before the node has one."""
    for one in (node.get("status") or {}).get("addresses") or ():
        if one["type"] == "InternalIP":
            address: str = one["address"]
            return address
    return ""


def new_lease(node: Object, renewed: str) -> Object:
    """The lease of a node, which is deleted with the Node object."""
    metadata = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}
    spec = {"holderIdentity": metadata["name"], "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renewed}
    return {"metadata": {"name": metadata["name"], "ownerReferences": [owner]}, "spec": spec}


def _conditions(old: Sequence[Object], pressures: Sequence[str], now: int) -> list[Object]:
    """Add the four conditions of a kubelet that are missing, or Unknown because the node was silent.

    Others stay, also those set manually: that is how a test makes a node unhealthy.
    """
    wanted = {report[0]: report for report in (*HEALTHY, *(UNDER_PRESSURE[name] for name in pressures))}
    conditions = []
    for one in old:
        report = wanted.pop(one["type"], None)
        is_due = report is not None and (one["status"] == "Unknown" or _is_other_pressure(one, report))
        conditions.append(_condition(report, now) if report is not None and is_due else one)
    return [*conditions, *(_condition(report, now) for report in wanted.values())]


def _is_other_pressure(condition: Object, report: tuple[str, str, str, str]) -> bool:
    """Whether an annotation begins or ends a pressure."""
    own = {reason for _, _, reason, _ in UNDER_PRESSURE.values()}
    return condition["status"] != report[1] and bool({condition.get("reason"), report[2]} & own)


def _condition(report: tuple[str, str, str, str], now: int) -> Object:
    kind, status, reason, message = report
    text = seconds_text(now)
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": text,
        "lastTransitionTime": text,
        "reason": reason,
        "message": message,
    }


def _node_info(name: str, version: str) -> Object:
    return {
        "machineID": name,
        "systemUUID": name,
        "bootID": name,
        "kernelVersion": "simulated",
        "osImage": "simulated",
        "containerRuntimeVersion": "sim://1",
        "kubeletVersion": version,
        "kubeProxyVersion": version,
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def _with_defaults(given: Object | None, defaults: Object) -> Object:
    return {**defaults, **{name: value for name, value in (given or {}).items() if value}}
