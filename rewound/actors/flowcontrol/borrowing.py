"""Priority levels borrow seats that others do not use, as in Kubernetes since 1.26. Pure.

A level has its nominal seats, lends up to `lendablePercent` of them, and borrows up to `borrowingLimitPercent` (without
it: as many as there are). Every `PERIOD` seconds all seats are divided again, by what each level could have used:
running requests and those that waited. `smoothed` is the average of that plus the standard deviation, which rises at
once and falls by half in five minutes. Each level gets the same multiple of it, within its limits:

    nominal   lends   could use   gets
        245     221           0     24      what it does not lend
         98      49         180    180      of what others lend

Seats that no level could use are divided as well. A level that lends takes its own back at the next division.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, sqrt
from typing import Final, NamedTuple

import msgspec

PERIOD: Final = 10.0
_KEPT: Final = 0.977  # of the smoothed demand in a period
_LEAST_TARGET: Final = 0.001  # smaller targets count as this


class Demand:
    """The seats that a level could have used: over the current period, and the figures of the last one."""

    def __init__(self) -> None:
        self._value = 0
        self._at = self._since = 0.0
        self._sum = self._squares = 0.0
        self._most = 0
        self.average = self.deviation = self.smoothed = 0.0
        self.watermark = 0  # the most at any moment

    def note(self, value: int, now: float) -> None:
        """The level could use this many seats from now on."""
        passed, before = now - self._at, self._value
        self._sum += before * passed
        self._squares += before * before * passed
        self._value, self._at = value, now
        if value > self._most:
            self._most = value

    def begin(self, now: float) -> None:
        """Begin a period."""
        self._since = self._at = now
        self._sum = self._squares = 0.0
        self._most = self._value

    def end(self, now: float) -> None:
        """End the period, and begin the next one."""
        self.note(self._value, now)
        self.watermark = self._most
        passed = now - self._since
        if passed > 0:
            self.average = self._sum / passed
            self.deviation = sqrt(max(0.0, self._squares / passed - self.average**2))
            most = self.average + self.deviation
            self.smoothed = max(most, _KEPT * self.smoothed + (1 - _KEPT) * most)
        self.begin(now)

    @property
    def is_forgotten(self) -> bool:
        """Whether there was none for so long that it no longer counts."""
        return not self._most and self.smoothed < _LEAST_TARGET


class Limits(msgspec.Struct, frozen=True):
    """The seats of a level: by its shares, without those that it lends, and with those that it may borrow."""

    nominal: int = 0
    lower: int = 0
    upper: int = 0


NO_LIMITS: Final = Limits()


def limits(nominal: int, lendable_percent: int, borrowing_percent: int | None, total: int) -> Limits:
    borrowed = total if borrowing_percent is None else _rounded(nominal * borrowing_percent / 100)
    return Limits(nominal, nominal - _rounded(nominal * lendable_percent / 100), nominal + borrowed)


class Division(NamedTuple):
    seats: list[int]
    targets: list[float]
    fraction: float  # of its target that each level gets if no limit prevents it


def divide(levels: Sequence[tuple[Limits, Demand]], exempt: Sequence[Limits]) -> Division:
    """Divide all seats over the levels that are limited; `exempt` are those of the other levels."""
    total = sum(one.nominal for one, _ in levels) + sum(one.nominal for one in exempt)
    left = total - sum(one.lower for one in exempt)
    least = [max(one.lower, min(one.nominal, demand.watermark)) for one, demand in levels]
    targets = [max(float(own), demand.smoothed) for own, (_, demand) in zip(least, levels, strict=True)]
    lowest = sum(one.lower for one, _ in levels)
    if left <= lowest:
        return Division([one.lower for one, _ in levels], targets, 0.0)
    if left <= sum(least):
        part = (left - lowest) / (sum(least) - lowest)
        seats = [
            one.lower + _rounded((own - one.lower) * part)
            for own, (one, _) in zip(least, levels, strict=True)
        ]
        return Division(seats, targets, 0.0)
    bounds = [
        (own, max(own, one.upper), max(target, _LEAST_TARGET))
        for own, (one, _), target in zip(least, levels, targets, strict=True)
    ]
    fraction = _fraction(total, bounds)
    return Division([_rounded(share) for share in _shares(fraction, bounds)], targets, fraction)


_Bounds = Sequence[tuple[int, int, float]]  # lower and upper bound, and the target


def _fraction(total: int, bounds: _Bounds) -> float:
    """The fraction of their targets at which the levels have `total` seats in all, each within its bounds.

    Between two fractions at which a level reaches a bound, the sum rises evenly.
    """
    points = sorted({bound / target for low, high, target in bounds for bound in (low, high)})
    before, given = 0.0, float(sum(low for low, _, _ in bounds))
    for point in points:
        reached = sum(_shares(point, bounds))
        if reached >= total:
            rise = reached - given
            return point if rise <= 0 else before + (point - before) * (total - given) / rise
        before, given = point, reached
    return points[-1]


def _shares(fraction: float, bounds: _Bounds) -> list[float]:
    return [max(low, min(high, fraction * target)) for low, high, target in bounds]


def _rounded(number: float) -> int:
    return floor(number + 0.5)
