"""Percentiles of latencies: the smallest measured value that enough of the others do not exceed."""

from __future__ import annotations

import math
from collections.abc import Sequence

PERCENTILES = (50, 95, 99)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Nearest rank, so that the answer is always a latency that happened."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds by name; empty when nothing was measured."""
    if not seconds:
        return {}
    ordered = sorted(seconds)
    found = {f"p{percent}": percentile(ordered, percent) for percent in PERCENTILES}
    return {name: round(value * 1000, 3) for name, value in {**found, "max": ordered[-1]}.items()}
