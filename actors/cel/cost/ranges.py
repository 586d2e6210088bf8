"""Estimated sizes and costs: a least and a most, in unsigned integers of 64 bits that stop at their largest value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

MOST: Final = 2**64 - 1

# What cel-go multiplies sizes with.
STRING_TRAVERSAL: Final = 0.1
REGEX_LENGTH: Final = 0.25


@dataclass(frozen=True, slots=True)
class Range:
    least: int
    most: int

    def plus(self, other: Range) -> Range:
        return Range(min(self.least + other.least, MOST), min(self.most + other.most, MOST))

    def times(self, other: Range) -> Range:
        return Range(min(self.least * other.least, MOST), min(self.most * other.most, MOST))

    def scaled(self, factor: float) -> Range:
        """Times a factor, rounded up."""
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.least, other.least), max(self.most, other.most))


def _scaled(number: int, factor: float) -> int:
    return min(math.ceil(float(number) * factor), MOST)


NOTHING: Final = Range(0, 0)
ONE: Final = Range(1, 1)
ANYTHING: Final = Range(0, MOST)
