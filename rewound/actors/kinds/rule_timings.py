"""How long the rules of custom kinds took to compile and to evaluate, for metrics.

Of the process, like its other `process_...` metrics: compiled schemas are shared by everything in it. Any thread adds.
"""

from __future__ import annotations

from bisect import bisect_left
from threading import Lock
from typing import Final

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds


class RuleDurations:
    __slots__ = ("_counts", "_lock", "_seconds")

    def __init__(self) -> None:
        self._lock = Lock()
        self._seconds = 0.0
        self._counts = [0] * (len(BOUNDS) + 1)  # the last is for those above all bounds

    def add(self, seconds: float) -> None:
        with self._lock:
            self._seconds += seconds
            self._counts[bisect_left(BOUNDS, seconds)] += 1

    def read(self) -> dict[tuple[str, ...], tuple[float, tuple[int, ...]]]:
        with self._lock:
            return {(): (self._seconds, tuple(self._counts))}


COMPILATIONS: Final = RuleDurations()  # one for the rules of each part of a schema
EVALUATIONS: Final = RuleDurations()  # one for all rules of an object
