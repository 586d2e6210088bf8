"""Computes how many replicas a metric recommends, as the autoscaler of v1.25. Values are thousandths.

Pods without a metric count as idle if the others recommend more replicas, and as on target if they recommend fewer; so
do pods that are not ready yet. A change within the tolerance is none, and no assumption reverses a change. Pods may be
many: functions that read all of them yield.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final, NamedTuple

from rewound.actors.admission.plugins.quota.usage import pod_amounts
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import Object
from rewound.actors.quantity import nanos_of
from rewound.actors.runtime.steps import Steps, chosen
from rewound.actors.versions.features import (
    CONTAINERS_NOT_FOUND,
    CONTAINERS_WITHOUT_REQUESTS,
    POD_LEVEL_UTILIZATION,
    SIDECARS_IN_UTILIZATION,
)
from rewound.actors.workloads.pods import condition_of, is_ready, is_terminating

CPU: Final = "cpu"
NO_PODS: Final = "no pods returned by selector while calculating replica count"
NO_READY_METRICS: Final = "did not receive metrics for any ready pods"


class NoReplicaCount(Exception):
    """The metric recommends nothing; the text says why."""


class PodMetric(NamedTuple):
    value: int
    time: int = 0  # when it was measured, in microseconds
    window: int = 0  # over how many microseconds


class Count(NamedTuple):
    replicas: int
    value: int  # the measured average, or the total
    percent: int = 0  # of the pods' requests


@dataclass(frozen=True, slots=True)
class Tolerances:
    tolerance: float
    cpu_initialization: int  # microseconds after the start of a pod in which its CPU usage may be ignored
    initial_readiness: int  # a pod that became unready this soon after its start was never ready
    features: frozenset[str] = frozenset()  # of the version


@dataclass(slots=True)
class _Groups:
    ready: int
    unready: set[str]
    missing: set[str]
    ignored: set[str]


def milli_value(quantity: str) -> int:
    """The quantity in thousandths, rounded up."""
    return -(-nanos_of(quantity) // 1_000_000)


def utilization_count(
    pods: Collection[Object],
    metrics: Mapping[str, PodMetric],
    *,
    resource: str,
    container: str,
    target: int,
    replicas: int,
    rules: Tolerances,
    now: int,
) -> Steps[Count]:
    """By a percentage of the pods' requests, in all containers or one."""
    groups, counted = yield from _grouped(pods, metrics, resource, rules, now)
    requests = yield from _requests(pods, container, resource, rules.features)
    if not counted:
        raise NoReplicaCount(NO_READY_METRICS)
    usage = {name: one.value for name, one in counted.items()}
    ratio, percent, average = _utilization(usage, requests, target)
    if (found := _plain_count(groups, ratio, replicas, rules)) is not None:
        return Count(found, average, percent)
    if ratio < 1.0:
        usage |= {name: requests[name] for name in groups.missing}
    elif ratio > 1.0:
        usage |= dict.fromkeys(groups.missing, 0)
    if ratio > 1.0:
        usage |= dict.fromkeys(groups.unready, 0)
    assumed, _, _ = _utilization(usage, requests, target)
    return Count(_careful_count(ratio, assumed, len(usage), replicas, rules), average, percent)


def average_count(
    pods: Collection[Object],
    metrics: Mapping[str, PodMetric],
    *,
    resource: str,
    target: int,
    replicas: int,
    rules: Tolerances,
    now: int,
) -> Steps[Count]:
    """By an average value of the pods. `resource` is empty for a custom metric."""
    groups, counted = yield from _grouped(pods, metrics, resource, rules, now)
    if not counted:
        raise NoReplicaCount(NO_READY_METRICS)
    usage = {name: one.value for name, one in counted.items()}
    average = sum(usage.values()) // len(usage)
    ratio = average / target
    if (found := _plain_count(groups, ratio, replicas, rules)) is not None:
        return Count(found, average)
    usage |= dict.fromkeys(groups.missing, target if ratio < 1.0 else 0)
    if ratio > 1.0:
        usage |= dict.fromkeys(groups.unready, 0)
    assumed = sum(usage.values()) // len(usage) / target
    return Count(_careful_count(ratio, assumed, len(usage), replicas, rules), average)


def value_count(
    pods: Collection[Object], value: int, *, target: int, replicas: int, rules: Tolerances
) -> Steps[Count]:
    """By a value that is not of pods, for all ready pods together."""
    ratio = value / target
    if not replicas:
        return Count(ceil(ratio), value)
    if abs(1.0 - ratio) <= rules.tolerance:
        return Count(replicas, value)
    if not pods:
        raise NoReplicaCount(f"unable to calculate ready pods: {NO_PODS}")
    ready = yield from chosen(pods, lambda pod: pod["status"].get("phase") == "Running" and is_ready(pod))
    return Count(ceil(ratio * len(ready)), value)


