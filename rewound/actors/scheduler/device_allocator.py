"""Chooses devices for the claims of a pod on one node, as the structured allocator of Kubernetes 1.36 does.

Pure: slices, classes and claims are objects as they are stored. The search tries devices in a fixed order (pools by
driver and name, slices by name, devices as they are listed), claim after claim and request after request, and goes
back when it gets stuck; the first complete solution is the result.

    yield from Allocator(features, in_use, classes.get, slices, selectors, new_uid).allocate("n1", labels, claims)
    -> [{"devices": {"results": [{"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d0"}]},
         "nodeSelector": ...}]      one for each claim; None: not on this node

Users determine how long it takes, by requests, selectors and constraints: it yields after a few tries, and wherever a
selector needs a worker thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from rewound.actors.messages import Object
from rewound.actors.quantity import NANOS, nanos_of, quantity_text
from rewound.actors.runtime.steps import Steps
from rewound.actors.scheduler.device_selectors import DeviceSelectors, DeviceVersion, SelectorError
from rewound.actors.selectors.nodes import NodeSelector
from rewound.actors.versions.features import (
    ADMIN_ACCESS,
    BINDING_CONDITIONS,
    CONSUMABLE_CAPACITY,
    DEVICE_STATUS,
    DEVICE_TAINTS,
    PARTITIONABLE_DEVICES,
    PRIORITIZED_LISTS,
)

MOST_RESULTS: Final = 32  # devices of one claim
# Devices and alternatives that one search looks at: a fraction of a second. kube-scheduler stops after ten seconds.
MOST_TRIES: Final = 50_000
_STRIDE: Final = 64  # of them between two pauses: less than a millisecond
_ALL, _EXACT_COUNT = "All", "ExactCount"

DeviceId = tuple[str, str, str]  # driver, pool and name
PoolId = tuple[str, str]  # driver and name
Amounts = dict[str, int]  # of capacities or counters, in nano-units

amount_of = lru_cache(maxsize=4096)(nanos_of)


class AllocationError(Exception):
    """A claim, a class or a slice is wrong: trying other nodes does not help."""


class TimedOut(Exception):
    """The search took too long."""


class InvalidPools(Exception):
    """There is no solution on this node, and one of its pools is invalid."""

    def __init__(self) -> None:
        super().__init__("invalid resource pools were encountered")


class _TooManyResults(Exception):
    """A request cannot be satisfied within MOST_RESULTS."""


@dataclass(slots=True)
class DevicesInUse:
    """The devices that other claims have: alone, or a part of their capacity."""

    alone: dict[DeviceId, int] = field(default_factory=dict)  # how many claims
    shares: dict[DeviceId, int] = field(default_factory=dict)
    capacity: dict[DeviceId, Amounts] = field(default_factory=dict)

    def count(self, allocation: Object, sign: int, *, shares: bool) -> None:
        """Add the devices of an allocation, or remove them; `shares`: whether claims can share devices."""
        for result in allocation.get("devices", {}).get("results", ()):
            if result.get("adminAccess"):
                continue
            device = result["driver"], result["pool"], result["device"]
            if not shares or "shareID" not in result:
                _count(self.alone, device, sign)
                continue
            _count(self.shares, device, sign)
            consumed = result.get("consumedCapacity")
            if consumed is not None:
                held = self.capacity.setdefault(device, {})
                for name, quantity in consumed.items():
                    held[name] = held.get(name, 0) + sign * amount_of(quantity)
                if not any(held.values()):
                    del self.capacity[device]

    def has(self, device: DeviceId) -> bool:
        return device in self.alone or device in self.shares or device in self.capacity


def _count(counts: dict[DeviceId, int], device: DeviceId, sign: int) -> None:
    counts[device] = counts.get(device, 0) + sign
    if counts[device] <= 0:
        del counts[device]


@dataclass(slots=True, eq=False)
class Device:
    id: DeviceId
    device: Object
    slice: Object
    at: int  # its position in the slice
    pool: Pool

    @property
    def driver(self) -> str:
        return self.id[0]

    @property
    def version(self) -> DeviceVersion:
        metadata = self.slice["metadata"]
        return metadata["name"], metadata.get("resourceVersion", ""), self.at


@dataclass(slots=True, eq=False)
class Pool:
    """The devices of a pool that a node can use. None can be used of one that is incomplete or invalid."""

    id: PoolId
    is_incomplete: bool = False
    is_invalid: bool = False
    devices: list[Device] = field(default_factory=list)
    others: list[Object] = field(default_factory=list)  # slices for other nodes, which use the same counters
    counters: dict[str, Amounts] = field(default_factory=dict)

    @property
    def waits_for_binding(self) -> bool:
        return any("bindingConditions" in one.device for one in self.devices)


class Allocator:
    """Allocates for one pod, on one node after the other."""

    def __init__(
        self,
        features: frozenset[str],
        in_use: Sequence[DevicesInUse],
        find_class: Callable[[str], Object | None],
        slices: Iterable[Object],
        selectors: DeviceSelectors,
        new_uid: Callable[[], str],
    ) -> None:
        self.has_admin_access = ADMIN_ACCESS in features
        self.has_capacity = CONSUMABLE_CAPACITY in features
        self.has_binding = BINDING_CONDITIONS in features and DEVICE_STATUS in features
        self.has_taints = DEVICE_TAINTS in features
        self.has_counters = PARTITIONABLE_DEVICES in features
        self.has_lists = PRIORITIZED_LISTS in features
        self.in_use, self.find_class, self.selectors, self.new_uid = in_use, find_class, selectors, new_uid
        self._pools: dict[PoolId, list[Object]] = {}
        self._on_node: dict[str, list[Object]] = {}
        self._shared: list[Object] = []
        self._node_selectors: dict[tuple[str, int], NodeSelector] = {}
        self._available: dict[PoolId, dict[str, Amounts]] = {}
        for one in slices:
            spec = one["spec"]
            self._pools.setdefault((spec["driver"], spec["pool"]["name"]), []).append(one)
            if not spec.get("nodeName") or spec.get("sharedCounters"):
                self._shared.append(one)
            else:
                self._on_node.setdefault(spec["nodeName"], []).append(one)

    def allocate(
        self, node: str, labels: Mapping[str, str], claims: Sequence[Object]
    ) -> Steps[list[Object] | None]:
        """Return the allocations of the claims, or None.

        Raises AllocationError, InvalidPools, or TimedOut.
        """
        pools = self._pools_of(node, labels)
        found = yield from _Search(self, node, labels, claims, pools).run()
        if found is None and any(one.is_invalid for one in pools):
            raise InvalidPools
        return found

    def _pools_of(self, node: str, labels: Mapping[str, str]) -> list[Pool]:
        """The pools with devices for a node, in the order in which they are tried."""
        by_pool: dict[PoolId, list[Object]] = {}
        for one in (*self._on_node.get(node, ()), *self._shared):
            if not self._is_for(one, node, labels):
                continue
            spec = one["spec"]
            found = by_pool.setdefault((spec["driver"], spec["pool"]["name"]), [])
            if found and spec["pool"]["generation"] > found[0]["spec"]["pool"]["generation"]:
                found.clear()
            if not found or spec["pool"]["generation"] == found[0]["spec"]["pool"]["generation"]:
                found.append(one)
        made = [self._pool(id_, slices) for id_, slices in sorted(by_pool.items())]
        pools = [one for one in made if one is not None]
        return sorted(pools, key=lambda one: one.waits_for_binding)

    def _is_for(self, one: Object, node: str, labels: Mapping[str, str]) -> bool:
        spec = one["spec"]
        if not self.has_counters and ("perDeviceNodeSelection" in spec or spec.get("sharedCounters")):
            return False
        if spec.get("sharedCounters"):
            return True
        if spec.get("nodeName") or spec.get("allNodes") or "nodeSelector" in spec:
            return self.selects(one, -1, node, labels)
        if not spec.get("perDeviceNodeSelection"):
            return False
        return any(self.selects(one, at, node, labels) for at in range(len(spec.get("devices", ()))))

    def selects(self, one: Object, at: int, node: str, labels: Mapping[str, str]) -> bool:
        """Whether a slice, or the device at this position of it, is for a node."""
        chosen = one["spec"] if at < 0 else one["spec"]["devices"][at]
        if chosen.get("nodeName"):
            return bool(chosen["nodeName"] == node)
        if chosen.get("allNodes"):
            return True
        if "nodeSelector" not in chosen:
            return False
        key = one["metadata"]["name"], at
        selector = self._node_selectors.get(key)
        if selector is None:
            selector = self._node_selectors[key] = NodeSelector.compile(chosen["nodeSelector"])
        return selector.matches(node, labels)

    def _pool(self, id_: PoolId, slices: list[Object]) -> Pool | None:
        """The pool; None if the slices for this node are older than others."""
        pool = slices[0]["spec"]["pool"]
        everything = slices
        if len(slices) != pool["resourceSliceCount"]:
            everything = []
            for one in self._pools[id_]:
                generation = one["spec"]["pool"]["generation"]
                if generation > pool["generation"]:
                    return None
                if generation == pool["generation"]:
                    everything.append(one)
            if len(everything) != pool["resourceSliceCount"]:
                return Pool(id_, is_incomplete=True)
        found = Pool(id_)
        with_devices = sorted(slices, key=_name_of)
        if self.has_counters:
            sets = [one for one in with_devices if one["spec"].get("sharedCounters")]
            with_devices = [one for one in with_devices if not one["spec"].get("sharedCounters")]
            names = {_name_of(one) for one in slices}
            found.others = [one for one in everything if _name_of(one) not in names]
            found.is_invalid = not _take_counters(found, sets) or not all(
                _consumes_known(found, one) for one in (*slices, *found.others)
            )
        found.devices = [
            Device((*id_, device["name"]), device, one, at, found)
            for one in with_devices
            for at, device in enumerate(one["spec"].get("devices", ()))
        ]
        if len({one.id for one in found.devices}) < len(found.devices):
            found.is_invalid = True
        return found if not found.is_invalid else Pool(id_, is_invalid=True)

    def available_counters(self, pool: Pool) -> dict[str, Amounts]:
        """The counters of a pool that no allocated device consumes; negative, if these consume too much."""
        found = self._available.get(pool.id)
        if found is None:
            found = {name: dict(counters) for name, counters in pool.counters.items()}
            others = (device for one in pool.others for device in one["spec"].get("devices", ()))
            for device in (*(one.device for one in pool.devices), *others):
                if any(held.has((*pool.id, device["name"])) for held in self.in_use):
                    for consumed, name, amount in _consumption(device):
                        found[consumed][name] -= amount
            self._available[pool.id] = found
        return found


def _name_of(stored: Object) -> str:
    name: str = stored["metadata"]["name"]
    return name


def _take_counters(pool: Pool, slices: Iterable[Object]) -> bool:
    """Take over the counters of a pool; False if two sets have the same name."""
    for one in slices:
        for counters in one["spec"]["sharedCounters"]:
            if counters["name"] in pool.counters:
                return False
            pool.counters[counters["name"]] = {
                name: amount_of(counter["value"]) for name, counter in counters["counters"].items()
            }
    return True


def _consumes_known(pool: Pool, one: Object) -> bool:
    return all(
        name in pool.counters.get(counters, ())
        for device in one["spec"].get("devices", ())
        for counters, name, _ in _consumption(device)
    )


def _consumption(device: Object) -> Iterator[tuple[str, str, int]]:
    """The counters that a device consumes: set, name, amount."""
    for one in device.get("consumesCounters", ()):
        for name, counter in one["counters"].items():
            yield one["counterSet"], name, amount_of(counter["value"])


@dataclass(slots=True, eq=False)
class _Request:
    """A request, or one of its alternatives."""

    spec: Object
    name: str
    parent: str  # the request of an alternative
    device_class: Object
    number: int = 0  # of devices
    all_devices: list[Device] = field(default_factory=list)

    @property
    def reference(self) -> str:
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def wants_all(self) -> bool:
        return bool(self.spec.get("allocationMode") == _ALL)

    @property
    def is_admin(self) -> bool:
        return bool(self.spec.get("adminAccess"))


class _Place(NamedTuple):
    """Where the search is: the device that it looks for."""

    claim: int
    request: int
    alternative: int = 0
    device: int = 0


class _Found(NamedTuple):
    request: _Request
    device: Device
    share: str = ""
    consumed: Mapping[str, str] = {}


class _Search:
    def __init__(
        self,
        allocator: Allocator,
        node: str,
        labels: Mapping[str, str],
        claims: Sequence[Object],
        pools: Sequence[Pool],
    ) -> None:
        self._allocator, self._node, self._labels = allocator, node, labels
        self._claims, self._pools = claims, pools
        self._candidates = [
            device
            for pool in pools
            if not pool.is_incomplete and not pool.is_invalid
            for device in pool.devices
        ]
        self._requests: list[list[list[_Request]]] = []  # by claim, request and alternative
        self._chosen: dict[tuple[int, int], int] = {}  # the alternatives
        self._constraints: list[list[_Constraint]] = []
        self._selectable: dict[tuple[DeviceId, int, int, int], bool] = {}
        self._results: list[list[_Found]] = [[] for _ in claims]
        self._taken: dict[DeviceId, set[int]] = {}  # by which claims
        self._capacity: dict[DeviceId, Amounts] = {}
        self._counters: dict[PoolId, dict[tuple[str, str], int]] = {}
        self._trail: list[Callable[[], object]] = []  # undoes each change of the fields above
        self._tries = 0

    def run(self) -> Steps[list[Object] | None]:
        for at, claim in enumerate(self._claims):
            yield from self._prepare(at, claim)
            yield
        try:
            if not (yield from self._next(_Place(0, 0), 0)):
                return None
        except _TooManyResults:
            raise AllocationError("allocation max size exceeded") from None
        except RecursionError:
            raise TimedOut from None
        return [self._allocation(at) for at in range(len(self._claims))]

    # -- the requests

    def _prepare(self, at: int, claim: Object) -> Steps[None]:
        devices = claim["spec"].get("devices", {})
        self._requests.append([])
        fewest = 0
        for request_at, request in enumerate(devices.get("requests", ())):
            where = f"claim {_key(claim)}, request {request['name']}"
            alternatives = request.get("firstAvailable", ())
            if alternatives and not self._allocator.has_lists:
                raise AllocationError(
                    f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled"
                )
            if not self._allocator.has_capacity:
                if "capacity" in request.get("exactly", {}):
                    raise AllocationError(
                        f"{where}: has capacity requests, but the DRAConsumableCapacity feature is disabled"
                    )
                for one in alternatives:
                    if "capacity" in one:
                        raise AllocationError(
                            f"claim {_key(claim)}, subrequest {one['name']}: "
                            "has capacity requests, but the DRAConsumableCapacity feature is disabled"
                        )
            self._requests[at].append([])
            if alternatives:
                for number, one in enumerate(alternatives):
                    place = _Place(at, request_at, number)
                    made = yield from self._request(place, claim, one, one["name"], request["name"])
                    self._requests[at][-1].append(made)
            else:
                place = _Place(at, request_at)
                made = yield from self._request(place, claim, request["exactly"], request["name"])
                self._requests[at][-1].append(made)
            fewest += min(one.number for one in self._requests[at][-1])
        if fewest > MOST_RESULTS:
            raise AllocationError(
                f"claim {_key(claim)}: number of requested devices {fewest} "
                f"exceeds the claim limit of {MOST_RESULTS}"
            )
        self._constraints.append(
            [_constraint(claim, number, one) for number, one in enumerate(devices.get("constraints", ()))]
        )

    def _request(
        self, place: _Place, claim: Object, spec: Object, name: str, parent: str = ""
    ) -> Steps[_Request]:
        where = f"claim {_key(claim)}, request {name}"
        for number, selector in enumerate(spec.get("selectors", ())):
            if "cel" not in selector:
                raise AllocationError(
                    f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)"
                )
        if "adminAccess" in spec and not self._allocator.has_admin_access:
            raise AllocationError(f"{where}: admin access is requested, but the feature is disabled")
        class_name = spec.get("deviceClassName", "")
        if not class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        device_class = self._allocator.find_class(class_name)
        if device_class is None:
            raise AllocationError(
                f"{where}: could not retrieve device class {class_name}: "
                f'deviceclass.resource.k8s.io "{class_name}" not found'
            )
        made = _Request(spec, name, parent, device_class)
        mode = spec.get("allocationMode", "")
        if mode == _ALL:
            made.all_devices = yield from self._every(place, made, where)
            made.number = len(made.all_devices)
        elif mode == _EXACT_COUNT:
            made.number = spec.get("count", 0)
        else:
            raise AllocationError(f"{where}: unsupported count mode {mode}")
        return made

    def _every(self, place: _Place, request: _Request, where: str) -> Steps[list[Device]]:
        found: list[Device] = []
        for pool in self._pools:
            if pool.is_incomplete or pool.is_invalid:
                state = "being updated" if pool.is_incomplete else "invalid"
                raise AllocationError(
                    f"{where}: asks for all devices, but resource pool {'/'.join(pool.id)} is currently {state}"
                )
            for number, device in enumerate(pool.devices, 1):
                matches = yield from self._matches(place, request, device)
                if matches and self._has_capacity(request, device):
                    found.append(device)
                if number % _STRIDE == 0:
                    yield
        return found

    # -- the search

    def _next(self, place: _Place, start: int, *, in_alternative: bool = False) -> Steps[bool]:
        """Find the device at a place, from a position of the candidates on, and all after it."""
        self._tries += 1
        if self._tries > MOST_TRIES:
            raise TimedOut
        if self._tries % _STRIDE == 0:
            yield
        if place.claim >= len(self._claims):
            return True
        requests = self._requests[place.claim]
        if place.request >= len(requests):
            try:
                return (yield from self._next(_Place(place.claim + 1, 0), 0))
            except _TooManyResults:
                return (
                    False  # another choice here may let a later claim take an alternative with fewer devices
                )
        alternatives = requests[place.request]
        if alternatives[0].parent and not in_alternative:
            return (yield from self._next_alternative(place, len(alternatives)))
        request = alternatives[place.alternative]
        if request.wants_all and not request.all_devices:
            return False
        if place.device >= request.number:
            return (yield from self._next(_Place(place.claim, place.request + 1), 0))
        if len(self._results[place.claim]) + request.number - place.device > MOST_RESULTS:
            raise _TooManyResults
        following = place._replace(device=place.device + 1)
        if request.wants_all:
            device = request.all_devices[place.device]
            return (yield from self._try(place, request, device, following, 0, in_alternative))
        for position in range(start, len(self._candidates)):
            device = self._candidates[position]
            self._tries += 1
            if self._tries % _STRIDE == 0:
                yield
            if request.is_admin:
                if place.claim in self._taken.get(device.id, ()):
                    continue
            elif self._is_in_use(device.id):
                continue
            matches = yield from self._matches(place, request, device)
            if not matches or not self._has_capacity(request, device):
                continue
            if (yield from self._try(place, request, device, following, position + 1, in_alternative)):
                return True
        return False

    def _next_alternative(self, place: _Place, number: int) -> Steps[bool]:
        exceeded = True
        for alternative in range(number):
            try:
                chosen = place._replace(alternative=alternative)
                found = yield from self._next(chosen, 0, in_alternative=True)
            except _TooManyResults:
                continue
            exceeded = False
            if found:
                self._chosen[place.claim, place.request] = alternative
                return True
        if exceeded:
            raise _TooManyResults
        return False

    def _try(
        self, place: _Place, request: _Request, device: Device, following: _Place, start: int, inside: bool
    ) -> Steps[bool]:
        """Take a device and find all after it; otherwise give it back."""
        mark, done = len(self._trail), False
        try:
            if self._take(place, request, device):
                done = yield from self._next(following, start, in_alternative=inside)
        finally:
            while not done and len(self._trail) > mark:
                self._trail.pop()()
        return done

    def _take(self, place: _Place, request: _Request, device: Device) -> bool:
        shares = self._allocator.has_capacity and bool(device.device.get("allowMultipleAllocations"))
        if request.is_admin:
            if not shares and place.claim in self._taken.get(device.id, ()):
                return False
        elif self._is_in_use(device.id):
            return False
        consumes = bool(device.device.get("consumesCounters"))
        if consumes and not self._allocator.has_counters:
            return False
        is_shared = device.id in self._capacity or any(
            device.id in one.capacity for one in self._allocator.in_use
        )
        if consumes and not (shares and is_shared) and not self._consume(device):
            return False
        if self._allocator.has_taints and _is_repelled(device.device, request.spec):
            return False
        base, alternative = (request.parent, request.name) if request.parent else (request.name, "")
        for constraint in self._constraints[place.claim]:
            if not constraint.concerns(base, alternative):
                continue
            if not constraint.add(base, device):
                if request.wants_all:
                    raise AllocationError(
                        f"claim {_key(self._claims[place.claim])}, request {request.name}: "
                        f"cannot add device {'/'.join(device.id)} because a claim constraint would not be satisfied"
                    )
                return False
            self._trail.append(lambda constraint=constraint: constraint.remove(base))  # type: ignore[misc]
        if not shares:
            self._taken.setdefault(device.id, set()).add(place.claim)
            self._trail.append(lambda: self._taken[device.id].discard(place.claim))
        if not self._has_capacity(request, device):
            return False
        found = _Found(request, device)
        if shares:
            consumed = consumed_capacity(request.spec, device.device)
            found = _Found(request, device, self._allocator.new_uid(), consumed)
            self._consume_capacity(device.id, consumed)
        results = self._results[place.claim]
        results.append(found)
        self._trail.append(results.pop)
        return True

    def _is_in_use(self, device: DeviceId) -> bool:
        return bool(self._taken.get(device)) or any(device in one.alone for one in self._allocator.in_use)

    def _consume(self, device: Device) -> bool:
        """Take the counters of a device, if there are enough."""
        consumed = self._counters.setdefault(device.pool.id, {})
        changes = [((counters, name), amount) for counters, name, amount in _consumption(device.device)]
        for key, amount in changes:
            consumed[key] = consumed.get(key, 0) + amount

        def undo() -> None:
            for key, amount in changes:
                consumed[key] -= amount

        self._trail.append(undo)
        available = self._allocator.available_counters(device.pool)
        return all(
            amount >= consumed.get((counters, name), 0)
            for counters, amounts in available.items()
            for name, amount in amounts.items()
        )

    def _consume_capacity(self, device: DeviceId, consumed: Mapping[str, str]) -> None:
        existed = device in self._capacity
        held = self._capacity.setdefault(device, {})
        for name, quantity in consumed.items():
            held[name] = held.get(name, 0) + amount_of(quantity)

        def undo() -> None:
            for name, quantity in consumed.items():
                held[name] -= amount_of(quantity)
            if not existed:
                del self._capacity[device]

        self._trail.append(undo)

    def _has_capacity(self, request: _Request, device: Device) -> bool:
        """Whether the device has what the request wants of its capacity."""
        if not self._allocator.has_capacity:
            return True
        wanted = request.spec.get("capacity", {}).get("requests", {})
        capacities: Mapping[str, Object] = device.device.get("capacity", {})
        if any(name not in capacities for name in wanted):
            return False
        held = [self._capacity.get(device.id, {})]
        held += [one.capacity.get(device.id, {}) for one in self._allocator.in_use]
        for name, capacity in capacities.items():
            consumed = consumed_quantity(wanted.get(name), capacity)
            if _violates(consumed, capacity.get("requestPolicy", {})):
                return False
            total = amount_of(consumed) + sum(one.get(name, 0) for one in held)
            if total > amount_of(capacity["value"]):
                return False
        return True

    def _matches(self, place: _Place, request: _Request, device: Device) -> Steps[bool]:
        """Whether the device is one that the request may have, whatever is allocated."""
        if not self._allocator.has_binding and device.device.get("bindingConditions"):
            return False
        key = device.id, place.claim, place.request, place.alternative
        found = self._selectable.get(key)
        if found is None:
            found = self._selectable[key] = yield from self._selects(place, request, device)
        return found

    def _selects(self, place: _Place, request: _Request, device: Device) -> Steps[bool]:
        owner = f"class {_name_of(request.device_class)}"
        selectors = request.device_class["spec"].get("selectors", ())
        if not (yield from self._all_match(owner, selectors, device)):
            return False
        owner = f"claim {_key(self._claims[place.claim])}"
        if not (yield from self._all_match(owner, request.spec.get("selectors", ()), device)):
            return False
        if not device.slice["spec"].get("perDeviceNodeSelection"):
            return True
        return self._allocator.selects(device.slice, device.at, self._node, self._labels)

    def _all_match(self, owner: str, selectors: Iterable[Object], device: Device) -> Steps[bool]:
        for number, selector in enumerate(selectors):
            try:
                matches = yield from self._allocator.selectors.match(selector["cel"]["expression"], device)
                if not matches:
                    return False
            except SelectorError as wrong:
                raise AllocationError(f"{owner}: selector #{number}: CEL {wrong}") from None
        return True

    # -- the result

    def _allocation(self, at: int) -> Object:
        claim, results = self._claims[at], self._results[at]
        devices: Object = {"results": [self._result(one) for one in results]}
        config = [*self._class_config(at), *self._claim_config(at, claim)]
        if config:
            devices["config"] = config
        found: Object = {"devices": devices}
        selector = self._node_selector([one.device for one in results])
        if selector is not None:
            found["nodeSelector"] = selector
        return found

    def _result(self, found: _Found) -> Object:
        driver, pool, device = found.device.id
        made: Object = {"request": found.request.reference, "driver": driver, "pool": pool, "device": device}
        if found.request.is_admin:
            made["adminAccess"] = True
        if found.request.spec.get("tolerations"):
            made["tolerations"] = found.request.spec["tolerations"]
        if found.share:
            made["shareID"] = found.share
        if found.consumed:
            made["consumedCapacity"] = dict(found.consumed)
        if self._allocator.has_binding:
            for name in ("bindingConditions", "bindingFailureConditions"):
                if found.device.device.get(name):
                    made[name] = found.device.device[name]
        return made

    def _selected(self, at: int) -> Iterator[_Request]:
        """The requests of a claim, each with the alternative that was chosen."""
        for number, alternatives in enumerate(self._requests[at]):
            yield alternatives[self._chosen.get((at, number), 0)]

    def _class_config(self, at: int) -> Iterable[Object]:
        """The configuration of each class, once, for all requests of the class."""
        found: dict[str, list[Object]] = {}
        for request in self._selected(at):
            name = _name_of(request.device_class)
            if name not in found:
                found[name] = [
                    {"source": "FromClass", "requests": [], **one}
                    for one in request.device_class["spec"].get("config", ())
                ]
            for one in found[name]:
                one["requests"].append(request.reference)
        return [one for configurations in found.values() for one in configurations]

    def _claim_config(self, at: int, claim: Object) -> Iterator[Object]:
        for one in claim["spec"].get("devices", {}).get("config", ()):
            names = one.get("requests", ())
            if not names:
                yield {"source": "FromClaim", **one}
            for request in self._selected(at):
                if (request.parent or request.name) in names or request.reference in names:
                    yield {"source": "FromClaim", **one}

    def _node_selector(self, devices: Iterable[Device]) -> Object | None:
        """The nodes that can use all these devices; None: all can."""
        term: dict[str, list[Object]] = {"matchFields": [], "matchExpressions": []}
        for device in devices:
            spec = device.slice["spec"]
            chosen = device.device if spec.get("perDeviceNodeSelection") else spec
            if "nodeName" in chosen or device.device.get("bindsToNode"):
                field_ = {"key": "metadata.name", "operator": "In", "values": [self._node]}
                return {"nodeSelectorTerms": [{"matchFields": [field_]}]}
            for one in chosen.get("nodeSelector", {}).get("nodeSelectorTerms", ())[:1]:
                for part, requirements in term.items():
                    for requirement in one.get(part, ()):
                        if not any(_is_same(requirement, known) for known in requirements):
                            requirements.append(requirement)
        found = {part: requirements for part, requirements in term.items() if requirements}
        return {"nodeSelectorTerms": [found]} if found else None


def _is_same(one: Object, other: Object) -> bool:
    if (one["key"], one["operator"]) != (other["key"], other["operator"]):
        return False
    return set(one.get("values", ())) == set(other.get("values", ()))


def _key(claim: Object) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"


class _Constraint:
    """An attribute that the devices of some requests, or of all, must have."""

    def __init__(self, requests: Iterable[str], attribute: str) -> None:
        self._requests, self._attribute = frozenset(requests), attribute
        self._devices = 0

    def concerns(self, request: str, alternative: str) -> bool:
        names = self._requests
        return not names or request in names or bool(alternative and f"{request}/{alternative}" in names)

    def add(self, request: str, device: Device) -> bool:
        """Add a device, if that is possible."""
        value = self._value(device)
        if value is None or (self._devices and not self._fits(value)):
            return False
        self._keep(request, value)
        self._devices += 1
        return True

    def remove(self, request: str) -> None:
        self._devices -= 1

    def _value(self, device: Device) -> Object | None:
        attributes = device.device.get("attributes", {})
        if self._attribute in attributes:
            return attributes[self._attribute]  # type: ignore[no-any-return]
        domain, _, name = self._attribute.partition("/")
        return attributes.get(name) if domain == device.id[0] and name else None

    def _fits(self, value: Object) -> bool:
        raise NotImplementedError

    def _keep(self, request: str, value: Object) -> None:
        raise NotImplementedError


_TYPES: Final = ("string", "int", "bool", "version")


class _Match(_Constraint):
    """All devices have the same value."""

    _first: Object

    def _fits(self, value: Object) -> bool:
        kind = next((one for one in _TYPES if one in value), None)
        return kind is not None and kind in self._first and bool(value[kind] == self._first[kind])

    def _keep(self, request: str, value: Object) -> None:
        if not self._devices:
            self._first = value


class _Distinct(_Constraint):
    """No two requests have devices with the same value; Kubernetes remembers one device of each request."""

    def __init__(self, requests: Iterable[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: dict[str, Object] = {}

    def remove(self, request: str) -> None:
        super().remove(request)
        self._values.pop(request, None)

    def _fits(self, value: Object) -> bool:
        kind = next((one for one in _TYPES if one in value), None)
        if kind is None:
            return not self._values
        return all(kind not in other or other[kind] != value[kind] for other in self._values.values())

    def _keep(self, request: str, value: Object) -> None:
        self._values[request] = value


def _constraint(claim: Object, number: int, constraint: Object) -> _Constraint:
    requests = constraint.get("requests", ())
    if "matchAttribute" in constraint:
        return _Match(requests, constraint["matchAttribute"])
    if "distinctAttribute" in constraint:
        return _Distinct(requests, constraint["distinctAttribute"])
    raise AllocationError(
        f"claim {_key(claim)}, constraint #{number}: empty constraint (unsupported constraint type?)"
    )


def _is_repelled(device: Object, request: Object) -> bool:
    return any(
        taint["effect"] in ("NoSchedule", "NoExecute")
        and not any(tolerates(one, taint) for one in request.get("tolerations", ()))
        for taint in device.get("taints", ())
    )


def tolerates(toleration: Object, taint: Object) -> bool:
    """Whether a toleration of a request tolerates the taint of a device."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    operator = toleration.get("operator", "")
    if operator in ("", "Equal"):
        return bool(toleration.get("value", "") == taint.get("value", ""))
    return bool(operator == "Exists")


