"""What one piece of work gave: named figures, the same names in the JSON, the table, the bars and the charts.

rate         operations per second
cpu_us       server CPU per operation, microseconds (the middle round)
p50_ms ...   latency as the client saw it, over all rounds: p50, p95, p99, max
floor_ratio  cpu_us over that of the floor measured in the same run
growth       cpu_us over that of the first page of the small collection; delivery_us over that of few watchers
seconds, mb  of what is no stream of operations: a start, an opening, memory
cpu_seconds  of a start: steadier than its seconds where cores are shared

Of watches, where an operation is the delivery of one event to one watcher:
delivery_us    cpu_us without the delivery's share of the write; floor_ratio and growth are of this
cost_growth    cpu_us over that of few watchers
own_growth     growth over that of the bare loop: the kernel's part of a send costs more the more sockets there are
last_ms        from the sending of a write to the last watcher's having it, the middle event
all_ms         the same, the slowest event
others_p99_ms  gets of somebody else in the meantime
kb             memory of one watcher at rest
p99_ratio      p99_ms beside stalled watchers over that without any; grown_mb: what these cost in memory
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

from benchmarks.loads.job import Account, Round


@dataclass(frozen=True, slots=True)
class Measurement:
    work: str
    figures: dict[str, float]
    notes: dict[str, Any] = field(default_factory=dict)


def from_account(work: str, account: Account, connections: int, *, cpu_known: bool = True) -> Measurement:
    rounds = [each for each in account.rounds if each.operations]
    figures: dict[str, float] = {}
    if rounds:
        figures["rate"] = round(statistics.median(each.operations / each.seconds for each in rounds), 1)
        if cpu_known:
            figures["cpu_us"] = round(statistics.median(map(cpu_us, rounds)), 2)
    figures |= {f"{name}_ms": value for name, value in account.latency_ms.items()}
    return Measurement(work, figures, _notes(account, rounds, connections, cpu_known))


def cpu_us(each: Round) -> float:
    return each.server_cpu / each.operations * 1e6


def _notes(account: Account, rounds: list[Round], connections: int, cpu_known: bool) -> dict[str, Any]:
    seconds = sum(each.seconds for each in rounds) or 1.0
    notes: dict[str, Any] = {
        "connections": connections,
        "operations": account.operations,
        "errors": account.errors,
        # Shares of one core. The generator near 1.0 would mean that the rate is the generator's.
        "generator_busy": round(sum(each.generator_cpu for each in rounds) / seconds, 2),
        "bytes_received": account.bytes_received,
        **account.notes,
    }
    if cpu_known:
        notes["server_busy"] = round(sum(each.server_cpu for each in rounds) / seconds, 2)
        notes["cpu_us_of_rounds"] = [round(cpu_us(each), 2) for each in rounds]
    if account.first_error:
        notes["first_error"] = account.first_error
    if account.reconnects:
        notes["reconnects"] = account.reconnects
    return notes