def value_per_pod_count(value: int, *, target: int, replicas: int, rules: Tolerances) -> Count:
    """By a value that is not of pods, divided by the current replicas."""
    if not replicas:
        return Count(ceil(value / target), 0)
    found = replicas
    if abs(1.0 - value / (target * replicas)) > rules.tolerance:
        found = ceil(value / target)
    return Count(found, ceil(value / replicas))


def _plain_count(groups: _Groups, ratio: float, replicas: int, rules: Tolerances) -> int | None:
    """The count if nothing must be assumed about any pod."""
    if groups.missing or (groups.unready and ratio > 1.0):
        return None
    if abs(1.0 - ratio) <= rules.tolerance:
        return replicas
    return ceil(ratio * groups.ready)


def _careful_count(ratio: float, assumed: float, pods: int, replicas: int, rules: Tolerances) -> int:
    turned = (ratio < 1.0 < assumed) or (assumed < 1.0 < ratio)
    if turned or abs(1.0 - assumed) <= rules.tolerance:
        return replicas
    found = ceil(assumed * pods)
    if (assumed < 1.0 and found > replicas) or (assumed > 1.0 and found < replicas):
        return replicas
    return found


def _utilization(
    usage: Mapping[str, int], requests: Mapping[str, int], target: int
) -> tuple[float, int, int]:
    """The ratio to the target, the percentage, and the average value."""
    known = [name for name in usage if name in requests]
    used, requested = sum(usage[name] for name in known), sum(requests[name] for name in known)
    if not requested:
        raise NoReplicaCount("no metrics returned matched known pods")
    percent = used * 100 // requested
    return percent / target, percent, used // len(known)


def _requests(
    pods: Collection[Object], container: str, resource: str, features: frozenset[str]
) -> Steps[dict[str, int]]:
    found: dict[str, int] = {}
    for pod in pods:
        yield
        own = (pod["spec"].get("resources") or {}).get("requests")
        if own and not container and POD_LEVEL_UTILIZATION in features:
            found[pod["metadata"]["name"]] = _pod_level_request(pod, resource)
        else:
            found[pod["metadata"]["name"]] = _request_of_containers(pod, container, resource, features)
    return found


def _pod_level_request(pod: Object, resource: str) -> int:
    request = pod_amounts(pod["spec"], "requests").get(resource)
    if request is None:
        raise NoReplicaCount(f"missing pod-level request for {resource} in Pod {pod['metadata']['name']}")
    return -(-request[0] // 1_000_000)


def _request_of_containers(pod: Object, container: str, resource: str, features: frozenset[str]) -> int:
    spec, name = pod["spec"], pod["metadata"]["name"]
    containers = list(spec["containers"])
    if SIDECARS_IN_UTILIZATION in features:
        containers += [
            one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"
        ]
    measured = [one for one in containers if container in ("", one["name"])]
    if not measured and CONTAINERS_NOT_FOUND in features:
        raise NoReplicaCount(f"container {container} not found in Pod {name}")
    total = 0
    for one in measured:
        request = one.get("resources", {}).get("requests", {}).get(resource)
        if request is None:
            where = f" in container {one['name']} of Pod {name}"
            where = where if CONTAINERS_WITHOUT_REQUESTS in features else ""
            raise NoReplicaCount(f"missing request for {resource}{where}")
        total += milli_value(request)
    return total


def _grouped(
    pods: Collection[Object], metrics: Mapping[str, PodMetric], resource: str, rules: Tolerances, now: int
) -> Steps[tuple[_Groups, dict[str, PodMetric]]]:
    """The pods by what is known of them, and the metrics of those that count."""
    if not pods:
        raise NoReplicaCount(NO_PODS)
    groups = _Groups(0, set(), set(), set())
    for pod in pods:
        yield
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        metric = metrics.get(name)
        if is_terminating(pod) or phase == "Failed":
            groups.ignored.add(name)
        elif phase == "Pending":
            groups.unready.add(name)
        elif metric is None:
            groups.missing.add(name)
        elif resource == CPU and _is_starting(pod, metric, rules, now):
            groups.unready.add(name)
        else:
            groups.ready += 1
    left_out = groups.ignored | groups.unready
    return groups, {name: one for name, one in metrics.items() if name not in left_out}


def _is_starting(pod: Object, metric: PodMetric, rules: Tolerances, now: int) -> bool:
    """Whether to ignore the CPU usage of a pod, because it is starting or has never been ready."""
    condition, started_at = condition_of(pod, "Ready"), pod["status"].get("startTime")
    if condition is None or started_at is None:
        return True
    started = micros_of(started_at)
    changed = micros_of(condition["lastTransitionTime"]) if condition.get("lastTransitionTime") else 0
    unready = bool(condition["status"] == "False")
    if started + rules.cpu_initialization > now:
        return unready or metric.time < changed + metric.window
    return unready and started + rules.initial_readiness > changed
