"""The state of all priority levels as a table, for /debug/api_priority_and_fairness/dump_priority_levels."""

from __future__ import annotations

from actors.flowcontrol.seats import CANCELLED, TIME_OUT, SchemaCounts, Seats

_HEADINGS = (
    *("PriorityLevelName", "IsIdle", "WaitingRequests", "ExecutingRequests", "SeatsInUse", "Seats"),
    *("DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests"),
)


def dump_priority_levels(seats: Seats) -> str:
    rows = [_HEADINGS, *(_row(seats, name) for name in sorted(seats.levels))]
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(_HEADINGS))]
    lines = (
        "".join(f"{cell + ',':<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _row(seats: Seats, name: str) -> tuple[str, ...]:
    level = seats.levels[name]
    counts = [one for one in seats.counts() if one.level == name]
    rejected = sum(sum(one.rejected.values()) for one in counts)
    expired, cancelled = _rejected(counts, TIME_OUT), _rejected(counts, CANCELLED)
    numbers = (
        *(level.waiting, level.running, level.executing, level.seats),
        *(sum(one.dispatched for one in counts), rejected - expired - cancelled, expired, cancelled),
    )
    return name, str(level.unused).lower(), *map(str, numbers)


def _rejected(counts: list[SchemaCounts], reason: str) -> int:
    return sum(one.rejected.get(reason, 0) for one in counts)
