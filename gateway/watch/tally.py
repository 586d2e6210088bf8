"""What watching has done and does, counted by resource type: `/metrics` reads it.

Groups count into the tally of their type, which outlives them: counters never go back when a group does.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    frames: int = 0  # events filtered, encoded and framed
    deliveries: int = 0  # events taken whole by a watcher's connection
    lagged: int = 0  # times that a watcher fell behind
    expired: int = 0  # watchers that the watch history passed


@dataclass(frozen=True, slots=True)
class WatchStatistics:
    groups: int
    sweeping: int
    lagging: int
    frames: int
    deliveries: int
    lagged: int
    expired: int
