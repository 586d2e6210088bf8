"""The objects that the plugin of resource claims reads: claims, device classes, slices and rules of taints.

Allocations that are decided and not written yet count as in use (`begin`, `end`), so that the next pod gets other
devices. `revision` grows with every change: a decision that took several turns on the event loop compares it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.scheduler.device_allocator import Allocator, DevicesInUse
from rewound.actors.scheduler.device_selectors import DeviceSelectors
from rewound.actors.scheduler.pods import PodFacts
from rewound.actors.scheduler.volume_objects import NoObjects, Objects
from rewound.actors.versions.features import (
    BINDING_CONDITIONS,
    CONSUMABLE_CAPACITY,
    DEVICE_STATUS,
    DEVICE_TAINT_RULES,
    DYNAMIC_ALLOCATION,
    EXTENDED_DEVICES,
    STRUCTURED_DEVICES,
)

_BINDING_TIMEOUT: Final = 600_000_000  # microseconds until a device must be bound


class MissingClaim(Exception):
    """A claim of a pod does not exist, or is another one's."""


class BindingFailed(Exception):
    """A device cannot be bound to its node."""


@dataclass(slots=True)
class DeviceObjects:
    names: Names
    features: frozenset[str]
    now: Callable[[], int]  # in microseconds
    claims: Objects = field(default_factory=NoObjects)
    classes: Objects = field(default_factory=NoObjects)
    slices: Objects = field(default_factory=NoObjects)
    rules: Objects = field(default_factory=NoObjects)  # of taints
    selectors: DeviceSelectors = field(init=False)
    revision: int = field(init=False, default=0)  # grows with every change of an allocation, class or slice
    in_flight: dict[str, Object] = field(
        init=False, default_factory=dict
    )  # allocations that are not written yet, by uid
    _in_use: DevicesInUse = field(init=False, default_factory=DevicesInUse)
    _pending: DevicesInUse = field(init=False, default_factory=DevicesInUse)  # those in flight
    _by_resource: dict[str, str] | None = field(
        init=False, default=None
    )  # the class of each extended resource

    def __post_init__(self) -> None:
        self.selectors = DeviceSelectors(self.names, self.features)
        for claim in self.claims:
            self.count(None, claim)

    def count(self, old: Object | None, new: Object | None) -> None:
        """Follow a change of a claim."""
        for claim, sign in ((old, -1), (new, 1)):
            allocation = allocation_of(claim)
            if allocation is not None:
                self._in_use.count(allocation, sign, shares=CONSUMABLE_CAPACITY in self.features)
        self.revision += 1

    def changed(self) -> None:
        """Follow a change of a class, a slice or a rule."""
        self._by_resource = None
        self.revision += 1

    def begin(self, uid: str, allocation: Object) -> None:
        """Count an allocation that will be written."""
        self.in_flight[uid] = allocation
        self._pending.count(allocation, 1, shares=CONSUMABLE_CAPACITY in self.features)
        self.revision += 1

    def end(self, uid: str) -> None:
        allocation = self.in_flight.pop(uid, None)
        if allocation is not None:
            self._pending.count(allocation, -1, shares=CONSUMABLE_CAPACITY in self.features)
            self.revision += 1

    def allocator(self) -> Allocator:
        in_use = (self._in_use, self._pending)
        return Allocator(
            self.features, in_use, self.device_class, self._tainted(), self.selectors, lambda: str(uuid4())
        )

    def device_class(self, name: str) -> Object | None:
        return self.classes.get("", name)

    def _tainted(self) -> Iterator[Object]:
        """The slices, with the taints of rules."""
        rules = [one["spec"] for one in self.rules] if DEVICE_TAINT_RULES in self.features else []
        for one in self.slices:
            yield _with_taints(one, rules) if rules else one

    def class_of(self, resource: str) -> str | None:
        """The device class of an extended resource."""
        if EXTENDED_DEVICES not in self.features:
            return None
        if self._by_resource is None:
            self._by_resource = self._resources()
        return self._by_resource.get(resource)

    def _resources(self) -> dict[str, str]:
        """If two classes have the same resource, the newer one gets it, or the one whose name is first."""
        found: dict[str, str] = {}
        in_order = sorted(self.classes, key=lambda one: str(one["metadata"]["name"]), reverse=True)
        for one in sorted(in_order, key=lambda one: str(one["metadata"].get("creationTimestamp", ""))):
            name = one["metadata"]["name"]
            found[f"deviceclass.{self.names.key(name, 'resource')}"] = name
            if "extendedResourceName" in one["spec"]:
                found[one["spec"]["extendedResourceName"]] = name
        return found

    def delegated(self, requests: Mapping[str, int]) -> frozenset[str]:
        """The requested resources that a device class provides."""
        if EXTENDED_DEVICES not in self.features:
            return frozenset()
        return frozenset(name for name, wanted in requests.items() if wanted and self.class_of(name))

    def missing(self, pod: Object) -> str:
        """Why a pod cannot be scheduled yet; empty: all its claims exist."""
        try:
            for _ in self.claims_of(pod):
                pass
        except MissingClaim as wrong:
            return str(wrong)
        return ""

    def claims_of(self, pod: Object) -> Iterator[Object]:
        """The claims of a pod. Raises MissingClaim."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        statuses = {one["name"]: one for one in pod.get("status", {}).get("resourceClaimStatuses") or ()}
        for wanted in pod["spec"].get("resourceClaims") or ():
            claim_name = wanted.get("resourceClaimName")
            if claim_name is None:
                made = statuses.get(wanted["name"])
                if made is None:
                    raise MissingClaim(f'pod "{namespace}/{name}": ResourceClaim not created yet')
                claim_name = made.get("resourceClaimName")
                if claim_name is None:
                    continue
            claim = self.claims.get(namespace, claim_name)
            if claim is None:
                raise MissingClaim(f'could not find ResourceClaim "{namespace}/{claim_name}"')
            if "deletionTimestamp" in claim["metadata"]:
                raise MissingClaim(f'resourceclaim "{claim_name}" is being deleted')
            if "resourceClaimName" not in wanted and not _is_controlled(claim, pod):
                raise MissingClaim(
                    f"ResourceClaim {namespace}/{claim_name} was not created for Pod {namespace}/{name} "
                    "(Pod is not owner)"
                )
            yield claim

    def extended_claim(self, pod: Object) -> Object | None:
        """The claim for extended resources that an earlier attempt left."""
        annotation = self.names.key("extended-resource-claim", "resource")
        for claim in self.claims:
            is_extended = claim["metadata"].get("annotations", {}).get(annotation) == "true"
            if is_extended and _is_controlled(claim, pod):
                return claim
        return None

    def claim_may_help(self, old: Object | None, new: Object, pod: PodFacts) -> bool:
        """Whether a waiting pod is worth another attempt after a change of a claim."""
        try:
            uids = [one["metadata"]["uid"] for one in self.claims_of(pod.pod)]
        except MissingClaim:
            return False
        if allocation_of(old) is not None and allocation_of(new) is None:
            return True
        if new["metadata"]["uid"] not in uids:
            return False
        return old is None or bool(old.get("status") != new.get("status"))

    def class_may_help(self, new: Object, pod: PodFacts) -> bool:
        if pod.spec.get("resourceClaims"):
            return True
        implied = f"deviceclass.{self.names.key(new['metadata']['name'], 'resource')}"
        wanted = pod.shape.requests
        return implied in wanted or new["spec"].get("extendedResourceName") in wanted

    def has_failed_binding(self, claim: Object) -> bool:
        """Whether a device of an allocated claim cannot be bound, or has not been in time."""
        if BINDING_CONDITIONS not in self.features or DEVICE_STATUS not in self.features:
            return False
        try:
            return not is_bound(claim) and self.is_late(claim)
        except BindingFailed:
            return True

    def is_late(self, claim: Object) -> bool:
        """Whether the devices of a claim that must be bound have had their time."""
        allocation = allocation_of(claim) or {}
        results = allocation.get("devices", {}).get("results", ())
        if "allocationTimestamp" not in allocation or not any(
            one.get("bindingConditions") for one in results
        ):
            return False
        return micros_of(allocation["allocationTimestamp"]) + _BINDING_TIMEOUT < self.now()


def devices_are_allocated(features: frozenset[str]) -> bool:
    """Whether the scheduler of this version allocates devices."""
    return {DYNAMIC_ALLOCATION, STRUCTURED_DEVICES} <= features


def _is_controlled(claim: Object, pod: Object) -> bool:
    owners = claim["metadata"].get("ownerReferences", ())
    return any(one.get("controller") and one["uid"] == pod["metadata"]["uid"] for one in owners)


def allocation_of(claim: Object | None) -> Object | None:
    found: Object | None = None if claim is None else claim.get("status", {}).get("allocation")
    return found


def _with_taints(one: Object, rules: Sequence[Object]) -> Object:
    spec = one["spec"]
    devices = []
    for device in spec.get("devices", ()):
        taints = [rule["taint"] for rule in rules if _selects(rule.get("deviceSelector", {}), spec, device)]
        devices.append({**device, "taints": [*device.get("taints", ()), *taints]} if taints else device)
    return {**one, "spec": {**spec, "devices": devices}} if devices else one


def _selects(selector: Object, spec: Object, device: Object) -> bool:
    found = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
    return all(selector.get(name) in (None, value) for name, value in found.items())


def is_bound(claim: Object) -> bool:
    """Whether all conditions of the devices of a claim hold. Raises BindingFailed if one of failure does."""
    status, allocation = claim.get("status", {}), allocation_of(claim)
    if allocation is None:
        return False
    for result in allocation["devices"].get("results", ()):
        if not result.get("bindingConditions"):
            continue
        key = [result[name] for name in ("driver", "pool", "device")]
        found = [
            one
            for one in status.get("devices", ())
            if [one[name] for name in ("driver", "pool", "device")] == key
        ]
        if not found:
            return False
        conditions = {one["type"]: one for one in found[0].get("conditions", ()) if one["status"] == "True"}
        for name in result.get("bindingFailureConditions", ()):
            if name in conditions:
                raise BindingFailed(
                    f"device binding failed: claim={claim['metadata']['name']}, "
                    f'reason={conditions[name]["reason"]}, message="{conditions[name]["message"]}"'
                )
        if any(name not in conditions for name in result["bindingConditions"]):
            return False
    return True
