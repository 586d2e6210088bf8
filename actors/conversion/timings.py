"""How long calls of conversion webhooks take, by definition, versions and success, for metrics of Kubernetes' name.

Definitions are made by clients: beyond MAX_SERIES they are counted together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

# Seconds, as in v1.25.
BOUNDS: Final = tuple(0.001 * 2**power for power in range(15))
MAX_SERIES: Final = 1000
OTHER: Final = "other"

Labels = tuple[str, ...]


class ConversionTimings:
    def __init__(self) -> None:
        self._series: dict[Labels, tuple[float, list[int]]] = {}

    def called(self, name: str, source: str, target: str, succeeded: bool, seconds: float) -> None:
        """`source` and `target` are apiVersions."""
        labels = name, source.rpartition("/")[2], target.rpartition("/")[2], str(succeeded).lower()
        if labels not in self._series and len(self._series) >= MAX_SERIES:
            labels = OTHER, OTHER, OTHER, labels[3]
        total, counts = self._series.get(labels, (0.0, [0] * (len(BOUNDS) + 1)))
        counts[bisect_left(BOUNDS, seconds)] += 1
        self._series[labels] = total + seconds, counts

    def durations(self) -> Mapping[Labels, tuple[float, tuple[int, ...]]]:
        """Seconds in all, and how many calls took up to each bound and more than the one before, by labels."""
        return {labels: (total, tuple(counts)) for labels, (total, counts) in self._series.items()}
