"""The plugin of resource claims: it finds nodes whose devices satisfy the claims of a pod.

A claim without an allocation gets devices of the node (`device_allocator`); one that has an allocation must be used on
a node of it. With DRAExtendedResource, a pod that requests an extended resource of a device class gets a claim of its
own, which exists only in memory until the pod is bound (`device_binding`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rewound.actors.kinds.core.resources import is_sidecar
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.steps import Steps
from rewound.actors.scheduler.device_allocator import AllocationError, InvalidPools, TimedOut
from rewound.actors.scheduler.device_objects import DeviceObjects, MissingClaim, allocation_of
from rewound.actors.scheduler.nodes import NodeState
from rewound.actors.scheduler.plugins import (
    NODE_ADD,
    NODE_ALLOCATABLE,
    NODE_LABELS,
    Failure,
    Filter,
    Plugin,
    Prepared,
    Refusal,
    SchedulingContext,
    SchedulingError,
    Score,
    normalized,
)
from rewound.actors.scheduler.pods import PodFacts, amount
from rewound.actors.selectors.nodes import NodeSelector
from rewound.actors.versions.features import PRIORITIZED_LISTS, SCORED_LISTS

DEVICES: Final = "DynamicResources"
DEVICE_CLAIM, DEVICE_CLASS, DEVICE_SLICE = "resource claim changed", "device class changed", "slice changed"
_MOST_ALTERNATIVES: Final = 8  # of a request; an earlier one scores more
_State = tuple[
    Mapping[str, str], tuple[str, ...]
]  # labels of a node, and the extended resources that it lacks


@dataclass(slots=True)
class ReservedDevices:
    """The claims of a pod for which a node was chosen, and the allocations of those that have none yet."""

    claims: list[tuple[Object, Object | None]]
    extended: Object | None = None  # the claim for extended resources, which does not exist yet
    mappings: list[Object] = field(default_factory=list)  # of containers to its requests

    @property
    def must_be_bound(self) -> bool:
        """Whether the pod waits for conditions of some device."""
        allocations = (allocation or allocation_of(claim) or {} for claim, allocation in self.claims)
        return any(
            result.get("bindingConditions")
            for one in allocations
            for result in one.get("devices", {}).get("results", ())
        )


class DeviceFilter(Filter):
    """Checks the devices of nodes for one pod, and remembers what each would provide."""

    takes_steps = True

    def __init__(
        self, pod: PodFacts, objects: DeviceObjects, claims: list[Object], extended: Object | None
    ) -> None:
        """Raises Refusal."""
        self._pod, self._objects, self._claims, self._extended = pod, objects, claims, extended
        self._revision = objects.revision
        self._delegated = objects.delegated(pod.shape.requests)
        self._selectors = {
            one["metadata"]["uid"]: NodeSelector.compile(allocation["nodeSelector"])
            for one in claims
            if (allocation := allocation_of(one)) is not None and "nodeSelector" in allocation
        }
        self._open = [one for one in claims if allocation_of(one) is None]
        for claim in self._open:
            self._check(claim)
        self._allocator = objects.allocator() if self._open or extended is not None else None
        self._looked_up: dict[str, tuple[_State, Failure | SchedulingError | None]] = {}  # by node
        self._found: dict[str, ReservedDevices] = {}
        self._unavailable: dict[str, Object] = {}  # claims that some node cannot use, by uid

    def _check(self, claim: Object) -> None:
        key = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
        if claim["metadata"]["uid"] in self._objects.in_flight:
            raise _refusal(f"resource claim {key} is in the process of being allocated")
        for request in claim["spec"].get("devices", {}).get("requests", ()):
            if "exactly" in request:
                self._check_class(request["exactly"], request["name"])
            elif not request.get("firstAvailable"):
                raise _refusal(f"resource claim {key}, request {request['name']}: unknown request type")
            elif PRIORITIZED_LISTS not in self._objects.features:
                raise _refusal(
                    f"resource claim {key}, request {request['name']}: has subrequests, "
                    "but the DRAPrioritizedList feature is disabled"
                )
            for one in request.get("firstAvailable", ()):
                self._check_class(one, f"{request['name']}/{one['name']}")

    def _check_class(self, request: Object, name: str) -> None:
        class_name = request["deviceClassName"]
        if self._objects.device_class(class_name) is None:
            raise _refusal(f"request {name}: device class {class_name} does not exist")

    def ahead(self, node: NodeState) -> Steps[None]:
        """Look for devices on the node."""
        state = self._state(node)
        known = self._looked_up.get(node.name)
        if known is None or known[0] != state:
            try:
                failure: Failure | SchedulingError | None = yield from self._look_up(node, state[1])
            except SchedulingError as wrong:
                failure = wrong
            self._looked_up[node.name] = state, failure

    def check(self, node: NodeState) -> Failure | None:
        """What `ahead` has found, for the node as it is."""
        state, failure = self._looked_up.get(node.name, (None, None))
        if state != self._state(node):
            raise _error(f"node {node.name} changed while its devices were looked up")
        if isinstance(failure, SchedulingError):
            raise failure
        return failure

    def _state(self, node: NodeState) -> _State:
        return node.labels, tuple(sorted(one for one in self._delegated if not node.allocatable.get(one)))

    def _look_up(self, node: NodeState, lacking: Sequence[str]) -> Steps[Failure | None]:
        """Allocate what the node lacks. Raises SchedulingError."""
        claim, mappings = None, list[Object]()
        if self._extended is not None:
            if self._extended["spec"]["devices"]["requests"]:
                return _failure("cannot schedule extended resource claim")
            requests, mappings = self._requests_of(lacking)
            if requests:
                claim = {**self._extended, "spec": {"devices": {"requests": requests}}}
            if claim is None and not self._claims:
                return None
        unavailable = [one for one in self._claims if self._is_unavailable(one, node)]
        allocations: list[Object] = []
        open_claims = self._open if claim is None else [*self._open, claim]
        if self._allocator is not None:
            try:
                found = yield from self._allocator.allocate(node.name, node.labels, open_claims)
            except InvalidPools as wrong:
                return _failure(str(wrong))
            except TimedOut:
                raise _error(f"node {node.name}: timed out trying to allocate devices") from None
            except AllocationError as wrong:
                raise _error(str(wrong)) from None
            if found is None:
                return _failure("cannot allocate all claims")
            allocations = found
        if unavailable:
            self._unavailable.update((one["metadata"]["uid"], one) for one in unavailable)
            return _failure("resourceclaim not available on the node")
        by_uid = {
            one["metadata"]["uid"]: allocation
            for one, allocation in zip(open_claims, allocations, strict=bool(allocations))
        }
        chosen = [(one, by_uid.get(one["metadata"]["uid"])) for one in self._claims]
        if claim is not None:
            chosen.append((claim, by_uid[claim["metadata"]["uid"]]))
        self._found[node.name] = ReservedDevices(chosen, claim, mappings)
        return None

    def _is_unavailable(self, claim: Object, node: NodeState) -> bool:
        selector = self._selectors.get(claim["metadata"]["uid"])
        if selector is not None and not selector.matches(node.name, node.labels):
            return True
        return allocation_of(claim) is not None and self._objects.has_failed_binding(claim)

    def _requests_of(self, wanted: Sequence[str]) -> tuple[list[Object], list[Object]]:
        """Requests for extended resources that the node does not have itself, and who has which."""
        requests: list[Object] = []
        mappings: list[Object] = []
        for name in wanted:
            device_class = self._objects.class_of(name)
            assert device_class is not None
            made, used = extended_requests(self._pod.spec, name, device_class)
            requests += made
            mappings += used
        return sorted(requests, key=lambda one: str(one["name"])), mappings

    def is_current(self) -> bool:
        """Whether no allocation, class or slice has changed since."""
        return self._revision == self._objects.revision

    def reserve(self, node: NodeState) -> ReservedDevices | None:
        """What a feasible node provides; counts as in use from now on."""
        found = self._found.get(node.name)
        for claim, allocation in found.claims if found is not None else ():
            if allocation is not None:
                self._objects.begin(claim["metadata"]["uid"], allocation)
        return found

    def described(self, node: str) -> list[Object]:
        """The claims of the pod in an explanation: which devices they have, or would get on a node."""
        reserved = self._found.get(node)
        pairs = reserved.claims if reserved is not None else [(one, None) for one in self._claims]
        found = []
        for claim, chosen in pairs:
            allocation = allocation_of(claim) or chosen or {}
            name = claim["metadata"].get("name", "extended resources")
            described: Object = {"claim": name, "isAllocated": allocation_of(claim) is not None}
            described["devices"] = [
                {part: one[part] for part in ("request", "driver", "pool", "device")}
                for one in allocation.get("devices", {}).get("results", ())
            ]
            users = claim.get("status", {}).get("reservedFor") or ()
            described["reservedFor"] = [one["name"] for one in users]
            found.append(described)
        return found

    def release(self) -> tuple[str, Object | None]:
        """A claim whose allocation keeps the pod from all nodes, and could be given up; and what is said then."""
        for claim in self._unavailable.values():
            users = claim["status"].get("reservedFor", ())
            if not users or [one["uid"] for one in users] == [self._pod.uid]:
                return "deallocation of ResourceClaim completed", claim
        if self._extended is not None and self._extended["spec"]["devices"]["requests"]:
            return "deletion of ResourceClaim completed", self._extended
        return "still not schedulable", None

    def points(self, node: str) -> int:
        """How early in their lists the alternatives are that the node provides."""
        found = self._found.get(node)
        total = 0
        for claim, allocation in found.claims if found is not None else ():
            chosen = allocation if allocation is not None else allocation_of(claim)
            assert chosen is not None
            names = {one["request"] for one in chosen["devices"]["results"]}
            for request in claim["spec"].get("devices", {}).get("requests", ()):
                for at, one in enumerate(request.get("firstAvailable", ())):
                    if f"{request['name']}/{one['name']}" in names:
                        total += _MOST_ALTERNATIVES - at
        return total


class _ListScore(Score):
    def __init__(self, devices: DeviceFilter) -> None:
        self._devices = devices

    def key(self, node: NodeState) -> int:
        return self._devices.points(node.name)

    def scores(self, keys: Mapping[int, int]) -> Mapping[int, int]:
        return normalized(keys)


class DynamicResources(Plugin):
    name, filters, scores = DEVICES, True, True
    of_every_pod = False
    wakes = frozenset([NODE_ADD, NODE_LABELS, NODE_ALLOCATABLE, DEVICE_CLAIM, DEVICE_CLASS, DEVICE_SLICE])

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        objects = around.devices
        if objects is None or not uses_devices(pod, objects):
            return Prepared()
        try:
            claims = list(objects.claims_of(pod.pod))
        except MissingClaim as wrong:
            raise _refusal(str(wrong)) from None
        extended = None
        if objects.delegated(pod.shape.requests):
            extended = objects.extended_claim(pod.pod) or _new_extended_claim(pod, objects.names)
        if not claims and extended is None:
            return Prepared()
        made = DeviceFilter(pod, objects, claims, extended)
        scores = {PRIORITIZED_LISTS, SCORED_LISTS} <= objects.features
        return Prepared(made, _ListScore(made) if scores else None)


def uses_devices(pod: PodFacts, objects: DeviceObjects) -> bool:
    return bool(pod.spec.get("resourceClaims")) or bool(objects.delegated(pod.shape.requests))


def _refusal(text: str) -> Refusal:
    return Refusal(_failure(text))


def _failure(text: str) -> Failure:
    return Failure(DEVICES, (text,), False)


def _error(text: str) -> SchedulingError:
    return SchedulingError(f'running "{DEVICES}" filter plugin: {text}')


def _new_extended_claim(pod: PodFacts, names: Names) -> Object:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    return {
        "metadata": {
            "namespace": pod.namespace,
            "name": "<extended-resources>",
            "uid": f"extended resources of {pod.uid}",
            "generateName": f"{pod.name}-extended-resources-",
            "ownerReferences": [owner],
            "annotations": {names.key("extended-resource-claim", "resource"): "true"},
        },
        "spec": {"devices": {"requests": []}},
    }


def extended_requests(spec: Object, resource: str, device_class: str) -> tuple[list[Object], list[Object]]:
    """The requests of a pod's containers for devices of a class, and which container uses which.

    An init container that ends before the others start uses what those request; the most that one of them needs in
    addition is one request for all of them.
    """
    initial = spec.get("initContainers", [])
    containers = [*initial, *spec["containers"]]
    is_short = [at < len(initial) and not is_sidecar(one) for at, one in enumerate(containers)]
    long_lived: list[Object | None] = [None] * len(containers)
    mappings: list[Object] = []
    for at, container in enumerate(containers):
        if not is_short[at]:
            long_lived[at], used = _container_request(at, container, resource, device_class, ())
            mappings += used
    shorts: list[Object] = []
    short_mappings: list[Object] = []
    for at, container in enumerate(containers):
        if is_short[at]:
            later = [one for one in long_lived[at:] if one is not None]
            made, used = _container_request(at, container, resource, device_class, later)
            shorts += [made] if made is not None else []
            short_mappings += used
    requests = [one for one in long_lived if one is not None]
    if shorts:
        largest = max(shorts, key=lambda one: int(one["exactly"]["count"]))
        requests.insert(0, largest)
        names = {one["name"] for one in shorts}
        for mapping in short_mappings:
            if mapping["requestName"] in names:
                mapping["requestName"] = largest["name"]
    return requests, [*mappings, *short_mappings]


def _container_request(
    at: int, container: Object, resource: str, device_class: str, reusable: Sequence[Object]
) -> tuple[Object | None, list[Object]]:
    requests = container.get("resources", {}).get("requests", {})
    wanted = amount(resource, requests[resource]) if resource in requests else 0
    mappings: list[Object] = []

    def use(request: str) -> None:
        mappings.append(
            {"containerName": container["name"], "resourceName": resource, "requestName": request}
        )

    for one in reusable if wanted else ():
        use(one["name"])
        wanted -= one["exactly"]["count"]
        if wanted <= 0:
            return None, mappings
    if not wanted:
        return None, []
    name = f"container-{at}-request-{sorted(requests).index(resource)}"
    use(name)
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": wanted}
    return {"name": name, "exactly": exactly}, mappings
