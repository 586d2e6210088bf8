"""The node lifecycle controller: which nodes are alive, the taints that say so, and that their pods are not ready.

A heartbeat is a renewed Lease or a reported status. It costs one assignment: a node is checked when its grace period
would end, together with all others of that second, and later again if it has sent a heartbeat. A node without one gets
conditions Unknown, and its pods are not ready. Conditions become NoSchedule taints at once. The consequences for pods
are decided `--node-monitor-period` later, for all changes of that time together: then `node_zones` decides which nodes
get NoExecute taints, by which `taint_eviction` evicts pods. At rest only the checks of grace periods
run. A check that runs late shows that the process got no CPU, so that heartbeats waited too: that time does not count.

Work is queued under keys of two texts: pods by namespace and name, all other work by one of the words below and the
name of a node or a zone. No namespace contains a slash.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import trio

from rewound.actors.errors import NotFound
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.selectors.nodes import NO_EXECUTE, NO_SCHEDULE
from rewound.actors.workloads.cache import Key, key_of
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.node_zones import Change, Count, Zones
from rewound.actors.workloads.pods import condition_of, copied, is_ready, node_of
from rewound.actors.workloads.taint_eviction import no_execute_taints
from rewound.journal.records import Event

logger = logging.getLogger(__name__)

_SLOT = "/slot"  # nodes whose grace periods would end in the same second
_HEALTH, _TAINTS, _ZONE = "/health", "/taints", "/zone"  # of a node, of a node, of a zone
_MONITOR: Final = ("/monitor", "")
_SECOND: Final = 1_000_000
# Where a Lease has its time. This is no proof, but in a label or an annotation the quotes would be escaped.
_RENEWED: Final = b'"renewTime":"'
_RENEWED_LENGTH: Final = len(_RENEWED) + len("2006-01-02T15:04:05.000000Z")
_TURN: Final = 50  # nodes per turn of a pass over many: about two milliseconds
_CONFIRM_SECONDS: Final = 1.0  # until a node is checked again before it counts as unreachable
_LATE: Final = 0.1  # seconds of delay of a check, from which on they do not count
_LOGGED: Final = 5.0


class _Keys:
    def __init__(self, names: Names) -> None:
        self.not_ready = names.key("not-ready", "node")
        self.unreachable = names.key("unreachable", "node")
        self.unschedulable = names.key("unschedulable", "node")
        self.by_condition = {  # the key of the taint, by type and status of a condition
            ("Ready", "False"): self.not_ready,
            ("Ready", "Unknown"): self.unreachable,
            ("MemoryPressure", "True"): names.key("memory-pressure", "node"),
            ("DiskPressure", "True"): names.key("disk-pressure", "node"),
            ("NetworkUnavailable", "True"): names.key("network-unavailable", "node"),
            ("PIDPressure", "True"): names.key("pid-pressure", "node"),
        }
        self.of_conditions = frozenset((*self.by_condition.values(), self.unschedulable))
        self.of_health = (self.not_ready, self.unreachable)
        self.zones = (names.key("zone", "failure-domain.beta"), names.key("zone", "topology"))
        self.regions = (names.key("region", "failure-domain.beta"), names.key("region", "topology"))
        self.excluded = names.key("exclude-disruption", "node")
        self.copied_labels = {names.key(one): names.key(one, "beta") for one in ("os", "arch")}


@dataclass(slots=True)
class _Health:
    seen: float  # the last heartbeat of the node
    overdue: float | None = None  # the last heartbeat when the grace period had ended
    confirm_at: float = 0.0  # when it is then checked again
    slot: int | None = None  # the second in which it is checked
    renewed: bytes = b""  # the time in its Lease, as stored
    execute: bool | None = None  # whether it should have a NoExecute taint; None: leave it
    counted: tuple[str, bool] | None = None  # the zone in which it is counted, and whether as ready


class NodeLifecycle(WorkloadController):
    name, account, component = "nodelifecycle", "node-controller", "node-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._options = parts.context.workloads
        self._keys = _Keys(self.names)
        self._nodes = self.cache.collection("nodes")
        self._pods = self.cache.collection("pods")
        # Leases are not in the cache: of five hundred renewals a second, only the time matters.
        self._journal = parts.context.journal
        self._leases = self._journal.type_id(f"leases.{self.names.group('coordination')}")
        self.observed_types = frozenset({self._leases})
        self._pods_of = self._pods.index(node_of)
        self._health: dict[str, _Health] = {}
        self._known: dict[str, Object] = {}  # nodes whose registration was reported
        self._slots: dict[int, list[str]] = {}  # nodes by the second in which they are checked
        self._changed: dict[str, None] = {}  # since the last pass over all
        self._not_ready: set[Key] = set()  # pods to mark
        self._counts: dict[str, Count] = {}  # of nodes, by zone
        self._excused = 0.0  # until when delays of this process have been considered
        self._clock_jumps = parts.context.clock_jumps
        self._zones = Zones(self._options)
        self._nodes.listen(self._node_changed)
        self._pods.listen(self._pod_changed)

    async def catch_up(self) -> None:
        await self.cache.loaded()
        self._health.clear()
        self._known.clear()
        self._slots.clear()
        self._counts.clear()
        self._zones.clear()
        for node in self._nodes:
            self._add_node(node)
        for pod in self._pods:
            if pod["spec"].get("nodeName"):
                self._pod_changed(None, pod)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            name = old["metadata"]["name"]
            if (health := self._health.pop(name, None)) is not None:
                self._count(health, None)
            self._zones.withdraw(name)
            self._monitor_soon(name)
            return
        name = new["metadata"]["name"]
        if old is None or name not in self._health:
            self._add_node(new)
            return
        before, after = condition_of(old, "Ready"), condition_of(new, "Ready")
        if _heartbeat(before) != _heartbeat(after):
            self._health[name].seen = trio.current_time()
        if _facts(old) == _facts(new):
            return
        self._count(self._health[name], new)
        self._schedule_check(name, new)
        self.queue.add((_TAINTS, name))
        self._monitor_soon(name)

    def _add_node(self, node: Object) -> None:
        name, now = node["metadata"]["name"], trio.current_time()
        seen = now
        if condition_of(node, "Ready") is None and not self._has_lease(name):
            created = micros_of(node["metadata"]["creationTimestamp"])
            seen = now - max(0, self.now() - created) / _SECOND
        self._health[name] = health = _Health(seen)
        self._count(health, node)
        self._schedule_check(name, node)
        self.queue.add((_TAINTS, name))
        self._monitor_soon(name)

    def _count(self, health: _Health, node: Object | None) -> None:
        """Count the node in its zone with its current state; without a node, nowhere."""
        new = None
        if node is not None and self._keys.excluded not in _labels(node):
            new = self._zone_of(node), is_ready(node)
        for counted, number in ((health.counted, -1), (new, 1)):
            if counted is not None:
                zone, is_up = counted
                ready, not_ready = self._counts.get(zone, Count())
                self._counts[zone] = Count(ready + number * is_up, not_ready + number * (not is_up))
                if not sum(self._counts[zone]):
                    del self._counts[zone]
        health.counted = new

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id != self._leases or event.namespace != self.names.node_lease_namespace:
                continue
            health = self._health.get(event.name)
            if health is not None and not event.removed:
                start = event.body.find(_RENEWED)
                renewed = event.body[start : start + _RENEWED_LENGTH] if start >= 0 else b""
                if renewed > health.renewed:
                    health.renewed, health.seen = renewed, trio.current_time()

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            self._not_ready.discard(key_of(old))
            return
        node_name = new["spec"].get("nodeName")
        if not node_name:
            return
        node = self._nodes.get("", node_name)
        is_new = old is None or old["spec"].get("nodeName") != node_name
        if is_new and node is not None and self._is_down(node) and is_ready(new):
            self._not_ready.add(key_of(new))
            self.queue.add(key_of(new))

    def _has_lease(self, name: str) -> bool:
        with self._journal.read() as view:
            return view.get(self._leases, self.names.node_lease_namespace, name) is not None

    def _is_down(self, node: Object) -> bool:
        ready = condition_of(node, "Ready")
        return ready is not None and ready["status"] != "True"

    def _monitor_soon(self, name: str) -> None:
        self._changed[name] = None
        self.queue.add_after(_MONITOR, self._options.node_monitor_period)

    def _schedule_check(self, name: str, node: Object) -> None:
        """Check the node when its grace period would end."""
        ready = condition_of(node, "Ready")
        if ready is not None and ready["status"] == "Unknown":
            return
        health = self._health[name]
        slot = ceil(health.seen + self._grace(node))
        if health.slot is not None and health.slot <= slot:
            return
        health.slot = slot
        if slot not in self._slots:
            self._slots[slot] = []
            self.queue.add_after((_SLOT, str(slot)), max(0.0, slot - trio.current_time()))
        self._slots[slot].append(name)

    def _grace(self, node: Object) -> float:
        reported = condition_of(node, "Ready") is not None
        return (
            self._options.node_monitor_grace_period if reported else self._options.node_startup_grace_period
        )

    async def reconcile(self, key: Key) -> None:
        kind, name = key
        if key == _MONITOR:
            await self._monitor()
        elif kind == _SLOT:
            self._check_slot(int(name))
        elif kind == _ZONE:
            self._taint_next(name)
        elif not kind.startswith("/"):
            await self._reconcile_pod(key)
        elif (node := self._nodes.get("", name)) is not None and name in self._health:
            if kind == _HEALTH:
                await self._check_health(node)
            else:
                await self._reconcile_node(node)

    def _excuse_delay(self, due: float) -> None:
        """Do not count time in which this process got no CPU: a check that was due then runs only now."""
        now = trio.current_time()
        late, self._excused = now - max(due, self._excused), now
        if late < _LATE or self._clock_jumps:
            return
        if late >= _LOGGED:
            logger.warning("the process got no CPU for %.0f s, in which no node counts as silent", late)
        for health in self._health.values():
            health.seen = min(health.seen + late, now)

    def _check_slot(self, slot: int) -> None:
        self._excuse_delay(slot)
        for name in self._slots.pop(slot, ()):
            health, node = self._health.get(name), self._nodes.get("", name)
            if health is None or node is None or health.slot != slot:
                continue
            health.slot = None
            if trio.current_time() < health.seen + self._grace(node):
                self._schedule_check(name, node)
            else:
                self.queue.add((_HEALTH, name))

    async def _check_health(self, node: Object) -> None:
        name = node["metadata"]["name"]
        health = self._health[name]
        if health.overdue == health.seen:
            self._excuse_delay(health.confirm_at)
        if trio.current_time() < health.seen + self._grace(node):
            self._schedule_check(name, node)  # it has sent a heartbeat in the meantime
            return
        before = condition_of(node, "Ready")
        if before is not None and before["status"] == "Unknown":
            return
        if health.overdue != health.seen:
            # A test clock that moves by hours wakes nodes and this controller together, in any order.
            health.overdue, health.confirm_at = health.seen, trio.current_time() + _CONFIRM_SECONDS
            self.queue.add_after((_HEALTH, name), _CONFIRM_SECONDS)
            return
        changed = self._without_signs(node)
        await self.client.replace(
            self._nodes.definition, self._nodes.definition.schema.decode_object(changed).object, "status"
        )
        if before is not None and before["status"] == "True":
            message = f"Node {name} status is now: NodeNotReady"
            self._report(node, "NodeNotReady", message)
            for pod in self._pods_of.get(name):
                if is_ready(pod):
                    self._not_ready.add(key_of(pod))
                    self.queue.add(key_of(pod))

    def _without_signs(self, node: Object) -> Object:
        changed, now = copied(node), self.now_text()
        conditions: list[Object] = changed["status"].setdefault("conditions", [])
        # Not NetworkUnavailable: nodes do not report it.
        for condition_type in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
            found = next((one for one in conditions if one["type"] == condition_type), None)
            if found is None:
                found = {
                    "type": condition_type,
                    "status": "Unknown",
                    "lastHeartbeatTime": node["metadata"]["creationTimestamp"],
                    "lastTransitionTime": now,
                    "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.",
                }
                conditions.append(found)
            elif found["status"] != "Unknown":
                found["status"], found["lastTransitionTime"] = "Unknown", now
                found["reason"] = "NodeStatusUnknown"
                found["message"] = "Kubelet stopped posting node status."
        return changed

    async def _monitor(self) -> None:
        changed, self._changed = self._changed, {}
        for number, name in enumerate(changed):
            if number % _TURN == _TURN - 1:
                await trio.lowlevel.checkpoint()
            self._report_registration(name)
            node = self._nodes.get("", name)
            if node is not None and name in self._health:
                self._decide(name, node)
        change = self._zones.update(self._counts, trio.current_time())
        if change is Change.ALL_DOWN:
            for node in self._nodes:
                self._remove_eviction(node)
        elif change is Change.SOME_BACK:
            for health in self._health.values():
                health.seen = trio.current_time()
        for zone in self._zones:
            self.queue.add((_ZONE, zone))

    def _decide(self, name: str, node: Object) -> None:
        ready = condition_of(node, "Ready")
        if ready is None:
            return
        health = self._health[name]
        if ready["status"] == "True":
            health.execute = False
            self._zones.withdraw(name)
        elif any(taint["key"] in self._keys.of_health for taint in no_execute_taints(node)):
            health.execute = True
        else:
            self._zones.wait(self._zone_of(node), name)
        self.queue.add((_TAINTS, name))

    def _remove_eviction(self, node: Object) -> None:
        name = node["metadata"]["name"]
        if name in self._health:
            self._health[name].execute = False
            self.queue.add((_TAINTS, name))
            if self._is_down(node):
                self._zones.wait(self._zone_of(node), name)

    def _report_registration(self, name: str) -> None:
        node, known = self._nodes.get("", name), self._known.get(name)
        if known is not None and (node is None or node["metadata"]["uid"] != known["metadata"]["uid"]):
            del self._known[name]
            self._report(known, "RemovingNode", f"Node {name} event: Removing Node {name} from Controller")
        if node is not None and name not in self._known:
            metadata = {part: node["metadata"][part] for part in ("name", "uid")}
            self._known[name] = {"metadata": metadata}
            self._report(node, "RegisteredNode", f"Node {name} event: Registered Node {name} in Controller")

    def _taint_next(self, key: str) -> None:
        zone, now = self._zones.get(key), trio.current_time()
        if zone is None:
            return
        while (name := zone.take(now)) is not None:
            if name in self._health:
                self._health[name].execute = True
                self.queue.add((_TAINTS, name))
        if zone.waiting and zone.rate > 0:
            self.queue.add_after((_ZONE, key), zone.free_at - now)

    async def _reconcile_node(self, node: Object) -> None:
        patch: Object = {}
        old = node["spec"].get("taints") or []
        if (taints := self._taints(node, old)) != old:
            patch["spec"] = {"taints": taints or None}
        if labels := self._missing_labels(node):
            patch["metadata"] = {"labels": labels}
        if patch:
            metadata = patch.setdefault("metadata", {})
            metadata["resourceVersion"] = node["metadata"]["resourceVersion"]
            await self.client.patch(self._nodes.definition, "", node["metadata"]["name"], patch)

    def _taints(self, node: Object, old: list[Object]) -> list[Object]:
        """The taints that a node should have."""
        wanted = self._no_schedule_keys(node)
        kept = [one for one in old if not self._is_outdated(one, node, wanted)]
        has = {(one["key"], one["effect"]) for one in kept}
        added = [(key, NO_SCHEDULE) for key in wanted]
        if execute := self._no_execute_key(node):
            added.append((execute, NO_EXECUTE))
        now = self.now_text()
        new = [
            {"key": key, "effect": effect, "timeAdded": now}
            for key, effect in added
            if (key, effect) not in has
        ]
        return kept + new

    def _missing_labels(self, node: Object) -> dict[str, str]:
        labels = _labels(node)
        return {
            second: labels[first]
            for first, second in self._keys.copied_labels.items()
            if first in labels and labels.get(second) != labels[first]
        }

    def _no_schedule_keys(self, node: Object) -> list[str]:
        conditions: Sequence[Object] = node["status"].get("conditions") or ()
        found = [self._keys.by_condition.get((one["type"], one["status"])) for one in conditions]
        keys = [key for key in found if key is not None]
        return [*keys, self._keys.unschedulable] if node["spec"].get("unschedulable") else keys

    def _no_execute_key(self, node: Object) -> str:
        """The key of the evicting taint; "" for none, or to leave the present one."""
        ready = condition_of(node, "Ready")
        if not self._health[node["metadata"]["name"]].execute or ready is None or ready["status"] == "True":
            return ""
        return self._keys.not_ready if ready["status"] == "False" else self._keys.unreachable

    def _is_outdated(self, taint: Object, node: Object, wanted: list[str]) -> bool:
        if taint["effect"] == NO_SCHEDULE:
            return taint["key"] in self._keys.of_conditions and taint["key"] not in wanted
        if taint["effect"] != NO_EXECUTE or taint["key"] not in self._keys.of_health:
            return False
        if self._health[node["metadata"]["name"]].execute is False:
            return True
        execute = self._no_execute_key(node)
        return bool(execute) and taint["key"] != execute

    def _zone_of(self, node: Object) -> str:
        labels = _labels(node)
        region, zone = (
            next((labels[key] for key in keys if key in labels), "")
            for keys in (self._keys.regions, self._keys.zones)
        )
        return f"{region}:\0:{zone}" if region or zone else ""

    async def _reconcile_pod(self, key: Key) -> None:
        pod = self._pods.get(*key)
        if pod is not None and key in self._not_ready:
            await self._mark_not_ready(pod)
            self._not_ready.discard(key)

    async def _mark_not_ready(self, pod: Object) -> None:
        node = self._nodes.get("", pod["spec"]["nodeName"])
        if node is None or not self._is_down(node) or not is_ready(pod):
            return
        changed = copied(pod)
        ready = condition_of(changed, "Ready")
        assert ready is not None
        ready["status"], ready["lastTransitionTime"] = "False", self.now_text()
        try:
            await self.client.replace(self._pods.definition, changed, "status")
        except NotFound:
            return
        self.recorder.event(self._pods.definition, pod, "Warning", "NodeNotReady", "Node is not ready")

    def _report(self, node: Object, reason: str, message: str) -> None:
        about = {"metadata": {part: node["metadata"][part] for part in ("name", "uid")}}
        self.recorder.event(self._nodes.definition, about, "Normal", reason, message)


def _heartbeat(ready: Object | None) -> tuple[bool, str]:
    return (False, "") if ready is None else (True, ready.get("lastHeartbeatTime") or "")


def _labels(node: Object) -> dict[str, str]:
    return node["metadata"].get("labels") or {}


def _facts(node: Object) -> object:
    """The facts of a node that lead to work; nodes report much more, and often."""
    conditions = node["status"].get("conditions") or ()
    spec = node["spec"]
    return (
        [(one["type"], one["status"]) for one in conditions],
        spec.get("taints"),
        spec.get("unschedulable"),
        node["metadata"].get("labels"),
        node["metadata"]["uid"],
    )
