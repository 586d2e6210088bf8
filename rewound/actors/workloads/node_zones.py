"""How fast unready nodes get the taints that evict their pods: by zones, and not while all are down.

As in v1.25, a zone is tainted one node at a time, at `--node-eviction-rate`. If many of its nodes are not ready, it is
slower or stops, because the network is the more likely cause. If no node of any zone is ready, nothing is evicted, and
existing taints are removed. No I/O: the controller calls this with its counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from rewound.actors.controllers.options import WorkloadOptions


class ZoneState(Enum):
    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


class Change(Enum):
    """The result of a pass over all zones."""

    NONE = "none"
    ALL_DOWN = "all zones are down"
    SOME_BACK = "some nodes are ready again"


class Count(NamedTuple):
    ready: int = 0
    not_ready: int = 0


@dataclass(slots=True)
class Zone:
    rate: float  # nodes per second; 0: none
    state: ZoneState = ZoneState.INITIAL
    free_at: float = 0.0  # when the next node may be tainted
    waiting: dict[str, None] = field(default_factory=dict)  # names of nodes, first come, first served

    def change_rate(self, rate: float, now: float) -> None:
        if rate == self.rate:
            return
        used = self.rate <= 0 or now < self.free_at
        self.rate = rate
        if rate > 0 and used:
            self.free_at = now + 1 / rate

    def take(self, now: float) -> str | None:
        """The next node to taint; None if none is waiting, or not yet."""
        if not self.waiting or self.rate <= 0 or now < self.free_at:
            return None
        self.free_at = now + 1 / self.rate
        name = next(iter(self.waiting))
        del self.waiting[name]
        return name


class Zones:
    def __init__(self, options: WorkloadOptions) -> None:
        self._options = options
        self._zones: dict[str, Zone] = {}

    def clear(self) -> None:
        self._zones.clear()

    def __iter__(self) -> Iterator[str]:
        return iter(self._zones)

    def get(self, key: str) -> Zone | None:
        return self._zones.get(key)

    def wait(self, key: str, node: str) -> None:
        """Taint the node when its zone allows it."""
        self._zones.setdefault(key, Zone(self._options.node_eviction_rate)).waiting.setdefault(node)

    def withdraw(self, node: str) -> None:
        for zone in self._zones.values():
            zone.waiting.pop(node, None)

    def update(self, counts: Mapping[str, Count], now: float) -> Change:
        """Set the counts of ready nodes of each zone, and the rates."""
        for key in counts.keys() - self._zones.keys():
            self._zones[key] = Zone(self._options.node_eviction_rate)
        for key in [key for key, zone in self._zones.items() if key not in counts and not zone.waiting]:
            del self._zones[key]
        states = {key: self._state(count) for key, count in counts.items()}
        full = ZoneState.FULL_DISRUPTION
        are_down = all(state is full for state in states.values())
        were_down = all(self._zones[key].state is full for key in counts)
        if are_down and were_down:
            return Change.NONE
        for key in counts:
            zone = self._zones[key]
            rate = 0.0 if are_down else self._rate(states[key], sum(counts[key]))
            if are_down or were_down or zone.state is not states[key]:
                zone.change_rate(rate, now)
            zone.state = states[key]
        if are_down:
            return Change.ALL_DOWN
        return Change.SOME_BACK if were_down else Change.NONE

    def _state(self, count: Count) -> ZoneState:
        if not count.ready and count.not_ready:
            return ZoneState.FULL_DISRUPTION
        threshold = self._options.unhealthy_zone_threshold
        if count.not_ready > 2 and count.not_ready / sum(count) >= threshold:
            return ZoneState.PARTIAL_DISRUPTION
        return ZoneState.NORMAL

    def _rate(self, state: ZoneState, size: int) -> float:
        if state is not ZoneState.PARTIAL_DISRUPTION:
            return self._options.node_eviction_rate
        if size > self._options.large_cluster_size_threshold:
            return self._options.secondary_node_eviction_rate
        return 0.0
