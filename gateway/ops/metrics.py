"""Metrics: requests counted in plain integers, everything else read when somebody asks.

The pipeline calls `observe` once per request; that is one dictionary lookup and two additions. `scrape`
turns the counts into Prometheus text with prometheus_client, which is loaded then and not before: a server
that nobody scrapes does without its 13 MB. Names are those of Kubernetes where dashboards know one.

The series are bounded: a verb or resource that this server does not serve is counted as "other", whatever a
client may think of. Rejected: prometheus_client's own counters on the hot path, at several microseconds
each for locks that a single thread has no use for.
"""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

OTHER = "other"
# Seconds; most answers take well under a millisecond, a watch or a long wait may take minutes.
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
# Rights speak of verbs, dashboards of methods.
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
# One number, or one for each value of the reading's label.
Read = Callable[[], float | Mapping[str, float]]


@dataclass(slots=True)
class _Series:
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))


@dataclass(frozen=True, slots=True)
class Reading:
    """A number that somebody else keeps, fetched at scrape time."""

    name: str
    text: str
    read: Read
    counts: bool  # it only ever grows
    label: str = ""


class Metrics:
    def __init__(self, release: str, known: Callable[[str, str], bool]) -> None:
        """`known(group, resource)`: whether it is served here, so that its name may be a label."""
        self._release = release
        self._known = known
        self._series: dict[Key, _Series] = {}
        self._readings: list[Reading] = []
        self._registry: CollectorRegistry | None = None

    def observe(self, verb: str, group: str, resource: str, status: int, seconds: float) -> None:
        series = self._series.get((verb, group, resource, status))
        if series is None:
            series = self._bounded(verb, group, resource, status)
        series.seconds += seconds
        series.buckets[bisect_left(BOUNDS, seconds)] += 1

    def _bounded(self, verb: str, group: str, resource: str, status: int) -> _Series:
        if verb not in _METHODS:
            verb = OTHER
        if (group or resource) and not self._known(group, resource):
            group, resource = "", OTHER
        return self._series.setdefault((verb, group, resource, status), _Series())

    def forget(self, group: str, resource: str) -> None:
        """Drop the series of a resource that is no longer served, so that kinds that come and go leave nothing."""
        self._series = {key: one for key, one in self._series.items() if key[1:3] != (group, resource)}

    def gauge(self, name: str, text: str, read: Read, label: str = "") -> None:
        self._readings.append(Reading(name, text, read, counts=False, label=label))

    def counter(self, name: str, text: str, read: Read, label: str = "") -> None:
        self._readings.append(Reading(name, text, read, counts=True, label=label))

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
        """What prometheus_client asks of a collector."""
        from prometheus_client.core import GaugeMetricFamily

        build = GaugeMetricFamily(
            "rewound_build_info", "The release that runs, and on what.", labels=["version", "python"]
        )
        build.add_metric([self._release, platform.python_version()], 1)
        yield build
        yield from self._requests()
        for reading in self._readings:
            yield _family(reading)

    def _requests(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        labels = ["verb", "group", "resource"]
        total = CounterMetricFamily("apiserver_request_total", "Requests answered.", labels=[*labels, "code"])
        took = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Time from the head of a request to its answer.",
            labels=labels,
        )
        counts, durations = self._folded()
        for (*names, code), count in counts.items():
            total.add_metric([*names, str(code)], count)
        for name, series in durations.items():
            took.add_metric(list(name), _cumulated(series), series.seconds)
        yield total
        yield took

    def _folded(self) -> tuple[dict[Key, int], dict[tuple[str, str, str], _Series]]:
        """Counts as they are labelled, and durations without their status codes."""
        counts: dict[Key, int] = {}
        durations: dict[tuple[str, str, str], _Series] = {}
        for (verb, group, resource, code), series in self._series.items():
            names = (_METHODS[verb], group, resource)
            counts[*names, code] = counts.get((*names, code), 0) + sum(series.buckets)
            whole = durations.setdefault(names, _Series())
            whole.seconds += series.seconds
            whole.buckets = [one + other for one, other in zip(whole.buckets, series.buckets, strict=True)]
        return counts, durations


def _cumulated(series: _Series) -> list[tuple[str, float]]:
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip([*map(str, BOUNDS), "+Inf"], series.buckets, strict=True):
        total += count
        buckets.append((bound, total))
    return buckets


def _family(reading: Reading) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    make = CounterMetricFamily if reading.counts else GaugeMetricFamily
    family = make(reading.name, reading.text, labels=[reading.label] if reading.label else [])
    value = reading.read()
    if isinstance(value, Mapping):
        for name, number in value.items():
            family.add_metric([name], number)
    else:
        family.add_metric([], value)
    return family
