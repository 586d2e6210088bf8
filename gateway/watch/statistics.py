"""Counters and gauges of watches by resource type, for `/metrics`.

All groups of a type share its counters, which outlive them: a counter never decreases when a group ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# Bytes of an event, as in v1.25.
EVENT_SIZES: Final = tuple(1024.0 * 2**power for power in range(8))
_SMALL: Final = EVENT_SIZES[0]


class SentEvents:
    """Events of one kind that watchers got, by size; all interests in the kind share it."""

    __slots__ = ("_larger", "bytes", "count")

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self._larger = [0] * len(EVENT_SIZES)  # those above the first bound

    def add(self, frames: Sequence[tuple[int, bytes]], size: int, watchers: int = 1) -> None:
        """So many watchers got these frames, of this size altogether."""
        self.count += len(frames) * watchers
        self.bytes += size * watchers
        if size > _SMALL:
            for _, data in frames:
                if len(data) > _SMALL:
                    self._larger[bisect_left(EVENT_SIZES, len(data)) - 1] += watchers

    def distribution(self) -> tuple[float, tuple[int, ...]]:
        return self.bytes, (self.count - sum(self._larger), *self._larger)


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
