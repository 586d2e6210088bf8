"""Counters and gauges of watches by resource type, for `/metrics`.

All groups of a type share its counters, which outlive them: a counter never decreases when a group ends.
"""

from __future__ import annotations

from journal.classes.dataclass import dataclass


@dataclass(slots=True)
class WatchCounters:
    tried: int = 0  # groups whose selector an event was compared with
    woken: int = 0  # groups that a commit affected
    frames: int = 0  # events filtered, encoded and framed
    deliveries: int = 0  # events that a watcher's connection took whole
    lagged: int = 0  # times that a watcher fell behind
    expired: int = 0  # watchers whose cursor left the watch history


@dataclass(frozen=True, slots=True)
class WatchStatistics:
    groups: int
    sweeping: int
    lagging: int
    tried: int
    woken: int
    frames: int
    deliveries: int
    lagged: int
    expired: int
