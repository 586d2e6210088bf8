"""Percentiles are measured latencies."""

from __future__ import annotations

from benchmarks.loads.latency import percentile, summary


def test_percentile_is_nearest_rank() -> None:
    values = [float(value) for value in range(1, 101)]
    assert (percentile(values, 50), percentile(values, 99)) == (50.0, 99.0)
    assert percentile([7.0], 99) == 7.0


def test_summary_is_in_milliseconds() -> None:
    assert summary([0.003, 0.001, 0.002]) == {"p50": 2.0, "p95": 3.0, "p99": 3.0, "max": 3.0}
    assert summary([]) == {}
