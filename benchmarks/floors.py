"""Which floor stands under which work, and how far above it the work is.

A ratio to something measured in the same run, on the same machine, survives a slower or a busier machine;
that is why it stands beside every absolute figure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from benchmarks.commit import BATCHES, measure_commit
from benchmarks.echo import measure_echo
from benchmarks.measurement import Measurement
from benchmarks.options import Options

# Work -> the floors it stands on, one after the other. A create is an echo and a commit.
STANDS_ON = {
    "get": ("echo",),
    "get-rv0": ("echo",),
    "create": ("echo", "commit-16"),
    "delete": ("echo", "commit-16"),
    "journal-append": ("commit-16",),
}
# Work -> the work it must not cost more than.
GROWS_FROM = {
    "page-small-deep": "page-small-first",
    "page-first": "page-small-first",
    "page-middle": "page-small-first",
    "page-deep": "page-small-first",
    "page-behind": "page-small-first",
}


def measure_floors(options: Options, works: frozenset[str]) -> dict[str, Measurement]:
    """The floors that this choice of work needs."""
    needed = {floor for work in works for floor in STANDS_ON.get(work, ())}
    floors: list[Measurement] = []
    if "echo" in needed:
        floors += [measure_echo(options, tls=False), measure_echo(options, tls=True)]
    if "commit-16" in needed:
        floors += [measure_commit(options, batch) for batch in BATCHES]
    return {floor.work: floor for floor in floors}


def with_ratios(
    measured: Mapping[str, Measurement], floors: Mapping[str, Measurement], *, tls: bool
) -> dict[str, Measurement]:
    return {work: _with_ratio(each, measured, floors, tls) for work, each in measured.items()}


def _with_ratio(
    each: Measurement, measured: Mapping[str, Measurement], floors: Mapping[str, Measurement], tls: bool
) -> Measurement:
    figures = dict(each.figures)
    under = _floor_under(each.work, floors, tls)
    if under and "cpu_us" in figures:
        figures["floor_ratio"] = round(figures["cpu_us"] / under, 2)
    base = measured.get(GROWS_FROM.get(each.work, ""))
    if base and "cpu_us" in figures and "cpu_us" in base.figures:
        figures["growth"] = round(figures["cpu_us"] / base.figures["cpu_us"], 2)
    return dataclasses.replace(each, figures=figures)


def _floor_under(work: str, floors: Mapping[str, Measurement], tls: bool) -> float:
    names = [("echo-tls" if tls else "echo-plain") if n == "echo" else n for n in STANDS_ON.get(work, ())]
    if not names or any(name not in floors for name in names):
        return 0.0
    return sum(floors[name].figures["cpu_us"] for name in names)
