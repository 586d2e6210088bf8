"""Metrics for Prometheus: request counts in plain integers, everything else read at scrape time.

The pipeline calls `observe` once per request, which costs one dictionary lookup and two additions. `scrape` formats the
counts with prometheus_client, which is imported on the first scrape, in a thread: it needs 13 MB and 200 ms.
Metrics that Kubernetes has too have the same names.

The number of series is bounded: verbs and resources that this server does not serve are counted as "other". Rejected:
prometheus_client's own counters on the hot path, whose locks cost several microseconds each.
"""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.background_import import imported

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

OTHER = "other"
# Seconds; most requests take well under a millisecond, a watch may take minutes.
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
# Authorization verbs to the names that Kubernetes' metrics use.
_METHODS = {
    "get": "GET",
    "list": "LIST",
    "watch": "WATCH",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
    "post": "POST",
    "put": "PUT",
    OTHER: OTHER,
}

Key = tuple[str, str, str, int]  # verb, group, resource, status code
# One number, or one for each value of the label (of the labels: a tuple).
Read = Callable[
    [], float | Mapping[str, float] | Mapping[tuple[str, str], float] | Mapping[tuple[str, str, str], float]
]


@dataclass(slots=True)
class _Series:
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))


@dataclass(frozen=True, slots=True)
class Reading:
    """A metric whose value is read at scrape time."""

    name: str
    text: str
    read: Read
    is_counter: bool  # else a gauge
    labels: tuple[str, ...] = ()


class Metrics:
    def __init__(self, release: str, known: Callable[[str, str], bool]) -> None:
        """`known(group, resource)`: whether this server serves the resource, so that it may be a label value."""
        self._release = release
        self._known = known
        self._series: dict[Key, _Series] = {}
        self._readings: list[Reading] = []
        self._registry: CollectorRegistry | None = None

    def observe(self, verb: str, group: str, resource: str, status: int, seconds: float) -> None:
        series = self._series.get((verb, group, resource, status))
        if series is None:
            series = self._series_for(verb, group, resource, status)
        series.seconds += seconds
        series.buckets[bisect_left(BOUNDS, seconds)] += 1

    def _series_for(self, verb: str, group: str, resource: str, status: int) -> _Series:
        if verb not in _METHODS:
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

    async def load_and_scrape(self) -> bytes:
        await imported("prometheus_client")
        return self.scrape()

    def scrape(self) -> bytes:
        from prometheus_client import generate_latest

        if self._registry is None:
            self._registry = self._make_registry()
        return generate_latest(self._registry)

    def _make_registry(self) -> CollectorRegistry:
        from prometheus_client import CollectorRegistry
        from prometheus_client.process_collector import ProcessCollector

        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        return registry

    def collect(self) -> Iterator[Metric]:
        """Implements prometheus_client's Collector."""
        from prometheus_client.core import GaugeMetricFamily

        build = GaugeMetricFamily(
            "rewound_build_info", "The release, and the version of Python.", labels=["version", "python"]
        )
        build.add_metric([self._release, platform.python_version()], 1)
        yield build
        yield from self._requests()
        for reading in self._readings:
            yield _family(reading)

    def _requests(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        labels = ["verb", "group", "resource"]
        total = CounterMetricFamily(
            "apiserver_request_total", "Requests with a response.", labels=[*labels, "code"]
        )
        took = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Time from the head of a request to its response.",
            labels=labels,
        )
        counts, durations = self._totals()
        for (*names, code), count in counts.items():
            total.add_metric([*names, str(code)], count)
        for name, series in durations.items():
            took.add_metric(list(name), _cumulative(series), series.seconds)
        yield total
        yield took

    def _totals(self) -> tuple[dict[Key, int], dict[tuple[str, str, str], _Series]]:
        """Counts by all labels, and durations by all labels but the status code."""
        counts: dict[Key, int] = {}
        durations: dict[tuple[str, str, str], _Series] = {}
        for (verb, group, resource, code), series in self._series.items():
            names = (_METHODS[verb], group, resource)
            counts[*names, code] = counts.get((*names, code), 0) + sum(series.buckets)
            whole = durations.setdefault(names, _Series())
            whole.seconds += series.seconds
            whole.buckets = [one + other for one, other in zip(whole.buckets, series.buckets, strict=True)]
        return counts, durations


def _cumulative(series: _Series) -> list[tuple[str, float]]:
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip([*map(str, BOUNDS), "+Inf"], series.buckets, strict=True):
        total += count
        buckets.append((bound, total))
    return buckets


def _family(reading: Reading) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    make = CounterMetricFamily if reading.is_counter else GaugeMetricFamily
    family = make(reading.name, reading.text, labels=reading.labels)
    value = reading.read()
    if isinstance(value, Mapping):
        for names, number in value.items():
            family.add_metric([names] if isinstance(names, str) else list(names), number)
    else:
        family.add_metric([], value)
    return family
