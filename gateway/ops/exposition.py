"""The text of /metrics, formatted from a snapshot of the numbers.

Runs in a worker thread: formatting takes 20 ms once every resource has been used, and importing prometheus_client, at
the first scrape, needs 13 MB and 200 ms.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from journal.classes.dataclass import dataclass

if TYPE_CHECKING:
    from prometheus_client.core import Metric

OTHER = "other"
# Seconds; most requests take well under a millisecond, a watch may take minutes.
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
# Authorization verbs to the names that Kubernetes' metrics use.
METHODS = {
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
    "connect": "CONNECT",
    OTHER: OTHER,
}

Key = tuple[str, str, str, int]  # verb, group, resource, status code
# One number, or one for each value of the label (of the labels: a tuple).
Value = (
    float
    | Mapping[str, float]
    | Mapping[tuple[str, str], float]
    | Mapping[tuple[str, str, str], float]
    | Mapping[tuple[str, ...], float]
)
Read = Callable[[], Value]
Buckets = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A metric whose value is read at scrape time."""

    name: str
    text: str
    read: Read
    is_counter: bool  # else a gauge
    labels: tuple[str, ...] = ()


# By labels: the sum of the seconds, and how many took up to each bound and more than the one before.
Durations = Mapping[tuple[str, ...], tuple[float, Buckets]]


@dataclass(frozen=True, slots=True)
class DurationReading:
    """A histogram of seconds whose values are read at scrape time."""

    name: str
    text: str
    read: Callable[[], Durations]
    bounds: tuple[float, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    release: str
    series: Mapping[Key, tuple[float, Buckets]]  # seconds, and requests by duration
    values: Sequence[tuple[Reading, Value]]
    durations: Sequence[tuple[DurationReading, Durations]] = ()

    def collect(self) -> Iterator[Metric]:
        """Implements prometheus_client's Collector."""
        from prometheus_client.core import GaugeMetricFamily

        build = GaugeMetricFamily(
            "rewound_build_info", "The release, and the version of Python.", labels=["version", "python"]
        )
        build.add_metric([self.release, platform.python_version()], 1)
        yield build
        yield from self._requests()
        for reading, value in self.values:
            yield _family(reading, value)
        for histogram, durations in self.durations:
            yield _histogram(histogram, durations)

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
        for name, (seconds, buckets) in durations.items():
            took.add_metric(list(name), _cumulative(BOUNDS, buckets), seconds)
        yield total
        yield took

    def _totals(self) -> tuple[dict[Key, int], dict[tuple[str, str, str], tuple[float, Buckets]]]:
        """Counts by all labels, and durations by all labels but the status code."""
        counts: dict[Key, int] = {}
        durations: dict[tuple[str, str, str], tuple[float, Buckets]] = {}
        for (verb, group, resource, code), (seconds, buckets) in self.series.items():
            names = (METHODS[verb], group, resource)
            counts[*names, code] = counts.get((*names, code), 0) + sum(buckets)
            if names in durations:
                before, others = durations[names]
                seconds += before
                buckets = tuple(one + other for one, other in zip(buckets, others, strict=True))
            durations[names] = seconds, buckets
        return counts, durations


def exposition(snapshot: Snapshot) -> bytes:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.process_collector import ProcessCollector

    registry = CollectorRegistry(auto_describe=False)
    registry.register(snapshot)
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def _cumulative(bounds: tuple[float, ...], buckets: Buckets) -> list[tuple[str, float]]:
    total = 0
    found: list[tuple[str, float]] = []
    for bound, count in zip([*map(str, bounds), "+Inf"], buckets, strict=True):
        total += count
        found.append((bound, total))
    return found


def _family(reading: Reading, value: Value) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    make = CounterMetricFamily if reading.is_counter else GaugeMetricFamily
    family = make(reading.name, reading.text, labels=reading.labels)
    if isinstance(value, Mapping):
        for names, number in value.items():
            family.add_metric([names] if isinstance(names, str) else list(names), number)
    else:
        family.add_metric([], value)
    return family


def _histogram(reading: DurationReading, durations: Durations) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(reading.name, reading.text, labels=reading.labels)
    for names, (seconds, buckets) in durations.items():
        family.add_metric(list(names), _cumulative(reading.bounds, buckets), seconds)
    return family
