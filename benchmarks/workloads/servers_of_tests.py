"""Servers for tests, as the pytest fixture has them: a start from the warm template, and a restore after a test."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from benchmarks.options import Sizes
from benchmarks.reports.measurement import Measurement
from benchmarks.workloads.workload import Comparison
from rewound.testing.fixture.pool import Pool
from rewound.testing.fixture.rewound import Rewound

CHANGED: Final = 20  # objects that a restore brings back
_COLLECTION: Final = "/api/v1/namespaces/default/configmaps"


def start_and_restore(sizes: Sizes) -> Sequence[Measurement]:
    rounds = 4 * sizes.starts
    with closing(Pool()) as pool:
        server = pool.take("process", "kubernetes")  # makes the template
        starts = [_seconds(lambda: pool.take("process", "kubernetes", fresh=True)) for _ in range(rounds)]
        restores = [_restore(server) for _ in range(rounds)]
    return _measurement("fixture-start", starts), _measurement("fixture-restore", restores)


def _restore(server: Rewound) -> float:
    """Seconds for a restore after a test that wrote some objects, over HTTPS."""
    for number in range(CHANGED):
        server.request(
            "POST", _COLLECTION, {"metadata": {"name": f"object-{number}"}, "data": {"key": "value"}}
        )
    return _seconds(server.restore)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _measurement(work: str, seconds: list[float]) -> Measurement:
    return Measurement(
        work,
        {"seconds": round(statistics.median(seconds), 4)},
        {"seconds_of_each": [round(one, 4) for one in seconds]},
    )


TEST_SERVERS: tuple[Comparison[Sizes], ...] = (
    Comparison(
        "fixture-start",
        {
            "fixture-start": "start of a server for a test, from the warm template",
            "fixture-restore": f"restore {CHANGED} objects between two tests",
        },
        start_and_restore,
    ),
)
