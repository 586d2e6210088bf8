"""How much of each countable resource an object uses: pods, services and claims of volumes and devices; of all other
kinds only the number.

The names are those of v1.25: `cpu` and `requests.cpu` mean the same, `pods` counts unfinished pods and `count/pods` all
stored pods. The scopes of a quota select pods; only quotas without scopes count objects of other kinds. Sums of amounts
keep the style (binary or decimal suffixes) of their first nonzero addend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from rewound.actors.errors import Resource
from rewound.actors.kinds.core.pod import qos_class
from rewound.actors.kinds.core.resources import (
    HUGE_PAGES,
    STANDARD_CONTAINER_RESOURCES,
    is_extended,
    is_native,
)
from rewound.actors.kinds.resource.rules import MAX_RESULTS
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.quantity import NANOS, parse_quantity, quantity_text
from rewound.actors.versions.features import DYNAMIC_ALLOCATION, RECOVER_EXPANSION, STRUCTURED_DEVICES


class PodTraits(msgspec.Struct, frozen=True):
    """The properties of a pod that scopes select by."""

    terminating: bool  # it has an activeDeadlineSeconds
    best_effort: bool
    priority_class: str
    crosses_namespaces: bool  # by a term of its affinity or anti-affinity


class Requirement(msgspec.Struct, frozen=True):
    scope: str
    operator: str
    values: tuple[str, ...] = ()

    def selects(self, pod: PodTraits) -> bool:
        match self.scope:
            case "Terminating":
                return pod.terminating
            case "NotTerminating":
                return not pod.terminating
            case "BestEffort":
                return pod.best_effort
            case "NotBestEffort":
                return not pod.best_effort
            case "CrossNamespacePodAffinity":
                return pod.crosses_namespaces
            case "PriorityClass":
                return self._selects_class(pod.priority_class)
        return False

    def _selects_class(self, name: str) -> bool:
        match self.operator:
            case "In":
                return name in self.values
            case "NotIn":
                return name not in self.values
            case "Exists":
                return bool(name)
        return not name


def parse_scopes(spec: Object) -> tuple[Requirement, ...]:
    selector = spec.get("scopeSelector") or {}
    return (
        *(Requirement(scope, "Exists") for scope in spec.get("scopes", ())),
        *(
            Requirement(one["scopeName"], one["operator"], tuple(one.get("values", ())))
            for one in selector.get("matchExpressions", ())
        ),
    )


def traits_of(pod: Object) -> PodTraits:
    spec = pod["spec"]
    deadline = spec.get("activeDeadlineSeconds")
    return PodTraits(
        deadline is not None and deadline >= 0,
        qos_class(spec) == "BestEffort",
        spec.get("priorityClassName", ""),
        _crosses_namespaces(spec.get("affinity") or {}),
    )


def _crosses_namespaces(affinity: Object) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        required = terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        preferred = terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        for term in (*required, *(one["podAffinityTerm"] for one in preferred)):
            if term.get("namespaces") or term.get("namespaceSelector") is not None:
                return True
    return False


Amount = tuple[int, str]  # nano-units and style
Usage = Mapping[str, Amount]  # by the name of the resource

ZERO: Final[Amount] = (0, "decimal")
ONE: Final[Amount] = (NANOS, "decimal")
NOTHING: Final[Usage] = {}

amount_of = lru_cache(maxsize=1024)(parse_quantity)


def whole(number: int) -> Amount:
    return number * NANOS, "decimal"


def rounded_up(amount: Amount) -> Amount:
    """In whole units."""
    return -(-amount[0] // NANOS) * NANOS, amount[1]


def parse_amounts(texts: Mapping[str, str]) -> dict[str, Amount]:
    return {name: amount_of(text) for name, text in texts.items()}


def texts_of(amounts: Usage) -> dict[str, str]:
    return {name: quantity_text(*amounts[name]) for name in sorted(amounts)}


def add(total: dict[str, Amount], usage: Usage) -> None:
    for name, amount in usage.items():
        before = total.get(name, ZERO)
        total[name] = before[0] + amount[0], before[1] if before[0] else amount[1]


def subtract(total: dict[str, Amount], usage: Usage) -> None:
    for name, (nanos, _) in usage.items():
        before = total[name]
        total[name] = before[0] - nanos, before[1]


def largest(total: dict[str, Amount], usage: Usage) -> None:
    """Raise each amount to that of the other."""
    for name, amount in usage.items():
        if name not in total or total[name][0] <= amount[0]:
            total[name] = amount


def increase(new: Usage, old: Usage) -> dict[str, Amount]:
    """By how much the new usage exceeds the old one."""
    more = {name: (amount[0] - old.get(name, ZERO)[0], amount[1]) for name, amount in new.items()}
    return {name: amount for name, amount in more.items() if amount[0] > 0}


def select(usage: Usage, names: Iterable[str]) -> Usage:
    return {name: usage[name] for name in names if name in usage}


PODS: Final = Resource("", "pods")
SERVICES: Final = Resource("", "services")
CLAIMS: Final = Resource("", "persistentvolumeclaims")

REQUESTS: Final = "requests."
LIMITS: Final = "limits."
COUNT: Final = "count/"
# Kinds that had their own name before `count/`.
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


class Demand(msgspec.Struct, frozen=True):
    """The usage of one object, before it is known which quotas count it."""

    usage: Usage
    pod: PodTraits | None = None  # None: not a pod
    until: int = 0  # when a pod that is being deleted stops counting, in microseconds since 1970; 0: never


class Measure(msgspec.Struct, frozen=True):
    """How objects of one kind are measured."""

    resource: Resource
    covers: Callable[[str], bool]  # whether a name of a quota is of this kind
    demand: Callable[[Object], Demand]


def measures(names: Names, features: frozenset[str] = frozenset()) -> tuple[Measure, ...]:
    pods = PodMeasure(names.key(""))
    claims = ClaimMeasure(names, expansion_recovery=RECOVER_EXPANSION in features)
    found = (
        Measure(PODS, pods.covers, pods.demand),
        Measure(SERVICES, SERVICE_NAMES.__contains__, service_demand),
        Measure(CLAIMS, claims.covers, claims.demand),
    )
    if not {DYNAMIC_ALLOCATION, STRUCTURED_DEVICES} <= features:
        return found
    devices = DeviceMeasure(names)
    return (*found, Measure(devices.resource, devices.covers, devices.demand))


def number_measure(resource: Resource) -> Measure:
    """For a kind of which only the number counts."""
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
    """The sum over the containers, or the largest init container if it has more; plus the overhead of the pod.

    Sidecars run beside the containers, and beside the init containers after them. What a pod sets for itself replaces
    that.
    """
    total: dict[str, Amount] = {}
    sidecars: dict[str, Amount] = {}
    starting: dict[str, Amount] = {}  # the most while it starts
    for container in spec["containers"] or ():
        add(total, parse_amounts(container["resources"].get(part, {})))
    for container in spec.get("initContainers", ()):
        amounts = parse_amounts(container["resources"].get(part, {}))
        if container.get("restartPolicy") == "Always":
            add(total, amounts)
            add(sidecars, amounts)
        else:
            add(amounts, sidecars)
            largest(starting, amounts)
    largest(total, starting)
    own = (spec.get("resources") or {}).get(part, {})
    total |= parse_amounts({name: text for name, text in own.items() if is_of_pods(name)})
    add(total, parse_amounts(spec.get("overhead") or {}))
    return total


def is_of_pods(name: str) -> bool:
    """Whether a pod may set it for all of its containers."""
    return name in ("cpu", "memory") or name.startswith(HUGE_PAGES)


def _end_of_deletion(metadata: Object) -> int:
    """A pod whose node is lost stays forever; it counts until its grace period has passed once more."""
    if "deletionTimestamp" not in metadata or "deletionGracePeriodSeconds" not in metadata:
        return 0
    grace: int = metadata["deletionGracePeriodSeconds"]
    return micros_of(metadata["deletionTimestamp"]) + grace * 1_000_000


def missing_of_containers(spec: Object, required: Iterable[str]) -> str:
    """The required amounts that containers lack, such as `cpu for: a,b; memory for: b`; "" if none."""
    own = spec.get("resources") or {}
    if any(is_of_pods(name) for part in ("requests", "limits") for name in own.get(part, ())):
        return ""
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
        """The class in the older annotation, otherwise in the spec."""
        annotated = claim["metadata"].get("annotations", {}).get(self._class_key)
        return str(annotated if annotated is not None else claim["spec"].get("storageClassName", ""))


class DeviceMeasure:
    """Of claims of devices, how many devices of each class they can get at most."""

    def __init__(self, names: Names) -> None:
        self.resource = Resource(names.group("resource"), "resourceclaims")
        self._count = f"{COUNT}{self.resource}"
        self._of_class = f".deviceclass.{self.resource.group}/devices"

    def covers(self, name: str) -> bool:
        return name == self._count or name.endswith(self._of_class)

    def demand(self, claim: Object) -> Demand:
        usage: dict[str, Amount] = {self._count: ONE}
        for request in claim["spec"]["devices"].get("requests") or ():
            worst: dict[str, Amount] = {}
            for one in request.get("firstAvailable") or (request.get("exactly"),):
                if one is not None:
                    largest(worst, {f"{one['deviceClassName']}{self._of_class}": whole(_devices(one))})
            add(usage, worst)
        return Demand(usage)


def _devices(request: Object) -> int:
    """The most devices that a request may be allocated."""
    if request["allocationMode"] == "All":
        return MAX_RESULTS
    return int(request["count"]) if request["allocationMode"] == "ExactCount" else 0
