"""Percentiles of latencies by nearest rank: each is a latency that was measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

PERCENTILES = (50, 95, 99)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The nearest rank, so that the result is always a measured latency."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds by name; empty when nothing was measured."""
    if not seconds:
        return {}
    ordered = sorted(seconds)
    found = {f"p{percent}": percentile(ordered, percent) for percent in PERCENTILES}
    return {name: round(value * 1000, 3) for name, value in {**found, "max": ordered[-1]}.items()}


def over_rounds(summaries: Iterable[dict[str, float]]) -> dict[str, float]:
    """Combine summaries of rounds: the median of each percentile, the largest of the maxima."""
    found = [each for each in summaries if each]
    if not found:
        return {}
    middle = {name: statistics.median(each[name] for each in found) for name in found[0]}
    return {**middle, "max": max(each["max"] for each in found)}
