"""The recorded figures of kube-apiserver with etcd; `reference.json` states how they were measured.

They hold for the machine they were measured on. On another machine, measure a reference in the same run instead
(`--url ... --both`); the charts then use that one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reports.report import Report

RECORDED = Path(__file__).with_name("reference.json")


@dataclass(frozen=True, slots=True)
class Reference:
    server: str
    machine: str
    figures: dict[str, dict[str, float]]  # by workload; figures have the names of `measurement`

    def figure(self, work: str, name: str) -> float | None:
        return self.figures.get(work, {}).get(name)


def recorded(path: Path = RECORDED) -> Reference:
    document = json.loads(path.read_text())
    figures = {work: _best(runs) for work, runs in document["works"].items()}
    return Reference(document["server"], document["machine"], {**figures, **document["standing"]})


def _best(runs: list[dict[str, Any]]) -> dict[str, float]:
    """The better value of each figure, so that a slow moment of the reference does not flatter our server."""
    best: dict[str, float] = {}
    for name in ("rate", "cpu_us", "p50_ms", "p99_ms", "mb"):
        values = [run[name] for run in runs if name in run]
        if values:
            best[name] = max(values) if name == "rate" else min(values)
    return best


def reference_of(report: Report) -> Reference:
    """The other server of the run, or the recorded reference."""
    other = report.other
    if other is None:
        return recorded()
    return Reference(f"{other.name} {other.version}".strip(), "", dict(other.figures))
