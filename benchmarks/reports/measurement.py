"""The result of one workload: figures by name. JSON, tables, targets and charts use the same names.

rate         operations per second
cpu_us       server CPU per operation, microseconds (the median round)
p50_ms ...   latency at the client over all rounds: p50, p95, p99, max
floor_ratio  cpu_us divided by that of the baseline measured in the same run
h1_ratio     cpu_us of a transport divided by that of HTTP/1.1 in the same round, the median round
extra_us     cpu_us minus that of the measurement it is compared with in the same round, the median round
config_map_ratio  cpu_us of a custom resource divided by that of a ConfigMap in the same round, the median round
growth       cpu_us divided by that of the first page of the small collection; delivery_us by that of few watchers
seconds, mb  of workloads that are not a stream of operations: a start, opening a journal, memory
cpu_seconds  of a start: varies less than its seconds where cores are shared

For watches, where an operation is the delivery of one event to one watcher:
delivery_us    cpu_us without the delivery's share of the write; floor_ratio, growth and h1_ratio use this
cost_growth    cpu_us divided by that of few watchers
own_growth     growth divided by that of the bare loop: a send costs the kernel more the more sockets there are
last_ms        from sending a write until the last watcher has its event, median over events
all_ms         the same, the slowest event
others_p99_ms  latency of gets by another client during the deliveries
kb             memory per idle watcher
p99_ratio      p99_ms beside stalled watchers divided by p99_ms without any; grown_mb: memory that these cost
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.loads.job import LoadResult, Round


@dataclass(frozen=True, slots=True)
class Measurement:
    work: str
    figures: dict[str, float]
    notes: dict[str, Any] = field(default_factory=dict)


def from_load(work: str, result: LoadResult, connections: int, *, cpu_known: bool = True) -> Measurement:
    rounds = [each for each in result.rounds if each.operations]
    figures: dict[str, float] = {}
    if rounds:
        figures["rate"] = round(statistics.median(each.operations / each.seconds for each in rounds), 1)
        if cpu_known:
            figures["cpu_us"] = round(statistics.median(map(cpu_us, rounds)), 2)
    figures |= {f"{name}_ms": value for name, value in result.latency_ms.items()}
    return Measurement(work, figures, _notes(result, rounds, connections, cpu_known))


def ratio_of_rounds(own: Sequence[float], base: Sequence[float]) -> float:
    """The median of the ratios of rounds that ran right after each other; 0 when the base was too short to cost."""
    ratios = [ours / theirs for ours, theirs in zip(own, base, strict=True) if theirs > 0]
    return round(statistics.median(ratios or [0.0]), 3)


def with_h1_ratio(each: Measurement, own: Sequence[float], http1: Sequence[float]) -> Measurement:
    """The measurement with the ratio of its rounds to those of HTTP/1.1."""
    ratios = [ratio_of_rounds([ours], [theirs]) for ours, theirs in zip(own, http1, strict=True)]
    return dataclasses.replace(
        each,
        figures={**each.figures, "h1_ratio": ratio_of_rounds(own, http1)},
        notes={**each.notes, "h1_ratio_of_rounds": ratios},
    )


def cpu_us(each: Round) -> float:
    return each.server_cpu / each.operations * 1e6


def _notes(result: LoadResult, rounds: list[Round], connections: int, cpu_known: bool) -> dict[str, Any]:
    seconds = sum(each.seconds for each in rounds) or 1.0
    notes: dict[str, Any] = {
        "connections": connections,
        "operations": result.operations,
        "errors": result.errors,
        # Shares of one core. A generator near 1.0 means that it limits the rate.
        "generator_busy": round(sum(each.generator_cpu for each in rounds) / seconds, 2),
        "bytes_received": result.bytes_received,
        **result.notes,
    }
    if cpu_known:
        notes["server_busy"] = round(sum(each.server_cpu for each in rounds) / seconds, 2)
        notes["cpu_us_of_rounds"] = [round(cpu_us(each), 2) for each in rounds]
    if result.first_error:
        notes["first_error"] = result.first_error
    if result.reconnects:
        notes["reconnects"] = result.reconnects
    return notes
