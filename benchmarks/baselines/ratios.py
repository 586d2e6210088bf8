"""Which floor stands under which work, and how far above it the work is.

A ratio to something measured in the same minute, on the same machine, survives a slower or a busier
machine; that is why it stands beside every absolute figure. On shared cores an echo can cost twice of what
it cost a minute ago, so floors are not measured once: they are renewed right before the work that is held
against them.
"""

from __future__ import annotations

import dataclasses

from benchmarks.baselines.commit import BATCHES, measure_commit
from benchmarks.baselines.echo import measure_echo
from benchmarks.options import Options
from benchmarks.reports.measurement import Measurement

# Work -> the floors it stands on, one after the other. A create is an echo and a commit.
STANDS_ON = {
    "get": ("echo",),
    "get-rv0": ("echo",),
    "create": ("echo", "commit"),
    "delete": ("echo", "commit"),
    "journal-append": ("commit",),
}
RENEWED_BEFORE = frozenset({"create", "get", "journal-append"})
COMMIT = "commit-16"


class Floors:
    def __init__(self, options: Options) -> None:
        self._options = options
        self.latest: dict[str, Measurement] = {}

    def prepare(self, work: str) -> None:
        """Measure what this work will be held against, unless it was measured a moment ago."""
        needed = STANDS_ON.get(work, ())
        if "echo" in needed and (work in RENEWED_BEFORE or "echo-tls" not in self.latest):
            self._keep(measure_echo(self._options, tls=False), measure_echo(self._options, tls=True))
        if "commit" in needed and (work in RENEWED_BEFORE or COMMIT not in self.latest):
            self._keep(*(measure_commit(self._options, batch) for batch in BATCHES))

    def _keep(self, *floors: Measurement) -> None:
        self.latest |= {floor.work: floor for floor in floors}

    def under(self, work: str, *, tls: bool) -> dict[str, float]:
        """CPU per operation of each floor of this work, by name; empty when it has none."""
        names = {"echo": "echo-tls" if tls else "echo-plain", "commit": COMMIT}
        chosen = [names[kind] for kind in STANDS_ON.get(work, ())]
        if any(name not in self.latest for name in chosen):
            return {}
        return {name: self.latest[name].figures["cpu_us"] for name in chosen}

    def hold(self, each: Measurement, *, tls: bool) -> Measurement:
        """The measurement with its ratio to the floors of this moment."""
        under = self.under(each.work, tls=tls)
        if not under or "cpu_us" not in each.figures:
            return each
        ratio = round(each.figures["cpu_us"] / sum(under.values()), 2)
        figures = {**each.figures, "floor_ratio": ratio}
        return dataclasses.replace(each, figures=figures, notes={**each.notes, "floors": under})
