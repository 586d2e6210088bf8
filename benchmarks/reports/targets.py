"""The figures the project has promised, as data. The report says met or not met; no test asserts a time.

A bar names a figure of a measurement (see `measurement`) and the most or the least it may be. They hold
with TLS (where the words do not say plain), authentication, validation and fsync on, one server process, 2 cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.reports.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Bar:
    work: str
    figure: str
    at_most: float | None
    words: str
    at_least: float | None = None


BARS = (
    Bar("get", "cpu_us", 140, "get one 1 kB object"),
    Bar("get", "floor_ratio", 2.0, "get, over the bare TLS echo"),
    Bar("list", "cpu_us", 6_000, "list 2,000 of 1 kB"),
    Bar("list-selector", "cpu_us", 6_000, "list, a label matching 1/16 of 2,000"),
    Bar("page-first", "cpu_us", 900, "page of 100, first of 100,000"),
    Bar("page-middle", "cpu_us", 900, "page of 100, middle of 100,000"),
    Bar("page-deep", "cpu_us", 900, "page of 100, end of 100,000"),
    # Not more than rounds of one and the same page differ on a shared machine.
    Bar("page-deep", "growth", 1.25, "the same, over the first page of 2,000"),
    Bar("create", "cpu_us", 330, "create 1 kB, 16 connections"),
    Bar("ownership-create", "cpu_us", 60, "ownership of a new 1 kB ConfigMap"),
    Bar("ownership-update", "cpu_us", 60, "ownership after an update of it"),
    Bar("ownership-pod-update", "cpu_us", 1_500, "ownership after an update of a 20-container Pod"),
    Bar("ownership-pod-apply", "cpu_us", 4_000, "apply of a 20-container Pod with three managers"),
    Bar("start", "seconds", 1.0, "start to ready"),
    Bar("memory-idle", "mb", 70, "memory, idle"),
    Bar("journal-open", "seconds", 2.0, "open a journal of a million events"),
    Bar("fanout-plain", "cpu_us", 9, "a delivery, 1,000 watchers, plain, its share of the write included"),
    Bar("fanout-plain", "floor_ratio", 1.3, "the same without the write, over the bare loop"),
    Bar("fanout", "cpu_us", 11, "a delivery, 1,000 watchers, its share of the write included"),
    Bar("fanout", "floor_ratio", 1.3, "the same without the write, over the bare loop with encryption"),
    Bar("burst-plain", "rate", None, "deliveries of 1,000 events to 1,000 watchers, plain", at_least=250_000),
    Bar("burst", "rate", None, "deliveries of 1,000 events to 1,000 watchers", at_least=250_000),
    Bar("fanout-plain-crowd", "all_ms", 250, "10,000 watchers have one event, plain"),
    Bar("fanout-plain-crowd", "others_p99_ms", 50, "other requests meanwhile"),
    Bar("fanout-plain-crowd", "cost_growth", 1.2, "a delivery, 10,000 watchers over 100, plain"),
    Bar("fanout-plain-crowd", "own_growth", 1.2, "the same without the write, over the bare loop's growth"),
    Bar("fanout-crowd", "all_ms", 250, "10,000 watchers have one event"),
    Bar("fanout-crowd", "others_p99_ms", 50, "other requests meanwhile"),
    Bar("fanout-crowd", "cost_growth", 1.2, "a delivery, 10,000 watchers over 100"),
    Bar("fanout-crowd", "own_growth", 1.2, "the same without the write, over the bare loop's growth"),
    Bar("stalled-plain", "p99_ratio", 1.1, "healthy watchers beside 1,000 stalled ones, over alone, plain"),
    Bar("stalled-plain", "grown_mb", 20, "memory for 1,000 stalled watchers, plain"),
    Bar("stalled", "p99_ratio", 1.1, "healthy watchers beside 1,000 stalled ones, over alone"),
    Bar("stalled", "grown_mb", 20, "memory for 1,000 stalled watchers"),
    Bar("idle-plain", "kb", 12, "memory of a watcher at rest, plain"),
    Bar("idle", "kb", 30, "memory of a watcher at rest"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    bar: Bar
    figure: float

    @property
    def met(self) -> bool:
        most, least = self.bar.at_most, self.bar.at_least
        return (most is None or self.figure <= most) and (least is None or self.figure >= least)


def judge(measured: Mapping[str, Measurement]) -> list[Verdict]:
    """The bars of everything that was measured."""
    return [
        Verdict(bar, measured[bar.work].figures[bar.figure])
        for bar in BARS
        if bar.work in measured and bar.figure in measured[bar.work].figures
    ]
