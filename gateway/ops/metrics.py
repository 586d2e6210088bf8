"""Metrics for Prometheus: request counts in plain integers, everything else read at scrape time.

The pipeline calls `observe` once per request, which costs one dictionary lookup and two additions. A scrape copies the
numbers in the event loop and formats them in a thread (`exposition`). Metrics that Kubernetes has too have the same
names.

The number of series is bounded: verbs and resources that this server does not serve are counted as "other". Rejected:
prometheus_client's own counters on the hot path, whose locks cost several microseconds each.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import field

import trio

from gateway.ops.exposition import (
    BOUNDS,
    METHODS,
    OTHER,
    DurationReading,
    Durations,
    Key,
    Read,
    Reading,
    Snapshot,
    exposition,
)
from journal.classes.dataclass import dataclass


@dataclass(slots=True)
class _Series:
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))


class Metrics:
    def __init__(self, release: str, known: Callable[[str, str], bool]) -> None:
        """`known(group, resource)`: whether this server serves the resource, so that it may be a label value."""
        self._release = release
        self._known = known
        self._series: dict[Key, _Series] = {}
        self._readings: list[Reading] = []
        self._durations: list[DurationReading] = []

    def observe(self, verb: str, group: str, resource: str, status: int, seconds: float) -> None:
        series = self._series.get((verb, group, resource, status))
        if series is None:
            series = self._series_for(verb, group, resource, status)
        series.seconds += seconds
        series.buckets[bisect_left(BOUNDS, seconds)] += 1

    def _series_for(self, verb: str, group: str, resource: str, status: int) -> _Series:
        if verb not in METHODS:
            verb = OTHER
        if (group or resource) and not self._known(group, resource):
            group, resource = "", OTHER
        return self._series.setdefault((verb, group, resource, status), _Series())

    def forget(self, group: str, resource: str) -> None:
        """Drop the series of a resource that is no longer served, so that their number stays bounded."""
        self._series = {key: one for key, one in self._series.items() if key[1:3] != (group, resource)}

    def gauge(self, name: str, text: str, read: Read, *labels: str) -> None:
        self._readings.append(Reading(name, text, read, is_counter=False, labels=labels))

    def counter(self, name: str, text: str, read: Read, *labels: str) -> None:
        self._readings.append(Reading(name, text, read, is_counter=True, labels=labels))

    def histogram(
        self, name: str, text: str, read: Callable[[], Durations], bounds: tuple[float, ...], *labels: str
    ) -> None:
        """A histogram of seconds."""
        self._durations.append(DurationReading(name, text, read, bounds, labels))

    async def scrape(self) -> bytes:
        return await trio.to_thread.run_sync(exposition, self.snapshot())

    def snapshot(self) -> Snapshot:
        """The numbers of this moment."""
        series = {key: (one.seconds, tuple(one.buckets)) for key, one in self._series.items()}
        return Snapshot(
            self._release,
            series,
            [(reading, reading.read()) for reading in self._readings],
            [(reading, reading.read()) for reading in self._durations],
        )
