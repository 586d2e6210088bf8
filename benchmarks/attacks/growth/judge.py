"""Decides whether costs grow faster than n log n, and whether a hold is too long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from benchmarks.attacks.growth.trial import MOST, Point

# Exponent of the growth between the two largest sizes, above that of n log n. Quadratic work, which a fixed part of
# linear work does not hide, is one above it.
MARGIN: Final = 0.4
_MEMORY_FLOOR: Final = 64 << 20


class Bounds(msgspec.Struct, frozen=True):
    """In seconds of processor time."""

    hold: float = 0.05
    most: float = MOST  # for one size
    floor: float = 0.4  # smaller costs are not fitted


BOUNDS: Final = Bounds()


class Finding(msgspec.Struct, frozen=True):
    case: str
    what: str
    points: tuple[Point, ...]

    def __str__(self) -> str:
        lines = [f"{self.case}: {self.what}", "  count     status  cpu s  hold ms  memory MB"]
        for point in self.points:
            used = point.used
            lines.append(
                f"  {point.count:<10}{point.status:>5}{used.cpu:>8.2f}{used.hold * 1000:>9.0f}"
                f"{used.memory / 2**20:>9.0f}{' given up' if point.given_up else ''}"
            )
        longest = max(self.points, key=lambda point: point.used.hold)
        return "\n".join([*lines, *(f"    {line}" for line in longest.used.stack)])


def judge(case: str, points: Sequence[Point], *, fits: bool, bounds: Bounds = BOUNDS) -> list[Finding]:
    given = tuple(points)
    findings = []
    if any(point.given_up for point in points):
        findings.append(Finding(case, "given up", given))
    if (longest := max((point.used.hold for point in points), default=0.0)) > bounds.hold:
        findings.append(Finding(case, f"the loop was held for {longest * 1000:.0f} ms", given))
    if not fits:
        return findings
    accepted = [point for point in points if 200 <= point.status < 300 and not point.given_up]
    counts = [point.count for point in accepted]
    for what, costs, floor in (
        ("processor time", [point.used.cpu for point in accepted], bounds.floor),
        ("memory", [float(point.used.memory) for point in accepted], float(_MEMORY_FLOOR)),
    ):
        if (excess := excess_of(counts, costs, floor)) > MARGIN:
            findings.append(Finding(case, f"{what} grows with n^{1 + excess:.1f} beyond n log n", given))
    return findings


def excess_of(counts: Sequence[int], costs: Sequence[float], floor: float) -> float:
    """By how much the exponent between the two largest sizes exceeds that of n log n; 0 if the costs are too small.

    What the smallest size costs is the constant part of all.
    """
    if len(counts) < 3 or costs[-1] - costs[0] < floor:
        return 0.0
    constant = costs[0]
    before, last = max(costs[-2] - constant, floor / 20), costs[-1] - constant
    exponent = math.log(last / before) / math.log(counts[-1] / counts[-2])
    linearithmic = 1 + math.log(math.log(counts[-1]) / math.log(counts[-2])) / math.log(
        counts[-1] / counts[-2]
    )
    return exponent - linearithmic
