"""Which baselines belong to which workload, and the ratio of a measurement to its baselines.

A ratio to something measured in the same minute on the same machine stays valid on a slower or busier machine; that
is why the report shows it beside every absolute figure. On shared cores an echo can cost twice what it cost a minute
ago, so the harness measures baselines again right before the workloads that it compares with them.
"""

from __future__ import annotations

import dataclasses

from benchmarks.baselines.commit import BATCHES, measure_commit
from benchmarks.baselines.echo import measure_echo
from benchmarks.options import Options
from benchmarks.reports.measurement import Measurement

# Workload -> its baselines, whose costs add up. A create needs at least an echo and a commit.
BASELINES = {
    "get": ("echo",),
    "get-rv0": ("echo",),
    "create": ("echo", "commit"),
    "delete": ("echo", "commit"),
    "journal-append": ("commit",),
}
MEASURED_BEFORE = frozenset({"create", "get", "journal-append"})
COMMIT = "commit-16"


class Baselines:
    def __init__(self, options: Options) -> None:
        self._options = options
        self.latest: dict[str, Measurement] = {}

    def measure_for(self, work: str) -> None:
        """Measure the baselines of this workload, unless they were measured a moment ago."""
        needed = BASELINES.get(work, ())
        if "echo" in needed and (work in MEASURED_BEFORE or "echo-tls" not in self.latest):
            self._keep(measure_echo(self._options, tls=False), measure_echo(self._options, tls=True))
        if "commit" in needed and (work in MEASURED_BEFORE or COMMIT not in self.latest):
            self._keep(*(measure_commit(self._options, batch) for batch in BATCHES))

    def _keep(self, *baselines: Measurement) -> None:
        self.latest |= {baseline.work: baseline for baseline in baselines}

    def cpu_of(self, work: str, *, tls: bool) -> dict[str, float]:
        """CPU per operation of each baseline of this workload, by name; empty when it has none."""
        names = {"echo": "echo-tls" if tls else "echo-plain", "commit": COMMIT}
        chosen = [names[kind] for kind in BASELINES.get(work, ())]
        if any(name not in self.latest for name in chosen):
            return {}
        return {name: self.latest[name].figures["cpu_us"] for name in chosen}

    def with_ratio(self, each: Measurement, *, tls: bool) -> Measurement:
        """The measurement with its ratio to the latest baselines."""
        cpu = self.cpu_of(each.work, tls=tls)
        if not cpu or "cpu_us" not in each.figures:
            return each
        ratio = round(each.figures["cpu_us"] / sum(cpu.values()), 2)
        figures = {**each.figures, "floor_ratio": ratio}
        return dataclasses.replace(each, figures=figures, notes={**each.notes, "floors": cpu})
