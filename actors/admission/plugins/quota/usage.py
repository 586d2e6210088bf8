"""How much of each countable resource an object uses: pods, services and claims; of all other kinds only the number.

The names are those of v1.25: `cpu` and `requests.cpu` mean the same, `pods` counts pods that have not ended and
`count/pods` all pods that are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from actors.admission.plugins.quota.amounts import (
    ONE,
    ZERO,
    Amount,
    Usage,
    add,
    amount_of,
    largest,
    parse_amounts,
    rounded_up,
    whole,
)
from actors.admission.plugins.quota.scopes import PodTraits, traits_of
from actors.errors import Resource
from actors.kinds.core.resources import HUGE_PAGES, STANDARD_CONTAINER_RESOURCES, is_extended, is_native
from actors.kinds.values.times import micros_of
from actors.messages import Object
from actors.names import Names

PODS: Final = Resource("", "pods")
SERVICES: Final = Resource("", "services")
CLAIMS: Final = Resource("", "persistentvolumeclaims")

REQUESTS: Final = "requests."
LIMITS: Final = "limits."
COUNT: Final = "count/"
# Kinds that had a name of their own before `count/`.
OLD_COUNTS: Final = frozenset(("configmaps", "resourcequotas", "replicationcontrollers", "secrets"))
SERVICE_NAMES: Final = frozenset(
    ("count/services", "services", "services.nodeports", "services.loadbalancers")
)
POD_NAMES: Final = frozenset(
    (
        "count/pods",
        "pods",
        *(
            f"{part}{name}"
            for part in ("", REQUESTS, LIMITS)
            for name in sorted(STANDARD_CONTAINER_RESOURCES)
        ),
    )
)
# If a quota limits these, all containers must have them.
REQUIRED_OF_CONTAINERS: Final = frozenset(
    f"{part}{name}" for part in ("", REQUESTS, LIMITS) for name in ("cpu", "memory")
)


@dataclass(frozen=True, slots=True)
class Demand:
    """What one object uses, before it is known which quotas count it."""

    usage: Usage
    pod: PodTraits | None = None  # None: not a pod
    until: int = 0  # microseconds since 1970, when a pod that is being deleted stops to count; 0: never


@dataclass(frozen=True, slots=True)
class Measure:
    """How objects of one kind are measured."""

    resource: Resource
    covers: Callable[[str], bool]  # whether a name of a quota is of this kind
    demand: Callable[[Object], Demand]


def measures(names: Names, *, expansion_recovery: bool = False) -> tuple[Measure, ...]:
    pods = PodMeasure(names.key(""))
    claims = ClaimMeasure(names, expansion_recovery=expansion_recovery)
    return (
        Measure(PODS, pods.covers, pods.demand),
        Measure(SERVICES, SERVICE_NAMES.__contains__, service_demand),
        Measure(CLAIMS, claims.covers, claims.demand),
    )


def number_measure(resource: Resource) -> Measure:
    """Of a kind of which only the number counts."""
    usage = {f"{COUNT}{resource}": ONE}
    if str(resource) in OLD_COUNTS:
        usage[str(resource)] = ONE
    demand = Demand(usage)
    return Measure(resource, usage.__contains__, lambda _: demand)


class PodMeasure:
    def __init__(self, api_domain: str) -> None:
        self._api_domain = api_domain

    def covers(self, name: str) -> bool:
        return (
            name in POD_NAMES
            or name.startswith((HUGE_PAGES, REQUESTS + HUGE_PAGES))
            or (name.startswith(REQUESTS) and not is_native(name, self._api_domain))
        )

    def demand(self, pod: Object) -> Demand:
        traits = traits_of(pod)
        if pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
            return Demand(ENDED, traits)
        return Demand(self._usage(pod["spec"]), traits, _end_of_deletion(pod["metadata"]))

    def _usage(self, spec: Object) -> Usage:
        requests, limits = pod_amounts(spec, "requests"), pod_amounts(spec, "limits")
        usage: dict[str, Amount] = {"count/pods": ONE, "pods": ONE}
        for name, amount in requests.items():
            if name in STANDARD_CONTAINER_RESOURCES or name.startswith(HUGE_PAGES):
                usage[name] = usage[REQUESTS + name] = amount
            elif is_extended(name, self._api_domain):
                usage[REQUESTS + name] = amount
        for name in STANDARD_CONTAINER_RESOURCES & limits.keys():
            usage[LIMITS + name] = limits[name]
        return usage


ENDED: Final[Usage] = {"count/pods": ONE}


def pod_amounts(spec: Object, part: str) -> dict[str, Amount]:
    """The sum over the containers, or the largest init container if it has more; plus the overhead of the pod."""
    total: dict[str, Amount] = {}
    for container in spec["containers"] or ():
        add(total, parse_amounts(container["resources"].get(part, {})))
    for container in spec.get("initContainers", ()):
        largest(total, parse_amounts(container["resources"].get(part, {})))
    add(total, parse_amounts(spec.get("overhead") or {}))
    return total


def _end_of_deletion(metadata: Object) -> int:
    """A pod whose node is lost stays for ever; it counts until its grace period has passed once more."""
    if "deletionTimestamp" not in metadata or "deletionGracePeriodSeconds" not in metadata:
        return 0
    grace: int = metadata["deletionGracePeriodSeconds"]
    return micros_of(metadata["deletionTimestamp"]) + grace * 1_000_000


def missing_of_containers(spec: Object, required: Iterable[str]) -> str:
    """Which required amounts containers lack, such as `cpu for: a,b; memory for: b`; "" if they have all."""
    containers = (*(spec["containers"] or ()), *spec.get("initContainers", ()))
    parts = []
    for name in sorted(required):
        lacking = {one["name"] for one in containers if not _has(one["resources"], name)}
        if lacking:
            parts.append(f"{name} for: {','.join(sorted(lacking))}")
    return "; ".join(parts)


def _has(resources: Object, name: str) -> bool:
    if name.startswith(LIMITS):
        return name.removeprefix(LIMITS) in resources.get("limits", ())
    return name.removeprefix(REQUESTS) in resources.get("requests", ())


def service_demand(service: Object) -> Demand:
    spec = service["spec"]
    ports, balanced = spec.get("ports") or (), spec.get("type") == "LoadBalancer"
    node_ports = 0
    if balanced and spec.get("allocateLoadBalancerNodePorts") is False:
        node_ports = sum(1 for port in ports if port.get("nodePort"))
    elif balanced or spec.get("type") == "NodePort":
        node_ports = len(ports)
    return Demand(
        {
            "count/services": ONE,
            "services": ONE,
            "services.nodeports": whole(node_ports),
            "services.loadbalancers": ONE if balanced else ZERO,
        }
    )


class ClaimMeasure:
    def __init__(self, names: Names, *, expansion_recovery: bool) -> None:
        self._expansion_recovery = expansion_recovery
        self._class_key = names.key("storage-class", "volume.beta")
        self._of_class = f".storageclass.{names.group('storage')}/"

    def covers(self, name: str) -> bool:
        own = ("persistentvolumeclaims", "requests.storage")
        return (
            name in own
            or name == "count/persistentvolumeclaims"
            or name.endswith(tuple(self._of_class + one for one in own))
        )

    def demand(self, claim: Object) -> Demand:
        usage: dict[str, Amount] = {"persistentvolumeclaims": ONE}
        if storage := self._storage(claim):
            usage["requests.storage"] = storage
        if name := self._class_of(claim):
            usage |= {f"{name}{self._of_class}{key}": amount for key, amount in usage.items()}
        usage["count/persistentvolumeclaims"] = ONE
        return Demand(usage)

    def _storage(self, claim: Object) -> Amount | None:
        requested = claim["spec"]["resources"].get("requests", {}).get("storage")
        if requested is None:
            return None
        amount = rounded_up(amount_of(requested))
        allocated = claim.get("status", {}).get("allocatedResources", {}).get("storage")
        if self._expansion_recovery and allocated is not None and amount_of(allocated)[0] > amount[0]:
            return rounded_up(amount_of(allocated))
        return amount

    def _class_of(self, claim: Object) -> str:
        """The class in the older annotation, or else in the spec."""
        annotated = claim["metadata"].get("annotations", {}).get(self._class_key)
        return str(annotated if annotated is not None else claim["spec"].get("storageClassName", ""))
