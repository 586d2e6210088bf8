"""Our server beside the same one at an earlier commit, measured in the same run, a workload at a time.

A figure is slower if it grew by more than a tenth and no round of now was as fast as the slowest of before: machines
are shared, and a tenth is within their noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.reports.measurement import Measurement

# What a workload is compared by: the first one that it has. Latency and rates depend on who else uses the machine.
FIGURES = ("delivery_us", "cpu_us", "cpu_seconds", "mb", "kb", "seconds")
_MORE = 1.1
_ROUNDS = {"cpu_us": "cpu_us_of_rounds", "cpu_seconds": "cpu_seconds_of_starts"}


@dataclass(frozen=True, slots=True)
class Compared:
    work: str
    figure: str
    before: float
    now: float
    verdict: str  # "slower", "faster" or ""

    @property
    def ratio(self) -> float:
        return round(self.now / self.before, 3)

    def document(self) -> dict[str, Any]:
        return {
            "work": self.work,
            "figure": self.figure,
            "before": self.before,
            "now": self.now,
            "ratio": self.ratio,
            "verdict": self.verdict,
        }


def compared(before: dict[str, Measurement], now: dict[str, Measurement]) -> list[Compared]:
    """The workloads that both did."""
    found = []
    for work, measured in now.items():
        if (earlier := before.get(work)) is None:
            continue
        figure = next(
            (one for one in FIGURES if measured.figures.get(one) and earlier.figures.get(one)), None
        )
        if figure is not None:
            verdict = "slower" if _grew(earlier, measured, figure) else ""
            verdict = "faster" if _grew(measured, earlier, figure) else verdict
            found.append(Compared(work, figure, earlier.figures[figure], measured.figures[figure], verdict))
    return found


def _grew(small: Measurement, large: Measurement, figure: str) -> bool:
    if large.figures[figure] <= _MORE * small.figures[figure]:
        return False
    rounds = _ROUNDS.get(figure, "")
    low, high = small.notes.get(rounds), large.notes.get(rounds)
    return not low or not high or min(high) > max(low)