def consumed_capacity(request: Object, device: Object) -> dict[str, str]:
    """What a request consumes of each capacity of a device."""
    wanted = request.get("capacity", {}).get("requests", {})
    return {
        name: consumed_quantity(wanted.get(name), capacity)
        for name, capacity in device.get("capacity", {}).items()
    }


def consumed_quantity(wanted: str | None, capacity: Object) -> str:
    """What a request consumes of a capacity: at least what it wants, rounded up to what its policy allows."""
    policy = capacity.get("requestPolicy", {})
    if wanted is None:
        found: str = policy.get("default", capacity["value"])
        return found
    if "min" in policy.get("validRange", {}):
        return _in_range(wanted, policy["validRange"])
    return next((one for one in policy.get("validValues", ()) if amount_of(wanted) <= amount_of(one)), wanted)


def _in_range(wanted: str, valid: Object) -> str:
    if amount_of(wanted) < amount_of(valid["min"]):
        return str(valid["min"])
    if "step" not in valid:
        return wanted
    least, step = _whole(valid["min"]), _whole(valid["step"])
    steps = -(-(_whole(wanted) - least) // step)
    return quantity_text((least + step * steps) * NANOS, "binary")


def _whole(quantity: str) -> int:
    return -(-amount_of(quantity) // NANOS)


def _violates(consumed: str, policy: Object) -> bool:
    if policy.get("default") == consumed:
        return False
    amount, valid = amount_of(consumed), policy.get("validRange")
    if valid is None:
        values = policy.get("validValues", ())
        return bool(values) and all(amount_of(one) != amount for one in values)
    if "max" in valid and amount > amount_of(valid["max"]):
        return True
    return "step" in valid and (_whole(consumed) - _whole(valid["min"])) % _whole(valid["step"]) != 0
