"""The controller of ResourcePoolStatusRequests: counts the devices of a driver's pools, and writes the status once.

Only slices of the newest generation of a pool count. While one of the pools lacks slices, the request has no status: a
driver may be about to publish them. The controller looks again some times within a fraction of a second, and then only
after a change of the request. A request is deleted an hour after it got its status, or a day after its creation.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from rewound.actors.errors import Conflict, NotFound
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.runtime.steps import Steps, parts_of
from rewound.actors.runtime.turns import in_turns
from rewound.actors.workloads.cache import Key, key_of
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.pods import condition_of

_SECOND: Final = 1_000_000
_DEFAULT_LIMIT: Final = 100
_MOST_DEVICES: Final = 2**31 - 1  # that the status can say
_MOST_RETRIES: Final = 5
_FIRST_PAUSE: Final = 0.005  # seconds; doubled with every retry
_ANSWERED_FOR, _PENDING_FOR = 3600, 24 * 3600  # seconds until a request with and without a status is deleted

Pool = tuple[str, str]  # driver and name


class PoolStatusRequests(WorkloadController):
    name = account = "resourcepoolstatusrequest-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        group = self.names.group("resource")
        self._requests = self.keyed_by(f"resourcepoolstatusrequests.{group}")
        self._slices = self.cache.collection(f"resourceslices.{group}")
        self._claims = self.cache.collection(f"resourceclaims.{group}")
        self._retries: dict[Key, int] = {}
        self._requests.listen(self._request_changed)

    def _request_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._retries.pop(key_of(old), None)

    async def reconcile(self, key: Key) -> None:
        request = self._requests.get(*key)
        if request is None:
            return
        if await self._expire(key, request) or "status" in request:
            return
        limit: int = request["spec"].get("limit", _DEFAULT_LIMIT)
        pools = await in_turns(self._pools_of(request["spec"]))
        if None in pools[:limit]:
            self._retry(key)
            return
        self._retries.pop(key, None)
        try:
            answered = {**request, "status": self._status(pools, limit)}
            await self.client.replace(self._requests.definition, answered, "status")
        except (Conflict, NotFound):
            return  # a change leads to another call

    async def _expire(self, key: Key, request: Object) -> bool:
        """Delete a request that is too old; otherwise look at it again when it will be."""
        metadata = request["metadata"]
        since, seconds = metadata["creationTimestamp"], _PENDING_FOR
        if "status" in request:
            ended = condition_of(request, "Complete") or condition_of(request, "Failed")
            since, seconds = ended["lastTransitionTime"] if ended is not None else since, _ANSWERED_FOR
        left = micros_of(since) + seconds * _SECOND - self.now()
        if left > 0:
            self.queue.add_after(key, left / _SECOND)
            return False
        try:
            await self.client.delete(self._requests.definition, *key, DeleteOptions(uid=metadata["uid"]))
        except NotFound:
            pass
        return True

    def _retry(self, key: Key) -> None:
        tried = self._retries.get(key, 0)
        if tried < _MOST_RETRIES:
            self._retries[key] = tried + 1
            self.queue.add_after(key, _FIRST_PAUSE * 2**tried)
        else:
            self._retries.pop(key, None)

    def _pools_of(self, spec: Object) -> Steps[list[Object | None]]:
        """The status of each pool that is asked for, by name; None: it lacks slices."""
        newest: dict[Pool, list[Object]] = {}
        for part in parts_of(self._slices):
            for one in part:
                offered, pool = one["spec"], one["spec"]["pool"]
                if offered["driver"] != spec["driver"] or pool["name"] != spec.get("poolName", pool["name"]):
                    continue
                found = newest.setdefault((offered["driver"], pool["name"]), [])
                if found and found[0]["pool"]["generation"] < pool["generation"]:
                    found.clear()
                if not found or found[0]["pool"]["generation"] == pool["generation"]:
                    found.append(offered)
            yield
        allocated: Counter[Pool] = Counter()
        for part in parts_of(self._claims):
            for claim in part:
                allocation = claim.get("status", {}).get("allocation") or {}
                for device in allocation.get("devices", {}).get("results") or ():
                    allocated[device["driver"], device["pool"]] += 1
            yield
        return [_pool_status(pool, newest[pool], allocated[pool]) for pool in sorted(newest)]

    def _status(self, pools: list[Object | None], limit: int) -> Object:
        shown = pools[:limit]
        condition = {
            "type": "Complete",
            "status": "True",
            "lastTransitionTime": self.now_text(),
            "reason": "CalculationComplete",
            "message": f"Calculated status for {len(shown)} pools",
        }
        return {"poolCount": len(pools), "pools": shown, "conditions": [condition]}


def _pool_status(pool: Pool, slices: list[Object], allocated: int) -> Object | None:
    """`slices`: the specs of those of the newest generation, at least one. None: there should be more of them."""
    driver, name = pool
    first = slices[0]["pool"]
    if len(slices) < first["resourceSliceCount"]:
        return None
    found: dict[str, Any] = {"driver": driver, "poolName": name, "generation": first["generation"]}
    nodes = {one.get("nodeName", "") for one in slices}
    if len(nodes) == 1 and "" not in nodes:
        found["nodeName"] = nodes.pop()
    total = min(sum(len(one.get("devices") or ()) for one in slices), _MOST_DEVICES)
    allocated = min(allocated, _MOST_DEVICES)
    return found | {
        "resourceSliceCount": len(slices),
        "totalDevices": total,
        "allocatedDevices": allocated,
        "availableDevices": max(total - allocated, 0),
        "unavailableDevices": 0,  # Kubernetes does not count taints and conditions yet
    }
