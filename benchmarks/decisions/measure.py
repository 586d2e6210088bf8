"""CPU time of small functions, compared within one run.

Alternatives take turns round by round, so that whatever slows the machine slows all of them; the best round of each
counts. Compare ratios, not microseconds: those depend on the machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Work = Callable[[], object]

ROUNDS = 15
SECONDS = 0.01  # CPU time of one round of one alternative


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: `quick` calls everything once, to see that it works."""

    quick: bool = False

    @property
    def rounds(self) -> int:
        return 1 if self.quick else ROUNDS

    def count(self, seconds_per_call: float) -> int:
        return 1 if self.quick else max(1, int(SECONDS / max(seconds_per_call, 1e-8)))


def cpu_seconds(work: Work, count: int = 1) -> float:
    begin = time.process_time()
    for _ in range(count):
        work()
    return time.process_time() - begin


def compare(
    title: str, alternatives: Mapping[str, Work], effort: Effort, *, per: int = 1
) -> dict[str, float]:
    """Print and return the microseconds of CPU that each alternative takes; `per`: operations in one call."""
    counts = {}
    for name, work in alternatives.items():
        work()
        counts[name] = effort.count(min(cpu_seconds(work) for _ in range(3)))
    best = dict.fromkeys(alternatives, float("inf"))
    for _ in range(effort.rounds):
        for name, work in alternatives.items():
            best[name] = min(best[name], cpu_seconds(work, counts[name]) / counts[name] / per)
    show(title, {name: seconds * 1e6 for name, seconds in best.items()}, "us")
    return best


def show(title: str, figures: Mapping[str, float], unit: str) -> None:
    """Print figures, and each as a multiple of the first."""
    print(title)
    first = next(iter(figures.values()))
    for name, figure in figures.items():
        ratio = figure / first if first else float("nan")
        print(f"    {name:52} {figure:12.2f} {unit:3} {ratio:8.2f} x")


def effort_of_command_line() -> Effort:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="call everything once, to see that it works")
    return Effort(parser.parse_args().quick)
