"""The figures the project has promised, as data. The report says met or not met; no test asserts a time.

A bar names a figure of a measurement (see benchmarks.measurement) and the most it may be. They hold with TLS,
authentication, validation and fsync on, one server process, 2 cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Bar:
    work: str
    figure: str
    at_most: float
    words: str


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
    Bar("start", "seconds", 1.0, "start to ready"),
    Bar("memory-idle", "mb", 70, "memory, idle"),
    Bar("journal-open", "seconds", 2.0, "open a journal of a million events"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    bar: Bar
    figure: float

    @property
    def met(self) -> bool:
        return self.figure <= self.bar.at_most


def judge(measured: Mapping[str, Measurement]) -> list[Verdict]:
    """The bars of everything that was measured."""
    return [
        Verdict(bar, measured[bar.work].figures[bar.figure])
        for bar in BARS
        if bar.work in measured and bar.figure in measured[bar.work].figures
    ]
